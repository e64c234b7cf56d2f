"""Segments: the operations that one read from a client is decoded into.

A decoder returns segments in the order they came. Publishes, the hot operations, never become an
object each: neighbours share one `Publishes` of parallel lists, and neighbours with the very same
control line share one `Run`. Every other operation is rare and is one small object.

`sizes` has the size tokens as the client wrote them, because they are written again verbatim to
every subscriber: `b"5"` for PUB, `b"12 17"` for HPUB. `header_sizes` has the bytes at the beginning
of the payload that are the header block, or -1 without a header block.
"""

from typing import Final, TypeAlias, final

from headwater.base.columns import MessageColumns
from headwater.base.errors import PeerError

NO_HEADERS: Final = -1


@final
class Publishes(MessageColumns):
    """Neighbouring publishes, as parallel lists."""

    __slots__ = ("header_sizes", "replies", "sizes")

    COLUMNS = ("subjects", "replies", "header_sizes", "sizes", "payloads")

    def __init__(
        self,
        subjects: list[bytes],
        replies: list[bytes | None],
        header_sizes: list[int],
        sizes: list[bytes],
        payloads: list[bytes],
    ) -> None:
        self.subjects = subjects
        self.replies = replies
        self.header_sizes = header_sizes
        self.sizes = sizes
        self.payloads = payloads


@final
class Run:
    """Neighbouring publishes with one and the same control line."""

    __slots__ = ("header_size", "payloads", "reply", "size", "subject")

    def __init__(
        self,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        size: bytes,
        payloads: list[bytes],
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.header_size = header_size
        self.size = size
        self.payloads = payloads

    def split_at(self, count: int) -> "tuple[Run, Run]":
        """The first `count` publishes, and the rest."""
        head = (self.subject, self.reply, self.header_size, self.size)
        return Run(*head, self.payloads[:count]), Run(*head, self.payloads[count:])

    def as_publishes(self) -> Publishes:
        """These publishes as parallel lists."""
        count = len(self.payloads)
        return Publishes(
            [self.subject] * count,
            [self.reply] * count,
            [self.header_size] * count,
            [self.size] * count,
            self.payloads,
        )


@final
class Subscribe:
    """SUB subject [queue] sid"""

    __slots__ = ("queue", "sid", "subject")

    def __init__(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid


@final
class Unsubscribe:
    """UNSUB sid [max]; `limit` is -1 when absent or not a number."""

    __slots__ = ("limit", "sid")

    def __init__(self, sid: bytes, limit: int) -> None:
        self.sid = sid
        self.limit = limit


@final
class Connect:
    """CONNECT and its JSON, which is not decoded yet."""

    __slots__ = ("document",)

    def __init__(self, document: bytes) -> None:
        self.document = document


@final
class Ping:
    """PING"""

    __slots__ = ()


@final
class Pong:
    """PONG"""

    __slots__ = ()


@final
class ClientError:
    """-ERR from the client, which ends the connection."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


@final
class Meaningless:
    """+OK or INFO, which a client may send and a server ignores."""

    __slots__ = ()


@final
class Malformed:
    """Bytes that cannot be decoded; always the last segment that a decoder returns.

    `reply` is the -ERR text to send before closing, empty if no error is sent. `operation` is the
    first byte of the operation: before CONNECT that byte decides about the answer.
    """

    __slots__ = ("detail", "operation", "reply")

    def __init__(self, reply: str, detail: str, operation: bytes) -> None:
        self.reply = reply
        self.detail = detail
        self.operation = operation


Segment: TypeAlias = (
    Publishes
    | Run
    | Subscribe
    | Unsubscribe
    | Connect
    | Ping
    | Pong
    | ClientError
    | Meaningless
    | Malformed
)


class MalformedError(PeerError):
    """Raised inside a decoder, returned as a Malformed segment."""

    def __init__(self, reply: str, detail: str, operation: bytes) -> None:
        super().__init__(reply)
        self.detail = detail
        self.operation = operation
