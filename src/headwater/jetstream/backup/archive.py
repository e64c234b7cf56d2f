"""The archive of nats-server 2.15: a stream as a sequence of entries, one per message.

    archive   "NATSARC1" | entry | entry | …

    entry     name size    varint
              timestamp    signed varint, nanoseconds
              sequence     varint, 0 if it is not a message
              header size  varint
              payload size varint
              name | header | payload

The first entry is named `state.json` and has the state of the stream; its consumers follow,
`consumers/<name>`, then its messages in order, each named by its subject. An entry of zeros is the
last. There are no checksums: the compression around the archive has them. This module knows the
entries, not their meaning.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, final

from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.s2 import read_varint

MAGIC: Final = b"NATSARC1"
STATE_NAME: Final = b"state.json"
CONSUMERS_FOLDER: Final = b"consumers/"

NAME_BYTES_MAX: Final = 64 * 1024


class Entry(NamedTuple):
    """One entry."""

    name: bytes
    timestamp_ns: int = 0
    sequence: int = 0
    header: bytes = b""
    payload: bytes = b""


END: Final = Entry(b"")


def _varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "little")
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _zigzag(value: int) -> int:
    """A signed number as an unsigned one: numbers near zero become small."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """Entries one after the other."""
    parts: list[bytes] = []
    for name, timestamp_ns, sequence, header, payload in entries:
        parts += (
            _varint(len(name)),
            _varint(_zigzag(timestamp_ns)),
            _varint(sequence),
            _varint(len(header)),
            _varint(len(payload)),
            name,
            header,
            payload,
        )
    return b"".join(parts)


@final
class ArchiveReader:
    """Decodes an archive, without its first eight bytes, into entries.

    `message_bytes_max` is the limit of header and payload of a message together,
    `document_bytes_max` that of other entries.
    """

    __slots__ = ("_buffer", "_document_bytes_max", "_message_bytes_max", "_offset")

    def __init__(self, message_bytes_max: int, document_bytes_max: int) -> None:
        self._buffer = bytearray()
        # The start of the next entry; the bytes before it were decoded.
        self._offset = 0
        self._message_bytes_max = message_bytes_max
        self._document_bytes_max = document_bytes_max

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        del self._buffer[: self._offset]
        self._offset = 0
        self._buffer += data

    def read(self) -> Entry | None:
        """The next entry, or None when more input is needed. Raises BackupError."""
        data, end = self._buffer, len(self._buffer)
        numbers = []
        offset = self._offset
        for _ in range(5):
            value, offset = read_varint(data, offset, end)
            if offset < 0:
                return None
            numbers.append(value)
        name_size, timestamp, sequence, header_size, payload_size = numbers
        if name_size > NAME_BYTES_MAX:
            raise BackupError("one of its entries has a name that is too long")
        bytes_max = self._message_bytes_max if sequence else self._document_bytes_max
        if header_size + payload_size > bytes_max:
            raise BackupError(_too_large(sequence))
        if end - offset < name_size + header_size + payload_size:
            return None
        header_begin = offset + name_size
        payload_begin = header_begin + header_size
        self._offset = payload_begin + payload_size
        return Entry(
            bytes(data[offset:header_begin]),
            timestamp >> 1 ^ -(timestamp & 1),
            sequence,
            bytes(data[header_begin:payload_begin]),
            bytes(data[payload_begin : self._offset]),
        )


def _too_large(sequence: int) -> str:
    if sequence:
        return f"message sequence {sequence} exceeds maximum payload size"
    return "one of its entries is too large"
