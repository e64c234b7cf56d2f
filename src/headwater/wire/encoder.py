"""What a server says to a client, as bytes."""

from typing import Final

CRLF: Final = b"\r\n"
OK: Final = b"+OK\r\n"
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"


def error(text: str) -> bytes:
    """-ERR with its text in single quotes."""
    return b"-ERR '%b'\r\n" % text.encode()


def message_line(
    kind: bytes, subject: bytes, sid: bytes, reply: bytes | None, size: bytes
) -> bytes:
    """The control line of MSG or HMSG; `size` is the size token, or both for HMSG."""
    if reply is None:
        return b"%b %b %b %b\r\n" % (kind, subject, sid, size)
    return b"%b %b %b %b %b\r\n" % (kind, subject, sid, reply, size)


def no_responders(reply: bytes, sid: bytes, subject: bytes) -> bytes:
    """The status a requester gets when nobody listens to what it asked."""
    block = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(block), len(block), block)
