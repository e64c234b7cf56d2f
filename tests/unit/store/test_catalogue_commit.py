"""Creations and deletions of a turn are one write of the catalogue, and a failure loses none."""

import errno
from random import Random

import pytest

from headwater.store.catalogue_commit import CatalogueCommit
from headwater.store.disk.filesystem import read_file
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.recovery.catalogue import (
    CATALOGUE_FILE,
    CREATED,
    DELETED,
    MADE,
    CatalogueEntry,
)
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.disk_faults import Operation
from headwater.testing.entropy import SeededEntropy

PATH = f"/store/{CATALOGUE_FILE}"


def opened(disk: SimDisk) -> Store:
    return open_store(disk, "/store", SeededEntropy(Random(disk.operations)), "boot")


def created(name: str) -> CatalogueEntry:
    return CatalogueEntry(CREATED, name, name.encode() * 16)


def deleted(name: str) -> CatalogueEntry:
    return CatalogueEntry(DELETED, name, name.encode() * 16)


def streams_after(disk: SimDisk) -> set[str]:
    """The streams that another process finds in the catalogue, without a power loss."""
    disk.heal()
    disk.kill()
    store = opened(disk)
    found = {*store.catalogue.state.streams}
    store.abandon()
    return found


class CommitWorld:
    """A store with a stream in its catalogue, and a commit that takes its steps on demand."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.store = opened(self.disk)
        self.store.catalogue_commit.write([created("a")])
        self.told: list[str] = []
        self.commit.finished = self._finished

    @property
    def commit(self) -> CatalogueCommit:
        return self.store.catalogue_commit

    def _finished(self) -> None:
        problem = self.commit.take_problem()
        self.told.append(str(self.commit.synced) if problem is None else type(problem).__name__)

    @property
    def streams(self) -> set[str]:
        return {*self.store.catalogue.state.streams}

    def take_all_steps(self) -> None:
        if self.commit.begin():
            self.commit.sync()
        self.commit.finish()


def test_entries_of_a_turn_are_one_write_and_count_when_it_is_synced() -> None:
    world = CommitWorld()
    world.commit.add(1, [created("b")])
    world.commit.add(2, [deleted("a")])
    assert world.commit.begin()
    world.commit.add(3, [created("c")])
    world.commit.sync()
    assert (world.told, world.streams) == ([], {"a"})
    world.commit.finish()
    assert (world.told, world.streams, world.commit.synced) == (["2"], {"b"}, 2)
    world.take_all_steps()
    assert (world.told, world.streams) == (["2", "3"], {"b", "c"})
    assert streams_after(world.disk) == {"b", "c"}


def test_an_index_that_needs_no_disk_waits_for_those_before_it_only() -> None:
    world = CommitWorld()
    world.commit.add(1, [])
    assert world.commit.synced == 1
    world.commit.add(2, [created("b")])
    world.commit.add(3, [])
    assert world.commit.synced == 1
    world.take_all_steps()
    assert world.commit.synced == 3


def test_a_hint_that_is_written_during_a_sync_is_kept() -> None:
    world = CommitWorld()
    world.commit.add(1, [created("b")])
    world.commit.begin()
    world.store.catalogue.write_hint(CatalogueEntry(MADE, "a", b"a" * 16))
    world.commit.sync()
    world.commit.finish()
    world.commit.add(2, [created("c")])
    world.take_all_steps()
    assert streams_after(world.disk) == {"a", "b", "c"}
    again = opened(world.disk)
    assert again.catalogue.is_sound
    assert again.catalogue.state.streams["a"].is_made


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_a_failure_nobody_is_told_before_the_file_is_replaced(operation: Operation) -> None:
    world = CommitWorld()
    world.disk.fail(operation, PATH, code=errno.EIO)
    world.commit.add(1, [created("b")])
    world.commit.add(2, [deleted("a")])
    world.take_all_steps()
    world.commit.add(3, [created("c")])
    assert world.told == []
    assert world.commit.is_wanted
    world.disk.heal()
    world.take_all_steps()
    assert (world.told, world.streams) == ([StoreError.__name__], {"a"})
    assert streams_after(world.disk) == {"a"}


def test_if_the_file_is_not_replaced_a_refused_creation_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CatalogueCommit, "is_wanted", False)
    world = CommitWorld()
    world.disk.fail("sync", PATH, code=errno.EIO)
    world.commit.add(1, [created("b")])
    world.take_all_steps()
    assert streams_after(world.disk) == {"a", "b"}


def test_on_a_full_disk_a_creation_is_refused_and_leaves_the_file_as_it_was() -> None:
    world = CommitWorld()
    before = read_file(world.disk, PATH)
    world.disk.fail("write", PATH, code=errno.ENOSPC)
    world.commit.add(1, [created("b")])
    world.commit.add(2, [deleted("a")])
    world.take_all_steps()
    assert world.told == [DiskFullError.__name__]
    assert read_file(world.disk, PATH) == before


def test_on_a_full_disk_deletions_count_and_are_written_when_there_is_room() -> None:
    world = CommitWorld()
    world.disk.fail("write", PATH, code=errno.ENOSPC)
    world.commit.add(1, [deleted("a")])
    world.take_all_steps()
    assert (world.told, world.streams) == (["1"], set())
    assert world.commit.want_waiting()
    world.disk.heal()
    world.take_all_steps()
    assert streams_after(world.disk) == set()
