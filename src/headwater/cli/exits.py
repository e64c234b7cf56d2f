"""How a command ends: the exit codes scripts rely on, and the failure that carries one."""

from enum import IntEnum

from headwater.base.errors import OperatingError


class ExitCode(IntEnum):
    """Documented in the top help; a number never changes its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_CONNECTED = 3
    INTERRUPTED = 130
    READER_GONE = 141


class ReaderGone(Exception):
    """Whoever read the results has closed the pipe."""


class CommandFailed(OperatingError):
    """A command could not do what was asked.

    `problem` says what went wrong, `advice` what the person can do next.
    """

    def __init__(self, problem: str, advice: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.code = code
