"""The sync driver: when the store is synced to disk, off the loop.

For streams that must be on disk before an ack, one sync at a time is under way; everything that is
decided meanwhile waits for the next one, however many streams it belongs to. That is group commit:
the busier the server, the more messages share a sync. The driver asks for a commit, and the turn of
the server begins it when everything of the turn is decided. Other streams are synced at intervals,
and those that may keep messages in memory for a moment are written a moment later.

The creations and deletions of streams, which are in the catalogue of the store, take part in
these commits: one wait covers both files.

Only the wait for the disk is off the loop; the store prepares the work and completes it on the
loop. Commits continue while the streams' own files are synced.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.group_commit import run_syncs
from headwater.store.log.message_log import StoreError
from headwater.store.store import Store
from headwater.store.upkeep.log_sync import LogSync

T = TypeVar("T")

# The time for which a message of an ASYNC stream may be in memory alone.
FLUSH_S: Final = 0.010


@final
class SyncDriver:
    """Decides when a store syncs. `committed` is called after each group commit, and `want_commit`
    has `commit` called at the end of the turn.

    A store that fails takes its streams offline itself; `failed` is called with the reason.
    `no_room` is called when the write-ahead file has no room for entries: those with messages have
    to be withdrawn; with True, all that somebody waits for.
    """

    __slots__ = (
        "_committed",
        "_failed",
        "_flush_planned",
        "_interval_s",
        "_is_retried",
        "_no_room",
        "_offloaded",
        "_scheduler",
        "_store",
        "_syncing",
        "_timer",
        "_trimming",
        "_want_commit",
        "_wanted",
    )

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        interval_s: float,
        want_commit: Callable[[], object],
        committed: Callable[[], object],
        failed: Callable[[str], object],
        no_room: Callable[[bool], object],
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._interval_s = interval_s
        self._want_commit = want_commit
        self._committed = committed
        self._failed = failed
        self._no_room = no_room
        self._syncing = False
        # Whether entries without room were tried again after a trim.
        self._is_retried = False
        self._offloaded = 0
        self._wanted = False
        self._trimming = False
        self._flush_planned = False
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Sync every interval from now on; after a killed process, begin at once.

        The last interval of that process is over, or soon will be.
        """
        self._wait(0.0 if self._store.was_unclean else self._interval_s)

    def _wait(self, delay_s: float) -> None:
        self._timer = self._scheduler.call_later(delay_s, self._interval_passed)

    def stop(self) -> None:
        """Start no further sync."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wanted = False

    @property
    def is_busy(self) -> bool:
        """Whether work is under way off the loop: the store must not be closed meanwhile."""
        return self._offloaded > 0

    def commit(self) -> None:
        """Write the entries of a turn and begin to sync them, now or when the sync that is under
        way has ended."""
        if self._syncing:
            self._wanted = True
        else:
            self._begin_commit()

    def flush_wanted(self) -> None:
        """Write within FLUSH_S: messages were accepted that are only in memory."""
        if not self._flush_planned:
            self._flush_planned = True
            self._scheduler.call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        self._report_failure(self._store.flush)

    def _begin_commit(self) -> None:
        self._wanted = False
        entries, catalogue = self._store.group_commit, self._store.catalogue_commit
        has_failed = False
        waits: list[Callable[[], object]] = [catalogue.sync] if catalogue.begin() else []
        try:
            if self._begin_entries():
                waits.append(entries.sync)
        except StoreError as error:
            self._failed(str(error))
            has_failed = True
        self._syncing = True
        finish = partial(self._finish, has_failed)
        if waits:
            self._offload(lambda: _wait_all(waits), finish)
        else:
            # Nobody waits for the disk, or the interval was faster: no other thread is needed, and
            # the order of calls is the same.
            self._offloaded += 1
            self._scheduler.call_soon(partial(self._finish_unsynced, finish))

    def _begin_entries(self) -> bool:
        """Write the entries of streams and groups. Returns whether they are to be synced. Raises
        StoreError."""
        commit = self._store.group_commit
        is_begun = commit.begin()
        if commit.has_waiting_entries:
            # Entries with messages are withdrawn, and the others may make room.
            self._no_room(False)
            is_begun |= commit.begin(uses_reserve=True)
        if commit.has_waiting_entries and self._is_retried:
            self._no_room(True)
        return is_begun

    def _finish_unsynced(self, finish: Callable[[str], object]) -> None:
        self._offloaded -= 1
        finish("")

    def _finish(self, has_failed: bool, problem: str) -> None:
        self._syncing = False
        if problem:
            self._failed(problem)
        elif not has_failed:
            self._finish_entries()
        # Messages that came before the deletion of their stream are confirmed before it is closed.
        self._store.catalogue_commit.finish()
        if self._wanted or self._store.catalogue_commit.is_wanted:
            self._want_commit()

    def _finish_entries(self) -> None:
        commit = self._store.group_commit
        self._report_failure(commit.finish)
        self._committed()
        self._is_retried &= commit.has_waiting_entries
        if commit.is_trim_due and not self._trimming and not self._is_retried:
            self._begin_trim()

    def room_found(self) -> None:
        """Commit the entries for which there was no room on the disk."""
        self._is_retried = False
        self._commit_waiting()

    def room_wanted(self) -> None:
        """Release the write-ahead file on a full disk, as soon as the streams allow it."""
        if self._store.group_commit.is_trim_due and not self._trimming and self._timer is not None:
            self._begin_trim()

    # --- the streams' own files ------------------------------------------------------------------

    def _begin_trim(self) -> None:
        try:
            work = self._store.group_commit.begin_trim()
        except StoreError as error:
            self._failed(str(error))
            return
        self._trimming = True
        self._sync_beside(work, self._finish_trim)

    def _finish_trim(self, work: dict[str, LogSync]) -> None:
        self._trimming = False
        self._report_failure(lambda: self._store.group_commit.finish_trim(work))
        if not self._is_retried:
            # Another trim would give no more room than this one has.
            self._is_retried = True
            self._commit_waiting()

    def _interval_passed(self) -> None:
        self._report_failure(self._store.flush)
        has_waiting = self._store.catalogue_commit.want_waiting()
        if self._store.groups.want_sync() or has_waiting:
            # Entries that groups confirm when they are written count as lost without this.
            self._want_commit()
        self._sync_beside(self._store.begin_sync(), self._finish_interval)

    def _finish_interval(self, work: dict[str, LogSync]) -> None:
        self._report_failure(lambda: self._store.finish_sync(work))
        self._commit_waiting()
        if self._timer is not None:
            self._wait(self._interval_s)

    def _commit_waiting(self) -> None:
        """Commit entries for which the write-ahead file had no room; there may be some now."""
        if self._store.group_commit.has_waiting_entries and not self._syncing:
            self._want_commit()

    def _sync_beside(
        self, work: dict[str, LogSync], done: Callable[[dict[str, LogSync]], object]
    ) -> None:
        """Wait for the disk off the loop, then call `done` on it."""
        self._offload(lambda: run_syncs(work.values()), lambda _: done(work))

    def _offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        self._offloaded += 1

        def finished(result: T) -> None:
            self._offloaded -= 1
            done(result)

        self._scheduler.offload(work, finished)

    def _report_failure(self, step: Callable[[], object]) -> None:
        try:
            step()
        except StoreError as error:
            self._failed(str(error))


def _wait_all(waits: Iterable[Callable[[], object]]) -> str:
    """Wait for the disk off the loop. Returns the error, or an empty text."""
    problem = ""
    for wait in waits:
        try:
            wait()
        except StoreError as error:
            problem = str(error)
    return problem
