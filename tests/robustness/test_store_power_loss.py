"""The power goes at every single operation of a workload, and the store keeps what it promised.

The workload has streams of every sync mode, with segments so small that they fill, are sealed and
go all the time. It is stopped before and during each operation that changes the disk (after one is
before the next, with more promised), and each time the disk keeps the synced bytes and nothing
else, or a random part of the rest. Stores of compressed and of encrypted files are stopped as well.
"""

from collections.abc import Callable
from copy import deepcopy

import pytest

from headwater.runtime.upkeep import LOOK_S, Upkeep
from headwater.store.store import Store, open_store
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit import entries
from tests.kit.hand_scheduler import HandScheduler
from tests.robustness.stopped_stores import ENCODINGS, told_in_full
from tests.robustness.store_ledger import FOLDER, MODES, SEGMENT_BYTES_MAX, Workload

# Each is a test of its own, so that they can run side by side.
PARTS = 3
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
MODES_OF_LOSS: tuple[Mode, ...] = ("strict", "random")
# The fates of the disk at each point. Encoded files add blocks to the written bytes and no rules to
# recovery, so that they need fewer random fates; test_encoding has crashes of their own.
FATES: dict[tuple[str, Moment], tuple[tuple[Mode, int], ...]] = {
    ("plain", "before"): (("strict", 0),),
    ("plain", "during"): (("random", 2),),
    ("compressed", "during"): (("random", 4),),
    ("encrypted", "during"): (("random", 5),),
}
# First operation and how many further on the next one is: the encoded stores take turns.
STRIDES = {"plain": (0, 1), "compressed": (0, 3), "encrypted": (1, 3)}
# Small ones, so that every file has several of them.
PAGE_BYTES = 128
# Recovery from one in so many crashes is itself stopped at every operation, by either death.
RECOVERED_OF_ALL = {"plain": 40, "encrypted": 200}


def opened(disk: SimDisk, boot_id: str, encoding: str) -> Store:
    """The store, with every stream in its mode."""
    store = open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        modes=MODES,
        encoding=ENCODINGS[encoding],
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


def run(disk: SimDisk, workload: Workload, encoding: str) -> None:
    """A few turns of a server's life, all that a stream can go through among them."""
    disk.make_folder("data")
    disk.sync_folder("/")
    store = opened(disk, "boot 0", encoding)
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
    keep_up(store, workload)
    store.trim()
    for name in MODES:
        workload.append(store, name, count=2, size=300)
    workload.commit(store)
    restart(disk, store, workload, encoding)


def shrink(store: Store, workload: Workload) -> None:
    for name in MODES:
        workload.delete(store, name, [2, 5])
        workload.delete(store, name, [3], erase=True)
    workload.commit(store)
    for name in MODES:
        workload.append(store, name, count=2)
        workload.delete(store, name, [1, 4, 6, 7])
        workload.append(store, name, count=2)
        workload.write_entry(store, name)
    workload.sync(store, "interval")


def keep_up(store: Store, workload: Workload) -> None:
    """Segments and journals are rewritten, and checkpoints written, while the streams are used."""
    for name, log in store.logs.items():
        oldest = log.index.segments[0]
        live = [at for at in range(oldest.first_sequence, oldest.next_sequence) if log.get(at)]
        workload.delete(store, name, live[:-1])
    scheduler = HandScheduler()
    problems: list[str] = []
    upkeep = Upkeep(store, scheduler, problems.append, short_journal_bytes=300, few_messages=3)
    names = iter(MODES)

    def meanwhile() -> None:
        name = next(names, None)
        if name is not None:
            workload.append(store, name, count=1)
            workload.write_entry(store, name)

    upkeep.start()
    assert scheduler.run_until_quiet(LOOK_S, meanwhile) >= 3 * len(MODES)
    assert problems == []
    upkeep.stop()


def restart(disk: SimDisk, store: Store, workload: Workload, encoding: str) -> None:
    workload.close(store)
    store = opened(disk, "boot 0", encoding)
    for name in MODES:
        workload.append(store, name, count=1)
        workload.write_entry(store, name)
    workload.commit(store)
    store.logs["interval"].checkpoints.write_now()
    workload.append(store, "interval", count=2)
    workload.delete(store, "interval", [8])


def points_of(encoding: str) -> range:
    return crash_points(lambda disk: run(disk, Workload(), encoding))


POINTS = {encoding: points_of(encoding) for encoding in ENCODINGS}


def stopped_at(number: int, moment: Moment, encoding: str) -> tuple[SimDisk, Workload]:
    """The disk of a machine that stopped at an operation, and the promises made until then."""
    leftovers: tuple[Leftovers, ...] = ("zeros", "noise", "stale")
    leftover = leftovers[number // PARTS % len(leftovers)]
    disk = SimDisk(seed=number, page_bytes=PAGE_BYTES, leftovers=leftover)
    workload = Workload()
    disk.crash_at(number, moment)
    with pytest.raises(PowerLost):
        run(disk, workload, encoding)
    return disk, workload


def check_opened(disk: SimDisk, workload: Workload, encoding: str, boot_id: str) -> None:
    """The store opens, has kept its promises, and goes on to be used."""
    store = opened(disk, boot_id, encoding)
    workload.check(store)
    for name, log in store.logs.items():
        ledger = workload.ledgers[name]
        # The messages that are there now have to stay, through a restart of the process.
        ledger.given = {at: body for at, body in ledger.given.items() if log.get(at) is not None}
        ledger.entries = len(log.entries)
        before = log.last_sequence
        workload.append(store, name, count=1)
        workload.write_entry(store, name)
        assert log.last_sequence == before + 1
    store.flush()
    lost = {name: list(log.lost) for name, log in store.logs.items()}
    disk.kill()
    store = opened(disk, boot_id, encoding)
    for name, log in store.logs.items():
        ledger = workload.ledgers[name]
        for sequence, payload in ledger.given.items():
            message = log.get(sequence)
            assert message is not None
            assert message.payload == payload
        assert all(log.lost.within(*part) == [part] for part in lost[name])
        assert len(log.entries) == ledger.entries


def test_the_workload_is_long_enough_to_mean_something() -> None:
    assert all(len(points) > 200 for points in POINTS.values())


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("encoding", "moment"), FATES)
def test_the_power_goes_at_every_operation(encoding: str, moment: Moment, part: int) -> None:
    first, stride = STRIDES[encoding]
    for number in POINTS[encoding][first::stride][part::PARTS]:
        disk, workload = stopped_at(number, moment, encoding)
        for mode, seed in FATES[encoding, moment]:
            survivor = disk.clone(seed * 1000 + number)
            with told_in_full(survivor, f"operation {number}, {moment}, {mode}, seed {seed}"):
                survivor.power_loss(mode)
                check_opened(survivor, deepcopy(workload), encoding, "boot 2")


def stop_while_opening(
    part: int, encoding: str, first: int, start_again: Callable[[SimDisk, int], str]
) -> None:
    """Stop the start after a power loss at every operation too; `start_again` returns a boot id."""
    for number in POINTS[encoding][first + part :: PARTS * RECOVERED_OF_ALL[encoding]]:
        disk, workload = stopped_at(number, "during", encoding)
        disk.power_loss("random")
        for again in crash_points(lambda trial: opened(trial, "boot 1", encoding), disk):
            survivor = disk.clone(number + again)
            survivor.crash_at(again, MOMENTS[again % len(MOMENTS)])
            with told_in_full(survivor, f"operation {number}, and {again} while opening"):
                with pytest.raises(PowerLost):
                    opened(survivor, "boot 1", encoding)
                boot_id = start_again(survivor, again)
                check_opened(survivor, deepcopy(workload), encoding, boot_id)


@pytest.mark.parametrize("encoding", RECOVERED_OF_ALL)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_power_goes_again_while_the_store_is_opened(part: int, encoding: str) -> None:
    def start_again(disk: SimDisk, number: int) -> str:
        disk.power_loss(MODES_OF_LOSS[number % 2])
        return "boot 2"

    stop_while_opening(part, encoding, 0, start_again)


@pytest.mark.parametrize("encoding", RECOVERED_OF_ALL)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_process_dies_while_the_store_is_opened_after_the_power_went(
    part: int, encoding: str
) -> None:
    def start_again(disk: SimDisk, number: int) -> str:
        disk.kill()
        return "boot 1"

    # The crashes are others than those of the test above.
    stop_while_opening(part, encoding, PARTS * RECOVERED_OF_ALL[encoding] // 2, start_again)
