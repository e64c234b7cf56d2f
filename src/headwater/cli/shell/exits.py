"""The exit codes that scripts rely on, and the failures that carry them."""

import re
from enum import IntEnum
from typing import Final

from headwater.base.errors import OperatingError

# A password may have an @ in it, so the last one before a blank ends the credentials. In a list of
# URLs that takes the hosts before the last with it: better too much than a part of a password.
_CREDENTIALS_IN_URL: Final = re.compile(r"(?<=://)\S*@")


class ExitCode(IntEnum):
    """Documented in the top help; a number never changes its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_CONNECTED = 3
    INTERRUPTED = 130
    READER_GONE = 141


class ReaderGone(Exception):
    """The reader of the results has closed the pipe."""


class CommandFailed(OperatingError):
    """A command could not do what was asked.

    `problem` says what went wrong, `advice` what the person can do next. Neither holds the
    credentials of a URL, wherever their texts came from.
    """

    def __init__(self, problem: str, advice: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        self.problem = without_credentials(problem)
        self.advice = without_credentials(advice)
        self.code = code
        super().__init__(self.problem)


def without_credentials(text: str) -> str:
    """`text` with its URLs as people may see them."""
    return _CREDENTIALS_IN_URL.sub("", text)
