"""A full disk: the time at which it was found full, the reports of it, and the next look at it.

The store says that a write found no room. The watch finds out before the next turn whether
the disk is full, or only has no room for one large write: a client that sends a message that does
not fit keeps no other client from writing. As long as the disk is full it is looked at every
second, so that writes go on by themselves when there is room.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.go.times import format_time
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.disk.room import NO_SPACE, Room

# Between two looks at a disk that is full.
LOOK_S: Final = 1.0

ADVICE: Final = (
    "purge or delete messages or streams, or make room on the disk: writes then go on by themselves"
)


class Told(Protocol):
    """The receiver of reports of a full disk."""

    def disk_is_full(self, reason: str, since_ns: int) -> None:
        """The disk has turned out to be full."""
        ...

    def disk_has_room(self, reason: str) -> None:
        """Writes go on. `reason` is that of the report, or empty if the disk only seemed full."""
        ...


@final
class DiskWatch:
    """Watches the room of one store."""

    __slots__ = (
        "_is_resting",
        "_met_end",
        "_now_ns",
        "_room",
        "_scheduler",
        "_since_ns",
        "_timer",
        "_told",
    )

    def __init__(
        self, room: Room, scheduler: Scheduler, now_ns: Callable[[], int], told: Told
    ) -> None:
        self._room = room
        self._scheduler = scheduler
        self._now_ns = now_ns
        self._told = told
        # The time since which the disk has been reported full; 0 if it is not.
        self._since_ns = 0
        self._timer: TimerHandle | None = None
        # Whether room was found a moment ago and waiting writes were resumed. A write that finds no
        # room since then is tried again a moment later, and not in an endless loop.
        self._is_resting = False
        self._met_end = False

    def start(self) -> None:
        """Watch the disk from now on; it may be full already."""
        self._room.when_full = self._plan_look
        if self._room.is_full:
            self._plan_look()
        else:
            # A disk that has no room for the reserve is not full before a write says so.
            self._room.look_for_room()

    def stop(self) -> None:
        """Stop watching."""
        self._room.when_full = None
        self._met_end = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def reason(self) -> str:
        """The reason why messages are refused, and advice; empty if they are accepted."""
        if not self._since_ns:
            return f"{NO_SPACE}: {ADVICE}" if self._room.is_full else ""
        return f"{NO_SPACE} since {format_time(self._since_ns)}: {ADVICE}"

    def _plan_look(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_soon(self._look)

    def _look(self) -> None:
        self._timer = None
        before = self.reason if self._since_ns else ""
        if self._room.look_for_room(takes_some=not self._is_resting):
            self._since_ns = 0
            if self._is_resting:
                self._met_end = True
            else:
                self._resume_writes(before)
            return
        if not before:
            self._since_ns = self._now_ns()
            self._told.disk_is_full(self.reason, self._since_ns)
        self._timer = self._scheduler.call_later(LOOK_S, self._look)

    def _resume_writes(self, before: str) -> None:
        self._is_resting = True
        self._met_end = False
        self._scheduler.call_later(LOOK_S, self._rested)
        self._told.disk_has_room(before)

    def _rested(self) -> None:
        self._is_resting = False
        if self._met_end:
            self._resume_writes("")
