"""The log of one consensus group.

A caller saves a portion of work: a snapshot mark that replaces the log, the hard state, entries.
The portion is kept for the next write of the server's write-ahead file, which all groups and
streams share, and has a ticket. A reply that rests on the portion leaves when `SaveNumbers` covers
the ticket. The fields of a log show portions at once, whether they are written yet or not.

    snapshot ── written, on the disk only ── recent: in memory ────────────── last_index
                                             written          kept for the next write

A part of the log stays in memory, bounded in bytes; the rest is read back from the write-ahead
files. A group of mode MEMORY has all of its entries in memory and nothing but its hard state on
the disk.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from headwater.base.invariants import check
from headwater.store.disk.format import FormatError
from headwater.store.disk.wal import (
    GROUP_CUT,
    GROUP_ENTRY,
    GROUP_STATE,
    AddedFrame,
    WriteAhead,
)
from headwater.store.errors import StoreError
from headwater.store.groups.frames import (
    GroupEntry,
    GroupMode,
    GroupState,
    SnapshotMark,
    WrittenState,
    decode_entry,
    entry_frame,
    snapshot_frame,
    state_frame,
)
from headwater.store.groups.written_group import NO_TERM, WrittenGroup

RECENT_BYTES_MAX: Final = 64 * 1024
"""Bytes of written entries that a log keeps in memory. The consensus core keeps its own part for
peers, and shares the bytes of entries with this one."""


class SaveTicket(NamedTuple):
    """A portion of work that was saved: its number, and whether it has to reach the disk."""

    number: int
    needs_sync: bool


@final
class SaveNumbers:
    """The portions of all groups by number: saved, written, synced."""

    __slots__ = ("saved", "sync_wanted", "synced", "written")

    def __init__(self) -> None:
        self.saved = self.written = self.synced = 0
        # The last portion that has to reach the disk.
        self.sync_wanted = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a portion is to be written or synced."""
        return self.saved > self.written or self.sync_wanted > self.synced

    def covers(self, ticket: SaveTicket) -> bool:
        """Whether replies that rest on a portion may leave."""
        return ticket.number <= (self.synced if ticket.needs_sync else self.written)


@final
class GroupLog:
    """The log of one group. Use `GroupLogs` to create and find one."""

    __slots__ = (
        "_ahead",
        "_numbers",
        "_on_disk",
        "_recent",
        "_recent_bytes",
        "_saved_start",
        "_start_number",
        "identity",
        "last_index",
        "may_have_forgotten",
        "mode",
        "snapshot",
        "state",
    )

    def __init__(
        self,
        identity: bytes,
        on_disk: WrittenGroup,
        ahead: WriteAhead,
        numbers: SaveNumbers,
        start_number: int,
    ) -> None:
        written = on_disk.written
        self.identity = identity
        self._ahead = ahead
        self._numbers = numbers
        self._on_disk = on_disk
        self._start_number = start_number
        # The start in which the hard state was saved: a start that only says it again has not been
        # counted yet.
        self._saved_start = written.start_number
        # Entries up to the last one; those that are not written yet are all among them.
        self._recent: list[GroupEntry] = []
        self._recent_bytes = 0
        self.mode = written.mode
        self.state = written.state
        self.snapshot = on_disk.snapshot
        self.last_index = on_disk.entries.last_index
        # Whether the member may have forgotten votes or confirmations, and the caller has saved no
        # hard state since the start that found it.
        self.may_have_forgotten = written.is_doubtful

    # --- looking --------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """The index of the first entry that is there, or will be."""
        return self.snapshot.index + 1

    @property
    def _recent_first(self) -> int:
        return self.last_index - len(self._recent) + 1

    def term_at(self, index: int) -> int:
        """The term of an entry or of the snapshot, or NO_TERM."""
        if index == self.snapshot.index:
            return self.snapshot.term
        if not self.snapshot.index < index <= self.last_index:
            return NO_TERM
        if index >= self._recent_first:
            return self._recent[index - self._recent_first].term
        return self._on_disk.entries.term_at(index)

    def entries(self, first: int, last: int, bytes_max: int) -> list[GroupEntry]:
        """Entries of a range that includes both ends.

        Returns the longest beginning of the range whose data fits into `bytes_max`, at least one
        entry. Raises StoreError.
        """
        check(self.snapshot.index < first <= last <= self.last_index, "a range within the log")
        found: list[GroupEntry] = []
        left = bytes_max
        for index in range(first, last + 1):
            at = index - self._recent_first
            entry = self._recent[at] if at >= 0 else self._read_back(index)
            left -= len(entry.data)
            if left < 0 and found:
                break
            found.append(entry)
        return found

    def _read_back(self, index: int) -> GroupEntry:
        place = self._on_disk.entries.place_of(index)
        try:
            frame = self._ahead.read_frame(*place)
            is_right = (frame.identity, frame.kind) == (self.identity, GROUP_ENTRY)
            if not is_right or frame.file != index:
                raise FormatError("another frame is in its place")
            return decode_entry(index, frame.offset, frame.data)
        except (OSError, FormatError) as error:
            raise StoreError(
                f"entry {index} of group {self.identity.hex()} cannot be read: {error}"
            ) from error

    # --- saving ---------------------------------------------------------------------------------

    def begin(self) -> SaveTicket:
        """Keep the first hard state and snapshot mark of a group for the next write."""
        return self._keep(self.state_frames(replaces=True), needs_sync=True)

    def save(
        self,
        *,
        snapshot: SnapshotMark | None = None,
        state: GroupState | None = None,
        entries: Sequence[GroupEntry] = (),
        must_sync: bool = False,
    ) -> SaveTicket:
        """Keep a portion of work for the next write, in this order.

        A snapshot mark replaces the whole log: the state that it stands for is durable already.
        Entries are consecutive and replace all from the first of them on. A changed term, vote or
        recovery number is always synced.
        """
        frames: list[AddedFrame] = []
        needs_sync = must_sync
        if snapshot is not None:
            needs_sync = True
            self._begin_at(snapshot)
            if self.mode is not GroupMode.MEMORY:
                frames.append(snapshot_frame(self.identity, snapshot, replaces=True))
        if state is not None:
            needs_sync |= self.may_have_forgotten or _is_promise(self.state, state)
            self.state = state
            self._saved_start = self._start_number
            self.may_have_forgotten = False
            frames.append(self._state_frame())
        if entries:
            needs_sync |= self.mode is GroupMode.SYNCED
            frames += self._append(entries)
        return self._keep(frames, needs_sync)

    def _begin_at(self, snapshot: SnapshotMark) -> None:
        self.snapshot = snapshot
        self.last_index = snapshot.index
        self._recent, self._recent_bytes = [], 0

    def _append(self, entries: Sequence[GroupEntry]) -> list[AddedFrame]:
        """Take in entries; those that the snapshot mark covers are there in another form."""
        entries = [entry for entry in entries if entry.index > self.snapshot.index]
        if not entries:
            return []
        first = entries[0].index
        check(first <= self.last_index + 1, "no hole in the log")
        self._cut(first)
        before = self.term_at(first - 1)
        frames: list[AddedFrame] = []
        for entry in entries:
            check(entry.index == self.last_index + 1, "entries follow each other")
            check(entry.term >= before, "terms never fall")
            if self.mode is not GroupMode.MEMORY:
                frames.append(entry_frame(self.identity, entry, before))
            before = entry.term
            self._recent.append(entry)
            self._recent_bytes += len(entry.data)
            self.last_index = entry.index
        return frames

    def _cut(self, first: int) -> None:
        at = max(first - self._recent_first, 0)
        self._recent_bytes -= sum(len(entry.data) for entry in self._recent[at:])
        del self._recent[at:]
        self.last_index = min(self.last_index, first - 1)

    def truncate(self, first: int) -> SaveTicket:
        """Drop the entries from an index on, none of which is committed."""
        check(first > self.snapshot.index, "a snapshot is not taken back")
        self._cut(first)
        if self.mode is GroupMode.MEMORY:
            return self._keep([], needs_sync=False)
        frame = (self.identity, GROUP_CUT, first, 0, b"")
        return self._keep([frame], self.mode is GroupMode.SYNCED)

    def compact(self, index: int, membership: bytes, lease_ns: int = 0) -> None:
        """Give up the entries up to an index: their effects are durable elsewhere.

        They are read no more; the write-ahead files that hold them go with a later trim.
        """
        check(self.snapshot.index <= index <= self.last_index, "a snapshot within the log")
        if index == self.snapshot.index:
            return
        self.snapshot = SnapshotMark(index, self.term_at(index), membership, lease_ns)
        if self.mode is not GroupMode.MEMORY:
            is_written = index <= self._on_disk.entries.last_index
            check(is_written, "entries that are given up were written")
            self._keep([snapshot_frame(self.identity, self.snapshot, replaces=False)], False)
        self._drop_recent(index)

    def set_mode(self, mode: GroupMode) -> SaveTicket:
        """Save entries otherwise from now on. Nothing may be saved before the ticket is covered."""
        check(GroupMode.MEMORY not in (self.mode, mode), "entries stay in memory or on the disk")
        self.mode = mode
        return self._keep([self._state_frame()], needs_sync=True)

    def _keep(self, frames: list[AddedFrame], needs_sync: bool) -> SaveTicket:
        numbers = self._numbers
        needs_sync &= bool(frames)
        if frames:
            self.add_frames(frames)
            numbers.saved += 1
            if needs_sync:
                numbers.sync_wanted = numbers.saved
        return SaveTicket(numbers.saved, needs_sync)

    def add_frames(self, frames: list[AddedFrame]) -> None:
        """Keep frames for the next write that say nothing new."""
        for frame in frames:
            self._ahead.add(*frame)

    # --- writing --------------------------------------------------------------------------------

    def _state_frame(self) -> AddedFrame:
        written = WrittenState(self.state, self.mode, self._saved_start, self.may_have_forgotten)
        return state_frame(self.identity, written)

    def state_frames(self, replaces: bool = False) -> list[AddedFrame]:
        """Frames that say all that there is to say of the group, except for its entries.

        With `replaces` no entry that was written before counts any more.
        """
        if self.mode is GroupMode.MEMORY:
            return [self._state_frame()]
        return [self._state_frame(), snapshot_frame(self.identity, self.snapshot, replaces)]

    def whole_frames(self) -> list[AddedFrame]:
        """Frames that stand for all frames of the group so far. Raises StoreError."""
        frames = self.state_frames(replaces=True)
        before = self.snapshot.term
        if self.mode is GroupMode.MEMORY:
            return frames
        for index in range(self.first_index, self.last_index + 1):
            (entry,) = self.entries(index, index, 0)
            frames.append(entry_frame(self.identity, entry, before))
            before = entry.term
        return frames

    def frame_written(
        self, kind: int, file: int, offset: int, data: bytes, place: tuple[int, int]
    ) -> None:
        """Take note of the place of a frame. The hard state is read again by a start only."""
        if kind != GROUP_STATE:
            self._on_disk.take_frame(kind, file, offset, data, place)

    def forget_recent(self) -> None:
        """Drop entries from memory if there are too many, after all of them have been written."""
        if self.mode is GroupMode.MEMORY or self._recent_bytes <= RECENT_BYTES_MAX:
            return
        at = 0
        # Half of the limit stays, so that the list is not shortened for every entry.
        while self._recent_bytes > RECENT_BYTES_MAX // 2:
            self._recent_bytes -= len(self._recent[at].data)
            at += 1
        del self._recent[:at]

    def _drop_recent(self, last: int) -> None:
        """Drop entries from memory, up to one that is not needed any more."""
        at = max(last - self._recent_first + 1, 0)
        self._recent_bytes -= sum(len(entry.data) for entry in self._recent[:at])
        del self._recent[:at]

    @property
    def first_file(self) -> int | None:
        """The number of the first write-ahead file with an entry that counts; None if there is
        none."""
        return self._on_disk.entries.first_file

    def last_index_before(self, number: int) -> int:
        """The index of the last entry in write-ahead files before one of a number; that of an entry
        that is given up if there is none."""
        return self._on_disk.entries.last_index_before(number)

    @property
    def written_bytes(self) -> int:
        """The bytes of entries that count in write-ahead files."""
        return self._on_disk.entries.byte_count

    @property
    def byte_count(self) -> int:
        """The bytes of all entries that were written, or of those in memory if none ever are."""
        return self._recent_bytes if self.mode is GroupMode.MEMORY else self.written_bytes

    @property
    def is_written(self) -> bool:
        """Whether all entries are in write-ahead files."""
        return self.last_index == self._on_disk.entries.last_index


def _is_promise(before: GroupState, after: GroupState) -> bool:
    """Whether a hard state differs from another one in more than the commit index."""
    return before._replace(commit=0) != after._replace(commit=0)
