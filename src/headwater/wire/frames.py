"""Every frame that a server writes to a client, and a client to a server, as bytes.

    MSG <subject> <sid> [reply] <size>␍␊<payload>␍␊
    HMSG <subject> <sid> [reply] <header size> <total size>␍␊<header><payload>␍␊
    INFO <document>␍␊   +OK␍␊   -ERR '<text>'␍␊   PING␍␊   PONG␍␊

    PUB <subject> [reply] <size>␍␊<payload>␍␊
    HPUB <subject> [reply] <header size> <total size>␍␊<header><payload>␍␊
    CONNECT <document>␍␊   SUB <subject> <sid>␍␊   UNSUB <sid>␍␊

`message_line` is the rule for MSG and HMSG. The functions after it repeat the rule for whole frames
and for many messages at once, because a call for each part would take longer than the frame; tests
hold them to the rule. The broker has one more repetition, in the loop that appends the pieces of a
frame to a receiver.
"""

from collections.abc import Sequence
from typing import Final

from headwater.wire.batch import Run
from headwater.wire.headers import one_line

CRLF: Final = b"\r\n"
SPACE: Final = b" "
MSG: Final = b"MSG "
HMSG: Final = b"HMSG "
OK: Final = b"+OK\r\n"
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"


def error(text: str) -> bytes:
    """-ERR with its text in single quotes, on one line whatever the text holds."""
    return b"-ERR '%b'\r\n" % one_line(text.encode())


def info(document: bytes) -> bytes:
    """INFO with its JSON; nats-server has a blank behind it."""
    return b"INFO %b \r\n" % document


def size_tokens(header_size: int, size: int) -> bytes:
    """The sizes as a control line has them: the total alone where the header size is below 0."""
    return b"%d" % size if header_size < 0 else b"%d %d" % (header_size, size)


def tail_of(sid: bytes) -> bytes:
    """The part of a control line behind the subject: a subscription's id between blanks."""
    return b" %b " % sid


def message_line(
    subject: bytes, sid: bytes, reply: bytes | None, header_size: int, size: bytes
) -> bytes:
    """The control line of MSG, or of HMSG where there is a header; `size` are its size tokens."""
    kind = b"MSG" if header_size < 0 else b"HMSG"
    if reply is None:
        return b"%b %b %b %b\r\n" % (kind, subject, sid, size)
    return b"%b %b %b %b %b\r\n" % (kind, subject, sid, reply, size)


def run_of_messages(run: Run, sid: bytes, payloads: list[bytes]) -> bytes:
    """Messages of a run, or a part of them, for one subscription."""
    line = message_line(run.subject, sid, run.reply, run.header_size, run.size)
    return b"".join((line, (CRLF + line).join(payloads), CRLF))


def around_sid(
    subject: bytes, reply: bytes | None, header_size: int, size: bytes, payload: bytes
) -> tuple[bytes, bytes]:
    """The frame of a message before and behind a subscription's tail."""
    begin = (MSG if header_size < 0 else HMSG) + subject
    back = b"" if reply is None else reply + SPACE
    return begin, b"%b%b\r\n%b\r\n" % (back, size, payload)


def copies_of_message(begin: bytes, tails: Sequence[bytes], end: bytes) -> bytes:
    """One message for several subscriptions of one client.

    `begin` and `end` are those of `around_sid`. All frames come of one join: a client may have
    100,000 equal subscriptions.
    """
    return b"".join((begin, (end + begin).join(tails), end))


def message_without_reply(tail: bytes, subject: bytes, header: bytes, payload: bytes) -> bytes:
    """One message for one subscription; the header may be empty."""
    if not header:
        return b"MSG %b%b%d\r\n%b\r\n" % (subject, tail, len(payload), payload)
    size = len(header) + len(payload)
    return b"HMSG %b%b%d %d\r\n%b%b\r\n" % (subject, tail, len(header), size, header, payload)


def messages_without_reply(
    tail: bytes, subjects: Sequence[bytes], payloads: Sequence[bytes], headers: Sequence[bytes]
) -> list[bytes]:
    """Messages for one subscription, each a frame; `headers` of all, or of none."""
    if headers:
        return [
            b"HMSG %b%b%d %d\r\n%b%b\r\n"
            % (subject, tail, len(header), len(header) + len(payload), header, payload)
            for subject, header, payload in zip(subjects, headers, payloads, strict=True)
        ]
    return [
        b"MSG %b%b%d\r\n%b\r\n" % (subject, tail, len(payload), payload)
        for subject, payload in zip(subjects, payloads, strict=True)
    ]


def published_messages(
    tail: bytes, subjects: Sequence[bytes], sizes: Sequence[bytes], payloads: Sequence[bytes]
) -> list[bytes]:
    """Publishes without replies and headers for one subscription, each a frame."""
    return [
        b"MSG %b%b%b\r\n%b\r\n" % (subject, tail, size, payload)
        for subject, size, payload in zip(subjects, sizes, payloads, strict=True)
    ]


def no_responders_block(subject: bytes) -> bytes:
    """The header block of the status that nobody listens to a subject."""
    return b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject


def no_responders(reply: bytes, sid: bytes, subject: bytes) -> bytes:
    """The message to a requester that nobody listens to the subject of its request."""
    block = no_responders_block(subject)
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(block), len(block), block)


def stored_messages(
    tail: bytes,
    subjects: list[bytes],
    replies: list[bytes],
    headers: list[bytes],
    payloads: list[bytes],
) -> bytes:
    """Messages of a stream, each with its reply; headers may be empty.

    `tail` is that of the subscription.
    """
    if len(payloads) == 1 and not headers[0]:
        # A pull of one message.
        (subject,), (reply,), (payload,) = subjects, replies, payloads
        return b"MSG %b%b%b %d\r\n%b\r\n" % (subject, tail, reply, len(payload), payload)
    if not any(headers):
        return b"".join(
            [
                b"MSG %b%b%b %d\r\n%b\r\n" % (subject, tail, reply, len(payload), payload)
                for subject, reply, payload in zip(subjects, replies, payloads, strict=True)
            ]
        )
    return b"".join(
        [
            b"HMSG %b%b%b %d %d\r\n%b%b\r\n"
            % (subject, tail, reply, len(header), len(header) + len(payload), header, payload)
            if header
            else b"MSG %b%b%b %d\r\n%b\r\n" % (subject, tail, reply, len(payload), payload)
            for subject, reply, header, payload in zip(
                subjects, replies, headers, payloads, strict=True
            )
        ]
    )


# --- frames of a client ---------------------------------------------------------------------------


def connect_frame(document: bytes) -> bytes:
    """CONNECT with its JSON."""
    return b"CONNECT %b\r\n" % document


def subscribe_frame(subject: bytes, sid: bytes) -> bytes:
    """SUB without a queue group."""
    return b"SUB %b %b\r\n" % (subject, sid)


def unsubscribe_frame(sid: bytes) -> bytes:
    """UNSUB at once."""
    return b"UNSUB %b\r\n" % sid


def publish_frame(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> bytes:
    """A PUB frame, or HPUB for a message with headers; an empty `reply` is left out."""
    to = reply + b" " if reply else b""
    if not header:
        return b"PUB %b %b%d\r\n%b\r\n" % (subject, to, len(payload), payload)
    size = len(header)
    return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (
        subject,
        to,
        size,
        size + len(payload),
        header,
        payload,
    )


def publish_frames_with_headers(
    subjects: Sequence[bytes], reply: bytes, headers: Sequence[bytes], payloads: Sequence[bytes]
) -> bytes:
    """The frames of messages that all have headers and one reply subject, in one piece."""
    return b"".join(
        [
            b"HPUB %b %b %d %d\r\n%b%b\r\n"
            % (subject, reply, len(header), len(header) + len(payload), header, payload)
            for subject, header, payload in zip(subjects, headers, payloads, strict=True)
        ]
    )
