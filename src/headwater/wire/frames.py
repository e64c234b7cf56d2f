"""What a server says to a client, as bytes."""

from collections.abc import Sequence
from typing import Final

from headwater.wire.batch import Run
from headwater.wire.headers import one_line

CRLF: Final = b"\r\n"
OK: Final = b"+OK\r\n"
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"


def error(text: str) -> bytes:
    """-ERR with its text in single quotes; whatever is in the text, it is one line."""
    return b"-ERR '%b'\r\n" % one_line(text.encode())


def message_line(
    kind: bytes, subject: bytes, sid: bytes, reply: bytes | None, size: bytes
) -> bytes:
    """The control line of MSG or HMSG; `size` is the size token, or both for HMSG."""
    if reply is None:
        return b"%b %b %b %b\r\n" % (kind, subject, sid, size)
    return b"%b %b %b %b %b\r\n" % (kind, subject, sid, reply, size)


def run_of_messages(run: Run, sid: bytes, payloads: list[bytes]) -> bytes:
    """Messages of a run, or a part of them, for one subscription."""
    kind = b"MSG" if run.header_size < 0 else b"HMSG"
    line = message_line(kind, run.subject, sid, run.reply, run.size)
    return b"".join((line, (CRLF + line).join(payloads), CRLF))


def copies_of_message(begin: bytes, tails: Sequence[bytes], end: bytes) -> bytes:
    """One message for several subscriptions of one client.

    `begin` is the frame before the subscription's id, a tail that id between blanks, `end` the rest
    of the frame. All frames come of one join: a client may have 100,000 equal subscriptions.
    """
    return b"".join((begin, (end + begin).join(tails), end))


def no_responders_block(subject: bytes) -> bytes:
    """The header of that status."""
    return b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject


def no_responders(reply: bytes, sid: bytes, subject: bytes) -> bytes:
    """The status a requester gets when nobody listens to what it asked."""
    block = no_responders_block(subject)
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(block), len(block), block)


def stored_messages(
    tail: bytes,
    subjects: list[bytes],
    replies: list[bytes],
    headers: list[bytes],
    payloads: list[bytes],
) -> bytes:
    """Messages of a stream, each with its reply; headers are empty where there is none.

    `tail` is what stands between subject and reply: the subscription's id between blanks.
    """
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
