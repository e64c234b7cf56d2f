"""The disk of one simulated member: writes that were made, and writes that survive a power loss."""

from dataclasses import dataclass, field

from headwater.raft.entry import Entry
from headwater.raft.ready import Ready
from headwater.raft.storage import HardState, SavedState, Snapshot, blank


@dataclass
class Contents:
    """The state of a member in files. `state` is a digest of the state machine at the snapshot."""

    hard_state: HardState
    snapshot: Snapshot
    state: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        return self.snapshot.index + len(self.entries)

    def copy(self) -> "Contents":
        return Contents(self.hard_state, self.snapshot, self.state, self.entries.copy())

    def write(self, ready: Ready, state: int) -> None:
        """Carry out a portion of writes; `state` belongs to its snapshot."""
        if ready.snapshot is not None:
            self.snapshot, self.state, self.entries = ready.snapshot, state, []
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state
        if ready.entries:
            first = ready.entries[0].index
            assert first <= self.last_index + 1, "a hole in the log"
            if first > self.snapshot.index:
                del self.entries[first - self.snapshot.index - 1 :]
                self.entries += ready.entries
            else:
                # The disk has been trimmed past entries that were cut off and written again.
                self.entries = ready.entries[self.snapshot.index - first + 1 :]

    def trim(self, snapshot: Snapshot, state: int) -> None:
        """Replace the log up to a snapshot."""
        del self.entries[: snapshot.index - self.snapshot.index]
        self.snapshot, self.state = snapshot, state


def contents_of(saved: SavedState) -> Contents:
    """The files of a member that has just been born."""
    return Contents(saved.hard_state, saved.snapshot)


class Disk:
    """Files as processes see them, and as the medium has them. Entries are read back from it."""

    def __init__(self, saved: SavedState) -> None:
        self.files = contents_of(saved)
        self.medium = contents_of(saved)

    def sync(self) -> None:
        self.medium = self.files.copy()

    def lose_power(self) -> None:
        self.files = self.medium.copy()

    def wipe(self) -> None:
        self.files = contents_of(blank())
        self.sync()

    def saved(self) -> SavedState:
        """The state that a process finds."""
        files = self.files
        snapshot = files.snapshot
        return SavedState(files.hard_state, snapshot, files.last_index, snapshot.index)

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Entries of a range, as `Storage` promises them."""
        base = self.files.snapshot.index + 1
        found: list[Entry] = []
        size = 0
        for entry in self.files.entries[first - base : last - base + 1]:
            size += len(entry.data)
            if found and size > bytes_max:
                break
            found.append(entry)
        assert found, f"entries {first} to {last} are not on the disk"
        return found
