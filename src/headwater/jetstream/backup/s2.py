"""The frames of S2, the compression nats-server wraps around its backups.

    stream   frame | frame | …

    frame    kind u8 | length u24 of the body | body
    kinds    0x00  compressed: checksum u32, then a block
             0x01  plain: checksum u32, then the bytes
             0x02 to 0x7f  unknown and not skippable
             0x80 to 0xfe  skippable: padding, an index
             0xff  the beginning, with the name of the format in it; may come again

    block    unpacked size as a varint, then elements:
             tag bits 00  literal bytes, 01 10 11  a copy of earlier output, by distance

Integers are little-endian. Checksums are the CRC-32C of the unpacked bytes, rotated and offset so
that a checksum over data with checksums in it is sound. A copy with the distance 0 repeats the
distance of the copy before it; this is S2's addition to Snappy, whose streams are read too.

The writer makes plain frames only: compression is work for a compiled program. The reader limits
the size of a frame and the work of a call.
"""

from typing import Final, final

from headwater.jetstream.backup.crc32c import crc32c
from headwater.jetstream.backup.errors import BackupError

BEGINNING: Final = b"\xff\x06\x00\x00S2sTwO"
_SNAPPY_NAME: Final = b"sNaPpY"
_S2_NAME: Final = b"S2sTwO"

_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_SKIPPABLE_FROM: Final = 0x80
_BEGIN: Final = 0xFF
_HEAD_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4

# The format's own limit for the unpacked size of a frame.
UNPACKED_BYTES_MAX: Final = 4 * 1024 * 1024
# A packed block is never larger than its unpacked size plus the tags of literals.
_BODY_BYTES_MAX: Final = UNPACKED_BYTES_MAX + UNPACKED_BYTES_MAX // 6 + 64
# Elements unpacked per call: some milliseconds.
_ELEMENTS_PER_CALL: Final = 16 * 1024

_LITERAL: Final = 0
_COPY_1: Final = 1
_COPY_2: Final = 2
# The tag of a literal has its length, or the number of further bytes with the length.
_LITERAL_IN_TAG_MAX: Final = 60
# The shortest copy with a short distance.
_COPY_1_BYTES_MIN: Final = 4
# Length codes of a repeated copy from 5 on: the number of further bytes, and the value at which
# they begin to count.
_REPEATS: Final = {5: (1, 4), 6: (2, 1 << 8), 7: (3, 1 << 16)}


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def plain_frame(data: bytes) -> bytes:
    """A frame with uncompressed bytes."""
    size = _CHECKSUM_BYTES + len(data)
    head = size << 8 | _PLAIN
    return b"".join(
        (head.to_bytes(_HEAD_BYTES, "little"), _masked(crc32c(data)).to_bytes(4, "little"), data)
    )


def read_varint(data: bytes | bytearray, offset: int, end: int) -> tuple[int, int]:
    """An unsigned number of 64 bits and its end, or -1 for the end if it is beyond `end`."""
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise BackupError("a number has more than 64 bits")
            return value, offset
        shift += 7
        if shift > 63:
            raise BackupError("a number has more than 64 bits")
    return 0, -1


@final
class _Block:
    """A compressed block that is being unpacked."""

    __slots__ = ("_data", "_distance", "_offset", "_size", "checksum", "unpacked")

    def __init__(self, body: bytes) -> None:
        self.checksum = int.from_bytes(body[:_CHECKSUM_BYTES], "little")
        self._data = body
        self._size, self._offset = read_varint(body, _CHECKSUM_BYTES, len(body))
        if self._offset < 0 or self._size > UNPACKED_BYTES_MAX:
            raise BackupError("a compressed part has no possible size")
        # The distance of the last copy.
        self._distance = 0
        self.unpacked = bytearray()

    def unpack(self) -> bool:
        """Unpack some more. Returns whether the block is complete."""
        end = len(self._data)
        try:
            for _ in range(_ELEMENTS_PER_CALL):
                if self._offset >= end:
                    break
                self._unpack_element()
                if len(self.unpacked) > self._size:
                    raise BackupError("a compressed part is longer than it says")
        except IndexError:
            raise BackupError("a compressed part ends too early") from None
        if self._offset < end:
            return False
        if len(self.unpacked) != self._size:
            raise BackupError("a compressed part is shorter than it says")
        return True

    def _unpack_element(self) -> None:
        data, offset = self._data, self._offset
        tag = data[offset]
        kind = tag & 3
        if kind == _LITERAL:
            self._unpack_literal(tag >> 2, offset + 1)
            return
        length = tag >> 2
        if kind == _COPY_1:
            distance = (tag & 0xE0) << 3 | data[offset + 1]
            offset += 2
            length &= 7
            if distance:
                self._distance = distance
            elif length in _REPEATS:
                size, base = _REPEATS[length]
                length = int.from_bytes(data[offset : offset + size], "little") + base
                offset += size
            length += _COPY_1_BYTES_MIN
        else:
            size = 2 if kind == _COPY_2 else 4
            self._distance = int.from_bytes(data[offset + 1 : offset + 1 + size], "little")
            offset += 1 + size
            length += 1
        if offset > len(data):
            raise IndexError
        self._offset = offset
        self._copy(length)

    def _unpack_literal(self, length: int, offset: int) -> None:
        data = self._data
        if length >= _LITERAL_IN_TAG_MAX:
            size = length - _LITERAL_IN_TAG_MAX + 1
            length = int.from_bytes(data[offset : offset + size], "little")
            offset += size
        end = offset + length + 1
        if end > len(data):
            raise IndexError
        self.unpacked += data[offset:end]
        self._offset = end

    def _copy(self, length: int) -> None:
        unpacked, distance = self.unpacked, self._distance
        if not 0 < distance <= len(unpacked):
            raise BackupError("a compressed part refers to what is before it")
        if len(unpacked) + length > self._size:
            raise BackupError("a compressed part is longer than it says")
        begin = len(unpacked) - distance
        if distance >= length:
            unpacked += unpacked[begin : begin + length]
        else:
            # The copy overlaps with its own output.
            pattern = bytes(unpacked[begin:])
            unpacked += (pattern * (length // distance + 1))[:length]


@final
class S2Reader:
    """Decodes S2, however it is cut, one frame at a time.

    `read` returns None when more input is needed, and an empty piece after some work if more is
    left; so no call takes long. Raises BackupError, and is of no use afterwards.
    """

    __slots__ = ("_block", "_buffer", "_has_begun", "_skip")

    def __init__(self) -> None:
        self._buffer = bytearray()
        # Bytes of a skipped frame that are still to come.
        self._skip = 0
        self._has_begun = False
        self._block: _Block | None = None

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        self._buffer += data

    @property
    def is_between_frames(self) -> bool:
        """Whether the input could end here."""
        return self._has_begun and not (self._buffer or self._skip or self._block)

    def read(self) -> bytes | None:
        """The next piece."""
        if self._block is not None:
            return self._unpack(self._block)
        buffer = self._buffer
        if self._skip:
            step = min(self._skip, len(buffer))
            self._skip -= step
            del buffer[:step]
        if self._skip or len(buffer) < _HEAD_BYTES:
            return None
        kind = buffer[0]
        size = int.from_bytes(buffer[1:_HEAD_BYTES], "little")
        self._check_head(kind, size)
        if _SKIPPABLE_FROM <= kind < _BEGIN:
            del buffer[:_HEAD_BYTES]
            self._skip = size
            return b""
        end = _HEAD_BYTES + size
        if len(buffer) < end:
            return None
        body = bytes(buffer[_HEAD_BYTES:end])
        del buffer[:end]
        return self._process_frame(kind, body)

    def _check_head(self, kind: int, size: int) -> None:
        if not self._has_begun and (kind != _BEGIN or size != len(_S2_NAME)):
            raise BackupError("it does not begin as one")
        if _PLAIN < kind < _SKIPPABLE_FROM:
            raise BackupError(f"it has a part of the unknown kind {kind:#04x}")
        if kind <= _PLAIN and not _CHECKSUM_BYTES <= size <= _BODY_BYTES_MAX:
            raise BackupError("one of its parts has no possible size")
        if kind == _BEGIN and size != len(_S2_NAME):
            raise BackupError("it begins again, and not as one")

    def _process_frame(self, kind: int, body: bytes) -> bytes:
        if kind == _BEGIN:
            if body not in (_S2_NAME, _SNAPPY_NAME):
                raise BackupError("it does not begin as one")
            self._has_begun = True
            return b""
        if kind == _COMPRESSED:
            self._block = _Block(body)
            return self._unpack(self._block)
        data = body[_CHECKSUM_BYTES:]
        if len(data) > UNPACKED_BYTES_MAX:
            raise BackupError("one of its parts has no possible size")
        return _checked(data, int.from_bytes(body[:_CHECKSUM_BYTES], "little"))

    def _unpack(self, block: _Block) -> bytes:
        if not block.unpack():
            return b""
        self._block = None
        return _checked(bytes(block.unpacked), block.checksum)


def _checked(data: bytes, checksum: int) -> bytes:
    if _masked(crc32c(data)) != checksum:
        raise BackupError("one of its parts fails its checksum")
    return data
