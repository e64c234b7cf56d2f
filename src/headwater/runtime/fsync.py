"""When the disk is asked to be sure: the store's syncs, run off the loop.

For streams that must be on disk before an ack, one sync at a time is under way; everything that is
written meanwhile waits for the next one, however many streams it belongs to. That is group commit:
the busier the server, the more messages share a sync. Other streams are synced now and then, and
those that may keep messages in memory for a moment are written a moment later.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.message_log import StoreError
from headwater.store.store import Store

# How long a message of an ASYNC stream may be in memory alone.
FLUSH_S: Final = 0.010


@final
class SyncDriver:
    """Decides when a store syncs. `committed` is called after each group commit.

    A store that fails takes its streams offline itself; `failed` is told why.
    """

    __slots__ = (
        "_committed",
        "_failed",
        "_flush_planned",
        "_interval_s",
        "_scheduler",
        "_store",
        "_syncing",
        "_timer",
        "_wanted",
    )

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        interval_s: float,
        committed: Callable[[], object],
        failed: Callable[[str], object],
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._interval_s = interval_s
        self._committed = committed
        self._failed = failed
        self._syncing = False
        self._wanted = False
        self._flush_planned = False
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Sync every interval from now on."""
        self._timer = self._scheduler.call_later(self._interval_s, self._interval_passed)

    def stop(self) -> None:
        """Begin nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wanted = False

    def commit_wanted(self) -> None:
        """Something was written that has to be on the disk before it is acknowledged."""
        self._wanted = True
        if not self._syncing:
            self._begin()

    def flush_wanted(self) -> None:
        """Something was accepted that is only in memory: it is written within FLUSH_S."""
        if not self._flush_planned:
            self._flush_planned = True
            self._scheduler.call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        try:
            self._store.flush()
        except StoreError as error:
            self._failed(str(error))

    def _begin(self) -> None:
        self._wanted = False
        try:
            if not self._store.begin_commit():
                return
        except StoreError as error:
            self._failed(str(error))
            return
        self._syncing = True
        self._scheduler.offload(self._sync_ahead, self._finish)

    def _sync_ahead(self) -> str:
        """Off the loop. What went wrong, or nothing."""
        try:
            self._store.sync_ahead()
        except StoreError as error:
            return str(error)
        return ""

    def _finish(self, problem: str) -> None:
        self._syncing = False
        if problem:
            self._failed(problem)
            return
        try:
            self._store.finish_commit()
        except StoreError as error:
            self._failed(str(error))
            return
        self._committed()
        if self._wanted:
            self._begin()

    def _interval_passed(self) -> None:
        self._scheduler.offload(self._sync_all, self._interval_over)

    def _sync_all(self) -> str:
        try:
            self._store.sync()
        except StoreError as error:
            return str(error)
        return ""

    def _interval_over(self, problem: str) -> None:
        if problem:
            self._failed(problem)
        if self._timer is not None:
            self.start()
