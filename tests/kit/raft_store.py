"""The disk of one simulated member: a store on a simulated disk, with the group of the member."""

from random import Random

from headwater.raft.entry import Entry
from headwater.raft.ready import Ready
from headwater.raft.storage import SavedState, Snapshot, blank
from headwater.server.cluster.consensus.group_storage import (
    GroupStorage,
    mark_of,
    save_ready,
    saved_state,
    state_of,
)
from headwater.store.groups.frames import GroupMode, SnapshotMark
from headwater.store.groups.group_log import GroupLog
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

GROUP = b"simulated group."
AHEAD_BYTES_MAX = 1500
STATE_BYTES = 4


class StoredDisk:
    """A store with one group; `tests.kit.raft_disk.Disk` has the same methods.

    The digest of the state machine is in the membership bytes of the snapshot mark, so that both
    are on the disk at the same moment, as a state machine and its redo point are.
    """

    def __init__(self, saved: SavedState, mode: GroupMode, seed: int) -> None:
        self._mode = mode
        self._rng = Random(seed)
        self._begin(saved, may_have_forgotten=False)

    def _begin(self, saved: SavedState, may_have_forgotten: bool) -> None:
        self.disk = SimDisk(self._rng.randrange(2**32), page_bytes=256)
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")
        self.store: Store = self._open()
        self.state = 0
        self.log, ticket = self.store.groups.create(
            GROUP,
            self._mode,
            self._with_state(mark_of(saved.snapshot), self.state),
            state_of(saved.hard_state),
            may_have_forgotten=may_have_forgotten,
        )
        self._write()
        assert self.store.groups.numbers.covers(ticket)

    def _open(self) -> Store:
        entropy = SeededEntropy(Random(self._rng.randrange(2**32)))
        return open_store(
            self.disk, "/data", entropy, self.disk.boot_id, ahead_bytes_max=AHEAD_BYTES_MAX
        )

    def _with_state(self, mark: SnapshotMark, state: int) -> SnapshotMark:
        data = state.to_bytes(STATE_BYTES, "little") + mark.membership
        return SnapshotMark(mark.index, mark.term, data, mark.lease_ns)

    # --- the process ----------------------------------------------------------------------------

    def saved(self) -> SavedState:
        """End the process, if its machine still runs, and open what it has left."""
        self.disk.kill()
        self.store = self._open()
        self.log = self.store.groups[GROUP]
        mark = self.log.snapshot
        self.state = int.from_bytes(mark.membership[:STATE_BYTES], "little")
        membership = mark.membership[STATE_BYTES:]
        self.log.snapshot = SnapshotMark(mark.index, mark.term, membership, mark.lease_ns)
        found = saved_state(self.log)
        self.log.snapshot = mark
        return found

    @property
    def may_have_forgotten(self) -> bool:
        return self.log.may_have_forgotten

    def lose_power(self) -> None:
        mode = self._rng.choice(("strict", "strict", "kind", "random"))
        self.disk.power_loss(mode)  # type: ignore[arg-type]

    def wipe(self) -> None:
        """Empty the folder of the store; the member joins its group again."""
        self._begin(blank(), may_have_forgotten=True)

    # --- work -----------------------------------------------------------------------------------

    @property
    def files(self) -> "StoredDisk":
        return self

    @property
    def snapshot(self) -> SnapshotMark:
        return self.log.snapshot

    def write(self, ready: Ready, state: int) -> None:
        """Carry out a portion of writes; `state` belongs to its snapshot."""
        log: GroupLog = self.log
        if ready.snapshot is not None:
            self.state = state
            mark = self._with_state(mark_of(ready.snapshot), state)
            log.save(snapshot=mark)
            ready = Ready(
                ready.number, [], None, ready.hard_state, ready.must_sync, ready.entries, [], []
            )
        ticket = save_ready(log, ready)
        self._write()
        assert self.store.groups.numbers.covers(ticket)

    def _write(self) -> None:
        commit = self.store.group_commit
        if commit.begin():
            commit.sync()
            commit.finish()
        if commit.is_trim_due:
            self.store.trim()

    def sync(self) -> None:
        self.store.group_commit.secure_frames()

    def trim(self, snapshot: Snapshot, state: int) -> None:
        """Replace the log up to a snapshot."""
        self.state = state
        mark = self._with_state(mark_of(snapshot), state)
        self.log.compact(snapshot.index, mark.membership, snapshot.lease_ns)
        self._write()

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Entries of a range, as `Storage` promises them."""
        return GroupStorage(self.log).entries(first, last, bytes_max)
