"""A temporary folder that exists for as long as its context."""

import tempfile
from contextlib import AbstractContextManager
from typing import Final

# The prefix shows people whose folder was left behind.
_PREFIX: Final = "headwater-"


def scratch_folder() -> AbstractContextManager[str]:
    """The path of a new temporary folder, removed with its content at the end."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX)
