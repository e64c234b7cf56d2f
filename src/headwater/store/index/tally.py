"""A running checksum of what was stored in a log, and of what left it.

Logs to which equal writes were made have equal tallies, on whichever server. A tally says nothing
of files: neither compaction nor damage changes it.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.columns import Numbers
from headwater.store.disk.format import PREFIX_BYTES

SHORT_BYTES: Final = 256
"""Records of different lengths are summed whole up to this size on average. The checksum of a
longer record costs less to gather than its bytes cost to sum, and stands for them."""

_OF_CHECKSUM: Final = range(PREFIX_BYTES - 4, PREFIX_BYTES)
_SUM_END: Final = 1 << 64


@final
class Tally:
    """The running checksum of one log."""

    __slots__ = ("removed", "stored")

    def __init__(self) -> None:
        self.stored = 0
        self.removed = 0

    def store(self, data: bytes, lengths: Numbers) -> None:
        """Count the records of one write. Each begins with its length and its checksum."""
        length, count = lengths[0], len(lengths)
        if count == 1:
            data = data[:PREFIX_BYTES]
        elif lengths == lengths[:1] * count:
            # One byte of the checksums of all records at a time.
            data = b"".join([data[at::length] for at in _OF_CHECKSUM])
        elif len(data) > SHORT_BYTES * count:
            begins = accumulate(lengths[:-1], initial=0)
            data = b"".join([data[at : at + PREFIX_BYTES] for at in begins])
        self.stored = crc32(data, self.stored)

    def store_contents(self, parts: Iterable[list[bytes]]) -> None:
        """Count messages that have no records, by lists of their headers and payloads."""
        for part in parts:
            self.stored = crc32(b"".join(part), self.stored)

    def remove(self, sequences: Iterable[int]) -> None:
        """Count messages that leave, in whatever order."""
        self.removed = (self.removed + sum(sequences)) % _SUM_END

    def take(self) -> tuple[int, int]:
        """The checksums of what was stored and of what left; the next ones begin anew."""
        taken = self.stored, self.removed
        self.stored = self.removed = 0
        return taken
