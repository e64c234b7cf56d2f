"""The trace of a simulated run, and the hash that is the run's identity.

Two runs are equal when their hashes are. So a trace may contain only facts that the seed decides:
virtual times, host names, connection numbers, lengths, checksums. Addresses of objects, task names
and wall-clock times must never enter it.
"""

import hashlib
import zlib
from collections import deque
from typing import Final

from headwater.base.clock import NS_PER_S

# Hashing many small lines at once is several times cheaper than one by one.
_LINES_PER_HASH_UPDATE: Final = 512


class Trace:
    """An append-only list of events, of which only a running hash and the tail are kept."""

    __slots__ = ("_hash", "_kept", "_unhashed", "event_count")

    def __init__(self, keep: int) -> None:
        """`keep` is the number of latest events that are printed when a run fails."""
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[str] = []
        self._kept: deque[str] = deque(maxlen=keep)
        self.event_count = 0

    def note(self, now_s: float, kind: str, detail: str) -> None:
        """Record one event at virtual time `now_s`."""
        line = f"{round(now_s * NS_PER_S)} {kind} {detail}\n"
        self.event_count += 1
        self._kept.append(line)
        unhashed = self._unhashed
        unhashed.append(line)
        if len(unhashed) >= _LINES_PER_HASH_UPDATE:
            self._absorb()

    def note_bytes(self, now_s: float, kind: str, detail: str, data: bytes) -> None:
        """Record bytes by length and checksum."""
        self.note(now_s, kind, f"{detail} {len(data)} {zlib.crc32(data):08x}")

    def digest(self) -> str:
        """The hash of all events so far."""
        self._absorb()
        return self._hash.hexdigest()

    def tail(self, origin_s: float = 0.0) -> list[str]:
        """The latest events, oldest first, with times in seconds after `origin_s`."""
        lines = []
        for line in self._kept:
            time_ns, _, rest = line.rstrip("\n").partition(" ")
            lines.append(f"{int(time_ns) / NS_PER_S - origin_s:.6f} {rest}")
        return lines

    def _absorb(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()
