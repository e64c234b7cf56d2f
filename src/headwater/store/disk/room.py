"""Room on the disk of a store: whether there is any, and a reserve for removals, which make more.

A disk is full when a write finds no room. From then on no log tries to write messages, until
a look has found room again. The removal of messages has to be written down before any file can go,
so some room is kept for it: a file of no use, which is removed when the room is needed.

Room is found by taking some: the free space that a disk reports does not tell of quotas. The caller
decides when to look.
"""

from collections.abc import Callable
from hashlib import shake_256
from typing import Final, final

from headwater.store.disk.filesystem import FileSystem, create_whole

RESERVE_FILE: Final = "reserve.hw"
# A full disk counts as one with room when it has this part of the reserve free, beside the reserve
# itself: else it would be full again with the next message.
MARGIN_PARTS: Final = 4

NO_SPACE: Final = "no space left on the disk"


@final
class Room:
    """The room of one store."""

    __slots__ = ("_files", "_is_kept", "_path", "_reserve_bytes", "is_full", "when_full")

    def __init__(self, files: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        self._files = files
        self._path = f"{folder}/{RESERVE_FILE}"
        self._reserve_bytes = reserve_bytes
        # Whether the reserve is on the disk.
        self._is_kept = False
        # Whether a write has found no room since there was some.
        self.is_full = False
        # Called each time that a disk with room turns out to be full.
        self.when_full: Callable[[], object] | None = None

    def open(self) -> None:
        """Take over the reserve of an earlier process. On a disk that is full it goes at once:
        opening the logs may have to write."""
        if not self._reserve_bytes:
            return
        try:
            self._is_kept = self._files.exists(self._path)
            if self._files.free_bytes(self._path) < self._margin_bytes:
                self.is_full = True
                self.release_reserve()
        except OSError:
            # The logs' own writes find out.
            pass

    @property
    def _margin_bytes(self) -> int:
        return self._reserve_bytes // MARGIN_PARTS

    def mark_full(self) -> None:
        """Note that a write has found no room."""
        if not self.is_full:
            self.is_full = True
            if self.when_full is not None:
                self.when_full()

    def release_reserve(self) -> bool:
        """Remove the reserve, for an operation that makes room; returns whether there was one."""
        if not self._is_kept:
            return False
        self._is_kept = False
        try:
            self._files.remove(self._path)
        except OSError:
            return False
        return True

    def look_for_room(self, takes_some: bool = True) -> bool:
        """Look whether there is room, and make the reserve again if there is; returns whether.

        Without `takes_some` the free space that the disk reports is believed.
        """
        try:
            needed_bytes = self._margin_bytes + (0 if self._is_kept else self._reserve_bytes)
            if self._files.free_bytes(self._path) < max(needed_bytes, 1):
                return False
            if self._reserve_bytes and not self._is_kept:
                self._fill_file(self._path, self._reserve_bytes)
                self._is_kept = True
            if self.is_full and self._margin_bytes and takes_some:
                probe = f"{self._path}.probe"
                self._fill_file(probe, self._margin_bytes)
                self._files.remove(probe)
        except OSError:
            return False
        self.is_full = False
        return True

    def _fill_file(self, path: str, size: int) -> None:
        """Create a file of so many bytes, or leave no file."""
        if self._files.exists(path):
            self._files.remove(path)
        # Bytes that no file system stores in less room.
        data = shake_256(path.encode()).digest(size)
        create_whole(self._files, path, data).close()
