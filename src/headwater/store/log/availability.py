"""Whether a log on disk can be written to, and the errors to raise when it cannot.

A failure takes the log offline: it can be read, and a restart begins with what is on the disk. A
write for which the disk had no room, and of which nothing is left, does not: it raises
DiskFullError, and messages are refused until there is room (`headwater.store.disk.room`).
"""

from typing import Final, final

from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.room import NO_SPACE, Room
from headwater.store.errors import DiskFullError, OfflineError, StoreError

# The state of a log whose files are released.
CLOSED: Final = "closed"


@final
class Availability:
    """The state of one log; its parts ask it before they write and tell it when they fail."""

    __slots__ = ("_folder", "offline", "room", "unreported_problem")

    def __init__(self, folder: str, room: Room) -> None:
        """`folder` names the log in error texts; `room` is shared by the logs of a store."""
        self._folder = folder
        self.room = room
        # Why the log cannot be written to; empty if it can.
        self.offline = ""
        # Why the log went offline, if only a reader has met the failure; writers are told later.
        self.unreported_problem = ""

    def check_online(self) -> None:
        """Raise OfflineError if the log is offline."""
        if self.offline:
            raise OfflineError(f"{self._folder} is offline for writes: {self.offline}")

    def check_writable(self) -> None:
        """Raise OfflineError if the log is offline, DiskFullError if the disk has no room."""
        if self.offline:
            self.check_online()
        if self.room.is_full:
            raise DiskFullError(f"{self._folder}: {NO_SPACE}")

    def go_offline(self, reason: str) -> None:
        """Refuse all writes from now on; the first reason is kept."""
        self.offline = self.offline or reason

    def failed(self, operation: str, error: Exception) -> StoreError:
        """The error to raise if an operation failed; without room all of it may be tried again."""
        if isinstance(error, NoRoomError):
            self.room.mark_full()
            return DiskFullError(f"{self._folder}: {operation} failed: {error}")
        return self.broken(operation, error)

    def broken(self, operation: str, error: Exception) -> StoreError:
        """The error to raise if an operation was done by half; the log is offline from now on."""
        self.offline = f"{operation} failed: {error}"
        return OfflineError(
            f"{self._folder}: {self.offline}; reads go on, restart the server to write again"
        )
