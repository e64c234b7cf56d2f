"""A file that is to replace another one: written beside a log, put in place or discarded by it.

Its name is made, changed and removed on the log's thread alone. To be written on another thread it
is lent out. A file that is discarded meanwhile loses its name at once, and is closed when that
thread returns it: a descriptor that is closed while it is written to might be another file's by
then.
"""

from typing import Final, final

from headwater.store.disk.filesystem import File, FileSystem

SUCCESSOR_SUFFIX: Final = ".new"


@final
class UnfinishedFile:
    """A new file under a name of its own."""

    __slots__ = ("_files", "_is_discarded", "_is_lent", "_open", "file", "path")

    def __init__(self, files: FileSystem, path: str) -> None:
        """Raises OSError."""
        self._files = files
        self.path = path
        # The thread that takes the file out of this list closes it, so it is closed once.
        self._open: list[File] = []
        self._is_lent = False
        self._is_discarded = False
        if files.exists(path):
            files.remove(path)
        try:
            self.file = files.create(path)
        except OSError:
            self.discard()
            raise
        self._open.append(self.file)

    def lend_to_thread(self) -> None:
        """Let another thread write from now on. On the log's thread."""
        self._is_lent = True

    def return_from_thread(self) -> None:
        """Say that the other thread has written, for now or for good; on that thread."""
        self._is_lent = False
        if self._is_discarded:
            self.close()

    def close(self) -> None:
        """Close the file: nothing is written any more."""
        if self._open:
            self._open.pop().close()

    def rename(self, path: str) -> None:
        """Give the file the name that it was made for. Raises OSError."""
        self._files.rename(self.path, path)

    def discard(self) -> None:
        """Leave nothing behind, as far as the disk allows; opening removes what is left."""
        self._is_discarded = True
        if not self._is_lent:
            self.close()
        try:
            if self._files.exists(self.path):
                self._files.remove(self.path)
        except OSError:
            pass
