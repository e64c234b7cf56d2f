"""On a disk without room groups hold their replies back, lose nothing, and go on afterwards."""

from contextlib import suppress

import pytest

from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupMode
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.group_ledger import GroupHost, check_kept
from tests.robustness.stopped_stores import told_in_full

BUSY, QUIET = b"b" * 16, b"q" * 16
FULL_FROM, FULL_TURNS = 6, 12


def opened(disk: SimDisk) -> Store:
    return open_store(
        disk,
        "/data",
        SeededEntropy(labelled_rng(disk.operations, "store")),
        disk.boot_id,
        ahead_bytes_max=1_200,
        reserve_bytes=600,
    )


def commit(host: GroupHost) -> None:
    """A commit. Files that cannot be removed without room stay until the next."""
    with suppress(StoreError):
        host.commit()
    host.confirm()
    assert not host.store.groups.offline


def live(disk: SimDisk, room_bytes: int) -> GroupHost:
    """Turns before, on and after a full disk; the quiet group votes on it."""
    host = GroupHost()
    host.start(opened(disk))
    host.create(BUSY, GroupMode.SYNCED)
    host.create(QUIET, GroupMode.WRITTEN)
    for turn in range(FULL_FROM + FULL_TURNS + 8):
        if turn == FULL_FROM:
            disk.capacity_bytes = disk.used_bytes + room_bytes
        if turn == FULL_FROM + FULL_TURNS:
            disk.capacity_bytes = None
            assert host.store.room.look_for_room()
        host.append(BUSY, 2)
        if turn == FULL_FROM + 4:
            host.vote(QUIET, "on a full disk")
        commit(host)
        if host.log(BUSY).is_written:
            host.compact(BUSY, keeps=3)
    return host


@pytest.mark.parametrize("room_bytes", [0, 1, 50, 150, 400, 700, 1_000, 1_400, 2_000, 3_000])
def test_no_promise_is_broken_on_a_full_disk(room_bytes: int) -> None:
    disk = SimDisk()
    with told_in_full(disk, f"room for {room_bytes} bytes"):
        host = live(disk, room_bytes)
        assert all(not twin.waiting for twin in host.twins.values())
        disk.power_loss("strict")
        store = opened(disk)
        check_kept(host, store, power_lost=True)
        assert store.groups[QUIET].state.vote == "on a full disk"


def test_a_full_disk_does_not_gather_frames_without_end() -> None:
    disk = SimDisk()
    host = GroupHost()
    host.start(opened(disk))
    for number in range(30):
        host.create(b"%016d" % number, GroupMode.SYNCED)
    commit(host)
    disk.capacity_bytes = disk.used_bytes
    for _ in range(20):
        host.append(b"%016d" % 0, 1)
        commit(host)
    files = [path for path in disk.files() if "/ahead" in path]
    assert len(files) <= 2
    disk.capacity_bytes = None
    assert host.store.room.look_for_room()
    size = disk.used_bytes
    commit(host)
    # The entries of twenty turns, and the states of all groups at the beginning of a file.
    assert disk.used_bytes - size < 20 * 200 + 3 * 30 * 200
