"""Checks whether the files of a store are still there, in turn, a few logs at a time.

Between two looks the logs are used as ever. The disk is asked off the loop; on the loop, only the
last record of each of a few logs is read. So a file that somebody removes or cuts is noticed; the
problem is reported once, and known as long as it lasts.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.log.log_check import LogCheck
from headwater.store.store import Store

# Between two looks at all logs, and between two parts of one look.
LOOK_S: Final = 10.0
REST_S: Final = 0.25
# So many files are asked for at a time, and one log's at least.
FILES_AT_A_TIME: Final = 500


@final
class FileWatch:
    """Looks at the files of a store. `noticed` is told of each problem once."""

    __slots__ = ("_noticed", "_scheduler", "_store", "_timer", "_to_look_at", "problem")

    def __init__(
        self, store: Store, scheduler: Scheduler, noticed: Callable[[str], object]
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._noticed = noticed
        self._timer: TimerHandle | None = None
        # Streams that this look has not come to yet, the next one last.
        self._to_look_at: list[str] = []
        # The problem of the files that all streams share; empty if there is none.
        self.problem = ""

    def start(self) -> None:
        """Look from now on."""
        self._wait(LOOK_S)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, delay_s: float) -> None:
        self._timer = self._scheduler.call_later(delay_s, self._look)

    def _look(self) -> None:
        if not self._to_look_at:
            self._to_look_at = [*reversed(self._store.logs)]
            before, self.problem = self.problem, self._store.check_folder()
            if self.problem and self.problem != before:
                self._noticed(self.problem)
        checks = self._begin_some()
        self._scheduler.offload(lambda: _run(checks), lambda _: self._finish(checks))

    def _begin_some(self) -> dict[str, LogCheck]:
        checks: dict[str, LogCheck] = {}
        file_count = 0
        while self._to_look_at and file_count < FILES_AT_A_TIME:
            name = self._to_look_at.pop()
            log = self._store.logs.get(name)
            if log is not None and not log.offline:
                checks[name] = log.begin_check()
                file_count += len(checks[name].relied)
        return checks

    def _finish(self, checks: dict[str, LogCheck]) -> None:
        if self._timer is None:
            # Stopped meanwhile: the files may be closed.
            return
        for name, check in checks.items():
            log = self._store.logs.get(name)
            problem = "" if log is None else log.finish_check(check)
            if problem:
                self._noticed(f"stream {name}: {problem}")
        self._wait(REST_S if self._to_look_at else LOOK_S)


def _run(checks: dict[str, LogCheck]) -> None:
    for check in checks.values():
        check.run()
