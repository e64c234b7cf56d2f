"""Files protocol in memory: the disk of one simulated host.

The files outlive the processes of the host, and nothing is lost; the `Files` protocol promises no
more than whole-file operations. Paths are strings with `/` between parts, and there is no working
directory: "a" and "./a" are one file, ".." is not followed.
"""

import errno
import os


def _normal(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _refusal(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class MemoryAppendFile:
    """A file opened for appending; it keeps growing after a rename, as an open file does."""

    __slots__ = ("_content",)

    def __init__(self, content: bytearray) -> None:
        self._content: bytearray | None = content

    def write(self, data: bytes) -> None:
        """Append `data`."""
        if self._content is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._content += data

    def close(self) -> None:
        """Refuse further writes."""
        self._content = None


class MemoryFiles:
    """Whole-file operations on a tree that starts with only its root."""

    __slots__ = ("_contents", "_folders")

    def __init__(self) -> None:
        self._contents: dict[str, bytearray] = {}
        self._folders: dict[str, None] = {"/": None}

    def paths(self) -> list[str]:
        """The paths of all files."""
        return list(self._contents)

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        normal = _normal(path)
        if normal in self._folders:
            raise _refusal(errno.EISDIR, path)
        if normal not in self._contents:
            raise _refusal(errno.ENOENT, path)
        return bytes(self._contents[normal])

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Replace the content of a file, or create it."""
        normal = self._place_for_a_file(path)
        self._contents[normal] = bytearray(data)

    def open_append(self, path: str) -> MemoryAppendFile:
        """Open `path` for appending, creating it."""
        normal = self._place_for_a_file(path)
        return MemoryAppendFile(self._contents.setdefault(normal, bytearray()))

    def remove(self, path: str) -> None:
        """Delete `path`, if it exists."""
        normal = _normal(path)
        if normal in self._folders:
            raise _refusal(errno.EISDIR, path)
        self._contents.pop(normal, None)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing a file of that name."""
        normal = _normal(source)
        if normal not in self._contents:
            raise _refusal(errno.ENOENT, source)
        self._contents[self._place_for_a_file(target)] = self._contents.pop(normal)

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory."""
        return _normal(path) in self._folders

    def make_dirs(self, path: str) -> None:
        """Create `path` and the missing folders above it."""
        missing: list[str] = []
        normal = _normal(path)
        while normal not in self._folders:
            if normal in self._contents:
                raise _refusal(errno.EEXIST if not missing else errno.ENOTDIR, path)
            missing.append(normal)
            normal = _parent(normal)
        self._folders.update(dict.fromkeys(missing))

    def _place_for_a_file(self, path: str) -> str:
        normal = _normal(path)
        if normal in self._folders:
            raise _refusal(errno.EISDIR, path)
        if _parent(normal) not in self._folders:
            raise _refusal(errno.ENOENT, path)
        return normal
