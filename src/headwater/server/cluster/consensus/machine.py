"""The state machine of a group on one server, as the driver of consensus knows it.

The driver hands over committed entries, tells who leads, and moves snapshots between servers. It
knows neither the records in the entries nor the files that have their effects.
"""

from typing import Protocol, final

from headwater.base.errors import PeerError
from headwater.raft.entry import Entry


class SnapshotSource(Protocol):
    """The state of a leader, read piece by piece. It may change while it is read."""

    def next_chunk(self) -> bytes | None:
        """The next piece, an empty one if the state is being changed; None behind the last one.

        Raises StoreError.
        """
        ...

    @property
    def index(self) -> int:
        """The last entry whose effects all pieces together have, known behind the last piece."""
        ...

    def close(self) -> None:
        """Cease to read."""
        ...


class SnapshotSink(Protocol):
    """A state that is built from the pieces of a snapshot."""

    @property
    def held(self) -> bytes:
        """The part of a state that is there already, for `open_snapshot` of the leader."""
        ...

    def add(self, chunk: bytes) -> None:
        """Take in the next piece. Raises PeerError for a malformed one, and StoreError."""
        ...

    def discard(self) -> None:
        """Take in no more pieces. A later sink may go on with what has come."""
        ...


class GroupMachine(Protocol):
    """The state of one group on this server."""

    @property
    def applied_index(self) -> int:
        """The last entry whose effects the state has."""
        ...

    @property
    def durable_index(self) -> int:
        """The last entry whose effects survive a crash without the entry itself."""
        ...

    @property
    def must_refill(self) -> bool:
        """Whether the state is that of no entry, so that a snapshot has to complete it."""
        ...

    def propose_gathered(self) -> bool:
        """Propose the entries that were gathered over a turn. Returns whether none is left."""
        ...

    def apply(self, entries: list[Entry]) -> int:
        """Apply committed entries. Returns the index of the last one that is applied by now; the
        driver is told of later ones by `applied_to`."""
        ...

    def role_changed(self, leader: str, is_leading: bool) -> None:
        """Follow a leader, or no name. `is_leading` says that this server leads and may serve."""
        ...

    def make_durable(self) -> None:
        """Bring `durable_index` forward, now or soon, because the log has grown."""
        ...

    def distrust(self) -> None:
        """Note that entries may be missing that were confirmed: a majority has forgotten them."""
        ...

    def give_up(self) -> None:
        """Have no state that counts, durably, until a snapshot comes. Raises StoreError."""
        ...

    def open_snapshot(self, held: bytes) -> SnapshotSource:
        """Begin to read the state, for a follower whose sink holds a part of it. Raises
        StoreError."""
        ...

    def open_sink(self) -> SnapshotSink:
        """Begin to build a state from a snapshot of the leader. Raises StoreError."""
        ...

    def install(self, index: int) -> None:
        """Put the state that was built last in the place of the one in force, durably. It has the
        effects of all entries up to an index. Raises StoreError."""
        ...

    def discard_snapshot(self) -> None:
        """Remove the state that was built last: it is not needed."""
        ...


class MetaGroupMachine(GroupMachine, Protocol):
    """The state of the meta group."""

    # Entries up to this index were applied by an earlier process of this server.
    replays_to: int

    @property
    def fault(self) -> str:
        """The reason for which this server takes no part in the group; empty if it does."""
        ...


@final
class NoState:
    """The machine of a group whose log holds members and nothing else."""

    __slots__ = ("applied_index", "durable_index", "fault", "held", "must_refill", "replays_to")

    def __init__(self) -> None:
        self.held = b""
        self.fault = ""
        self.applied_index = 0
        self.durable_index = 0
        self.must_refill = False
        self.replays_to = 0

    @property
    def index(self) -> int:
        """The place of a snapshot: there is no state that could be older."""
        return self.applied_index

    def propose_gathered(self) -> bool:
        """Have nothing to propose. Returns True."""
        return True

    def apply(self, entries: list[Entry]) -> int:
        """Have nothing to apply."""
        self.applied_index = entries[-1].index
        return self.applied_index

    def role_changed(self, leader: str, is_leading: bool) -> None:
        """Do nothing: a leader and a follower are alike."""

    def make_durable(self) -> None:
        """Give up entries at once: they have no effects."""
        self.durable_index = self.applied_index

    def distrust(self) -> None:
        """Have no state that could contradict lost entries."""

    def give_up(self) -> None:
        """Begin again."""
        self.applied_index = self.durable_index = 0

    def open_snapshot(self, held: bytes) -> "NoState":
        """Be a snapshot without pieces."""
        return self

    def next_chunk(self) -> bytes | None:
        """Have no pieces."""
        return None

    def close(self) -> None:
        """Have nothing to release."""

    def open_sink(self) -> "NoState":
        """Be a sink that takes no pieces."""
        return self

    def add(self, chunk: bytes) -> None:
        """Refuse a piece of a state that does not exist."""
        raise PeerError("a snapshot of a group without a state has a piece")

    def discard(self) -> None:
        """Have nothing to remove."""

    def install(self, index: int) -> None:
        """Be at an index."""
        self.applied_index = self.durable_index = index

    def discard_snapshot(self) -> None:
        """Have nothing to remove."""
