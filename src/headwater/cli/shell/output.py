"""The outputs of a command: results on standard output, remarks on standard error.

Only terminals get colours. Output to a pipe is flushed as soon as no more text waits to be written,
so that `headwater sub ... | grep ...` shows a message when it arrives.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from headwater.cli.shell.pipe_reader import PipeReader

# Work of fewer steps is over before a person has read the bar.
PROGRESS_FROM_STEPS: Final = 1000


class Output:
    """The two streams of one command."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show a character must not end the command.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._stdout = plain_console(sys.stdout)
        self._stderr = plain_console(sys.stderr)
        self._reader = PipeReader(sys.stdout)

    def is_read(self) -> bool:
        """Whether the reader of a pipe has taken every result. Raises BrokenPipeError.

        It is always so where the results go to a terminal or into a file.
        """
        return self._reader.has_taken_all()

    @property
    def is_terminal(self) -> bool:
        """Whether a person, not a program, reads the results."""
        return self._stdout.is_terminal

    @property
    def remarks(self) -> Console:
        """Standard error, for a progress bar."""
        return self._stderr

    def result(self, what: RenderableType, more_follows: bool = False) -> None:
        """Write a result and a line end. `more_follows` leaves the flushing to the next one."""
        if self.is_terminal or not isinstance(what, str | Text):
            self._stdout.print(what)
        else:
            sys.stdout.write(f"{what}\n")
        if not more_follows:
            sys.stdout.flush()

    def body(self, data: bytes, more_follows: bool = False) -> None:
        """Write a body's own bytes and a line end."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data + b"\n")
        if not more_follows:
            sys.stdout.buffer.flush()

    def progress(
        self, title: str, total: int, hidden: bool
    ) -> AbstractContextManager[Callable[[int], None] | None]:
        """A progress bar for a long run at a terminal; elsewhere nothing."""
        if hidden or total < PROGRESS_FROM_STEPS or not self._stderr.is_terminal:
            return nullcontext()
        # Loaded only for this: it is a fifth of the time a command takes to start.
        from headwater.cli.shell.progress import ProgressBar

        return ProgressBar(self._stderr, total, title)

    def remark(self, what: RenderableType) -> None:
        """Write a remark about the work, which is not its result."""
        self._stderr.print(what)


def plain_console(stream: TextIO) -> Console:
    """A console that shows text as it is: no markup, no emoji codes, no wrapping."""
    return Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=True)
