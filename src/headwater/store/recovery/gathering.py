"""Records that are read when a log is opened, added to an index one by one."""

from typing import TypeAlias, final

from headwater.store.disk.format import MESSAGE, MESSAGE_WITH_EXPIRY, SKIP, Record
from headwater.store.index.log_index import Footer, LogIndex, SegmentIndex
from headwater.store.log.batch_records import message_size

# The header and the time of messages that were not stored, by the sequence that they took.
Passed: TypeAlias = dict[int, tuple[bytes, int]]


def note_passed(passed: Passed, record: Record) -> None:
    """Note the message that has left its header in a record of skipped sequences."""
    if record.kind == SKIP and record.header:
        sequence = record.sequence + record.sequence_count - 1
        passed[sequence] = record.header, record.timestamp_ns


@final
class Replayed:
    """Adds records that were read to an index that is complete up to them."""

    __slots__ = ("_index", "_passed", "expiries")

    def __init__(self, index: LogIndex, passed: Passed) -> None:
        self._index = index
        self._passed = passed
        self.expiries: list[tuple[int, int]] = []

    def add(self, offset: int, record: Record) -> None:
        """Add a sound record at `offset`."""
        index = self._index
        missing = record.sequence - index.next_sequence
        if missing > 0:
            index.skip(missing, record.timestamp_ns)
        if record.kind != MESSAGE and record.kind != MESSAGE_WITH_EXPIRY:
            index.skip(record.sequence_count, record.timestamp_ns)
            note_passed(self._passed, record)
            return
        size = message_size(len(record.subject), len(record.header), len(record.payload))
        index.append(offset, [record.length], [record.subject], [record.timestamp_ns], [size])
        if record.expiry_ns:
            self.expiries.append((record.sequence, record.expiry_ns))


@final
class Gathered:
    """The index of a segment, gathered record by record."""

    __slots__ = (
        "_expiries",
        "_first_sequence",
        "_ids",
        "_known",
        "_offsets",
        "_passed",
        "_sizes",
        "_timestamps_ns",
        "next_sequence",
    )

    def __init__(self, first_sequence: int, passed: Passed) -> None:
        self._passed = passed
        self._first_sequence = self.next_sequence = first_sequence
        self._offsets: list[int] = []
        self._timestamps_ns: list[int] = []
        self._ids: list[int] = []
        self._sizes: list[int] = []
        self._known: dict[bytes, int] = {}
        self._expiries: list[tuple[int, int]] = []

    def add(self, offset: int, record: Record) -> None:
        """Add a sound record at `offset`."""
        if record.sequence > self.next_sequence:
            self._skip(record.sequence - self.next_sequence, record.timestamp_ns)
        if record.kind != MESSAGE and record.kind != MESSAGE_WITH_EXPIRY:
            self._skip(record.sequence_count, record.timestamp_ns)
            note_passed(self._passed, record)
            return
        subject = record.subject
        self._offsets.append(offset)
        self._timestamps_ns.append(record.timestamp_ns)
        self._ids.append(self._known.setdefault(subject, len(self._known)))
        self._sizes.append(message_size(len(subject), len(record.header), len(record.payload)))
        self.next_sequence += 1
        if record.expiry_ns:
            self._expiries.append((record.sequence, record.expiry_ns))

    def _skip(self, count: int, timestamp_ns: int) -> None:
        nothing = [0] * count
        self._offsets += nothing
        self._ids += nothing
        self._sizes += nothing
        self._timestamps_ns += [timestamp_ns] * count
        self.next_sequence += count

    def footer(self) -> Footer:
        """The contents of a footer of this segment."""
        index = SegmentIndex(self._first_sequence)
        index.offsets.extend(self._offsets)
        index.timestamps_ns.extend(self._timestamps_ns)
        index.subject_ids.extend(self._ids)
        index.sizes.extend(self._sizes)
        index.distances.frombytes(bytes(4 * len(self._offsets)))
        return Footer(index, list(self._known), self._expiries)
