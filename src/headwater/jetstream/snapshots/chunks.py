"""Chunks of a snapshot: blocks of any size, cut into pieces of bounded size.

    chunk    0  crc      u32   of all that follows, or of the header alone
             4  number   u32   of the chunk, from 0
             8  kind     u8    of the block
             9  flags    u8    1: the block goes on in the next chunk
                               2: its body has checksums of its own
            10  body           a piece of the block, to the end

A checksum of messages would take as long as it takes to read them, and their records have one. The
checksums of all chunks but the first begin with that of the first one: a chunk of another
snapshot does not pass for one of this one. The first chunk holds the first block as a whole.
"""

from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.checksums import crc32
from headwater.base.errors import OperatingError
from headwater.base.invariants import check

CHUNK_HEADER_BYTES: Final = 10
# A block has one message, or the state of one consumer, if that is large. The largest message that
# a server can be configured to accept is 64 MiB.
BLOCK_BYTES_MAX: Final = 256 * 1024 * 1024
CHUNKS_MAX: Final = (1 << 32) - 1

_CRC: Final = Struct("<I")
_HEAD: Final = Struct("<IBB")
_GOES_ON: Final = 1
_HAS_CHECKSUMS: Final = 2


class SnapshotError(OperatingError):
    """A chunk that does not belong to the snapshot, or is malformed; the text names the fault."""


class Block(NamedTuple):
    """A block of a snapshot, whose body may have checksums of its own."""

    kind: int
    body: bytes
    has_checksums: bool = False


@final
class ChunkWriter:
    """Cuts blocks into chunks of at most `chunk_bytes_max` bytes; only the first may be larger."""

    __slots__ = ("_number", "_piece_bytes_max", "_seed")

    def __init__(self, chunk_bytes_max: int) -> None:
        check(chunk_bytes_max > CHUNK_HEADER_BYTES, "a chunk has room for more than its header")
        self._piece_bytes_max = chunk_bytes_max - CHUNK_HEADER_BYTES
        self._number = 0
        self._seed = 0

    def cut(self, block: Block) -> list[bytes]:
        """The chunks of the next block."""
        check(len(block.body) <= BLOCK_BYTES_MAX, "a block is within its limit")
        kind, body, has_checksums = block
        size, flags = self._piece_bytes_max, _HAS_CHECKSUMS if has_checksums else 0
        if self._number == 0 or len(body) <= size:
            return [self._chunk(kind, flags, body)]
        *begins, last = range(0, len(body), size)
        pieces = [self._chunk(kind, flags | _GOES_ON, body[at : at + size]) for at in begins]
        return [*pieces, self._chunk(kind, flags, body[last:])]

    def _chunk(self, kind: int, flags: int, piece: bytes) -> bytes:
        check(self._number <= CHUNKS_MAX, "a snapshot is within its limit of chunks")
        head = _HEAD.pack(self._number, kind, flags)
        crc = crc32(head, self._seed)
        if not flags & _HAS_CHECKSUMS:
            crc = crc32(piece, crc)
        if self._number == 0:
            self._seed = crc
        self._number += 1
        return b"".join((_CRC.pack(crc), head, piece))


@final
class ChunkReader:
    """Joins chunks to blocks."""

    __slots__ = ("_kind", "_number", "_pieces", "_seed", "_size")

    def __init__(self) -> None:
        self._number = 0
        self._seed = 0
        # The pieces of a block that goes on, its kind, and its bytes so far.
        self._pieces: list[bytes] = []
        self._kind = 0
        self._size = 0

    def join(self, chunk: bytes) -> Block | None:
        """The block that a chunk completes; None if the block goes on. Raises SnapshotError."""
        if len(chunk) < CHUNK_HEADER_BYTES:
            raise SnapshotError(f"{len(chunk)} bytes are no chunk of a snapshot")
        (crc,) = _CRC.unpack_from(chunk)
        number, kind, flags = _HEAD.unpack_from(chunk, _CRC.size)
        has_checksums = bool(flags & _HAS_CHECKSUMS)
        covered = chunk[_CRC.size : CHUNK_HEADER_BYTES if has_checksums else len(chunk)]
        if crc != crc32(covered, self._seed):
            raise SnapshotError(f"chunk {self._number} fails its checksum")
        if number != self._number:
            raise SnapshotError(f"chunk {number} came in place of chunk {self._number}")
        if flags > _GOES_ON | _HAS_CHECKSUMS or (flags and not number):
            raise SnapshotError(f"chunk {number} has unknown flags ({flags})")
        if self._pieces and kind != self._kind:
            raise SnapshotError(f"chunk {number} does not go on with the block before it")
        size = self._size + len(chunk) - CHUNK_HEADER_BYTES
        if size > BLOCK_BYTES_MAX:
            raise SnapshotError(f"chunk {number}: its block has more than {BLOCK_BYTES_MAX} bytes")
        if number == 0:
            self._seed = crc
        self._number += 1
        piece = chunk[CHUNK_HEADER_BYTES:]
        if flags & _GOES_ON:
            self._pieces.append(piece)
            self._kind, self._size = kind, size
            return None
        pieces, self._pieces, self._size = self._pieces, [], 0
        body = b"".join([*pieces, piece]) if pieces else piece
        return Block(kind, body, has_checksums)
