"""How a job tells whoever started it what it is doing.

A job calls; it never asks whether anybody listens. Drawing belongs to the command line.
"""

import time
from typing import Final, Protocol


class Progress(Protocol):
    """What a job reports to."""

    def stage(self, name: str, total: int | None) -> None:
        """A new part of the work begins; `total` is how much it will `advance`, if known."""

    def advance(self, count: int) -> None:
        """So much more of the stage is done."""

    def note(self, text: str) -> None:
        """A short line that replaces the one before."""


class PatientProgress(Progress, Protocol):
    """The progress of a job that follows in turns of its own: it also ends the job."""

    def wait(self, seconds: float) -> bool:
        """Let time pass; False, maybe before it has passed, if the job shall end now."""
        ...


class Silent:
    """Nobody listens."""

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
