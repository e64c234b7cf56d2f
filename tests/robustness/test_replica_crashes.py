"""The process dies, or the power goes, at every operation of a workload of replicated streams.

The entries of the streams are in the logs of their groups, which are compacted up to the redo
points of the files; upkeep changes the files meanwhile. After each crash a replica is found at its
redo point, and when the entries behind it are applied it equals one that never crashed.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from headwater.base.errors import ProgrammerError
from headwater.store.disk.wal import RedoPoint
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog, SaveTicket
from headwater.store.log.durability import Durability
from headwater.store.log.redo_points import RedoPoints
from headwater.store.recovery import replicas
from headwater.store.store import Store, open_store
from headwater.testing import seeds
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.robustness.redo_machine import OPERATIONS, Dump, Machine, dumps_of, encode_operation
from tests.robustness.stopped_stores import ENCODINGS, told_in_full

FOLDER = "data/jetstream"
SEGMENT_BYTES_MAX = 700
PAGE_BYTES = 128
PARTS = 3
MODES = {"a": GroupMode.SYNCED, "b": GroupMode.WRITTEN}
# One in so many operations is a point for a seed.
STRIDES = {"plain": 4, "compressed": 40, "encrypted": 40}
# Recovery from one in so many crashes is itself stopped at every operation.
RECOVERED_OF_ALL = 120
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
# Entries of the consensus core itself have no effect on the files. One in so many is such a one.
EMPTY_OF_ALL = 5
DATA, EMPTY = 0, 1


def opened(disk: SimDisk, boot_id: str, encoding: str = "plain") -> Store:
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        encoding=ENCODINGS[encoding],
        segment_bytes_max=SEGMENT_BYTES_MAX,
        ahead_bytes_max=5000,
    )


DUMPS = dumps_of(opened(SimDisk(), "boot 0").create_stream("reference"), 2 * len(OPERATIONS) + 1)


class Replica:
    """A replicated stream; knows what was confirmed, also after a crash."""

    def __init__(self, name: str) -> None:
        self.name = name
        # The operations that were proposed, and those whose entries were confirmed.
        self.proposed = self.confirmed = 0
        self.is_created = False

    def create(self, store: Store) -> None:
        log = store.create_stream(self.name, is_replica=True)
        store.groups.create(log.identity, MODES[self.name], SnapshotMark(), GroupState(1))
        store.commit()
        self.is_created = True
        self.start(store)

    def start(self, store: Store) -> None:
        """Apply the entries of the group behind the redo point."""
        self.store = store
        self.log = store.logs[self.name]
        if not self.log.is_replica:
            # The crash came before its first redo point, and nothing was confirmed.
            assert self.log.last_sequence == self.confirmed == 0
            store.join_group(self.name, 0)
        assert not self.log.must_refill, self.log.must_refill
        assert not self.log.offline
        assert self.log.entries_to_apply == []
        self.machine = Machine(self.log)
        if self.name == "b":
            self.log.queue_journal()
        self.group = self._find_group()
        assert self.group.snapshot.index <= self.log.applied_entry <= self.group.last_index
        self.waiting: list[tuple[SaveTicket, GroupEntry]] = []
        for index in range(self.log.applied_entry + 1, self.group.last_index + 1):
            self._apply(*self.group.entries(index, index, 0))

    def _find_group(self) -> GroupLog:
        groups = self.store.groups
        if self.log.identity not in groups:
            # The crash came between the two, and nothing was confirmed.
            groups.create(self.log.identity, MODES[self.name], SnapshotMark(), GroupState(1))
            self.store.commit()
        return groups[self.log.identity]

    @property
    def count(self) -> int:
        """The number of operations in the log of the group, also of those that it gave up."""
        return self.group.last_index - self.group.last_index // EMPTY_OF_ALL

    def propose(self) -> None:
        """Save the next operation as an entry; the one before it is applied."""
        number = self.count
        index = self.group.last_index + 1
        entries = []
        if index % EMPTY_OF_ALL == 0:
            entries.append(GroupEntry(index, 1, EMPTY, 0, 0, b""))
            index += 1
        data = encode_operation(self.log, number, OPERATIONS[number % len(OPERATIONS)])
        entries.append(GroupEntry(index, 1, DATA, 0, 0, data))
        self.proposed = number + 1
        ticket = self.group.save(entries=entries)
        self.waiting += [(ticket, entry) for entry in entries]

    def apply_covered(self) -> None:
        """Apply the entries that are as durable as the mode of the group says."""
        numbers = self.store.groups.numbers
        while self.waiting and numbers.covers(self.waiting[0][0]):
            _, entry = self.waiting.pop(0)
            self._apply(entry)
            self.confirmed += entry.kind == DATA
        self.log.write_journal()

    def _apply(self, entry: GroupEntry) -> None:
        if entry.kind == DATA:
            self.machine.apply(entry.index, self.log.last_sequence, entry.data)
        self.log.applied_entry = entry.index

    def compact(self) -> None:
        """Give up the entries whose effects are on the disk."""
        self.group.compact(max(self.log.durable_entry, self.group.snapshot.index), b"members")

    def end_process(self) -> None:
        for name in ("store", "log", "machine", "group", "waiting"):
            vars(self).pop(name, None)


class World:
    """The replicated streams of a server."""

    def __init__(self) -> None:
        self.replicas = {name: Replica(name) for name in MODES}

    def start(self, store: Store) -> None:
        for replica in self.replicas.values():
            if replica.name in store.logs:
                replica.start(store)
            else:
                assert not replica.is_created
                replica.create(store)

    def turn(self, store: Store, upkeep: Iterator[None], number: int) -> None:
        busy = [*self.replicas.values()][: 1 + number % 2]
        for replica in busy:
            replica.propose()
        if store.group_commit.begin():
            # The sync is under way.
            next(upkeep)
            store.group_commit.sync()
            store.group_commit.finish()
        for replica in self.replicas.values():
            replica.apply_covered()
        if store.group_commit.is_trim_due:
            store.trim()
        next(upkeep)

    def upkeeps(self, store: Store) -> Iterator[None]:
        """All that changes files without an entry, one after the other, again and again."""
        while True:
            for replica in self.replicas.values():
                log = replica.log
                yield
                store.sync()
                yield
                replica.compact()
                yield
                for first in log.compactions.worthwhile()[:1]:
                    compaction = log.compactions.begin(first)
                    compaction.run()
                    log.compactions.finish(compaction)
                yield
                log.checkpoints.write_now()
                yield
                log.rewrite_journal_now()
                yield
                log.drop_empty_segments()
                yield
                store.trim()

    def end_process(self) -> None:
        for replica in self.replicas.values():
            replica.end_process()


def run(disk: SimDisk, world: World, encoding: str) -> None:
    """A server's life with a restart in the middle."""
    disk.make_folder("data")
    disk.sync_folder("/")
    for _ in range(2):
        store = opened(disk, "boot 0", encoding)
        world.start(store)
        upkeep = world.upkeeps(store)
        for number in range(len(OPERATIONS)):
            world.turn(store, upkeep, number)
        store.close()


POINTS = {
    encoding: crash_points(lambda disk, each=encoding: run(disk, World(), each))  # type: ignore[misc]
    for encoding in STRIDES
}


def stopped_at(number: int, moment: Moment, encoding: str = "plain") -> tuple[SimDisk, World]:
    leftovers: tuple[Leftovers, ...] = ("zeros", "noise", "stale")
    disk = SimDisk(
        seed=number, page_bytes=PAGE_BYTES, leftovers=leftovers[number // PARTS % len(leftovers)]
    )
    world = World()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        run(disk, world, encoding)
    world.end_process()
    return disk, world


def check_recovered(
    disk: SimDisk, world: World, boot_id: str, power_lost: bool, encoding: str = "plain"
) -> None:
    """Every replica equals one that never crashed, and goes on from there."""
    store = opened(disk, boot_id, encoding)
    for replica in world.replicas.values():
        if replica.name not in store.logs:
            assert not replica.is_created
            continue
        replica.start(store)
        may_forget = power_lost and MODES[replica.name] is GroupMode.WRITTEN
        may_forget &= replica.group.may_have_forgotten
        assert may_forget or replica.count >= replica.confirmed, "a confirmed entry is gone"
        assert replica.count <= replica.proposed
        check_equal(replica)
    for replica in world.replicas.values():
        if replica.name in store.logs:
            replica.propose()
            store.commit()
            replica.apply_covered()
            check_equal(replica)


def check_equal(replica: Replica) -> None:
    found: Dump = replica.machine.dump()
    assert found == DUMPS[replica.count], replica.name
    assert not replica.log.lost


def test_the_workload_compacts_groups_and_trims() -> None:
    disk, world = SimDisk(), World()
    run(disk, world, "plain")
    for replica in world.replicas.values():
        assert replica.group.snapshot.index > 10
        assert replica.confirmed == replica.proposed
    assert disk.operation_counts["remove"] > 6
    assert len(POINTS["plain"]) > 400


def points_of(encoding: str, part: int, seed: int) -> range:
    stride = STRIDES[encoding]
    return POINTS[encoding][part + PARTS * (seed % stride) :: PARTS * stride]


POWER_LOSSES: tuple[tuple[Moment, Mode], ...] = (("before", "strict"), ("during", "random"))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", STRIDES)
def test_the_power_goes_at_every_operation(encoding: str, part: int) -> None:
    for seed in seeds(1):
        for number in points_of(encoding, part, seed):
            moment, mode = POWER_LOSSES[(number // PARTS + seed) % 2]
            disk, world = stopped_at(number, moment, encoding)
            with told_in_full(disk, f"operation {number}, {moment}, {mode}"):
                disk.power_loss(mode)
                check_recovered(disk, world, "boot 1", power_lost=True, encoding=encoding)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", STRIDES)
def test_the_process_dies_at_every_operation(encoding: str, part: int) -> None:
    for seed in seeds(1):
        for number in points_of(encoding, part, seed + STRIDES[encoding] // 2):
            disk, world = stopped_at(number, MOMENTS[number % 3], encoding)
            with told_in_full(disk, f"operation {number}"):
                disk.kill()
                check_recovered(disk, world, "boot 0", power_lost=False, encoding=encoding)


@pytest.mark.parametrize("mode", ["strict", "random", None])
def test_a_crash_during_opening_takes_nothing_away(mode: Mode | None) -> None:
    """The second crash is one of the machine, or of the process alone."""
    for number in POINTS["plain"][::RECOVERED_OF_ALL]:
        disk, world = stopped_at(number, "during")
        disk.power_loss("random")
        for again in crash_points(lambda trial: opened(trial, "boot 1"), disk):
            survivor = disk.clone(number + again)
            survivor.crash_at(again, MOMENTS[again % 3])
            with told_in_full(survivor, f"operation {number}, and {again} during opening"):
                with pytest.raises(PowerLost):
                    opened(survivor, "boot 1")
                if mode is None:
                    survivor.kill()
                else:
                    survivor.power_loss(mode)
                boot_id = "boot 1" if mode is None else "boot 2"
                check_recovered(survivor, deepcopy(world), boot_id, power_lost=True)


# --- each defence taken out ----------------------------------------------------------------------

Defence = Callable[[pytest.MonkeyPatch], None]


def _no_cut_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replicas, "cut_back", lambda files, folder, point, sets_aside: None)


def _no_wait_for_the_redo_point(patch: pytest.MonkeyPatch) -> None:
    applied = property(lambda self: self.applied.entry)
    patch.setattr(RedoPoints, "durable_entry", applied)


def _no_redo_point_before_a_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Durability, "secure_applied", lambda self: None)


def _no_redo_point_in_the_next_file(patch: pytest.MonkeyPatch) -> None:
    begin_at = RedoPoints.begin_at

    def name_once(self: RedoPoints, point: RedoPoint) -> None:
        if point != self.named:
            begin_at(self, point)

    patch.setattr(RedoPoints, "begin_at", name_once)


DEFENCES = [
    _no_cut_back,
    _no_wait_for_the_redo_point,
    _no_redo_point_before_a_change,
    _no_redo_point_in_the_next_file,
]


def crash_everywhere() -> None:
    """Crashes of both kinds at operations all over the workload. Raises AssertionError."""
    for number in crash_points(lambda disk: run(disk, World(), "plain"))[::5]:
        for moment, mode in POWER_LOSSES:
            disk, world = stopped_at(number, moment)
            survivor, beside = disk.clone(), deepcopy(world)
            disk.power_loss(mode)
            check_recovered(disk, world, "boot 1", power_lost=True)
            survivor.kill()
            check_recovered(survivor, beside, "boot 0", power_lost=False)


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda each: each.__name__.removeprefix("_"))
def test_without_a_defence_a_replica_differs(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    with pytest.raises((AssertionError, ProgrammerError)):
        crash_everywhere()


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda each: each.__name__.removeprefix("_"))
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    world = World()
    run(SimDisk(), world, "plain")
    for replica in world.replicas.values():
        assert replica.confirmed == replica.proposed
