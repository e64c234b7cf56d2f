"""Compression of one block: fewer bytes out, and later exactly as many back as were promised.

A block header says how its bytes are kept (`Compression`, one byte) and how many they are when
unpacked (`raw_size`). Invariants:

* `decompress` gives exactly the bytes that were compressed, or raises; never fewer, never more.
* It never allocates more than the `raw_size` it was told, nor more than `RAW_BYTES_MAX`, and not
  even that when so few stored bytes could not have become so many. A header can lie; the store
  finds out before the memory is gone.
* A block that would not shrink is kept plain, and unpacking a plain block costs nothing.

The format on disk is LZ4's block format (no frame, no size, no checksum: the block header has the
size; checksums or the tag of `cipher.py` answer for the content). ADR 5 has the figures that chose
it. NATS names the setting `s2`; nobody but this store reads these files.

This module knows nothing of files, records or keys. A block that is both compressed and
encrypted is compressed first: encrypted bytes do not shrink.
"""

import enum
from typing import Final

import lz4.block  # type: ignore[import-untyped]

from headwater.base.errors import OperatingError

# The largest block that is packed, and so the most memory that unpacking one can take. Blocks are
# meant to hold some 64 KiB; larger ones hold a single large message, and nats-server itself takes a
# record over 32 MiB for damage.
RAW_BYTES_MAX: Final = 64 * 1024 * 1024

# LZ4 says "the match is 255 bytes longer" in one byte, and has nothing denser.
EXPANSION_MAX: Final = 255


class Compression(enum.IntEnum):
    """The form in which the bytes of a block are kept.

    The numbers are on disk: they are never used again.
    """

    NONE = 0
    LZ4 = 1


class DamagedBlockError(OperatingError):
    """The stored bytes are not what `compress` gave for a block of that size."""


def compress(raw: bytes) -> tuple[Compression, bytes]:
    """The form of a block and its bytes in that form: packed if shorter, else `raw` itself."""
    if len(raw) <= RAW_BYTES_MAX:
        packed: bytes = lz4.block.compress(raw, store_size=False)
        if len(packed) < len(raw):
            return Compression.LZ4, packed
    return Compression.NONE, raw


def decompress(kind: int, stored: bytes, raw_size: int) -> bytes:
    """The block whose header says `kind` and `raw_size`; raises DamagedBlockError."""
    if kind == Compression.NONE:
        raw = stored
    elif kind == Compression.LZ4:
        raw = _unpack(stored, raw_size)
    else:
        known = ", ".join(f"{each.value} ({each.name})" for each in Compression)
        raise DamagedBlockError(f"compression number {kind} is not known; this server has {known}")
    if len(raw) != raw_size:
        raise DamagedBlockError(f"the block has {len(raw)} bytes, its header says {raw_size}")
    return raw


def _unpack(stored: bytes, raw_size: int) -> bytes:
    if raw_size > RAW_BYTES_MAX:
        raise DamagedBlockError(f"the block claims {raw_size} bytes, {RAW_BYTES_MAX} at most")
    # `compress` packs nothing that does not shrink, and LZ4 cannot shrink it further than this.
    if not len(stored) < raw_size <= len(stored) * EXPANSION_MAX:
        raise DamagedBlockError(f"{len(stored)} packed bytes cannot stand for {raw_size}")
    try:
        # The size is also the size of the only buffer LZ4 gets: it cannot write past it.
        raw: bytes = lz4.block.decompress(stored, uncompressed_size=raw_size)
    except lz4.block.LZ4BlockError as error:
        raise DamagedBlockError(f"the block cannot be unpacked into {raw_size} bytes") from error
    return raw
