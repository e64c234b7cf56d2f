"""STREAM.MSG.GET, DIRECT.GET and DIRECT_LEADER.GET: one message or many, found in every way.

A read sees the messages that are visible when it begins, and no later ones. For one message, and
for the last of each subject, it shows one moment of the stream. A batch may be long: it is read
piece by piece, and messages that are removed meanwhile are left out.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Final

from headwater.base.sliced import Sliced, Work
from headwater.go.json import JsonError, read
from headwater.go.times import format_time
from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.api.documents import MessageDocument, MessageGetRequest
from headwater.jetstream.api.request_sizes import is_too_large
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.store.errors import DamagedMessageError
from headwater.store.log.message_log import ALL_SUBJECTS, StoredMessage, StoreError
from headwater.subjects.grammar import has_wildcard
from headwater.wire.headers import one_line, status_block, with_lines, with_value, without

# More subjects than this in one request are refused.
SUBJECTS_MAX: Final = 1024

EMPTY_REQUEST: Final = status_block(408, "Empty Request")
MALFORMED_REQUEST: Final = status_block(408, "Malformed Request")
BAD_REQUEST: Final = status_block(408, "Bad Request")
LEVEL_REQUIRED: Final = status_block(412, "Required Api Level")
NOT_FOUND: Final = status_block(404, "Message Not Found")
NO_RESULTS: Final = status_block(404, "No Results")
TOO_MANY_RESULTS: Final = status_block(413, "Too Many Results")
# The disk cannot be read; nats-server has no status for it.
UNREADABLE: Final = status_block(500, "Message Not Readable")
# A message is to come from another server first, and has not come in time.
UNREPAIRED: Final = status_block(503, "Message Not Readable")
# The leader of the stream, or a server that was it, cannot be sure that it leads.
NOT_LEADING: Final = status_block(503, "Not Leading")
NOT_COMPLETE: Final = status_block(412, "Min Last Sequence")

_MIN_LAST_SEQ: Final = b"min_last_seq"

# The number of patterns that are looked up before other clients have their turn; patterns that have
# to be compared with many subjects take longer.
PATTERNS_AT_A_TIME: Final = 256
LITERALS_AT_A_TIME: Final = 1024
# A batch that is read at one moment of the stream is in memory before its first message is sent.
# The client asks for the rest, as after any batch that has met a limit.
GATHERED_MESSAGES_MAX: Final = 16_384
GATHERED_BYTES_MAX: Final = 8 * 1024 * 1024
# The size of one read of a batch.
MESSAGES_AT_A_TIME: Final = 256
BYTES_AT_A_TIME: Final = 256 * 1024

# A header block, possibly empty, and a body.
Reply = tuple[bytes, bytes]
# None in place of a reply stands for work without a result yet.
Replies = Iterator[Reply | None]


# --- MSG.GET -----------------------------------------------------------------------------------


def get_message(stream: Stream, request: MessageGetRequest) -> MessageDocument:
    """The requested message. Raises ApiError."""
    if request.min_last_seq > stream.complete_sequence:
        raise ApiError.of(error_codes.STREAM_MIN_LAST_SEQ)
    message = _find(stream, request)
    if message is None:
        raise ApiError.of(error_codes.NO_MESSAGE_FOUND)
    header = b"" if request.no_hdr else message.header
    return MessageDocument(
        subject=message.subject.decode(errors="replace"),
        seq=message.sequence,
        hdrs=b64encode(header).decode(),
        data=b64encode(message.payload).decode(),
        time=format_time(message.timestamp_ns),
    )


def check_single(request: MessageGetRequest) -> None:
    """Refuse a request that does not name one message in one way. Raises ApiError."""
    has_sequence, has_time = request.seq > 0, request.start_time is not None
    last, following = request.last_by_subj, request.next_by_subj
    asks = has_sequence or last or following or has_time
    conflict = (
        (has_sequence and (last or has_time))
        or (last and (has_time or following))
        or request.batch > 0
        or request.max_bytes > 0
    )
    if not asks or conflict:
        raise ApiError.of(error_codes.BAD_REQUEST)


def preparing(stream: Stream, request: MessageGetRequest) -> Work[None]:
    """Find the subjects of a request, some at a time."""
    text = request.next_by_subj or request.last_by_subj
    if text and has_wildcard(_pattern(text)):
        yield from stream.log.preparing((_pattern(text),))


def _slices(work: Work[None]) -> Iterator[None]:
    """Run work in slices; other clients have their turn at every yield."""
    sliced = Sliced(work)
    while sliced.do_some():
        yield None


def _find(stream: Stream, request: MessageGetRequest) -> StoredMessage | None:
    sequence = request.seq
    if request.start_time is not None:
        sequence = stream.sequence_at(request.start_time.unix_ns)
    if request.next_by_subj:
        return stream.next_message(_pattern(request.next_by_subj), sequence)
    if request.last_by_subj:
        return stream.last_message(_pattern(request.last_by_subj))
    return stream.message(sequence)


def _pattern(text: str) -> bytes:
    """A subject as it is stored; it need not be UTF-8."""
    return text.encode(errors="surrogateescape")


# --- DIRECT.GET --------------------------------------------------------------------------------


def is_many(body: bytes) -> bool:
    """Whether a request may ask for several messages."""
    asked = body.lower()
    return b"batch" in asked or b"multi_last" in asked


def get_direct(stream: Stream, body: bytes, max_pending: int, is_gathered: bool = False) -> Replies:
    """All replies to a request. `is_gathered` limits them to those that are gathered first."""
    if not body:
        return iter(((EMPTY_REQUEST, b""),))
    try:
        request = read(body, MessageGetRequest, strict=False)
    except JsonError:
        return iter(((MALFORMED_REQUEST, b""),))
    refusal = _refusal(request)
    if is_gathered:
        request.batch = min(request.batch, GATHERED_MESSAGES_MAX)
        max_pending = min(max_pending, GATHERED_BYTES_MAX)
        request.max_bytes = min(request.max_bytes, GATHERED_BYTES_MAX)
    return _in_session(stream, request, refusal, max_pending)


def get_direct_by_subject(stream: Stream, subject: bytes, body: bytes, max_pending: int) -> Replies:
    """The last message of a subject that is part of the API's own subject."""
    if not body:
        return _last(stream, subject)
    try:
        request = read(body, MessageGetRequest, strict=False)
    except JsonError:
        return iter(((MALFORMED_REQUEST, b""),))
    asks_else = (
        request.last_by_subj
        or request.next_by_subj
        or request.multi_last
        or request.seq
        or request.batch
        or request.start_time is not None
        or request.up_to_seq
        or request.up_to_time is not None
    )
    request.last_by_subj = subject.decode(errors="surrogateescape")
    return _in_session(stream, request, BAD_REQUEST if asks_else else b"", max_pending)


def _last(stream: Stream, subject: bytes) -> Replies:
    if has_wildcard(subject):
        yield from _slices(stream.log.preparing((subject,)))
    yield get_last(stream, subject)


def get_last(stream: Stream, subject: bytes) -> Reply:
    """The reply to the shortest request, which has only a subject."""
    return _reply(stream, stream.last_message(subject))


def awaited_sequence(body: bytes) -> int:
    """The sequence up to which an answer has to be complete; 0 if the request has none."""
    if _MIN_LAST_SEQ not in body.lower():
        return 0
    try:
        return read(body, MessageGetRequest, strict=False).min_last_seq
    except JsonError:
        return 0


def session_block(stream: Stream, body: bytes, block: bytes = b"") -> bytes:
    """`block`, with the session's mark if `body` is a session read."""
    return _marked(block, _mark_of(stream)) if awaited_sequence(body) else block


def _in_session(
    stream: Stream, request: MessageGetRequest, refusal: bytes, max_pending: int
) -> Replies:
    """Answer a request. Every reply to a session read carries the session's mark."""
    if refusal:
        replies: Replies = iter(((refusal, b""),))
    elif request.min_last_seq > stream.complete_sequence:
        replies = iter(((NOT_COMPLETE, b""),))
    else:
        replies = _answer(stream, request, max_pending)
    if not request.min_last_seq:
        return replies
    return _with_mark(replies, _mark_of(stream))


def _mark_of(stream: Stream) -> bytes:
    return b"%d" % stream.complete_sequence


def _with_mark(replies: Replies, mark: bytes) -> Replies:
    try:
        for reply in replies:
            yield None if reply is None else (_marked(reply[0], mark), reply[1])
    except DamagedMessageError:
        # The caller waits for the repair.
        raise
    except StoreError:
        yield _marked(UNREADABLE, mark), b""


def _marked(block: bytes, mark: bytes) -> bytes:
    """A block with the mark as the only header of its name, even if a message was stored with one.

    The mark has a name of its own because `Nats-Last-Sequence` is taken: in a batch it is the
    previous sequence, by which clients see gaps.
    """
    block = without(block, names.SESSION_SEQUENCE)
    return with_value(block, names.SESSION_SEQUENCE, mark)


def _refusal(request: MessageGetRequest) -> bytes:
    """The status for an invalid request; empty for a valid one."""
    has_sequence = request.seq > 0
    last, following = request.last_by_subj, request.next_by_subj
    has_time = request.start_time is not None
    many = request.multi_last
    if not (has_sequence or last or following or many or has_time):
        return EMPTY_REQUEST
    conflict = (
        (has_sequence and last)
        or (has_sequence and has_time)
        or (has_time and last)
        or (last and (following or request.batch > 0 or many))
        or (following and many)
        or (request.up_to_seq > 0 and request.up_to_time is not None)
    )
    return BAD_REQUEST if conflict or is_too_large(request) else b""


def _answer(stream: Stream, request: MessageGetRequest, max_pending: int) -> Replies:
    bytes_max = request.max_bytes or max_pending
    if request.multi_last:
        return _many(stream, request, bytes_max)
    if request.batch:
        return _batch(stream, request, bytes_max)
    return _one(stream, request)


def _one(stream: Stream, request: MessageGetRequest) -> Replies:
    yield from _slices(preparing(stream, request))
    message = _find(stream, request)
    if message is not None and request.no_hdr:
        yield b"", message.payload
    else:
        yield _reply(stream, message)


def _reply(stream: Stream, message: StoredMessage | None) -> Reply:
    if message is None:
        return NOT_FOUND, b""
    return with_lines(message.header, _origin(stream, message)), message.payload


def _batch(stream: Stream, request: MessageGetRequest, bytes_max: int) -> Replies:
    yield from _slices(preparing(stream, request))
    sequence = request.seq
    if request.start_time is not None:
        sequence = stream.sequence_at(request.start_time.unix_ns)
    pattern = _pattern(request.next_by_subj) or ALL_SUBJECTS
    pending = stream.count_from(pattern, sequence)
    last = sent = sent_bytes = 0
    end = stream.visible_sequence
    while sent < request.batch and (not sent or sent_bytes < bytes_max):
        count = min(request.batch - sent, MESSAGES_AT_A_TIME)
        size = max(min(bytes_max - sent_bytes, BYTES_AT_A_TIME), 1)
        found = stream.messages_from(pattern, sequence, end, count, size)
        if not len(found):
            break
        for message in found:
            if request.no_hdr:
                yield b"", message.payload
            else:
                pending = max(pending - 1, 0)
                yield _in_batch(stream, message, pending, last)
            last = message.sequence
            sent += 1
            sent_bytes += len(message.subject) + len(message.header) + len(message.payload)
            if sent_bytes >= bytes_max:
                break
        sequence = last + 1
    if not sent and request.batch > 0:
        yield NOT_FOUND, b""
        return
    lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last)
    yield b"NATS/1.0 204 EOB\r\n%b\r\n" % lines, b""


def _many(stream: Stream, request: MessageGetRequest, bytes_max: int) -> Replies:
    """The last message of each of many subjects, up to a sequence or time."""
    up_to = _upper_bound(stream, request)
    found: set[int] = set()
    if not (up_to > stream.visible_sequence and _is_in_files(stream)):
        for position, patterns in enumerate(_parted(request.multi_last)):
            if position:
                yield None
            yield from _slices(stream.log.preparing(patterns))
            some = stream.few_last_of_each(patterns, up_to, SUBJECTS_MAX)
            found.update(some or ())
            if some is None or len(found) > SUBJECTS_MAX:
                yield TOO_MANY_RESULTS, b""
                return
    if not found:
        yield NO_RESULTS, b""
        return
    sequences = sorted(found)
    # All are read before the first is sent, so that none is missing if it is replaced meanwhile.
    yield from [*_each(stream, request, bytes_max, sequences, up_to)]


def _parted(texts: tuple[str, ...]) -> Iterator[list[bytes]]:
    """The patterns, in parts that are looked up quickly."""
    patterns = [*map(_pattern, texts)]
    for size, some in (
        (PATTERNS_AT_A_TIME, [pattern for pattern in patterns if has_wildcard(pattern)]),
        (LITERALS_AT_A_TIME, [pattern for pattern in patterns if not has_wildcard(pattern)]),
    ):
        for begin in range(0, len(some), size):
            yield some[begin : begin + size]


def _each(
    stream: Stream, request: MessageGetRequest, bytes_max: int, sequences: list[int], up_to: int
) -> Iterator[Reply]:
    last = sent_bytes = sent = pending = 0
    for position, sequence in enumerate(sequences, 1):
        if sequence < request.seq:
            continue
        message = stream.message(sequence)
        if message is None:
            yield NOT_FOUND, b""
            return
        pending = len(sequences) - position
        yield _in_batch(stream, message, pending, last)
        last = sequence
        sent += 1
        sent_bytes += len(message.subject) + len(message.header) + len(message.payload)
        if sent_bytes >= bytes_max or sent == request.batch:
            break
    lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\nNats-UpTo-Sequence: %d\r\n" % (
        pending,
        last,
        up_to,
    )
    yield b"NATS/1.0 204 EOB\r\n%b\r\n" % lines, b""


def _upper_bound(stream: Stream, request: MessageGetRequest) -> int:
    """The last sequence to consider; 0 if the stream is younger than the requested time."""
    if request.up_to_time is None:
        return request.up_to_seq or stream.visible_sequence
    following = stream.sequence_at(request.up_to_time.unix_ns)
    return following - 1 if following > stream.log.first_sequence else 0


def _is_in_files(stream: Stream) -> bool:
    # Up to a sequence that is still to come nats-server finds nothing in files; in memory it does.
    return stream.config.storage is Storage.FILE


def _origin(stream: Stream, message: StoredMessage) -> bytes:
    """Header lines about the stream and the sequence of a message."""
    return (
        b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        % (
            stream.name_bytes,
            one_line(message.subject),
            message.sequence,
            format_time(message.timestamp_ns).encode(),
        )
    )


def _in_batch(stream: Stream, message: StoredMessage, pending: int, last: int) -> Reply:
    lines = b"%bNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (
        _origin(stream, message),
        pending,
        last,
    )
    return with_lines(message.header, lines), message.payload
