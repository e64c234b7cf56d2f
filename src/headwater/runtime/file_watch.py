"""Checks whether the files of a store still exist, in turn, a few logs at a time.

The logs are in use meanwhile. The disk is asked off the loop; on the loop only the last record of
each of a few logs is read. A file that was removed or cut is noticed; the problem is reported once,
and kept as long as it lasts.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.store import Store
from headwater.store.upkeep.log_check import LogCheck

# Between two rounds over all logs, and between two parts of one round.
LOOK_S: Final = 10.0
REST_S: Final = 0.25
# The files that one part checks, and at least those of one log.
FILES_AT_A_TIME: Final = 500


@final
class FileWatch:
    """Checks the files of a store. `noticed` is called once for each problem."""

    __slots__ = ("_noticed", "_scheduler", "_store", "_timer", "_to_check", "problem")

    def __init__(
        self, store: Store, scheduler: Scheduler, noticed: Callable[[str], object]
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._noticed = noticed
        self._timer: TimerHandle | None = None
        # Streams that this round has not checked yet, the next one last.
        self._to_check: list[str] = []
        # The problem of the files that all streams share; empty without one.
        self.problem = ""

    def start(self) -> None:
        """Start the checks."""
        self._wait(LOOK_S)

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, delay_s: float) -> None:
        self._timer = self._scheduler.call_later(delay_s, self._check_some)

    def _check_some(self) -> None:
        if not self._to_check:
            self._to_check = [*reversed(self._store.logs)]
            before, self.problem = self.problem, self._store.check_folder()
            if self.problem and self.problem != before:
                self._noticed(self.problem)
        checks = self._begin_checks()
        self._scheduler.offload(lambda: _run(checks), lambda _: self._finish(checks))

    def _begin_checks(self) -> dict[str, LogCheck]:
        checks: dict[str, LogCheck] = {}
        file_count = 0
        while self._to_check and file_count < FILES_AT_A_TIME:
            name = self._to_check.pop()
            log = self._store.logs.get(name)
            if log is not None and not log.offline:
                checks[name] = log.file_checks.begin()
                file_count += len(checks[name].relied)
        return checks

    def _finish(self, checks: dict[str, LogCheck]) -> None:
        if self._timer is None:
            # Stopped meanwhile: the files may be closed.
            return
        for name, check in checks.items():
            log = self._store.logs.get(name)
            problem = "" if log is None else log.file_checks.finish(check)
            if problem:
                self._noticed(f"stream {name}: {problem}")
        self._wait(REST_S if self._to_check else LOOK_S)


def _run(checks: dict[str, LogCheck]) -> None:
    for check in checks.values():
        check.run()
