"""The tail of an eventual stream: what its leader has applied, and a majority may not have.

    ... committed by the quorum │ tail: in the leader's own log │ in flight: waits
    ────────────────────────────┴───────────────────────────────┴──────────────────

The leader answers and delivers what is in its own log, and others get it later. The tail is at most
so many sequences and bytes long; what is beyond waits for the quorum, as on a strong stream. So the
next leader knows which sequences may have been given out: it passes over as many.

Entries that cannot be taken back wait for the quorum, with all before them: another configuration,
a message that is overwritten, a long jump. So does everything while the tail is to be empty: the
files of the stream are put in order between two entries that the quorum has, and a snapshot for
another server holds nothing else.

Must not know: logs, files, and the records of consumers.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from headwater.jetstream.config.stream_config import StreamConfig, WriteConsistency
from headwater.jetstream.records import Configured, Published, Purged, Record, Removed, Skipped

DRAINED_BYTES: Final = 16 * 1024 * 1024
"""The tail is empty at least once in so many bytes, while there is a quorum."""


class TailLimits(NamedTuple):
    """The longest tail: sequences that are given out, and bytes of entries. It has no more places
    than sequences: entries without messages are small, and each place takes memory."""

    messages: int = 100_000
    byte_count: int = 64 * 1024 * 1024


def has_tail(config: StreamConfig) -> bool:
    """Whether the leader of a stream answers before the quorum does.

    A mirror gives out no sequences of its own: it copies what is committed.
    """
    return config.write_consistency is WriteConsistency.EVENTUAL and config.mirror is None


class Counted(NamedTuple):
    """An entry as the tail counts it: its place in the group of the stream, the last sequence that
    it gives out, or 0, its bytes, and whether it waits for the quorum."""

    place: int
    last_sequence: int
    byte_count: int
    is_awaited: bool


def entry_of(index: int, records: Sequence[Record], byte_count: int) -> Counted:
    """An entry with these records."""
    last, is_awaited = 0, False
    for record in records:
        if isinstance(record, Published | Skipped):
            last = record.last_sequence
        elif isinstance(record, Purged):
            last = max(last, record.before - 1)
        elif isinstance(record, Configured) or (isinstance(record, Removed) and record.erase):
            is_awaited = True
    return Counted(index, last, byte_count, is_awaited)


@final
class Tail:
    """The tail of one stream while this server leads it.

    `committed_sequence` is the last sequence that the quorum has.
    """

    __slots__ = (
        "_byte_count",
        "_drained_bytes",
        "_entries",
        "_places",
        "_sequence",
        "committed_sequence",
        "is_held",
        "is_resting",
        "limits",
    )

    def __init__(self, limits: TailLimits, committed_sequence: int) -> None:
        self.limits = limits
        self.committed_sequence = committed_sequence
        # The last sequence that the tail has given out.
        self._sequence = committed_sequence
        # Entries in flight, and the places of the replicated log in the tail: the place, its last
        # sequence, its bytes.
        self._entries: deque[Counted] = deque()
        self._places: deque[tuple[int, int, int]] = deque()
        self._byte_count = 0
        # The bytes that have come since the tail was empty.
        self._drained_bytes = 0
        # Whether the tail takes nothing, because it is to be empty; and whether it takes nothing
        # while there is a quorum, so that the files of the stream can be put in order.
        self.is_held = False
        self.is_resting = False

    @property
    def is_empty(self) -> bool:
        """Whether the quorum has all that was applied."""
        return not self._places

    def add(self, entry: Counted) -> None:
        """Note an entry in flight, behind all others."""
        self._entries.append(entry)

    def cut(self, index: int) -> None:
        """Forget the entries in flight from an index on."""
        while self._entries and self._entries[-1].place >= index:
            self._entries.pop()

    def take(self, place: int, first: int, last: int, has_quorum: bool) -> bool:
        """Take in the place of the replicated log that has the entries from one index to another.
        Returns whether it may be applied now; otherwise it waits for the quorum."""
        is_draining = self._drained_bytes > DRAINED_BYTES and not self.is_empty
        if self.is_held or (has_quorum and (is_draining or self.is_resting)):
            return False
        sequence, byte_count, count = self._sequence, 0, 0
        for entry in self._entries:
            if entry.place > last:
                break
            if entry.is_awaited:
                return False
            sequence = max(sequence, entry.last_sequence)
            byte_count += entry.byte_count
            count += 1
        if count != last - first + 1:
            # They were in flight before the stream had a tail.
            return False
        is_too_long = (
            sequence - self.committed_sequence > self.limits.messages
            or self._byte_count + byte_count > self.limits.byte_count
            or len(self._places) >= self.limits.messages
        )
        if is_too_long:
            return False
        self._sequence = sequence
        self._byte_count += byte_count
        self._drained_bytes = byte_count + (0 if self.is_empty else self._drained_bytes)
        self._places.append((place, sequence, byte_count))
        self._drop_entries(last)
        return True

    def committed(self, place: int) -> None:
        """Note that the quorum has the log up to a place."""
        while self._places and self._places[0][0] <= place:
            _, self.committed_sequence, byte_count = self._places.popleft()
            self._byte_count -= byte_count

    def committed_awaited(self, last: int) -> None:
        """Note that the quorum has entries that have waited for it, up to an index."""
        for entry in self._entries:
            if entry.place > last:
                break
            self._sequence = max(self._sequence, entry.last_sequence)
        self.committed_sequence = self._sequence
        self._drop_entries(last)

    def _drop_entries(self, last: int) -> None:
        while self._entries and self._entries[0].place <= last:
            self._entries.popleft()
