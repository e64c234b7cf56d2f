"""The file in which a server keeps what it must not forget about its cluster."""

import pytest

from headwater.base.checksums import crc32
from headwater.server.cluster.consensus.birth import Ballot, Birth, BirthRecord
from headwater.server.cluster.consensus.cluster_file import CLUSTER_FILE, ClusterFile, Order
from headwater.server.cluster.consensus.peers import ServerFacts
from headwater.store.disk.filesystem import create_whole, read_file
from headwater.store.errors import StoreError
from headwater.testing.disk import SimDisk

PATH = f"/data/{CLUSTER_FILE}"
FACTS = ServerFacts(b"s" * 16, 3, b"x" * 8)
RECORD = BirthRecord(Ballot(2, "a"), Ballot(2, "a"), Birth(b"b" * 16, (("a", b"s" * 16),)), True)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(1)
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


def saved(disk: SimDisk) -> bytes:
    """A file with a record and a memory. Returns its bytes."""
    file = ClusterFile(disk, "/data")
    file.peers.remember("b", FACTS)
    file.order = Order.LEAVE
    file.save(RECORD)
    return read_file(disk, PATH)


def put(disk: SimDisk, data: bytes) -> None:
    if disk.exists(PATH):
        disk.remove(PATH)
    create_whole(disk, PATH, data).close()


def test_a_server_begins_with_no_memory(disk: SimDisk) -> None:
    file = ClusterFile(disk, "/data")
    assert file.birth == BirthRecord()
    assert file.order is Order.NONE
    assert file.peers.get("b") is None


def test_a_saved_file_outlives_a_power_loss(disk: SimDisk) -> None:
    saved(disk)
    disk.power_loss("strict")
    file = ClusterFile(disk, "/data")
    assert file.birth == RECORD
    assert file.order is Order.LEAVE
    assert file.peers["b"] == FACTS


def test_a_changed_byte_is_noticed_and_the_file_is_kept(disk: SimDisk) -> None:
    data = saved(disk)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        put(disk, bytes(changed))
        with pytest.raises(StoreError, match=CLUSTER_FILE):
            ClusterFile(disk, "/data")
        assert read_file(disk, PATH) == bytes(changed)


def test_a_short_file_is_noticed(disk: SimDisk) -> None:
    data = saved(disk)
    for end in range(len(data)):
        put(disk, data[:end])
        with pytest.raises(StoreError, match=CLUSTER_FILE):
            ClusterFile(disk, "/data")


def test_a_newer_version_is_refused_by_name(disk: SimDisk) -> None:
    data = bytearray(saved(disk)[:-4])
    data[8] = 9
    put(disk, bytes(data) + crc32(bytes(data)).to_bytes(4, "little"))
    with pytest.raises(StoreError, match="format version 9 is newer"):
        ClusterFile(disk, "/data")


def test_an_unknown_order_is_refused(disk: SimDisk) -> None:
    data = bytearray(saved(disk)[:-4])
    data[14] = 3
    put(disk, bytes(data) + crc32(bytes(data)).to_bytes(4, "little"))
    with pytest.raises(StoreError, match="unknown order 3"):
        ClusterFile(disk, "/data")


def test_content_that_is_malformed_is_refused(disk: SimDisk) -> None:
    data = saved(disk)[:-8]
    put(disk, data + crc32(data).to_bytes(4, "little"))
    with pytest.raises(StoreError, match="memory of servers"):
        ClusterFile(disk, "/data")
