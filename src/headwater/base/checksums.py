"""The one checksum used on disk: CRC-32 as zlib computes it, in C, over whole buffers."""

from zlib import crc32

__all__ = ["crc32"]
