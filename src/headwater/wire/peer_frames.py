"""Frames between the servers of a cluster, after the lines of the handshake.

    frame       size:4 checksum:4 kind:1 body         size of the body; checksum of kind and body
    MESSAGES    name account, count:4, flags:1, sizes:4*count, [header sizes:4*count],
                row subjects, [row replies], [row queues],
                [runs:4, begins:4*runs, row targets], payloads
    INTEREST    name account, count:4, weights:4*count, row subjects, row queues
    FORWARD     name account, header size:4, row subject and reply, client size:4, client, payload
    name        size:2 bytes
    row         size:4, words joined by blanks; subjects, replies and queue names have no blanks

All integers are little-endian. A row is joined and split by one call each, so a frame with the
messages of a whole turn costs about as much as its payloads. A word of the queue row has the queue
names of one message, joined by tabs; the receiver delivers the message to one member of each of
these queue groups, and to all subscriptions without a queue group. Messages of a run, which ends
where the next one begins, go to the subscriptions to the target of the run, with their own subjects
on them; an empty target stands for the subject of each message. A weight of 0 ends an interest.

FORWARD carries a request of a client to the server that has to answer it, with a description of the
client; an empty reply stands for none. PING and PONG carry 8 bytes that come back unchanged. INFO
and MEMBERS carry JSON (`headwater.wire.peer_info`). The bodies of CONSENSUS and CATCH_UP belong to
their senders.

A frame is decoded whole or refused: a wrong checksum, an unknown kind, a size above the limit, and
counts that do not fit the bytes raise MalformedFrame, whose text names the fault. Nothing is
allocated for a count before the bytes for it are there.
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate, groupby, pairwise
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.checksums import crc32
from headwater.base.columns import MessageColumns
from headwater.base.errors import PeerError
from headwater.wire.batch import NO_HEADERS

FRAME_BYTES_MAX: Final = 129 * 1024 * 1024
"""The body of a frame of consensus: one Raft entry of the largest size, an atomic batch, and room
for what stands around it. No frame of another kind is larger."""

GREETING_BYTES_MAX: Final = 64 * 1024
"""The body of a frame of consensus of a server whose greeting was not heard yet."""

_MESSAGES_BYTES_MAX: Final = 80 * 1024 * 1024
"""The body of a frame with messages: the largest message that clients may send by the advice of
nats-server (64 MiB), and those of a turn before it, with their subjects."""

CLIENT_BYTES_MAX: Final = 64 * 1024
"""The description of a client in a frame: its names come from one CONNECT line."""

# The longest line of a handshake: INFO has the addresses of all servers of a cluster.
LINE_BYTES_MAX: Final = 64 * 1024

_HEAD: Final = Struct("<IIB")
_NAME: Final = Struct("<H")
_COUNT: Final = Struct("<I")
_FLAGS: Final = Struct("<IB")
_LINE_END: Final = b"\r\n"
_BLANK: Final = b" "
_TAB: Final = b"\t"
_WORD_ENDS: Final = b" \t\r\n"

_HAS_HEADERS: Final = 1
_HAS_REPLIES: Final = 2
_HAS_QUEUES: Final = 4
_HAS_TARGETS: Final = 8
_ALL_FLAGS: Final = _HAS_HEADERS | _HAS_REPLIES | _HAS_QUEUES | _HAS_TARGETS


class MalformedFrame(PeerError):
    """Bytes that are no frame of a peer."""


class Kind(IntEnum):
    """The kinds of frames."""

    PING = 1
    PONG = 2
    INFO = 3
    MEMBERS = 4
    INTEREST = 5
    MESSAGES = 6
    CONSENSUS = 7
    CATCH_UP = 8
    FORWARD = 9


_KINDS: Final = {int(kind): kind for kind in Kind}

_BODY_BYTES_MAX: Final = {
    Kind.PING: 8,
    Kind.PONG: 8,
    Kind.INFO: LINE_BYTES_MAX,
    # A thousand servers, or a thousand patterns that are longer than most.
    Kind.MEMBERS: 1024 * 1024,
    Kind.INTEREST: 16 * 1024 * 1024,
    Kind.MESSAGES: _MESSAGES_BYTES_MAX,
    Kind.FORWARD: _MESSAGES_BYTES_MAX,
    Kind.CATCH_UP: _MESSAGES_BYTES_MAX,
    Kind.CONSENSUS: FRAME_BYTES_MAX,
}
"""The bytes that a body of each kind may need. A peer has no more of them buffered."""


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """A whole frame."""
    return _HEAD.pack(len(body), crc32(body, kind), kind) + body


# --- decoding -----------------------------------------------------------------------------------


@final
class PeerDecoder:
    """Cuts the bytes of a peer into the lines of the handshake, and into frames after it.

    `bytes_max` bounds the bodies of all frames further.
    """

    __slots__ = ("_buffer", "bytes_max")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self.bytes_max = bytes_max

    @property
    def unread_bytes(self) -> int:
        """Bytes that were fed and belong to no line or frame yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add bytes of the peer."""
        self._buffer += data

    def next_line(self) -> bytes | None:
        """The next line of the handshake without its end; None until it is there."""
        end = self._buffer.find(_LINE_END, 0, LINE_BYTES_MAX + len(_LINE_END))
        if end < 0:
            if len(self._buffer) > LINE_BYTES_MAX:
                raise MalformedFrame("a line of the handshake is too long")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + len(_LINE_END)]
        return line

    def frames(self) -> list[tuple[Kind, bytes]]:
        """The frames that are complete, until there are none. Raises MalformedFrame."""
        found: list[tuple[Kind, bytes]] = []
        buffer = self._buffer
        position, end = 0, len(buffer)
        while end - position >= _HEAD.size:
            size, checksum, number = _HEAD.unpack_from(buffer, position)
            kind = _KINDS.get(number)
            if kind is None:
                raise MalformedFrame(f"unknown kind of frame {number}")
            if size > self.bytes_max and found:
                # The frames before it may raise the limit: a greeting does.
                break
            if size > self.bytes_max or size > _BODY_BYTES_MAX[kind]:
                raise MalformedFrame(f"a frame of {size} bytes is too large")
            begin = position + _HEAD.size
            if end - begin < size:
                break
            body = bytes(buffer[begin : begin + size])
            if crc32(body, kind) != checksum:
                raise MalformedFrame(f"wrong checksum of a frame of kind {kind.name}")
            found.append((kind, body))
            position = begin + size
        # One removal for all frames: it moves the rest of the buffer.
        del buffer[:position]
        return found


@final
class _Reader:
    """Reads the parts of a body in order."""

    __slots__ = ("_body", "_position")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        begin = self._position
        if size > len(self._body) - begin:
            raise MalformedFrame("a frame is shorter than its parts")
        self._position = begin + size
        return self._body[begin : begin + size]

    def name(self) -> str:
        (size,) = _NAME.unpack(self.take(_NAME.size))
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise MalformedFrame("a name is not UTF-8") from None

    def count(self) -> int:
        (count,) = _COUNT.unpack(self.take(_COUNT.size))
        return int(count)

    def flags(self) -> tuple[int, int]:
        count, flags = _FLAGS.unpack(self.take(_FLAGS.size))
        if flags & ~_ALL_FLAGS:
            raise MalformedFrame(f"unknown flags {flags} of a frame")
        return count, flags

    def integers(self, count: int, is_signed: bool = False) -> tuple[int, ...]:
        return _integers(count, is_signed).unpack(self.take(4 * count))

    def row(self, count: int) -> list[bytes]:
        words = self.take(self.count()).split(_BLANK)
        if len(words) != count:
            raise MalformedFrame(f"a row has {len(words)} words instead of {count}")
        return words

    def targets(self, message_count: int) -> list[bytes]:
        runs = self.count()
        ends = (*self.integers(runs), message_count)
        if any(begin >= end for begin, end in pairwise(ends)):
            raise MalformedFrame("the runs of a frame are not in order")
        found = [b""] * ends[0]
        for target, (begin, end) in zip(self.row(runs), pairwise(ends), strict=True):
            found += [target] * (end - begin)
        return found

    def rest(self) -> bytes:
        return self._body[self._position :]

    def end(self) -> None:
        if self._position != len(self._body):
            raise MalformedFrame("a frame is longer than its parts")


def _integers(count: int, is_signed: bool = False) -> Struct:
    return Struct(f"<{count}{'i' if is_signed else 'I'}")


def _named(name: str) -> bytes:
    encoded = name.encode()
    return _NAME.pack(len(encoded)) + encoded


def _row(words: Sequence[bytes]) -> tuple[bytes, bytes]:
    row = _BLANK.join(words)
    return _COUNT.pack(len(row)), row


# --- messages -----------------------------------------------------------------------------------


@final
class PeerMessages(MessageColumns):
    """Messages of one account on their way to a peer."""

    __slots__ = ("header_sizes", "queues", "replies", "size", "targets")

    COLUMNS = ("subjects", "replies", "header_sizes", "payloads", "queues", "targets")
    SHARED = ("size",)

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes | None] = []
        # The bytes of a payload that are its header block; -1 without a header block.
        self.header_sizes: list[int] = []
        self.payloads: list[bytes] = []
        # The queue groups that the peer serves; no column if there are none.
        self.queues: list[Sequence[bytes]] = []
        # The subject whose subscribers get a message, if it is another one than that of the
        # message; no column if there are none.
        self.targets: list[bytes] = []
        # The bytes of all payloads of the frame.
        self.size = 0

    def add(
        self,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        queues: Sequence[bytes] = (),
        target: bytes = b"",
    ) -> None:
        """Add a message."""
        count = len(self.payloads)
        if queues or self.queues:
            self.queues += [()] * (count - len(self.queues))
            self.queues.append(queues)
        if target or self.targets:
            self.targets += [b""] * (count - len(self.targets))
            self.targets.append(target)
        self.subjects.append(subject)
        self.replies.append(reply)
        self.header_sizes.append(header_size)
        self.payloads.append(payload)
        self.size += len(payload)

    def add_all(
        self,
        subjects: Sequence[bytes],
        replies: Sequence[bytes | None],
        header_sizes: Sequence[int],
        payloads: Sequence[bytes],
        target: bytes = b"",
    ) -> None:
        """Add messages that go to no queue group."""
        count, added = len(self.payloads), len(payloads)
        if self.queues:
            self.queues += [()] * added
        if target or self.targets:
            self.targets += [b""] * (count - len(self.targets))
            self.targets += [target] * added
        self.subjects += subjects
        self.replies += replies
        self.header_sizes += header_sizes
        self.payloads += payloads
        self.size += sum(map(len, payloads))

    def runs(self) -> list[tuple[int, bytes]]:
        """The positions from which on another target counts, and the target."""
        found: list[tuple[int, bytes]] = []
        position = 0
        for target, run in groupby(self.targets):
            if target or position:
                found.append((position, target))
            position += len([*run])
        return found

    def parted(self) -> tuple[list[bytes], list[bytes]]:
        """The header blocks, empty for a message without one, and the payloads behind them."""
        if max(self.header_sizes) <= 0:
            return [b""] * len(self.payloads), self.payloads
        pairs = [*zip(self.payloads, self.header_sizes, strict=True)]
        return (
            [payload[: max(size, 0)] for payload, size in pairs],
            [payload[max(size, 0) :] for payload, size in pairs],
        )


def encode_messages(account: str, messages: PeerMessages) -> bytes:
    """A MESSAGES frame."""
    count = len(messages)
    flags = 0
    parts: list[bytes] = [_named(account), b"", _integers(count).pack(*map(len, messages.payloads))]
    if max(messages.header_sizes) > NO_HEADERS:
        flags |= _HAS_HEADERS
        parts.append(_integers(count, is_signed=True).pack(*messages.header_sizes))
    parts += _row(messages.subjects)
    if any(messages.replies):
        flags |= _HAS_REPLIES
        parts += _row([reply or b"" for reply in messages.replies])
    if messages.queues:
        flags |= _HAS_QUEUES
        parts += _row([_TAB.join(queues) for queues in messages.queues])
    runs = messages.runs()
    if runs:
        flags |= _HAS_TARGETS
        begins, targets = zip(*runs, strict=True)
        parts += (_COUNT.pack(len(begins)), _integers(len(begins)).pack(*begins))
        parts += _row(targets)
    parts += messages.payloads
    parts[1] = _FLAGS.pack(count, flags)
    # One checksum over the joined body: a call for each payload would take longer than the copy.
    return frame(Kind.MESSAGES, b"".join(parts))


def decode_messages(body: bytes) -> tuple[str, PeerMessages]:
    """The account and the messages of a MESSAGES frame. Raises MalformedFrame."""
    reader = _Reader(body)
    account = reader.name()
    count, flags = reader.flags()
    sizes = reader.integers(count)
    messages = PeerMessages()
    messages.header_sizes = [NO_HEADERS] * count
    if flags & _HAS_HEADERS:
        messages.header_sizes = list(reader.integers(count, is_signed=True))
        for header_size, size in zip(messages.header_sizes, sizes, strict=True):
            if not NO_HEADERS <= header_size <= size:
                raise MalformedFrame("a header is longer than its message")
    messages.subjects = reader.row(count)
    if b"" in messages.subjects:
        raise MalformedFrame("a message has no subject")
    if flags & _HAS_REPLIES:
        messages.replies = [reply or None for reply in reader.row(count)]
    else:
        messages.replies = [None] * count
    if flags & _HAS_QUEUES:
        messages.queues = [word.split(_TAB) if word else () for word in reader.row(count)]
    if flags & _HAS_TARGETS:
        messages.targets = reader.targets(count)
    payloads = reader.rest()
    messages.size = sum(sizes)
    if messages.size != len(payloads):
        raise MalformedFrame("the payloads of a frame do not have the sizes it names")
    messages.payloads = [
        payloads[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))
    ]
    return account, messages


# --- interest -----------------------------------------------------------------------------------

# A pattern, its queue group (empty without one) and the number of its subscriptions.
Interest = tuple[bytes, bytes, int]


def encode_interest(account: str, changes: Sequence[Interest]) -> bytes:
    """An INTEREST frame; a queue group that is empty stands for none."""
    patterns, queues, weights = zip(*changes, strict=True)
    count = len(changes)
    body = b"".join(
        (
            _named(account),
            _COUNT.pack(count),
            _integers(count).pack(*weights),
            *_row(patterns),
            *_row(queues),
        )
    )
    return frame(Kind.INTEREST, body)


def decode_interest(body: bytes) -> tuple[str, list[Interest]]:
    """The account and the changes of an INTEREST frame. Raises MalformedFrame."""
    reader = _Reader(body)
    account = reader.name()
    count = reader.count()
    weights = reader.integers(count)
    patterns = reader.row(count)
    queues = reader.row(count)
    reader.end()
    return account, list(zip(patterns, queues, weights, strict=True))


# --- requests -----------------------------------------------------------------------------------


class ForwardedRequest(NamedTuple):
    """A request of a client of one server that another server answers."""

    account: str
    subject: bytes
    reply: bytes | None
    # The bytes of the payload that are its header block; -1 without a header block.
    header_size: int
    payload: bytes
    # The client as JSON; empty if it is not described.
    client: bytes


def encode_forward(request: ForwardedRequest) -> bytes:
    """A FORWARD frame."""
    body = b"".join(
        (
            _named(request.account),
            _integers(1, is_signed=True).pack(request.header_size),
            *_row((request.subject, request.reply or b"")),
            _COUNT.pack(len(request.client)),
            request.client,
            request.payload,
        )
    )
    return frame(Kind.FORWARD, body)


def decode_forward(body: bytes) -> ForwardedRequest:
    """The request of a FORWARD frame. Raises MalformedFrame."""
    reader = _Reader(body)
    account = reader.name()
    (header_size,) = reader.integers(1, is_signed=True)
    subject, reply = reader.row(2)
    if not subject or any(byte in _WORD_ENDS for byte in subject + reply):
        # Clients would read the bytes behind a line end as a frame that nobody sent.
        raise MalformedFrame("a request has a subject that is not one word")
    client_size = reader.count()
    if client_size > CLIENT_BYTES_MAX:
        raise MalformedFrame(f"the description of a client has {client_size} bytes")
    client, payload = reader.take(client_size), reader.rest()
    if not NO_HEADERS <= header_size <= len(payload):
        raise MalformedFrame("a header is longer than its message")
    return ForwardedRequest(account, subject, reply or None, header_size, payload, client)
