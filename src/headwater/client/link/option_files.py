"""Files that options of a login name, and the error that names an option.

Invariant: a message quotes a path only where it cannot be a secret put in the wrong place.
"""

from pathlib import Path
from typing import Final

from headwater.base.errors import OperatingError
from headwater.wire.credentials.creds import LIKE_A_SEED

FILE_BYTES_MAX: Final = 4 << 20
"""More than the certificates of every authority there is; a device without end is no key file."""

SHOWN_CHARS_MAX: Final = 200
"""A longer path is more likely a JWT in the wrong place."""


class LoginError(OperatingError):
    """A value of a Login cannot be used; `option` names it as users write it."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.option = option
        self.reason = reason

    def __reduce__(self) -> tuple[type["LoginError"], tuple[str, str]]:
        return type(self), (self.option, self.reason)


def readable_path(option: str, path: str) -> str:
    """The path of a file that is there and may be read. Raises LoginError."""
    _read(option, path)
    return str(Path(path).expanduser())


def read_text(option: str, path: str) -> str:
    """The text of a file. Raises LoginError."""
    try:
        return _read(option, path).decode()
    except UnicodeDecodeError:
        raise LoginError(option, f"{_shown(path)} is not a text file") from None


def _read(option: str, path: str) -> bytes:
    if "-----BEGIN" in path or "\n" in path:
        raise LoginError(option, "wants the path of a file, not what is in it")
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as reason:
        raise LoginError(option, f"cannot read {_shown(path)}: {reason.strerror}") from None
    except (ValueError, RuntimeError):
        # A null byte in the path, or a home directory that nobody has.
        raise LoginError(option, f"{_shown(path)} is not the path of a file") from None
    if len(content) > FILE_BYTES_MAX:
        raise LoginError(option, f"{_shown(path)} is too large to hold keys or certificates")
    return content


def _shown(path: str) -> str:
    return "the file" if LIKE_A_SEED.search(path) or len(path) > SHOWN_CHARS_MAX else repr(path)
