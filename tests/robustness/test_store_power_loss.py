"""The power goes at every single operation of a workload, and the store keeps what it promised.

The workload has streams of every sync mode, with segments so small that they fill, are sealed and
go all the time. It is stopped before, during and after each operation that changes the disk, and
each time the disk keeps what was synced and nothing else, or whatever else several seeds say.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import pytest

from headwater.store.store import Store
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from tests.robustness.store_ledger import MODES, Workload, opened

# Each is a test of its own, so that they can run side by side.
PARTS = 3
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
MODES_OF_LOSS: tuple[Mode, ...] = ("strict", "random")
FATES: dict[Moment, tuple[tuple[Mode, int], ...]] = {
    "before": (("strict", 0), ("random", 1)),
    "during": (("strict", 0), ("random", 2), ("random", 3)),
    "after": (("random", 4),),
}
# Small ones, so that every file has several of them.
PAGE_BYTES = 128
# Recovery from one in so many crashes is itself stopped at every operation.
RECOVERED_OF_ALL = 30


def run(disk: SimDisk, workload: Workload) -> None:
    """A few turns of a server's life, all that a stream can go through among them."""
    disk.make_folder("data")
    disk.sync_folder("/")
    store = opened(disk, "boot 0")
    for name in MODES:
        workload.create(store, name)
    for turn in range(6):
        for name in MODES:
            workload.append(store, name, count=1 + turn % 3)
            workload.write_entry(store, name)
        if turn % 2:
            workload.commit(store)
            workload.sync(store, "interval")
        store.flush()
    shrink(store, workload)
    workload.commit(store)
    store.trim()
    for name in MODES:
        workload.append(store, name, count=2, size=300)
    workload.commit(store)
    restart(disk, store, workload)


def shrink(store: Store, workload: Workload) -> None:
    for name in MODES:
        workload.delete(store, name, [2, 5])
        workload.delete(store, name, [3], erase=True)
    workload.commit(store)
    for name in MODES:
        workload.append(store, name, count=2)
        workload.delete(store, name, [1, 4, 6, 7])
        workload.truncate(store, name, store.logs[name].last_sequence - 3)
        workload.append(store, name, count=2)
        workload.write_entry(store, name)
    workload.sync(store, "interval")


def restart(disk: SimDisk, store: Store, workload: Workload) -> None:
    workload.close(store)
    store = opened(disk, "boot 0")
    for name in MODES:
        workload.append(store, name, count=1)
        workload.write_entry(store, name)
    workload.commit(store)
    store.logs["interval"].checkpoint()
    workload.append(store, "interval", count=2)
    workload.delete(store, "interval", [8])


POINTS = crash_points(lambda disk: run(disk, Workload()))


def stopped_at(number: int, moment: Moment) -> tuple[SimDisk, Workload]:
    """The disk of a machine that stopped at an operation, and what it had promised until then."""
    leftovers: tuple[Leftovers, ...] = ("zeros", "noise", "stale")
    leftover = leftovers[number // PARTS % len(leftovers)]
    disk = SimDisk(seed=number, page_bytes=PAGE_BYTES, leftovers=leftover)
    workload = Workload()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        run(disk, workload)
    return disk, workload


def check_survivor(disk: SimDisk, workload: Workload, mode: Mode) -> None:
    """The machine comes back, the store opens, and goes on to be used."""
    disk.power_loss(mode)
    check_opened(disk, workload, "boot 2")


def check_opened(disk: SimDisk, workload: Workload, boot_id: str) -> None:
    store = opened(disk, boot_id)
    workload.check(store)
    for name, log in store.logs.items():
        ledger = workload.ledgers[name]
        # What is there now has to stay, through a restart of the process.
        ledger.given = {at: body for at, body in ledger.given.items() if log.get(at) is not None}
        ledger.entries = len(log.entries)
        before = log.last_sequence
        workload.append(store, name, count=1)
        workload.write_entry(store, name)
        assert log.last_sequence == before + 1
    store.flush()
    lost = {name: list(log.lost) for name, log in store.logs.items()}
    disk.kill()
    store = opened(disk, boot_id)
    for name, log in store.logs.items():
        ledger = workload.ledgers[name]
        for sequence, payload in ledger.given.items():
            message = log.get(sequence)
            assert message is not None
            assert message.payload == payload
        assert all(log.lost.within(*part) == [part] for part in lost[name])
        assert len(log.entries) == ledger.entries


@contextmanager
def told_in_full(disk: SimDisk, what: str) -> Iterator[None]:
    """A failure says where the power went and what the disk did."""
    try:
        yield
    except BaseException:
        print(what)
        print(disk.history(80))
        raise


def test_the_workload_is_long_enough_to_mean_something() -> None:
    assert len(POINTS) > 200


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("moment", MOMENTS)
def test_the_power_goes_at_every_operation(part: int, moment: Moment) -> None:
    for number in POINTS[part::PARTS]:
        disk, workload = stopped_at(number, moment)
        for mode, seed in FATES[moment]:
            survivor = disk.clone(seed * 1000 + number)
            with told_in_full(survivor, f"operation {number}, {moment}, {mode}, seed {seed}"):
                check_survivor(survivor, deepcopy(workload), mode)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_power_goes_again_while_the_store_is_opened(part: int) -> None:
    for number in POINTS[part :: PARTS * RECOVERED_OF_ALL]:
        disk, workload = stopped_at(number, "during")
        disk.power_loss("random")
        for again in crash_points(lambda trial: opened(trial, "boot 1"), disk):
            survivor = disk.clone(number + again)
            survivor.crash_at(again, MOMENTS[again % len(MOMENTS)])
            with told_in_full(survivor, f"operation {number}, and {again} while opening"):
                with pytest.raises(PowerLost):
                    opened(survivor, "boot 1")
                check_survivor(survivor, deepcopy(workload), MODES_OF_LOSS[again % 2])


@pytest.mark.parametrize("part", range(PARTS))
def test_the_process_dies_while_the_store_is_opened_after_the_power_went(part: int) -> None:
    for number in POINTS[part :: PARTS * RECOVERED_OF_ALL]:
        disk, workload = stopped_at(number, "during")
        disk.power_loss("random")
        for again in crash_points(lambda trial: opened(trial, "boot 1"), disk):
            survivor = disk.clone(number + again)
            survivor.crash_at(again, MOMENTS[again % len(MOMENTS)])
            with told_in_full(survivor, f"operation {number}, and {again} while opening"):
                with pytest.raises(PowerLost):
                    opened(survivor, "boot 1")
                survivor.kill()
                check_opened(survivor, deepcopy(workload), "boot 1")
