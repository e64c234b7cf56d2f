"""A log's index as it was at one moment, copied bit by bit while it goes on changing.

Copying the index of ten million messages at once would stop everything for a tenth of a second. So
it is copied in pieces, with other work in between: what is about to change and is not copied yet is
noted as it is, and put back into the copy. Together the pieces are the index of the moment at which
the snapshot was begun.

Few things change in place: whether there is a message at a position, how far away the next one of
its subject is, and what is known of a subject. All else only grows. When ids or sequences get
another meaning the snapshot is spoilt, and of no use.

It belongs to one thread, the log's.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, final

from headwater.store.index.segment_index import SegmentIndex
from headwater.store.index.subject_table import SubjectTable

_DISTANCE_BYTES: Final = 4


@final
class SegmentSnapshot:
    """One segment as it was."""

    __slots__ = (
        "_distances_before",
        "_is_linked",
        "_offsets_before",
        "_segment",
        "count",
        "dead_bytes",
        "first_sequence",
        "live",
        "live_bytes",
    )

    def __init__(self, segment: SegmentIndex, is_linked: bool) -> None:
        self._segment = segment
        self._is_linked = is_linked
        self.first_sequence = segment.first_sequence
        self.count = len(segment.offsets)
        self.live = segment.live
        self.live_bytes = segment.live_bytes
        self.dead_bytes = segment.dead_bytes
        # Values at positions that have changed since; None once that column is copied.
        self._offsets_before: dict[int, int] | None = {}
        self._distances_before: dict[int, int] | None = {}

    def note_offset(self, position: int) -> None:
        """A message is about to go."""
        if self._offsets_before is not None and position < self.count:
            self._offsets_before.setdefault(position, self._segment.offsets[position])

    def note_distance(self, position: int) -> None:
        """A message is about to have another one follow it on its subject."""
        if self._distances_before is not None and position < self.count:
            self._distances_before.setdefault(position, self._segment.distances[position])

    def columns(self) -> "Iterable[bytes]":
        """Copies of the columns, as `SegmentIndex.columns` has them, each made when asked for."""
        segment, count = self._segment, self.count
        before, self._offsets_before = self._offsets_before or {}, None
        yield _copy(segment.offsets, count, before)
        yield _copy(segment.timestamps_ns, count, {})
        yield _copy(segment.subject_ids, count, {})
        yield _copy(segment.sizes, count, {})
        before, self._distances_before = self._distances_before or {}, None
        if self._is_linked:
            yield _copy(segment.distances, count, before)
        else:
            yield bytes(_DISTANCE_BYTES * count)


@final
class IndexSnapshot:
    """All segments and subjects as they were. Made by `LogIndex.begin_snapshot`."""

    __slots__ = (
        "_before",
        "_starts",
        "_subjects",
        "_subjects_copied",
        "is_linked",
        "is_spoilt",
        "segments",
        "subject_count",
    )

    def __init__(
        self, segments: list[SegmentIndex], subjects: SubjectTable, is_linked: bool
    ) -> None:
        self.segments = [SegmentSnapshot(segment, is_linked) for segment in segments]
        self._starts = [segment.first_sequence for segment in segments]
        # Whether it was known how far apart the messages of each subject are.
        self.is_linked = is_linked
        self._subjects = subjects
        self.subject_count = len(subjects.names)
        self._subjects_copied = 0
        # First, last and count of subjects that have changed since, by id.
        self._before: dict[int, tuple[int, int, int]] = {}
        self.is_spoilt = False

    # --- what is about to change ---------------------------------------------------------------

    def note_subjects(self, ids: Iterable[int]) -> None:
        """Subjects are about to get more messages."""
        lasts = self._subjects.lasts
        for sid in ids:
            self._note_subject(sid)
            last = lasts[sid]
            number = bisect_right(self._starts, last) - 1
            if last and number >= 0:
                segment = self.segments[number]
                segment.note_distance(last - segment.first_sequence)

    def note_removal(self, sid: int, sequence: int) -> None:
        """A message is about to go."""
        self._note_subject(sid)
        number = bisect_right(self._starts, sequence) - 1
        if number >= 0:
            segment = self.segments[number]
            segment.note_offset(sequence - segment.first_sequence)

    def _note_subject(self, sid: int) -> None:
        if self._subjects_copied <= sid < self.subject_count and sid not in self._before:
            subjects = self._subjects
            self._before[sid] = subjects.firsts[sid], subjects.lasts[sid], subjects.counts[sid]

    # --- copies --------------------------------------------------------------------------------

    def next_subjects(self, count_max: int) -> "tuple[list[bytes], tuple[array[int], ...]]":
        """Names of the next subjects by id, and their firsts, lasts and counts."""
        begin = self._subjects_copied
        end = min(begin + count_max, self.subject_count)
        subjects = self._subjects
        columns = subjects.firsts[begin:end], subjects.lasts[begin:end], subjects.counts[begin:end]
        self._subjects_copied = end
        for sid in [sid for sid in self._before if sid < end]:
            for column, value in zip(columns, self._before.pop(sid), strict=True):
                column[sid - begin] = value
        return subjects.names[begin:end], columns


def _copy(column: "array[int]", count: int, before: dict[int, int]) -> bytes:
    """The first values of a column, with some as they were before."""
    if not before:
        return memoryview(column)[:count].tobytes()
    copy = column[:count]
    for position, value in before.items():
        copy[position] = value
    return copy.tobytes()
