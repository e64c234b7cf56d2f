"""Files protocol on the operating system."""

import os
import tempfile


class SystemAppendFile:
    """An unbuffered append-only file."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)


class SystemFiles:
    """Whole-file operations."""

    __slots__ = ()

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        with open(path, "rb") as file:
            return file.read()

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Write to a temporary file beside `path` and rename it."""
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise

    def open_append(self, path: str) -> SystemAppendFile:
        """Open `path` for appending, creating it."""
        return SystemAppendFile(path)

    def remove(self, path: str) -> None:
        """Delete `path`, if it exists."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def rename(self, source: str, target: str) -> None:
        """Rename within one file system."""
        os.replace(source, target)

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory."""
        return os.path.isdir(path)
