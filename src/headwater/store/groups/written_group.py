"""A group as the write-ahead files have it: the result of its frames, in the order of writing.

The frames that a start finds and those that a process has just written are taken in by one
function, so a log is after a crash what it was before, up to the frames that reached the disk.

Write-ahead files are removed oldest first, as soon as a snapshot mark covers their entries, so the
first frames that a start finds may be entries that follow nothing. They begin another run, and the
last snapshot mark says which run is the log. Entries that follow no run after that are behind
damage.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple, final

from headwater.base.invariants import check
from headwater.store.disk.format import FormatError
from headwater.store.disk.wal import (
    FRAME_BYTES,
    GROUP_CUT,
    GROUP_ENTRY,
    GROUP_SNAPSHOT,
    GROUP_STATE,
)
from headwater.store.groups.frames import (
    GroupMode,
    GroupState,
    SnapshotMark,
    WrittenState,
    decode_snapshot,
    decode_state,
    term_before,
)

# A place is the number of a write-ahead file and an offset in it; a file is 64 MiB and one write.
_OFFSET_BITS: Final = 36
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1

NO_TERM: Final = -1
"""The term of an entry that is not there. Equal to the term of no entry."""


_NOTHING_WRITTEN: Final = WrittenState(GroupState(), GroupMode.WRITTEN, 0, is_doubtful=True)


class FramePlace(NamedTuple):
    """The place of a frame: the number of the file, the offset in it, the length."""

    number: int
    offset: int
    length: int


@final
class EntryRun:
    """Places and terms of consecutive entries behind an entry that may be gone."""

    __slots__ = (
        "_lengths",
        "_places",
        "_run_first",
        "_run_term",
        "base_index",
        "byte_count",
    )

    def __init__(self, base_index: int, base_term: int) -> None:
        self.base_index = base_index
        # Packed, since there may be a million entries.
        self._places = array("Q")
        self._lengths = array("I")
        # The first indexes of stretches of entries of one term; the first one is that of the base.
        self._run_first = [base_index]
        self._run_term = [base_term]
        self.byte_count = 0

    @property
    def last_index(self) -> int:
        """The index of the last entry, or of the base."""
        return self.base_index + len(self._places)

    @property
    def last_term(self) -> int:
        """The term of the last entry, or of the base."""
        return self._run_term[-1]

    def term_at(self, index: int) -> int:
        """The term of an entry or of the base, or NO_TERM."""
        if not self.base_index <= index <= self.last_index:
            return NO_TERM
        return self._run_term[bisect_right(self._run_first, index) - 1]

    def place_of(self, index: int) -> FramePlace:
        """The place of an entry."""
        at = index - self.base_index - 1
        place = self._places[at]
        return FramePlace(place >> _OFFSET_BITS, place & _OFFSET_MASK, self._lengths[at])

    @property
    def first_file(self) -> int | None:
        """The number of the file that has the first entry; None without entries.

        Entries are in the order in which they were written, so no other is in an earlier file.
        """
        return self._places[0] >> _OFFSET_BITS if self._places else None

    def last_index_before(self, number: int) -> int:
        """The index of the last entry in files before one of a number, or of the base."""
        return self.base_index + bisect_left(self._places, max(number, 0) << _OFFSET_BITS)

    def append(self, term: int, place: FramePlace) -> None:
        """Add the entry that follows the last one."""
        check(place.offset <= _OFFSET_MASK, "an offset in a write-ahead file")
        if term != self._run_term[-1]:
            self._run_first.append(self.last_index + 1)
            self._run_term.append(term)
        self._places.append(place.number << _OFFSET_BITS | place.offset)
        self._lengths.append(place.length)
        self.byte_count += place.length

    def cut(self, first: int) -> None:
        """Drop all entries from an index on."""
        if first > self.last_index:
            return
        at = max(first - self.base_index - 1, 0)
        self.byte_count -= sum(self._lengths[at:])
        del self._places[at:], self._lengths[at:]
        while len(self._run_first) > 1 and self._run_first[-1] >= first:
            self._run_first.pop()
            self._run_term.pop()

    def drop_to(self, index: int) -> None:
        """Drop the entries up to an index, which becomes the base."""
        check(self.base_index <= index <= self.last_index, "a base within the run")
        count = index - self.base_index
        self.byte_count -= sum(self._lengths[:count])
        del self._places[:count], self._lengths[:count]
        at = bisect_right(self._run_first, index) - 1
        del self._run_first[:at], self._run_term[:at]
        self._run_first[0] = self.base_index = index


@final
class WrittenGroup:
    """The frames of one group, taken together."""

    __slots__ = ("_has_snapshot", "_runs", "has_gap", "snapshot", "written")

    def __init__(self) -> None:
        # The hard state that was written last; until one is found the member knows nothing.
        self.written = _NOTHING_WRITTEN
        self.snapshot = SnapshotMark()
        self._has_snapshot = False
        # More than one only while frames are found again.
        self._runs = [EntryRun(0, 0)]
        # Whether something is missing, or is no frame of a group.
        self.has_gap = False

    @property
    def entries(self) -> EntryRun:
        """The entries that were written last."""
        return self._runs[-1]

    def take_frame(
        self, kind: int, file: int, offset: int, data: bytes, place: tuple[int, int]
    ) -> None:
        """Take in a frame that was written behind all before it.

        `file`, `offset` and `data` are its fields; its place is the number of a write-ahead file
        and the offset in that file.
        """
        try:
            if kind == GROUP_ENTRY:
                found = FramePlace(*place, FRAME_BYTES + len(data))
                self._take_entry(file, offset, term_before(data), found)
            elif kind == GROUP_STATE:
                self.written = decode_state(file, offset, data)
            elif kind == GROUP_SNAPSHOT:
                self._take_snapshot(*decode_snapshot(file, offset, data))
            elif kind == GROUP_CUT:
                self._drop_runs(file)
                self.entries.cut(file)
        except FormatError:
            self.has_gap = True

    def _drop_runs(self, index: int) -> None:
        """Drop the runs that are wholly at or behind an index."""
        while len(self._runs) > 1 and self._runs[-1].base_index >= index:
            self._runs.pop()

    def _take_entry(self, index: int, term: int, before: int, place: FramePlace) -> None:
        self._drop_runs(index)
        run = self.entries
        if index <= run.base_index:
            return
        run.cut(index)
        if index != run.last_index + 1 or run.last_term != before:
            run = EntryRun(index - 1, before)
            self._runs.append(run)
        run.append(term, place)

    def _take_snapshot(self, mark: SnapshotMark, replaces: bool) -> None:
        self._has_snapshot = True
        if mark == self.snapshot and not replaces:
            # The beginning of a file says again what is known.
            return
        self.snapshot = mark
        run = self._runs[0]
        if replaces or (len(self._runs) == 1 and run.last_index == run.base_index):
            self.begin_at(mark)
        elif len(self._runs) == 1 and run.term_at(mark.index) == mark.term:
            run.drop_to(mark.index)

    @property
    def is_begun(self) -> bool:
        """Whether the frames by which a group begins are there, which are parts of one write."""
        is_in_memory = self.written.mode is GroupMode.MEMORY
        return self.written is not _NOTHING_WRITTEN and (self._has_snapshot or is_in_memory)

    def settle(self) -> None:
        """Choose the entries that follow the snapshot mark, after all frames were found."""
        mark = self.snapshot
        chosen = EntryRun(mark.index, mark.term)
        behind = self._runs
        for at, run in enumerate(self._runs):
            if run.term_at(mark.index) == mark.term:
                chosen, behind = run, self._runs[at + 1 :]
                chosen.drop_to(mark.index)
                break
        self.has_gap |= any(run.last_index > mark.index for run in behind)
        self._runs = [chosen]
        state = self.written.state
        # A commit index is written behind the entries that it covers.
        self.has_gap |= state.commit > chosen.last_index
        if self.written is _NOTHING_WRITTEN or state.term < chosen.last_term:
            # Each entry is written behind a hard state of its term, so that one is damaged. A
            # snapshot mark is written before it: the power may have come between the two.
            has_entries = chosen.last_index > chosen.base_index
            self.has_gap |= has_entries or self.written is _NOTHING_WRITTEN
            state = GroupState(chosen.last_term, "", state.commit, state.recovery)
            self.written = self.written._replace(state=state)

    def begin_at(self, mark: SnapshotMark) -> None:
        """Begin with an empty log behind a snapshot."""
        self.snapshot = mark
        self._runs = [EntryRun(mark.index, mark.term)]
