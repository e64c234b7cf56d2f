"""The logs of all groups of a server, and their share in a turn and in the write-ahead files.

Every write-ahead file begins with the hard state and the snapshot mark of every group, so the last
word on a vote is always in the file that is written to, and an earlier file is needed for entries
alone. (A file that is begun on a full disk does without; the files from the last one with states on
stay then.) Files go oldest first, as soon as the snapshot marks cover their entries. A group that
gets no quorum cannot give its entries up: if they are few they are carried to the next file too, so
that one group does not hold back the files of all.

The work at the beginning of a file grows with the number of groups and no faster.
"""

from contextlib import suppress
from typing import Final, final

from headwater.base.invariants import check
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.wal import (
    FRAME_BYTES,
    GROUP_END,
    GROUP_STATE,
    AddedFrame,
    Redo,
    WriteAhead,
)
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupMode, GroupState, SnapshotMark, WrittenState
from headwater.store.groups.group_log import GroupLog, SaveNumbers, SaveTicket
from headwater.store.groups.written_group import WrittenGroup

CARRIED_BYTES_MAX: Final = 256 * 1024
"""Entries of one group that are carried to the next file. More of them hold their files."""

CARRIED_BYTES_IN_ALL_MAX: Final = 8 * 1024 * 1024
"""Entries of all groups that are carried to one file: an eighth of it."""


@final
class GroupLogs:
    """The logs by the identities of their groups."""

    __slots__ = ("_ahead", "_logs", "_states_file", "numbers", "offline", "start_number")

    def __init__(self, ahead: WriteAhead, start_number: int) -> None:
        self._ahead = ahead
        self._logs: dict[bytes, GroupLog] = {}
        # The number of the last file that begins with the states of all groups, or is the first
        # with a group.
        self._states_file = ahead.number
        self.numbers = SaveNumbers()
        self.start_number = start_number
        # The reason why nothing is written any more; empty if it is.
        self.offline = ""

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._logs

    def __getitem__(self, identity: bytes) -> GroupLog:
        return self._logs[identity]

    def identities(self) -> list[bytes]:
        """The identities of all groups."""
        return [*self._logs]

    # --- groups ---------------------------------------------------------------------------------

    def create(
        self,
        identity: bytes,
        mode: GroupMode,
        snapshot: SnapshotMark,
        state: GroupState,
        *,
        may_have_forgotten: bool = False,
    ) -> tuple[GroupLog, SaveTicket]:
        """Begin the log of a group; it is there when the ticket is covered.

        A member may have forgotten if its server was in the group before, and the store is another
        one or was emptied.
        """
        check(identity not in self._logs, "a group is created once")
        group = WrittenGroup()
        group.written = WrittenState(state, mode, self.start_number, may_have_forgotten)
        group.begin_at(snapshot)
        log = self.adopt(identity, group)
        return log, log.begin()

    def adopt(self, identity: bytes, written: WrittenGroup) -> GroupLog:
        """Have a group whose frames were found."""
        log = GroupLog(identity, written, self._ahead, self.numbers, self.start_number)
        if not self._logs:
            self._states_file = self._ahead.number
        self._logs[identity] = log
        self._ahead.frames_written = self._frames_written
        return log

    def remove(self, identity: bytes) -> SaveTicket:
        """Remove a group; it is gone when the ticket is covered."""
        del self._logs[identity]
        self._ahead.add(identity, GROUP_END, 0, 0, b"")
        self.numbers.saved += 1
        self.numbers.sync_wanted = self.numbers.saved
        return SaveTicket(self.numbers.saved, needs_sync=True)

    # --- turns ----------------------------------------------------------------------------------

    def _frames_written(self, number: int, start: int, frames: list[AddedFrame]) -> None:
        """Take note of frames that are now in a write-ahead file, one behind the other."""
        self.numbers.written = self.numbers.saved
        touched: dict[bytes, GroupLog] = {}
        for identity, kind, file, offset, data in frames:
            # A replicated stream has frames of its own under the identity of its group.
            log = self._logs.get(identity) if GROUP_STATE <= kind <= GROUP_END else None
            if log is not None:
                log.frame_written(kind, file, offset, data, (number, start))
                touched[identity] = log
            start += FRAME_BYTES + len(data)
        for log in touched.values():
            log.forget_recent()

    def want_sync(self) -> bool:
        """Have the next commit bring all portions to the disk. Returns whether one is missing."""
        numbers = self.numbers
        if numbers.synced < numbers.saved and not self.offline:
            numbers.sync_wanted = numbers.saved
        return numbers.sync_wanted > numbers.synced

    def confirm_synced(self, number: int) -> None:
        """Count the portions up to a number as being on the disk."""
        self.numbers.synced = max(self.numbers.synced, number)

    def go_offline(self, reason: str) -> None:
        """Confirm nothing any more: the write-ahead file has failed."""
        self.offline = self.offline or reason

    # --- write-ahead files ----------------------------------------------------------------------

    def begin_file(self, is_room_scarce: bool) -> None:
        """Begin the next write-ahead file with the states of all groups, durably.

        Without room for that a later write begins it, without the states. Raises OSError.
        """
        if not self._logs:
            return
        count = self.add_states()
        moved = [] if is_room_scarce else self._moved_frames()
        for frame in moved:
            self._ahead.add(*frame)
        try:
            self._ahead.begin_whole()
        except NoRoomError:
            self._ahead.withdraw_last(count + len(moved))
        else:
            self._states_file = self._ahead.number

    def carry_over(self, redos: dict[bytes, Redo]) -> None:
        """Begin a file with the states of all groups, and with nothing of streams but redos.

        Raises OSError.
        """
        self.add_states()
        self._ahead.carry_over(redos)
        self._states_file = self._ahead.number

    def add_states(self) -> int:
        """Keep the states of all groups for the next write. Returns the number of frames."""
        count = 0
        for log in self._logs.values():
            frames = log.state_frames()
            log.add_frames(frames)
            count += len(frames)
        return count

    def _moved_frames(self) -> list[AddedFrame]:
        """The frames of groups that would hold an old file once more, as far as they are small."""
        frames: list[AddedFrame] = []
        left = CARRIED_BYTES_IN_ALL_MAX
        for log in self.holding_files(before=self._ahead.number - 1):
            size = log.written_bytes
            if size <= min(left, CARRIED_BYTES_MAX) and log.is_written:
                with suppress(StoreError):
                    # A group that cannot be read keeps its files.
                    frames += log.whole_frames()
                    left -= size
        return frames

    @property
    def file_number(self) -> int:
        """The number of the write-ahead file that is written to."""
        return self._ahead.number

    def holding_files(self, before: int | None = None) -> list[GroupLog]:
        """The groups that need a file before one of a number, else before the present one.

        They release it by `compact`, when their entries are applied and durable elsewhere.
        """
        number = self._ahead.number if before is None else before
        return [
            log
            for log in self._logs.values()
            if log.first_file is not None and log.first_file < number
        ]

    def first_file(self) -> int | None:
        """The number of the first file that groups need; None without groups."""
        if not self._logs:
            return None
        found = [log.first_file for log in self._logs.values() if log.first_file is not None]
        return min((*found, self._states_file))
