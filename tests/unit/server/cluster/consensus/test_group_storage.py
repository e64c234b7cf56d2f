"""The consensus core on group logs: replies wait for the store, and a restart finds its state."""

from random import Random

import pytest

from headwater.raft.config import RaftConfig
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import UNTOLD_LEASE_NS
from headwater.raft.membership import UNKNOWN, encode, membership_of
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.raft.storage import BIRTH_INDEX, HardState, SavedState, Snapshot, blank, born
from headwater.server.cluster.consensus.group_storage import (
    GroupStorage,
    GroupWrites,
    create_log,
    mark_of,
    restarted_in_memory,
    saved_state,
    state_of,
)
from headwater.server.cluster.consensus.groups import Groups
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

S = 1_000_000_000
GROUP = b"g" * 16


def opened(disk: SimDisk) -> Store:
    return open_store(disk, "/data", SeededEntropy(Random(disk.operations)), disk.boot_id)


class LoneServer:
    """A server that is the only member of its groups."""

    def __init__(self, disk: SimDisk) -> None:
        self.store = opened(disk)
        self.groups = Groups("a", LivenessSettings())
        self.writes = GroupWrites(self.store.groups)
        self.applied: list[bytes] = []
        self.now_ns = S
        for identity in self.store.groups.identities():
            self.add(identity)

    def create(self, identity: bytes, mode: GroupMode = GroupMode.SYNCED) -> None:
        create_log(self.store.groups, identity, mode, born(membership_of("a")))
        self.store.commit()
        self.add(identity)

    def add(self, identity: bytes) -> None:
        log = self.store.groups[identity]
        node = RaftNode(
            "a",
            RaftConfig(),
            SeededEntropy(Random(7)),
            GroupStorage(log),
            saved_state(log),
            self.now_ns,
            has_forgotten=log.may_have_forgotten,
        )
        self.groups.add(identity, node, self.now_ns)

    def node(self, identity: bytes = GROUP) -> RaftNode:
        node = self.groups.node(identity)
        assert node is not None
        return node

    def turn(self) -> None:
        self.groups.tick(self.now_ns)
        while portion := self.groups.take(self.now_ns):
            for identity, entries in portion.committed:
                self.applied += [entry.data for entry in entries if entry.data]
                self.groups.applied_to(identity, entries[-1].index)
            self.writes.save(portion)
            self.store.commit()
            for written in self.writes.take_written():
                self.groups.written(written, self.now_ns)

    def elect(self) -> None:
        for _ in range(4):
            self.now_ns += S
            self.turn()


def test_values_of_the_core_are_those_of_the_store() -> None:
    membership = membership_of("abc", "d")
    mark = mark_of(Snapshot(4, 2, membership, 9))
    assert (mark.index, mark.term, mark.lease_ns) == (4, 2, 9)
    assert mark_of(Snapshot(0, 0, UNKNOWN)) == SnapshotMark()
    assert state_of(HardState(5, "b", 4, 9)) == GroupState(5, "b", 4, 9)


@pytest.mark.parametrize("saved", [born(membership_of("abc")), blank()], ids=["born", "blank"])
def test_a_member_starts_with_the_state_that_it_was_born_with(saved: SavedState) -> None:
    disk = SimDisk()
    store = opened(disk)
    create_log(store.groups, GROUP, GroupMode.SYNCED, saved)
    store.commit()
    disk.power_loss("strict")
    assert saved_state(opened(disk).groups[GROUP]) == saved


@pytest.mark.parametrize(("told_ns", "lease_ns"), [(5_000, 5_000), (None, UNTOLD_LEASE_NS)])
def test_a_member_starts_with_the_lease_that_its_snapshot_tells(
    told_ns: int | None, lease_ns: int
) -> None:
    store = opened(SimDisk())
    mark = SnapshotMark(3, 2, encode(membership_of("abc")), told_ns)
    log, _ = store.groups.create(GROUP, GroupMode.SYNCED, mark, GroupState(2, "", 3))
    assert saved_state(log).snapshot.lease_ns == lease_ns


def test_entries_are_read_back_as_the_core_made_them() -> None:
    server = LoneServer(SimDisk())
    server.create(GROUP)
    server.elect()
    server.groups.propose(GROUP, [b"one", b"two"], server.now_ns)
    server.turn()
    log = server.store.groups[GROUP]
    found = GroupStorage(log).entries(log.first_index, log.last_index, 1_000)
    kinds = [entry.kind for entry in found]
    assert kinds == [EntryKind.NOOP, EntryKind.DATA, EntryKind.DATA]
    assert found[1] == Entry(found[0].term, 3, EntryKind.DATA, b"one", found[1].created_ns)


def test_a_member_goes_on_after_a_power_loss() -> None:
    disk = SimDisk()
    server = LoneServer(disk)
    server.create(GROUP)
    server.elect()
    server.groups.propose(GROUP, [b"one"], server.now_ns)
    server.turn()
    assert server.applied == [b"one"]
    term = server.node().term
    disk.power_loss("strict")
    server = LoneServer(disk)
    assert server.node().may_vote
    server.elect()
    assert server.node().role is RoleName.LEADER
    assert server.node().term > term
    assert server.applied == [b"one"]


def test_a_member_that_may_have_forgotten_does_not_vote_after_any_number_of_crashes() -> None:
    disk = SimDisk()
    server = LoneServer(disk)
    server.create(GROUP, GroupMode.WRITTEN)
    server.elect()
    disk.power_loss("strict")
    for _ in range(3):
        server = LoneServer(disk)
        assert not server.node().may_vote
        disk.kill()
    server = LoneServer(disk)
    server.elect()
    assert server.node().role is RoleName.FOLLOWER
    disk.kill()
    server = LoneServer(disk)
    assert not server.store.groups[GROUP].may_have_forgotten
    assert not server.node().may_vote


def test_replies_wait_for_the_sync_of_a_vote_and_stay_in_order() -> None:
    server = LoneServer(SimDisk())
    server.create(GROUP)
    server.turn()
    server.now_ns += 4 * S
    server.groups.tick(server.now_ns)
    portion = server.groups.take(server.now_ns)
    assert portion is not None
    assert portion.must_sync
    server.writes.save(portion)
    assert server.store.group_commit.begin()
    assert server.writes.take_written() == []
    server.store.group_commit.sync()
    server.store.group_commit.finish()
    assert server.writes.take_written() == [portion]


def test_a_thousand_elections_are_a_few_writes() -> None:
    disk = SimDisk()
    server = LoneServer(disk)
    for number in range(1_000):
        create_log(
            server.store.groups, b"%016d" % number, GroupMode.SYNCED, born(membership_of("a"))
        )
    server.store.commit()
    for identity in server.store.groups.identities():
        server.add(identity)
    writes, syncs = disk.operation_counts["write"], disk.operation_counts["sync"]
    server.elect()
    assert all(server.node(each).is_ready for each in server.store.groups.identities())
    assert disk.operation_counts["write"] - writes <= 12
    assert disk.operation_counts["sync"] - syncs <= 12


def test_a_state_machine_ahead_of_its_log_is_filled_again() -> None:
    """A snapshot was installed, and the process died before its mark was in the log."""
    disk = SimDisk()
    server = LoneServer(disk)
    server.create(GROUP)
    server.elect()
    disk.kill()
    log = opened(disk).groups[GROUP]
    assert saved_state(log, applied=log.last_index).last_index == log.last_index
    assert not log.may_have_forgotten
    found = saved_state(log, applied=log.last_index + 1)
    assert (found.snapshot, found.last_index, found.applied) == (blank().snapshot, 0, 0)
    assert found.hard_state.term == log.state.term
    assert log.may_have_forgotten


def test_the_log_of_a_member_in_memory_begins_at_the_birth_again_after_a_restart() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    members = membership_of("abc")
    store = opened(disk)
    create_log(store.groups, GROUP, GroupMode.MEMORY, born(members))
    store.commit()
    disk.kill()
    log = opened(disk).groups[GROUP]
    saved = restarted_in_memory(log, saved_state(log), members)
    assert saved.snapshot.membership == members
    assert log.last_index == saved.last_index == BIRTH_INDEX
    assert log.may_have_forgotten
    # The entries that its leader sends follow the birth.
    log.save(entries=[GroupEntry(BIRTH_INDEX + 1, 1, 0, 0, 0, b"first")])
    assert log.last_index == BIRTH_INDEX + 1
