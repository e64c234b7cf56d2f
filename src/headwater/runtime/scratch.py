"""A folder for as long as something runs, and not a moment longer."""

import tempfile
from contextlib import AbstractContextManager
from typing import Final

# A person who finds one that was left behind has to see whose it was.
_PREFIX: Final = "headwater-"


def scratch_folder() -> AbstractContextManager[str]:
    """The path of a new folder among the temporary files, removed with all that is in it."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX)
