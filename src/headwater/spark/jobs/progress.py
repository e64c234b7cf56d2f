"""Progress reports of a job.

A job calls these methods, whether or not they are shown. The command line draws the progress.
"""

import time
from typing import Final, Protocol


class Progress(Protocol):
    """The receiver of a job's progress."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new part of the work; `total` is the sum of all `advance` calls, if known."""

    def advance(self, count: int) -> None:
        """Count work that is done."""

    def note(self, text: str) -> None:
        """Show a short line that replaces the one before."""


class PatientProgress(Progress, Protocol):
    """The progress of a job that follows a source: it also decides when the job ends."""

    def wait(self, seconds: float) -> bool:
        """Let time pass. Returns False, maybe earlier, if the job shall end now."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, name: str, total: int | None) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return True


SILENT: Final[PatientProgress] = Silent()
