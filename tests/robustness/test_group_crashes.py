"""The process dies, or the power goes, at every operation of a workload of several groups.

Terms, votes, memberships, snapshots, conflicts, trims of the write-ahead file, groups that come and
go, an `always` stream beside them. After each crash every group opens, has the last vote that it
gave, and holds all entries that it confirmed; a group that may have forgotten some knows it.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from headwater.base.errors import ProgrammerError
from headwater.store.groups import group_log, opening
from headwater.store.groups.frames import GroupMode
from headwater.store.groups.group_log import GroupLog, SaveNumbers
from headwater.store.groups.group_logs import GroupLogs
from headwater.store.groups.opening import StartFacts
from headwater.store.recovery.redo import apply_entries
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.group_ledger import GroupHost, check_kept
from tests.robustness.redo_machine import Machine, encode_operation
from tests.robustness.stopped_stores import ENCODINGS, told_in_full

FOLDER = "data/jetstream"
PAGE_BYTES = 128
PARTS = 3
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
STRIDES = {"plain": 1, "encrypted": 8}
RECOVERED_OF_ALL = 40

SYNCED, WRITTEN, MEMORY, BRIEF, STUCK = (bytes([number]) * 16 for number in range(1, 6))


def opened(disk: SimDisk, boot_id: str, encoding: str = "plain") -> Store:
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        default_mode=SyncMode.ALWAYS,
        encoding=ENCODINGS[encoding],
        ahead_bytes_max=2500,
    )


class Stream:
    """An `always` stream beside the groups, whose entries are in the same file."""

    def __init__(self) -> None:
        self.is_created = False
        self.confirmed = self.added = 0

    def start(self, store: Store) -> None:
        if "s" not in store.logs and not self.is_created:
            store.create_stream("s", mode=SyncMode.ALWAYS)
            self.is_created = True
        self.machine = Machine(store.logs["s"])
        apply_entries(self.machine.log, self.machine.apply)
        store.finish_redo()
        found = len(self.machine.notes)
        assert self.confirmed <= found <= self.added, f"{found} of {self.confirmed}"
        self.confirmed = self.added = found
        self._waiting: list[tuple[int, int, bytes]] = []

    def add(self) -> None:
        log = self.machine.log
        self.added += 1
        data = encode_operation(log, self.added, ("note", ()))
        index = log.durability.added_entry + 1
        log.add_entry(index, log.last_sequence, data)
        self._waiting.append((index, log.last_sequence, data))

    def apply_synced(self) -> None:
        log = self.machine.log
        while self._waiting and self._waiting[0][0] <= log.synced_entry:
            index, follows, data = self._waiting.pop(0)
            self.machine.apply(index, follows, data)
            log.applied_entry = index
            self.confirmed += 1


class World:
    """All that a server knows, and what its clients and peers have been told."""

    def __init__(self) -> None:
        self.host = GroupHost()
        self.stream = Stream()

    def start(self, store: Store) -> None:
        self.host.start(store)
        self.stream.start(store)

    def end_process(self) -> None:
        """Keep the ledgers alone."""
        for owner, name in ((self.host, "store"), (self.stream, "machine")):
            vars(owner).pop(name, None)

    def turn(self) -> None:
        self.host.commit()
        self.stream.apply_synced()


def script(host: GroupHost) -> Iterator[None]:
    """Turns of several groups; `yield` ends one."""
    host.create(SYNCED, GroupMode.SYNCED)
    host.create(WRITTEN, GroupMode.WRITTEN)
    host.create(STUCK, GroupMode.SYNCED)
    yield
    host.create(MEMORY, GroupMode.MEMORY)
    host.vote(SYNCED, "alice")
    host.append(STUCK, 3)
    yield
    for round_number in range(4):
        host.append(SYNCED, 2)
        host.append(WRITTEN, 3)
        host.append(MEMORY, 1)
        yield
        host.vote(WRITTEN, "bob", back=2)
        host.vote(MEMORY, "carol")
        yield
        host.append(WRITTEN, 2)
        if round_number == 1:
            host.create(BRIEF, GroupMode.WRITTEN)
            host.append(BRIEF, 2)
        yield
        host.compact(SYNCED, keeps=1)
        host.append(SYNCED, 4, back=1)
        host.append(SYNCED, 1)
        yield
        host.truncate(SYNCED)
        host.compact(WRITTEN, keeps=2)
        yield
        host.vote(SYNCED, f"dave {round_number}")
        if round_number == 2:
            host.remove(BRIEF)
            host.install(WRITTEN)
        host.append(WRITTEN, 2)
        yield
        host.append(STUCK, 1, back=1)
        host.vote(MEMORY, "")
        yield


def run(disk: SimDisk, world: World, encoding: str) -> None:
    """A life with a restart in the middle; the second process has the groups of the first."""
    disk.make_folder("data")
    disk.sync_folder("/")
    store = opened(disk, "boot 0", encoding)
    world.start(store)
    for _ in script(world.host):
        world.stream.add()
        world.turn()
    store.close()
    store = opened(disk, "boot 0", encoding)
    world.start(store)
    for number in range(6):
        world.host.append(SYNCED, 2)
        world.host.append(WRITTEN, 1)
        world.stream.add()
        world.turn()
        world.host.vote(WRITTEN, f"erin {number}")
        world.host.compact(SYNCED, keeps=3)
        world.turn()
    world.host.compact(STUCK, keeps=0)
    world.turn()
    store.close()


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
    disk: SimDisk,
    world: World,
    boot_id: str,
    power_lost: bool,
    encoding: str = "plain",
    doubtful: frozenset[bytes] = frozenset(),
) -> None:
    """Each group has what it promised, and goes on from there."""
    store = opened(disk, boot_id, encoding)
    check_kept(world.host, store, power_lost, doubtful)
    doubtful = doubtful_groups(store)
    world.start(store)
    for identity in store.groups.identities():
        # A member that may have forgotten says so in its next hard state.
        state = store.groups[identity].state
        recovery = 7 if identity in doubtful else state.recovery
        world.host.save(identity, state=state._replace(recovery=recovery))
        world.host.append(identity, 1)
    world.turn()
    disk.kill()
    store = opened(disk, boot_id, encoding)
    check_kept(world.host, store, power_lost=False)


POINTS = {
    encoding: crash_points(lambda disk, each=encoding: run(disk, World(), each))  # type: ignore[misc]
    for encoding in STRIDES
}


def test_the_workload_trims_and_holds_files() -> None:
    disk, world = SimDisk(), World()
    run(disk, world, "plain")
    removed = disk.operation_counts["remove"]
    assert removed > 6
    assert len(POINTS["plain"]) > 250


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", STRIDES)
@pytest.mark.parametrize(("moment", "mode"), [("before", "strict"), ("during", "random")])
def test_the_power_goes_at_every_operation(
    moment: Moment, mode: Mode, encoding: str, part: int
) -> None:
    for number in POINTS[encoding][part :: PARTS * STRIDES[encoding]]:
        disk, world = stopped_at(number, moment, encoding)
        with told_in_full(disk, f"operation {number}, {moment}, {mode}"):
            disk.power_loss(mode)
            check_recovered(disk, world, "boot 1", power_lost=True, encoding=encoding)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("encoding", STRIDES)
def test_the_process_dies_at_every_operation(encoding: str, part: int) -> None:
    for number in POINTS[encoding][part :: PARTS * STRIDES[encoding]]:
        disk, world = stopped_at(number, MOMENTS[number % 3], encoding)
        with told_in_full(disk, f"operation {number}"):
            disk.kill()
            check_recovered(disk, world, "boot 0", power_lost=False, encoding=encoding)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["strict", "random", None])
def test_a_crash_during_opening_takes_nothing_away(mode: Mode | None, part: int) -> None:
    """The second crash is one of the machine, or of the process alone."""
    for number in POINTS["plain"][part :: PARTS * RECOVERED_OF_ALL]:
        disk, world = stopped_at(number, "during")
        disk.power_loss("random")
        doubtful = doubtful_groups(opened(disk.clone(), "boot 1"))
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
                assert doubtful <= doubtful_groups(opened(survivor.clone(), boot_id))
                check_recovered(
                    survivor, deepcopy(world), boot_id, power_lost=True, doubtful=doubtful
                )


def doubtful_groups(store: Store) -> frozenset[bytes]:
    """The groups that may have forgotten; the store is left as by a crash."""
    groups = store.groups
    return frozenset(each for each in groups.identities() if groups[each].may_have_forgotten)


# --- each defence taken out ----------------------------------------------------------------------

Defence = Callable[[pytest.MonkeyPatch], None]


def _no_sync_of_the_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_log, "_is_promise", lambda before, after: False)


def _no_wait_for_the_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SaveNumbers, "covers", lambda self, ticket: True)


def _no_vote_in_the_next_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupLogs, "add_states", lambda self: 0)


def _no_wait_for_entries_in_old_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupLogs, "first_file", lambda self: None)


def _no_doubt_after_an_unclean_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StartFacts, "doubt_about", lambda self, group, is_damaged: "")


def _no_record_of_a_doubt(patch: pytest.MonkeyPatch) -> None:
    state_frame = GroupLog._state_frame

    def without_doubt(self: GroupLog) -> object:
        doubt, self.may_have_forgotten = self.may_have_forgotten, False
        frame = state_frame(self)
        self.may_have_forgotten = doubt
        return frame

    patch.setattr(GroupLog, "_state_frame", without_doubt)


def _no_sync_of_files_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "secure_files", lambda in_files, first: None)


DEFENCES = [
    _no_sync_of_the_vote,
    _no_wait_for_the_write,
    _no_vote_in_the_next_file,
    _no_wait_for_entries_in_old_files,
    _no_doubt_after_an_unclean_start,
    _no_record_of_a_doubt,
    _no_sync_of_files_that_stay,
]


def crash_everywhere() -> None:
    """Power loss at every operation, and twice at some. Raises AssertionError."""
    for number in crash_points(lambda disk: run(disk, World(), "plain")):
        for moment, mode in (("before", "strict"), ("during", "random")):
            disk, world = stopped_at(number, moment)  # type: ignore[arg-type]
            disk.power_loss(mode)  # type: ignore[arg-type]
            check_recovered(disk.clone(), deepcopy(world), "boot 1", power_lost=True)
            doubtful = doubtful_groups(opened(disk, "boot 1"))
            disk.kill()
            assert doubtful <= doubtful_groups(opened(disk, "boot 1"))
            disk, world = stopped_at(number, moment)  # type: ignore[arg-type]
            disk.kill()
            opened(disk, "boot 0")
            disk.power_loss("strict")
            check_kept(world.host, opened(disk, "boot 1"), power_lost=False)


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda each: each.__name__.removeprefix("_"))
def test_without_a_defence_a_promise_is_broken(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    with pytest.raises((AssertionError, ProgrammerError, KeyError, OSError)):
        crash_everywhere()


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda each: each.__name__.removeprefix("_"))
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    world = World()
    run(SimDisk(), world, "plain")
    assert all(not twin.waiting for twin in world.host.twins.values())
