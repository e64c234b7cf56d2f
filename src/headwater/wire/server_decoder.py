"""Bytes from a server become deliveries: the client's side of the protocol.

One call per read. Deliveries are parallel lists, never an object each; rare operations (INFO, PING,
PONG, -ERR) stand beside them in the order they came. The decoder keeps only the bytes of an
unfinished operation; it knows nothing of subscriptions or requests.

Bytes that break the protocol raise `ServerProtocolError`, after which no bytes are accepted. A
client has no error to send back, so unlike the decoder of a server this one raises.

Bounds: a control line has at most `CONTROL_LINE_BYTES_MAX` bytes, a size at most `SIZE_DIGITS_MAX`
digits, and no more than one message and one read is kept.
"""

from typing import Final, final

from headwater.base.columns import MessageColumns
from headwater.base.errors import PeerError
from headwater.go.quoting import quote_bytes

# INFO with the addresses of a large cluster is the longest line a server sends.
CONTROL_LINE_BYTES_MAX: Final = 1 << 20
# As many digits as servers write: a wrong size must not become a wait for bytes that never come.
SIZE_DIGITS_MAX: Final = 9

_SNIPPET_BYTES: Final = 64


class ServerProtocolError(PeerError):
    """The server sent bytes that cannot be decoded."""


@final
class Info:
    """INFO and its JSON, which is not decoded yet."""

    __slots__ = ("document",)

    def __init__(self, document: bytes) -> None:
        self.document = document


@final
class ServerPing:
    """PING: the server wants a PONG."""

    __slots__ = ()


@final
class ServerPong:
    """PONG: the server has performed every operation before the PING."""

    __slots__ = ()


@final
class ServerError:
    """-ERR, the text without its quotes."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Control = Info | ServerPing | ServerPong | ServerError


@final
class Deliveries(MessageColumns):
    """The messages of one read as parallel lists, and the other operations of the read.

    `replies` and `headers` are empty where a message has none; a payload never has its headers.
    """

    __slots__ = ("controls", "headers", "replies", "sids")

    COLUMNS = ("sids", "subjects", "replies", "headers", "payloads")
    SHARED = ("controls",)

    def __init__(self) -> None:
        self.sids: list[bytes] = []
        self.subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.controls: list[Control] = []

    def add_plain(self, rows: list[list[bytes]], payloads: list[bytes]) -> None:
        """Add messages without headers, given as the five words of their lines; empties both."""
        if rows:
            _, subjects, sids, replies, _ = zip(*rows, strict=True)
            self.subjects += subjects
            self.sids += sids
            self.replies += replies
            self.headers += [b""] * len(rows)
            self.payloads += payloads
            rows.clear()
            payloads.clear()


@final
class ServerDecoder:
    """The client's side of one connection."""

    __slots__ = ("_dead", "_held", "_needed")

    def __init__(self) -> None:
        self._dead = False
        # An operation that has not ended yet, and the bytes that it will have.
        self._held = bytearray()
        self._needed = 0

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are kept and not decoded yet."""
        return len(self._held)

    def feed(self, data: bytes) -> Deliveries:
        """Decode the bytes that were kept, and `data`. Raises ServerProtocolError."""
        arrived = Deliveries()
        if self._dead:
            return arrived
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return arrived
            data = bytes(self._held)
            self._held.clear()
        self._needed = 0
        try:
            position = self._decode(data, arrived)
        except ServerProtocolError:
            self._dead = True
            raise
        if position < len(data):
            self._held += data[position:]
        return arrived

    def _decode(self, data: bytes, arrived: Deliveries) -> int:
        """Decode the whole operations; return where the next one starts.

        Messages without headers, which most are, are first gathered as the words of their lines and
        then turned into columns all at once. Only a blank separates words: other white space may be
        part of a subject.
        """
        position, end = 0, len(data)
        find = data.find
        rows: list[list[bytes]] = []
        payloads: list[bytes] = []
        while position < end:
            stop = find(b"\r\n", position)
            if stop < 0:
                if end - position > CONTROL_LINE_BYTES_MAX:
                    raise _unreadable("a control line without end", data[position:end])
                break
            start = stop + 2
            line = data[position:stop]
            words = line.split(b" ")
            if words[0] != b"MSG" or len(words) != 5:
                if words[0] != b"MSG" or len(words) != 4:
                    arrived.add_plain(rows, payloads)
                    position = self._take_unusual(data, position, start, words, arrived)
                    if position < start:
                        break
                    continue
                words.insert(3, b"")
            size = words[4]
            if len(size) > SIZE_DIGITS_MAX or not size.isdigit():
                raise _unreadable("an invalid size", line)
            after = start + int(size)
            if after + 2 > end:
                self._needed = after + 2 - position
                break
            if data[after : after + 2] != b"\r\n":
                raise _unreadable("a payload that does not end where it said", line)
            rows.append(words)
            payloads.append(data[start:after])
            position = after + 2
        arrived.add_plain(rows, payloads)
        return position

    def _take_unusual(
        self,
        data: bytes,
        position: int,
        start: int,
        words: list[bytes],
        arrived: Deliveries,
    ) -> int:
        """Decode an operation other than MSG with or without a reply.

        Returns where the next one starts, or `position` if the operation is not whole.
        """
        line = data[position : start - 2]
        if words[0] not in (b"MSG", b"HMSG"):
            _take_control(line, arrived)
            return start
        if words[0] == b"MSG" or len(words) not in (5, 6):
            raise _unreadable("a message line of another form", line)
        size, header_size = _size(words[-1], line), _size(words[-2], line)
        if header_size > size:
            raise _unreadable("more header than message", line)
        after = start + size
        if after + 2 > len(data):
            self._needed = after + 2 - position
            return position
        if data[after : after + 2] != b"\r\n":
            raise _unreadable("a payload that does not end where it said", line)
        arrived.subjects.append(words[1])
        arrived.sids.append(words[2])
        arrived.replies.append(words[3] if len(words) == 6 else b"")
        arrived.headers.append(data[start : start + header_size])
        arrived.payloads.append(data[start + header_size : after])
        return after + 2


def _take_control(line: bytes, arrived: Deliveries) -> None:
    """Decode an operation other than a message."""
    if line.startswith(b"PING"):
        arrived.controls.append(ServerPing())
    elif line.startswith(b"PONG"):
        arrived.controls.append(ServerPong())
    elif line.startswith(b"INFO "):
        arrived.controls.append(Info(line[5:].strip()))
    elif line.startswith(b"-ERR"):
        text = line[4:].strip().decode(errors="backslashreplace")
        arrived.controls.append(ServerError(text.strip("'")))
    elif not line.startswith(b"+OK"):
        raise _unreadable("an operation that is not known", line)


def _size(token: bytes, line: bytes) -> int:
    if len(token) <= SIZE_DIGITS_MAX and token.isdigit():
        return int(token)
    raise _unreadable("an invalid size", line)


def _unreadable(what: str, line: bytes) -> ServerProtocolError:
    return ServerProtocolError(f"the server sent {what}: {quote_bytes(line[:_SNIPPET_BYTES])}")
