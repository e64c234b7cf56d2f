"""The group commit of a store: one sync makes a turn of all its streams durable.

At the end of a turn the server calls `begin`, off its loop `sync`, and `finish` when that returned;
then the logs' `synced_sequence` covers the turn. `begin_trim` and `finish_trim` stand around
`run_syncs` when the write-ahead file is to begin again.

When the write-ahead file meets the end of the disk, a commit syncs the files of the streams
themselves, in which the messages are.
"""

from collections.abc import Iterable
from typing import final

from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.room import Room
from headwater.store.disk.wal import WriteAhead
from headwater.store.errors import OfflineError, StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.upkeep.log_sync import LogSync


@final
class GroupCommit:
    """The streams of a store that are on the disk before an ack, and their commits."""

    __slots__ = ("_ahead", "_committing", "_folder", "_logs", "_names", "_room", "_syncing")

    def __init__(self, folder: str, ahead: WriteAhead, room: Room) -> None:
        """`folder` is the store's, for error texts."""
        self._folder = folder
        self._ahead = ahead
        self._room = room
        self._logs: dict[str, FileLog] = {}
        # Names of the streams by identity, which is what the write-ahead file knows.
        self._names: dict[bytes, str] = {}
        # Last sequence and count of journal writes, by stream, that a commit makes durable.
        self._committing: dict[str, tuple[int, int]] = {}
        # The syncs by stream of a commit that goes without the write-ahead file; else None.
        self._syncing: dict[str, LogSync] | None = None

    def add_stream(self, name: str, log: FileLog) -> None:
        """Make a stream durable by way of the write-ahead file; it is on the disk so far."""
        log.join_write_ahead(self._ahead)
        self._logs[name] = log
        self._names[log.identity] = name

    def remove_stream(self, name: str, log: FileLog) -> None:
        """Leave out a stream that is removed; it need not have been added."""
        self._logs.pop(name, None)
        self._names.pop(log.identity, None)
        self._committing.pop(name, None)

    # --- commits -------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Write this turn's bytes to the write-ahead file; returns whether there are any.

        Raises StoreError.
        """
        names = self._names
        touched = [names[each] for each in self._ahead.pop_touched() if each in names]
        # A commit that was begun and never finished counts for nothing.
        logs = {name: self._logs[name] for name in (*self._committing, *touched)}
        self._committing = {
            name: (log.last_sequence, log.journal.writes)
            for name, log in logs.items()
            if not log.durability.is_synced and not log.offline
        }
        if not self._committing:
            return False
        if self._syncing is None and self._write_ahead():
            return True
        self._ahead.leave_out()
        self._syncing = begin_syncs({name: logs[name] for name in self._committing})
        return True

    def _write_ahead(self) -> bool:
        """Write what is to be committed; False if the write-ahead file has no room for it."""
        try:
            self._ahead.write()
        except NoRoomError:
            self._room.mark_full()
            return False
        except OSError as error:
            raise self._failed(error) from error
        return True

    def sync(self) -> None:
        """The one sync of a commit. May run on another thread. Raises StoreError."""
        if self._syncing is not None:
            run_syncs(self._syncing.values())
            return
        try:
            self._ahead.sync()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OfflineError:
        """Take all streams offline: messages that were not confirmed may be lost for good, and
        later syncs would not tell."""
        reason = f"the write-ahead file failed: {error}"
        self._committing = {}
        for log in [*self._logs.values()]:
            log.go_offline(reason)
        return OfflineError(f"{self._folder}: {reason}; restart the server to write again")

    def finish(self) -> None:
        """Count as durable what `begin` wrote, after `sync` has returned.

        Raises StoreError if it is not, of some streams; those are offline, and others go on.
        """
        if self._syncing is not None:
            done, self._syncing, self._committing = self._syncing, None, {}
            finish_syncs(self._logs, done)
            return
        for name, (sequence, journal_writes) in self._committing.items():
            log = self._logs.get(name)
            if log is not None:
                log.durability.confirm(sequence, journal_writes)
        self._committing = {}

    # --- trims ---------------------------------------------------------------------------------

    @property
    def is_trim_due(self) -> bool:
        """Whether the write-ahead file has become so large that it should begin again.

        On a disk without room any size is too large.
        """
        return self._ahead.is_full or (self._room.is_full and self._ahead.has_frames)

    def begin_trim(self) -> dict[str, LogSync]:
        """Let frames go to another file; work for `run_syncs`, then for `finish_trim`."""
        try:
            self._ahead.roll()
        except OSError as error:
            raise self._failed(error) from error
        return begin_syncs(self._logs)

    def finish_trim(self, done: dict[str, LogSync]) -> None:
        """Remove the write-ahead files before the present one, if no stream needs them."""
        finish_syncs(self._logs, done)
        if any(log.offline for log in self._logs.values()):
            # Their only durable copy may be in there.
            return
        try:
            self._ahead.trim()
        except OSError as error:
            # The files are kept, and the next trim tries again.
            raise StoreError(f"cannot remove write-ahead files: {error}") from error

    def remove_files(self) -> None:
        """Remove all write-ahead files: every stream was closed in order. Raises OSError."""
        self._ahead.roll()
        self._ahead.trim()

    def close(self) -> None:
        """Release the write-ahead file."""
        self._ahead.close()


# --- syncs of many logs -------------------------------------------------------------------------


def begin_syncs(logs: dict[str, FileLog]) -> dict[str, LogSync]:
    """Work by stream for `run_syncs`, then for `finish_syncs`; none for logs on the disk."""
    work = {}
    for name, log in logs.items():
        if log.is_synced and not log.durability.uses_write_ahead:
            continue
        try:
            work[name] = log.begin_sync()
        except OfflineError:
            # The log was offline, or is from now on, and reports it itself.
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
