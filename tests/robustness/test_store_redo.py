"""The power goes, or the process dies, at every operation of a workload whose streams have entries.

After redo each stream is as one is on which the first entries were applied and that never crashed:
all that were confirmed, and of those that were not a beginning.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise

import pytest

from headwater.store.recovery.redo import apply_entries
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.robustness.redo_machine import OPERATIONS, Dump, Machine, encode_operation
from tests.robustness.stopped_stores import ENCODINGS, told_in_full

FOLDER = "data/jetstream"
SEGMENT_BYTES_MAX = 700
PAGE_BYTES = 128
STREAMS = ("a", "b")
PARTS = 3
# Recovery from one in so many crashes is itself stopped at every operation.
RECOVERED_OF_ALL = 40
# One in so many operations is a point. Encoded files add no rules to redo, and a process that dies
# leaves less to redo than the power.
STRIDES = {"plain": 1, "compressed": 8, "encrypted": 8}
KILL_STRIDE = 2
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")


def opened(disk: SimDisk, boot_id: str, encoding: str = "plain") -> Store:
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        default_mode=SyncMode.ALWAYS,
        encoding=ENCODINGS[encoding],
        segment_bytes_max=SEGMENT_BYTES_MAX,
        ahead_bytes_max=6000,
    )


class Server:
    """Streams over a store; knows what was confirmed, also after a crash."""

    def __init__(self) -> None:
        # The operations that were added to each stream, and those that were confirmed.
        self.added = dict.fromkeys(STREAMS, 0)
        self.confirmed = dict.fromkeys(STREAMS, 0)
        self.created: set[str] = set()
        self.machines: dict[str, Machine] = {}
        self._waiting: dict[str, list[tuple[int, int, bytes, int]]] = {}

    def start(self, store: Store) -> None:
        """Apply what an earlier process has left, and go on.

        The journal of one stream is written once in a turn.
        """
        self.machines = {name: Machine(log) for name, log in store.logs.items()}
        if "b" in self.machines:
            self.machines["b"].log.queue_journal()
        for machine in self.machines.values():
            apply_entries(machine.log, machine.apply)
        store.finish_redo()
        self._waiting = {name: [] for name in self.machines}

    def create(self, store: Store, name: str) -> None:
        self.machines[name] = Machine(store.create_stream(name, mode=SyncMode.ALWAYS))
        self.created.add(name)
        self._waiting[name] = []

    def add(self, name: str) -> None:
        """Add the next operation of a stream; the one before it is applied."""
        number = self.added[name]
        log = self.machines[name].log
        data = encode_operation(log, number, OPERATIONS[number % len(OPERATIONS)])
        index = log.durability.added_entry + 1
        self.added[name] += 1
        log.add_entry(index, log.last_sequence, data)
        self._waiting[name].append((index, log.last_sequence, data, self.added[name]))

    def apply_synced(self) -> None:
        """Apply the entries that are on the disk."""
        for name, waiting in self._waiting.items():
            machine = self.machines[name]
            while waiting and waiting[0][0] <= machine.log.synced_entry:
                index, follows, data, count = waiting.pop(0)
                # Confirmed by now: a server would answer when it is applied.
                self.confirmed[name] = count
                machine.apply(index, follows, data)
                machine.log.applied_entry = index
            if not machine.log.offline:
                machine.log.write_journal()


def reference_dumps() -> list[Dump]:
    """The state of a stream that never crashed, after each number of operations."""
    disk = SimDisk()
    disk.make_folder("data")
    server = Server()
    store = opened(disk, "boot 0")
    server.start(store)
    server.create(store, "a")
    dumps = [server.machines["a"].dump()]
    for _ in range(2 * len(OPERATIONS) + 1):
        server.add("a")
        store.commit()
        server.apply_synced()
        dumps.append(server.machines["a"].dump())
    return dumps


DUMPS = reference_dumps()


def upkeeps(store: Store) -> Iterator[None]:
    """All that changes files without an entry, one after the other, again and again."""
    while True:
        for log in store.logs.values():
            yield
            store.sync()
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


def run(disk: SimDisk, server: Server, encoding: str) -> None:
    """A server's life: upkeep comes while entries are in flight, and a restart in the middle."""
    disk.make_folder("data")
    disk.sync_folder("/")
    for _ in range(2):
        store = opened(disk, "boot 0", encoding)
        server.start(store)
        for name in STREAMS:
            if name not in server.created:
                server.create(store, name)
        upkeep = upkeeps(store)
        for turn in range(len(OPERATIONS)):
            for name in STREAMS[: 1 + turn % 2]:
                server.add(name)
            if store.group_commit.begin():
                # The sync is under way, and its entries are neither confirmed nor applied.
                next(upkeep)
                store.group_commit.sync()
                store.group_commit.finish()
            server.apply_synced()
            if store.group_commit.is_trim_due:
                store.trim()
            next(upkeep)
        store.close()


POINTS = {
    encoding: crash_points(lambda disk, each=encoding: run(disk, Server(), each))  # type: ignore[misc]
    for encoding in ENCODINGS
}


def stopped_at(number: int, moment: Moment, encoding: str) -> tuple[SimDisk, Server]:
    leftovers: tuple[Leftovers, ...] = ("zeros", "noise", "stale")
    disk = SimDisk(
        seed=number, page_bytes=PAGE_BYTES, leftovers=leftovers[number // PARTS % len(leftovers)]
    )
    server = Server()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        run(disk, server, encoding)
    server.machines = {}
    return disk, server


def check_redone(disk: SimDisk, server: Server, encoding: str, boot_id: str) -> None:
    """Each stream is as one that never crashed, and goes on as that one does."""
    store = opened(disk, boot_id, encoding)
    server.start(store)
    assert server.created <= set(store.logs)
    reached = {}
    for name, machine in server.machines.items():
        confirmed, added = server.confirmed[name], server.added[name]
        candidates = DUMPS[confirmed : added + 1]
        found = machine.dump()
        assert found in candidates, f"{name}: {confirmed} of {added} confirmed\n{found}"
        reached[name] = confirmed + candidates.index(found)
        server.added[name] = server.confirmed[name] = reached[name]
    goes_on = [name for name, log in store.logs.items() if not log.lost]
    for name in goes_on:
        server.add(name)
    store.commit()
    server.apply_synced()
    for name in goes_on:
        assert server.machines[name].dump() == DUMPS[reached[name] + 1]
    dumps = {name: machine.dump() for name, machine in server.machines.items()}
    disk.kill()
    store = opened(disk, boot_id, encoding)
    server.start(store)
    assert {name: machine.dump() for name, machine in server.machines.items()} == dumps


def test_every_operation_leaves_another_state() -> None:
    assert all(before != after for before, after in pairwise(DUMPS))
    assert all(len(points) > 300 for points in POINTS.values())


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("moment", "mode"), [("before", "strict"), ("during", "random")])
def test_the_power_goes_at_every_operation(
    moment: Moment, mode: Mode, encoding: str, part: int
) -> None:
    for number in POINTS[encoding][part :: PARTS * STRIDES[encoding]]:
        disk, server = stopped_at(number, moment, encoding)
        with told_in_full(disk, f"operation {number}, {moment}, {mode}"):
            disk.power_loss(mode)
            check_redone(disk, server, encoding, "boot 2")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_process_dies_at_any_operation(encoding: str, part: int) -> None:
    for number in POINTS[encoding][part :: PARTS * STRIDES[encoding] * KILL_STRIDE]:
        disk, server = stopped_at(number, MOMENTS[number % 3], encoding)
        with told_in_full(disk, f"operation {number}"):
            disk.kill()
            check_redone(disk, server, encoding, "boot 0")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["strict", "random", None])
def test_a_crash_during_redo_finds_the_same_redo_point(mode: Mode | None, part: int) -> None:
    """The second crash is one of the machine, or of the process alone."""
    for number in POINTS["plain"][part :: PARTS * RECOVERED_OF_ALL]:
        disk, server = stopped_at(number, "during", "plain")
        disk.power_loss("random")

        def recover(trial: SimDisk, of: Server = server) -> None:
            deepcopy(of).start(opened(trial, "boot 1"))

        for again in crash_points(recover, disk):
            survivor = disk.clone(number + again)
            survivor.crash_at(again, MOMENTS[again % 3])
            with told_in_full(survivor, f"operation {number}, and {again} during redo"):
                with pytest.raises(PowerLost):
                    recover(survivor)
                if mode is None:
                    survivor.kill()
                else:
                    survivor.power_loss(mode)
                boot_id = "boot 1" if mode is None else "boot 2"
                check_redone(survivor, deepcopy(server), "plain", boot_id)
