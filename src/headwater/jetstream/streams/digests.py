"""Digests of the state of a stream at agreed entries of its log, by which replicas compare it.

    entries    0 ... 4095 | 4096 ...        | 8192 ...        | 12288 ...
    digests               ▲ none: began     ▲ of the entries  ▲ of the entries behind the one
                            in its midst      behind the first  before

An agreed entry is the first one with data at or behind a multiple of `ENTRIES`. A digest has the
totals of the log when the agreed entry is applied, and a checksum of what was stored and what left
since the one before. A replica that has not applied all entries between two agreed ones, because it
was started or filled in between, has no digest for the second.

Only state that follows from the entries alone is in a digest. Consumers run ahead of the log on a
leader, and damage, compaction and files are matters of one server: none of them is.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.store.index.tally import Tally
from headwater.store.log.message_log import MessageLog

ENTRIES: Final = 4096
"""Digests are this many entries apart: a few seconds of a busy stream, so that a replica that
differs is found soon, and the totals cost nothing beside the entries."""

KEPT_MAX: Final = 8
"""Digests that a replica keeps: a server that is some seconds behind is still compared."""


class Digest(NamedTuple):
    """The state of a stream at an agreed entry, and the agreed entry before it."""

    since: int
    entry: int
    first_sequence: int
    last_sequence: int
    messages: int
    byte_count: int
    subjects: int
    stored: int
    removed: int

    def is_comparable(self, other: "Digest") -> bool:
        """Whether both are of the same entries."""
        return self.entry == other.entry and self.since == other.since

    def differences(self, other: "Digest") -> list[str]:
        """The names of what differs, with both values."""
        return [
            f"{name.replace('_', ' ')} {mine} and {theirs}"
            for name, mine, theirs in zip(self._fields, self, other, strict=True)
            if mine != theirs
        ]


_DIGEST: Final = Struct("<9Q")
DIGEST_BYTES: Final = _DIGEST.size


def encode_digest(digest: Digest) -> bytes:
    """The bytes of a digest."""
    return _DIGEST.pack(*digest)


def decode_digest(data: bytes, begin: int) -> Digest:
    """The digest that begins at a place of bytes which are long enough."""
    return Digest(*_DIGEST.unpack_from(data, begin))


@final
class Digests:
    """The digests of one replica, formed as its entries are applied."""

    __slots__ = (
        "_formed",
        "_held",
        "_interval",
        "_log",
        "_since",
        "_tally",
        "_without_data",
        "kept",
    )

    def __init__(self, log: MessageLog, index: int, formed: Callable[[], object]) -> None:
        """`log` has the effects of the entries up to an index. `formed` is called when there is
        another digest."""
        self._log = log
        self._formed = formed
        self._interval = index // ENTRIES
        # The last agreed entry; None before the first one that was applied here.
        self._since: int | None = None
        # Entries that change no stream, and which a leader does not see.
        self._without_data: set[int] = set()
        self._tally = log.index.tally = Tally()
        self.kept: deque[Digest] = deque(maxlen=KEPT_MAX)
        # Digests of entries that may be taken back: nobody is told of them yet.
        self._held: deque[Digest] = deque()

    def pass_over(self, index: int) -> None:
        """Note an entry without data, before it is applied: it is no agreed one."""
        self._without_data.add(index)

    def applied(self, index: int, stays: bool = True) -> None:
        """Note an entry whose effects the log has, and those of no later one. `stays_to` follows
        for an entry that may be taken back."""
        if self._without_data and index in self._without_data:
            self._without_data.discard(index)
            return
        interval = index // ENTRIES
        if interval == self._interval:
            return
        self._interval = interval
        self._without_data = {each for each in self._without_data if each > index}
        stored, removed = self._tally.take()
        since, self._since = self._since, index
        if since is None:
            return
        log = self._log
        totals = (
            log.first_sequence,
            log.last_sequence,
            log.messages,
            log.byte_count,
            log.subject_count,
        )
        self._held.append(Digest(since, index, *totals, stored, removed))
        if stays:
            self.stays_to(index)

    def stays_to(self, index: int) -> None:
        """Note that entries up to an index are not taken back any more."""
        while self._held and self._held[0].entry <= index:
            self.kept.append(self._held.popleft())
            self._formed()

    def end(self) -> None:
        """Form no digest any more."""
        self._log.index.tally = None
        self._formed = lambda: None
        self.kept.clear()
        self._held.clear()
