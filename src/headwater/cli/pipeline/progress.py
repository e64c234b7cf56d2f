"""The progress of jobs: a line for each on standard error, removed when they are done.

Jobs report from threads of their own. A job notices in a report that it is to stop: the work
between two reports is short, or is a query that is stopped from outside.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from headwater.base.quantities import duration_text
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import NUMBER_STYLE, SUBJECT_STYLE

BAR_WIDTH: Final = 24


class StopRequested(Exception):
    """The job is to stop; raised in its thread by its next report."""


class WorkBar(BarColumn):
    """A bar that moves from the start: Spark counts its first messages after some seconds."""

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        bar.pulse = bar.pulse or not task.completed
        return bar


class CountColumn(ProgressColumn):
    """`12,000/50,000`; without a known total the count alone, once it is above 0."""

    def render(self, task: Task) -> Text:
        count = f"{int(task.completed):,}"
        if task.total is None:
            return Text(count if task.completed else "")
        return Text(f"{count}/{int(task.total):,}")


class RateColumn(ProgressColumn):
    """The recent rate per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", NUMBER_STYLE)


class ElapsedColumn(ProgressColumn):
    """Since when it has been at it."""

    def render(self, task: Task) -> Text:
        return Text(duration_text(round(task.elapsed or 0.0)), NUMBER_STYLE)


class JobProgress:
    """The progress of one job; without a terminal it still lets the job be stopped."""

    def __init__(
        self,
        title: str,
        screen: Progress | None,
        cutting_off: threading.Event,
        stopping: threading.Event,
    ) -> None:
        self._title = title
        self._screen = screen
        self._cutting_off = cutting_off
        self._stopping = stopping
        self._thread = threading.current_thread()
        self._task = None if screen is None else screen.add_task(title, total=None, note="")

    def stage(self, name: str, total: int | None) -> None:
        """Begin a part of the work, with its name and its number of messages or rows."""
        self._notice_a_stop()
        if self._screen is not None and self._task is not None:
            # A new line: to an old one a total of None means "as before".
            self._screen.remove_task(self._task)
            self._task = self._screen.add_task(f"{self._title}: {name}", total=total, note="")

    def advance(self, count: int) -> None:
        """Count messages or rows that are done."""
        self._notice_a_stop()
        if self._screen is not None and self._task is not None:
            self._screen.advance(self._task, count)

    def note(self, text: str) -> None:
        """Show a text of the moment, for example the lag."""
        self._notice_a_stop()
        if self._screen is not None and self._task is not None:
            self._screen.update(self._task, note=text)

    def wait(self, seconds: float) -> bool:
        """Wait between two turns of a job that follows; False if the job is to end."""
        return not self._stopping.wait(seconds)

    def end(self) -> None:
        """Remove the line."""
        if self._screen is not None and self._task is not None:
            self._screen.remove_task(self._task)

    def _notice_a_stop(self) -> None:
        # Spark calls listeners from threads of its own, where an exception ends nothing.
        if self._cutting_off.is_set() and threading.current_thread() is self._thread:
            raise StopRequested


class Display(AbstractContextManager["Display"]):
    """The lines of all jobs of a command; none without a terminal."""

    def __init__(self, output: Output, hidden: bool) -> None:
        self._console: Console = output.remarks
        self._is_shown = not hidden and self._console.is_terminal
        self._screen: Progress | None = None
        self._stack = ExitStack()
        # Set when the jobs shall end; and when their reports shall end them.
        self.stopping = threading.Event()
        self.cutting_off = threading.Event()

    def __enter__(self) -> "Display":
        if self._is_shown:
            self._screen = self._stack.enter_context(new_screen(self._console))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the lines while the command writes to the terminal."""
        if self._screen is None:
            yield
            return
        self._screen.stop()
        try:
            yield
        finally:
            self._screen.start()

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show a line during a step of a few seconds that has no count."""
        stack = ExitStack()
        if self._screen is not None:
            screen, task = self._screen, self._screen.add_task(text, total=None, note="")
            stack.callback(lambda: screen.remove_task(task))
        return stack

    def progress_of(self, title: str) -> JobProgress:
        """The progress of a job, to be called in the thread that runs the job."""
        return JobProgress(title, self._screen, self.cutting_off, self.stopping)


def new_screen(console: Console) -> Progress:
    """The columns: the job, its count, its rate, its time and its note."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", style=SUBJECT_STYLE),
        WorkBar(bar_width=BAR_WIDTH),
        CountColumn(),
        RateColumn(),
        ElapsedColumn(),
        TextColumn("{task.fields[note]}", style=NUMBER_STYLE),
        console=console,
        transient=True,
    )
