"""A server that gives up its cluster removes the state of the meta group."""

import pytest

from headwater.raft.entry import Entry, EntryKind
from headwater.server.cluster.assignment.meta_machine import (
    META_FILE,
    MetaMachine,
    forget_assignments,
)
from headwater.store.errors import StoreError
from headwater.testing.disk import SimDisk


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(1)
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


def saved(disk: SimDisk) -> None:
    """The state of a server that has applied an entry."""
    machine = MetaMachine(disk, "/data")
    machine.apply([Entry(1, 7, EntryKind.NOOP, b"")])
    machine.make_durable()


def test_a_removed_state_does_not_come_back(disk: SimDisk) -> None:
    saved(disk)
    assert MetaMachine(disk, "/data").applied_index == 7
    forget_assignments(disk, "/data")
    disk.power_loss("strict")
    assert MetaMachine(disk, "/data").applied_index == 0


def test_a_server_without_a_state_has_nothing_to_remove(disk: SimDisk) -> None:
    operations = disk.operations
    forget_assignments(disk, "/data")
    assert disk.operations == operations


def test_a_file_that_cannot_be_removed_is_reported(disk: SimDisk) -> None:
    saved(disk)
    disk.fail("remove")
    with pytest.raises(StoreError, match=META_FILE):
        forget_assignments(disk, "/data")
