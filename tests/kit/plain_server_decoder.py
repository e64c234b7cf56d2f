"""The client's side of the protocol decoded the slow and obvious way, and ways to compare.

A message is (sid, subject, reply, header, payload), a control its name and what it carries.
"""

from dataclasses import dataclass, field

from headwater.wire.server_decoder import (
    Control,
    Deliveries,
    Info,
    ServerDecoder,
    ServerError,
    ServerPing,
    ServerProtocolError,
)

Message = tuple[bytes, bytes, bytes, bytes, bytes]
SIZE_DIGITS_MAX = 9


@dataclass
class Decoded:
    """The operations of a stream, until it ends or goes wrong."""

    messages: list[Message] = field(default_factory=list)
    controls: list[tuple[str, str | bytes]] = field(default_factory=list)
    broken: bool = False

    def add(self, arrived: Deliveries) -> None:
        columns = (arrived.sids, arrived.subjects, arrived.replies, arrived.headers)
        self.messages += zip(*columns, arrived.payloads, strict=True)
        self.controls += map(named, arrived.controls)


def named(control: Control) -> tuple[str, str | bytes]:
    if isinstance(control, Info):
        return "INFO", control.document
    if isinstance(control, ServerError):
        return "-ERR", control.text
    return ("PING" if isinstance(control, ServerPing) else "PONG"), b""


def decode(pieces: list[bytes]) -> Decoded:
    """The operations that the real decoder finds in a stream of these pieces."""
    decoder, decoded = ServerDecoder(), Decoded()
    for piece in pieces:
        try:
            decoded.add(decoder.feed(piece))
        except ServerProtocolError:
            decoded.broken = True
    return decoded


def decode_plainly(data: bytes) -> Decoded:
    """The operations of a stream, decoded one after the other."""
    decoded = Decoded()
    while b"\r\n" in data:
        line, _, behind = data.partition(b"\r\n")
        words = line.split(b" ")
        if words[0] not in (b"MSG", b"HMSG"):
            control = _control(line)
            decoded.broken = control is None
            if control is None:
                return decoded
            decoded.controls += control
            data = behind
            continue
        sizes = _sizes(words)
        if sizes is None:
            decoded.broken = True
            return decoded
        header_size, size = sizes
        if len(behind) < size + 2:
            return decoded
        if behind[size : size + 2] != b"\r\n":
            decoded.broken = True
            return decoded
        reply = words[3] if len(words) == (5 if words[0] == b"MSG" else 6) else b""
        parts = behind[:header_size], behind[header_size:size]
        decoded.messages.append((words[2], words[1], reply, *parts))
        data = behind[size + 2 :]
    return decoded


def _control(line: bytes) -> list[tuple[str, str | bytes]] | None:
    if line.startswith((b"PING", b"PONG")):
        return [(line[:4].decode(), b"")]
    if line.startswith(b"INFO "):
        return [("INFO", line[5:].strip())]
    if line.startswith(b"-ERR"):
        return [("-ERR", line[4:].strip().decode(errors="backslashreplace").strip("'"))]
    return [] if line.startswith(b"+OK") else None


def _sizes(words: list[bytes]) -> tuple[int, int] | None:
    count = 1 if words[0] == b"MSG" else 2
    if len(words) not in (3 + count, 4 + count):
        return None
    if not all(word.isdigit() and len(word) <= SIZE_DIGITS_MAX for word in words[-count:]):
        return None
    header_size = int(words[-2]) if count == 2 else 0
    return (header_size, int(words[-1])) if header_size <= int(words[-1]) else None
