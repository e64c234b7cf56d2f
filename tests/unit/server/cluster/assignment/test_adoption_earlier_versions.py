"""Streams that earlier versions wrote, and that get replicas: in whole servers.

The checksums in segments of version 1 begin with a salt of the file. The segments stay as they are,
and their records get the checksums that all replicas share when they are read for another one.
"""

from pathlib import Path
from typing import Any

import pytest

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.file import encode_body
from headwater.store.disk.format import StreamFile, check_record
from headwater.store.disk.layout import STREAM_FILE
from headwater.store.errors import StoreError
from headwater.store.log import record_runs, repairs
from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.damage import flip_bit_of
from tests.kit.stored_world import FOLDER, StoredWorld

STORES = Path(__file__).parents[4] / "kit" / "stores"
CONFIG = {"name": "S", "subjects": ["s.>"], "allow_msg_ttl": True}
SERVERS = ("s1", "s2", "s3")
# Of the messages that are left in the samples, all but those that expire long before the test.
SEQUENCES = [14, 15, 17, 18, 19, 20, 21, 23, 24, 30, 31, 32]

each_version = pytest.mark.parametrize("version", ["version_1", "version_2"])


def brought(version: str) -> SimDisk:
    """The disk of a server that ran alone, with a stream S whose files an earlier version wrote."""
    world = StoredWorld().start()
    assert "error" not in world.create("S")
    (folder,) = world.disk.list_folder(f"{FOLDER}/streams")
    assert "error" not in world.request("$JS.API.STREAM.DELETE.S")
    world.node.close_jetstream()
    world.disk.kill()
    path = f"{FOLDER}/streams/{folder}"
    world.disk.make_folder(path)
    for file in (STORES / version / "closed" / "streams" / "interval").iterdir():
        data = file.read_bytes()
        if file.name == STREAM_FILE:
            found = StreamFile.decode(data, file.name)
            config = StreamConfig(name="S", subjects=("s.>",), allow_msg_ttl=True)
            data = StreamFile(found.identity, found.reserved, encode_body(config, 1)).encode()
        created = world.disk.create(f"{path}/{file.name}")
        created.write(data)
        created.sync()
        created.close()
    world.disk.sync_folder(path)
    world.disk.sync_folder(f"{FOLDER}/streams")
    return world.disk


def log_of(world: AgreeingCluster, name: str) -> FileLog:
    streams = world.nodes[name].jetstream
    assert streams is not None
    (replica,) = streams.streams.replicas.values()
    log = replica.stream.log
    assert isinstance(log, FileLog)
    return log


def contents(log: FileLog) -> list[tuple[int, bytes, bytes, bytes, int]]:
    found = log.read(1, 99, 100_000)
    columns = (found.sequences, found.subjects, found.headers, found.payloads, found.timestamps_ns)
    return [*zip(*columns, strict=True)]


def scaled(version: str) -> AgreeingCluster:
    """Three servers that have the stream, which s2 brought along."""
    world = AgreeingCluster(disks={"s2": brought(version)})
    reply = world.call("s1", "STREAM.UPDATE.S", {**CONFIG, "num_replicas": 3})
    assert "error" not in reply
    world.quiet(12.0)
    return world


def check_alike(world: AgreeingCluster, added: int = 0) -> None:
    """All servers have all messages, as they were written."""
    sequences = [*SEQUENCES, *range(SEQUENCES[-1] + 1, SEQUENCES[-1] + 1 + added)]
    logs = [log_of(world, name) for name in world.nodes]
    for log in logs:
        assert contents(log) == contents(logs[0])
        assert [each[0] for each in contents(log)] == sequences
        assert (log.messages, log.byte_count) == (logs[0].messages, logs[0].byte_count)
        assert log.last_sequence == logs[0].last_sequence
        assert log.unreadable_count == 0
        assert not log.offline


def seeds_of(world: AgreeingCluster, name: str) -> list[bool]:
    """Whether each segment with a message has the checksums that replicas share."""
    log = log_of(world, name)
    firsts = {log.index.segment_of(each).first_sequence for each in SEQUENCES}
    return [log.segments.by_first[first].seed == log.record_seed for first in sorted(firsts)]


@each_version
def test_a_stream_of_an_earlier_version_gets_replicas(version: str) -> None:
    world = scaled(version)
    check_alike(world)
    assert all(seeds_of(world, "s1") + seeds_of(world, "s3"))
    assert all(seeds_of(world, "s2")) == (version != "version_1")
    for message in contents(log_of(world, "s1")):
        assert message[3] == b"payload %d" % message[0]
        assert message[4] == 1000 + message[0]


@each_version
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_its_replicas_are_killed_one_after_the_other(version: str, is_power_lost: bool) -> None:
    world = scaled(version)
    for added, name in enumerate(("s2", "s1", "s3"), 1):
        world.crash(name, is_power_lost)
        world.quiet(12.0)
        world.publish(world.other_than(name), "s.new")
        world.start_server(name)
        world.quiet(12.0)
        check_alike(world, added)


@each_version
def test_a_server_that_lost_its_disk_is_filled_again(version: str) -> None:
    world = scaled(version)
    for name in ("s1", "s3", "s2"):
        world.stop(name)
        world.empty_disk(name)
        world.quiet()
        world.start_server(name)
        world.quiet(15.0)
        check_alike(world)


@each_version
@pytest.mark.parametrize("damaged", SERVERS)
def test_a_damaged_message_is_repaired_in_either_direction(version: str, damaged: str) -> None:
    world = scaled(version)
    sequence = SEQUENCES[0]
    flip_bit_of(world.disk_of(damaged), log_of(world, damaged), sequence)
    with pytest.raises(StoreError):
        log_of(world, damaged).get(sequence)
    world.quiet()
    check_alike(world)


def unchanged(data: bytes, offset: int, length: int, seed: int) -> bytes:
    """A record with the checksum that it has."""
    return data[offset : offset + length]


def test_a_record_is_sound_for_another_server_only_with_the_common_checksum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = log_of(scaled("version_1"), "s2")
    for sequence in SEQUENCES:
        data = repairs.record_of(log, sequence)
        assert data is not None
        assert check_record(data, 0, len(data), log.record_seed)
    monkeypatch.setattr(record_runs, "reseeded", unchanged)
    data = repairs.record_of(log, SEQUENCES[0])
    assert data is not None
    assert not check_record(data, 0, len(data), log.record_seed)


def test_without_the_checksum_of_the_file_a_repaired_message_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = scaled("version_1")
    monkeypatch.setattr(repairs, "reseeded", unchanged)
    sequence = SEQUENCES[0]
    flip_bit_of(world.disk_of("s2"), log_of(world, "s2"), sequence)
    with pytest.raises(StoreError):
        log_of(world, "s2").get(sequence)
    world.quiet()
    assert sequence in log_of(world, "s2").losses.damage


@each_version
def test_it_gets_replicas_leaves_them_and_gets_them_again(version: str) -> None:
    world = scaled(version)
    for replicas in (1, 3):
        reply: Any = world.call("s1", "STREAM.UPDATE.S", {**CONFIG, "num_replicas": replicas})
        assert "error" not in reply
        world.quiet(12.0)
    check_alike(world)
