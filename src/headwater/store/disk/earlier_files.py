"""The write-ahead files before the present one, which are read and removed, and not written to."""

from typing import Final, final

from headwater.store.disk.filesystem import File, FileSystem

READ_BYTES: Final = 64 * 1024
"""Frames that follow each other are read with one read of at least so many bytes."""


def ahead_name(number: int) -> str:
    """The name of the write-ahead file of a number."""
    return f"ahead-{number:012d}.hw"


@final
class EarlierFiles:
    """Files by number, with the seeds of their frames."""

    __slots__ = ("_files", "_folder", "_reader", "_stretch", "_stretch_start", "seeds")

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder
        # Oldest first.
        self.seeds: dict[int, int] = {}
        # The file that was read last.
        self._reader: tuple[int, File] | None = None
        # Bytes of that file, and their offset.
        self._stretch = b""
        self._stretch_start = 0

    def __len__(self) -> int:
        return len(self.seeds)

    def read(self, number: int, offset: int, length: int) -> bytes:
        """Bytes of a file. Raises OSError."""
        if self._reader is None or self._reader[0] != number:
            self.close()
            self._reader = number, self._files.open(f"{self._folder}/{ahead_name(number)}")
        at = offset - self._stretch_start
        if at < 0 or at + length > len(self._stretch):
            self._stretch = self._reader[1].read(offset, max(length, READ_BYTES))
            self._stretch_start, at = offset, 0
        return self._stretch[at : at + length]

    def remove(self, before: int | None) -> None:
        """Remove the files before one of a number, or all of them. Raises OSError."""
        for number in [each for each in self.seeds if before is None or each < before]:
            if self._reader is not None and self._reader[0] == number:
                self.close()
            self._files.remove(f"{self._folder}/{ahead_name(number)}")
            # One by one, oldest first: a crash must not leave an older file whose frames a FORGET
            # in a younger one, now gone, had made void.
            self._files.sync_folder(self._folder)
            del self.seeds[number]

    def close(self) -> None:
        """Release the file that was read last."""
        if self._reader is not None:
            self._reader[1].close()
            self._reader = None
            self._stretch = b""
