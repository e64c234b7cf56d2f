"""The group commit of a store: one sync makes a turn of all its streams durable.

At the end of a turn the server calls `begin`, off its loop `sync`, and `finish` when that returned;
then the logs' `synced_entry` covers the turn. `begin_trim` and `finish_trim` stand around
`run_syncs` when the write-ahead file is to begin again.

When the write-ahead file meets the end of the disk, the entries wait until a trim, or the removal
of messages, has made room.
"""

from collections.abc import Iterable
from typing import final

from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.room import Room
from headwater.store.disk.wal import VOID_POINT, Redo, RedoPoint, WriteAhead
from headwater.store.errors import DiskFullError, OfflineError, StoreError
from headwater.store.groups.group_logs import GroupLogs
from headwater.store.log.file_log import FileLog
from headwater.store.upkeep.log_sync import LogSync


@final
class GroupCommit:
    """The streams of a store that are on the disk before an ack, and their commits."""

    __slots__ = (
        "_ahead",
        "_entries",
        "_folder",
        "_groups",
        "_groups_syncing",
        "_groups_wait",
        "_is_partial",
        "_logs",
        "_names",
        "_rolled",
        "_room",
        "_unopened",
        "_waiting",
    )

    def __init__(self, folder: str, ahead: WriteAhead, room: Room, groups: GroupLogs) -> None:
        """`folder` is the store's, for error texts."""
        self._folder = folder
        self._ahead = ahead
        self._room = room
        self._groups = groups
        # The last portion of work of groups that a commit makes durable, and whether portions wait
        # for room.
        self._groups_syncing = 0
        self._groups_wait = False
        self._logs: dict[str, FileLog] = {}
        # Names of the streams by identity, which is what the write-ahead file knows.
        self._names: dict[bytes, str] = {}
        # The last entry, by stream, that a commit makes durable; streams whose entries wait for
        # room; and the last entry of each stream in the files before the present one, None if there
        # are none.
        self._entries: dict[str, int] = {}
        self._waiting: list[str] = []
        self._rolled: dict[str, int] | None = None
        # Whether the trim that was begun leaves a stream out.
        self._is_partial = False
        # Entries of streams that cannot be opened, by identity: they are kept for another start.
        self._unopened: dict[bytes, Redo] = {}

    def add_stream(self, name: str, log: FileLog, applied: int, added: int) -> None:
        """Make a stream durable by its entries in the write-ahead file; it is on the disk so far.

        It has the effects of all entries up to `applied`; the file has those up to `added`.
        """
        log.durability.join_write_ahead(self._ahead, applied, added)
        self._logs[name] = log
        self._names[log.identity] = name

    def add_replica(
        self, name: str, log: FileLog, applied: int, known: RedoPoint | None = None
    ) -> None:
        """Make a stream durable by the entries of its group; it is on the disk so far.

        It has the effects of all entries up to `applied`, and the present write-ahead file has the
        redo point `known`. Raises StoreError.
        """
        self._logs[name] = log
        log.durability.join_group(self._ahead, applied, known)

    def hold_replica(self, name: str, log: FileLog, point: RedoPoint) -> None:
        """Keep the redo point of a replica that is offline."""
        self._logs[name] = log
        log.durability.hold_point(self._ahead, point)

    def void_replica(self, log: FileLog) -> None:
        """Have the files of a replica count for nothing, durably, also after a crash. Raises
        OSError."""
        log.durability.redo.begin_at(VOID_POINT)
        self.secure_frames()

    def remove_stream(self, name: str, log: FileLog) -> None:
        """Leave out a stream that is removed; it need not have been added."""
        self._logs.pop(name, None)
        self._names.pop(log.identity, None)
        self._entries.pop(name, None)

    def hold_stream(self, name: str, log: FileLog) -> None:
        """Keep the frames of a stream that is offline."""
        self._logs[name] = log

    def carry_over(self, redos: dict[bytes, Redo]) -> None:
        """Write redo points and entries of earlier write-ahead files, by stream, to this one,
        durably. Raises OSError."""
        self._ahead.carry_over(redos)

    def keep_unopened(self, identity: bytes, redo: Redo) -> None:
        """Keep the entries of a stream that cannot be opened."""
        self._unopened[identity] = redo

    def secure_frames(self) -> None:
        """Return when all frames so far are on the disk. Raises OSError."""
        self._ahead.must_write()
        self._ahead.sync()

    # --- commits -------------------------------------------------------------------------------

    def begin(self, uses_reserve: bool = False) -> bool:
        """Write this turn's entries to the write-ahead file; returns whether they are to be synced.

        Portions of work of groups are written when this returns, unless there is no room for them.
        The reserve of the disk is for entries that remove messages. Raises StoreError.
        """
        names = self._names
        touched = [names[each] for each in self._ahead.pop_touched() if each in names]
        # A commit that was begun and never finished counts for nothing.
        unfinished = (*self._entries, *self._waiting)
        logs = {name: self._logs[name] for name in (*unfinished, *touched) if name in self._logs}
        self._waiting = []
        self._entries = {
            name: log.durability.added_entry
            for name, log in logs.items()
            if log.durability.added_entry > log.durability.synced_entry and not log.offline
        }
        groups = self._groups.numbers
        self._groups_syncing, self._groups_wait = 0, False
        if not self._entries and not groups.is_waiting:
            return False
        if self._write_ahead(uses_reserve):
            if not self._entries and groups.sync_wanted <= groups.synced:
                return False
            self._groups_syncing = groups.written
            return True
        self._groups_wait = groups.is_waiting
        self._waiting, self._entries = [*self._entries], {}
        return False

    def _write_ahead(self, uses_reserve: bool) -> bool:
        """Write what is to be committed; False if the write-ahead file has no room for it."""
        try:
            try:
                self._ahead.write()
            except NoRoomError:
                self._room.mark_full()
                # Entries may be what makes room.
                if not (uses_reserve and self._room.release_reserve()):
                    return False
                self._ahead.write()
        except NoRoomError:
            return False
        except OSError as error:
            raise self._failed(error) from error
        return True

    def sync(self) -> None:
        """The one sync of a commit. May run on another thread. Raises StoreError."""
        try:
            self._ahead.sync()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OfflineError:
        """Take all streams offline: messages that were not confirmed may be lost for good, and
        later syncs would not tell."""
        reason = f"the write-ahead file failed: {error}"
        self._entries = {}
        for log in [*self._logs.values()]:
            log.go_offline(reason)
        self._groups.go_offline(reason)
        return OfflineError(f"{self._folder}: {reason}; restart the server to write again")

    def finish(self) -> None:
        """Count as durable what `begin` wrote, after `sync` has returned."""
        self._groups.confirm_synced(self._groups_syncing)
        for name, index in self._entries.items():
            log = self._logs.get(name)
            if log is not None:
                log.durability.confirm_entries(index)
        self._entries = {}

    def secure_entries(self, name: str) -> None:
        """Return when all entries of a stream so far are on the disk. Raises StoreError."""
        log = self._logs.get(name)
        if log is None or log.offline:
            raise StoreError(f"the stream {name} is offline")
        try:
            self.secure_frames()
        except NoRoomError as error:
            raise StoreError(f"the write-ahead file has no room: {error}") from error
        except OSError as error:
            raise self._failed(error) from error
        log.durability.confirm_entries(log.durability.added_entry)

    # --- trims ---------------------------------------------------------------------------------

    @property
    def is_trim_due(self) -> bool:
        """Whether the write-ahead file has become so large that it should begin again.

        On a disk without room any size is too large.
        """
        if self._rolled is not None and not self._ahead.is_full:
            return self._is_all_applied()
        return self._ahead.is_full or (self._room.is_full and self._ahead.has_frames)

    @property
    def has_waiting_entries(self) -> bool:
        """Whether there are entries for which the write-ahead file had no room."""
        return bool(self._waiting) or self._groups_wait

    def _is_all_applied(self) -> bool:
        """Whether the entries in the files before the present one are applied to the streams."""
        return all(
            self._logs[name].applied_entry >= index
            for name, index in (self._rolled or {}).items()
            if name in self._logs
        )

    def begin_trim(self) -> dict[str, LogSync]:
        """Let frames go to another file; work for `run_syncs`, then for `finish_trim`.

        While entries in the files before it are not applied there is none, and a trim is due again
        when they are.
        """
        if self._rolled is None or self._ahead.is_full:
            try:
                is_written = self._ahead.roll()
                for identity, redo in self._unopened.items():
                    self._ahead.add_redo(identity, redo)
                self._groups.begin_file(self._room.is_full)
            except OSError as error:
                raise self._failed(error) from error
            self._rolled = {
                name: log.durability.added_entry
                if is_written
                else max(log.synced_entry, self._entries.get(name, 0))
                for name, log in self._logs.items()
            }
        work = begin_syncs(self._logs) if self._is_all_applied() else {}
        self._is_partial = any(
            name not in work and not log.offline for name, log in self._logs.items()
        )
        return work

    def finish_trim(self, done: dict[str, LogSync]) -> None:
        """Remove the write-ahead files before the present one, if no stream needs them."""
        finish_syncs(self._logs, done)
        if any(log.offline and not log.is_replica for log in self._logs.values()):
            # Their only durable copy may be in there.
            self._rolled = None
            return
        for log in self._replicas():
            if log.offline:
                log.durability.redo.begin_at(log.durability.redo.named)
        if self._is_partial:
            # Entries are not applied, or a journal waits for room: a trim is due again.
            return
        rolled, self._rolled = self._rolled or {}, None
        first = self._groups.first_file()
        try:
            if first is not None and first < self._ahead.number:
                self._ahead.set_streams_apart()
            if rolled or self._unopened or self._groups:
                self._secure_redo_points()
            self._ahead.trim(first)
        except OSError as error:
            # The files are kept, and the next trim tries again.
            raise StoreError(f"cannot remove write-ahead files: {error}") from error
        drop_empty_segments(self._logs, rolled)

    def _secure_redo_points(self) -> None:
        """See to it that the files which are removed do not have the last word on where to begin
        again. Raises OSError."""
        try:
            self.secure_frames()
        except NoRoomError:
            # A single file goes with all that it has, and nothing in it is needed.
            is_needed = bool(self._unopened or self._groups or self._replicas())
            if is_needed or not self._ahead.is_one_old_file:
                raise

    def _replicas(self) -> list[FileLog]:
        return [log for log in self._logs.values() if log.is_replica]

    def remove_files(self) -> None:
        """Remove all write-ahead files: every stream was closed in order. Raises OSError.

        Entries that were not applied are kept for the next start, and so are groups and the redo
        points of replicas.
        """
        replicas = self._replicas()
        logs = self._logs.values()
        is_applied = all(log.applied_entry >= log.durability.added_entry for log in logs)
        if not is_applied or self._unopened:
            if self._groups or replicas:
                self.secure_frames()
            return
        self._ahead.roll()
        redos = {log.identity: Redo(log.durability.redo.named, True) for log in replicas}
        if self._groups:
            self._groups.carry_over(redos)
        elif redos:
            self._ahead.carry_over(redos)
        self._ahead.trim(self._groups.first_file())

    def close(self) -> None:
        """Release the write-ahead file."""
        self._ahead.close()


# --- syncs of many logs -------------------------------------------------------------------------


def begin_syncs(logs: dict[str, FileLog]) -> dict[str, LogSync]:
    """Work by stream for `run_syncs`, then for `finish_syncs`; none for logs on the disk."""
    work = {}
    for name, log in logs.items():
        if log.is_synced and not log.durability.has_entries:
            continue
        try:
            work[name] = log.begin_sync()
        except (OfflineError, DiskFullError):
            # The log was offline, or is from now on, and reports it itself; or its journal waits
            # for room.
            continue
    return work


def run_syncs(work: Iterable[LogSync]) -> None:
    """Wait for the disk. May run on another thread; `finish_syncs` tells what went wrong."""
    for each in work:
        each.run()


def finish_syncs(logs: dict[str, FileLog], done: dict[str, LogSync]) -> None:
    """Count as durable what the syncs have brought to the disk.

    Raises StoreError if some failed; those streams are offline, others go on.
    """
    problems = []
    for name, work in done.items():
        log = logs.get(name)
        if log is not None and not log.offline:
            try:
                log.finish_sync(work)
            except StoreError as error:
                problems.append(str(error))
    if problems:
        raise StoreError("; ".join(problems))


def drop_empty_segments(logs: dict[str, FileLog], names: Iterable[str]) -> None:
    """Remove the files of segments without messages, of logs that leave them while they apply
    entries. Raises StoreError if some failed; others go on."""
    problems = []
    for name in names:
        log = logs.get(name)
        if log is not None and log.durability.has_entries:
            try:
                log.drop_empty_segments()
            except StoreError as error:
                problems.append(str(error))
    if problems:
        raise StoreError("; ".join(problems))
