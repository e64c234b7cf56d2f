"""Records of the meta group that a server cannot read end its part in that group, and no more."""

from collections.abc import Iterable

import pytest

from headwater.jetstream.codec.errors import NewerRecordError
from headwater.jetstream.meta import codec
from headwater.jetstream.meta.assignments import Assignments
from headwater.jetstream.meta.codec import STREAM_ASSIGNED, encode_entry
from headwater.jetstream.meta.records import MetaRecord
from headwater.raft.entry import Entry, EntryKind
from headwater.server.cluster.assignment import meta_machine
from headwater.server.cluster.assignment.meta_machine import META_FILE, MetaMachine
from headwater.store.errors import StoreError
from headwater.testing.disk import SimDisk
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.meta_values import described

NEWER = b"NEWER"
"""The name of a stream whose records only a newer program can read."""
UNKNOWN = "a record of kind 96, version 2 is unknown to this program"


def be_older(patch: pytest.MonkeyPatch) -> None:
    """Run a program that cannot read records and snapshots with that stream."""

    def decode_entry(data: bytes) -> list[MetaRecord]:
        if NEWER in data:
            raise NewerRecordError(STREAM_ASSIGNED, 2)
        return codec.decode_entry(data)

    def decode_snapshot(chunks: Iterable[bytes]) -> Assignments:
        found = [*chunks]
        if any(NEWER in chunk for chunk in found):
            raise NewerRecordError(STREAM_ASSIGNED, 2)
        return codec.decode_snapshot(found)

    patch.setattr(meta_machine, "decode_entry", decode_entry)
    patch.setattr(meta_machine, "decode_snapshot", decode_snapshot)


def machine_of(world: AgreeingCluster, server: str) -> MetaMachine:
    streams = world.nodes[server].cluster_streams
    assert streams is not None
    return streams.meta


def reports(world: AgreeingCluster, server: str) -> list[str]:
    """The lines of a server's log that say why it is not in the meta group."""
    return [line for line in world.logs[server] if "The meta group is stopped" in line]


def stored(world: AgreeingCluster, server: str, stream: str) -> int:
    """The number of messages that a server has of a stream."""
    host = world.nodes[server].jetstream
    assert host is not None
    return host.accounts["$G"].stream(stream).log.last_sequence


def entry(index: int, data: bytes) -> Entry:
    return Entry(1, index, EntryKind.DATA, data)


# --- the machine -------------------------------------------------------------------------------


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(1)
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


@pytest.mark.parametrize("data", [b"", b"\x91\xc4\x02zz", b"\x91\xc4\x03\x60\x02\x90", b"\xff"])
def test_an_entry_that_cannot_be_read_has_no_effect(disk: SimDisk, data: bytes) -> None:
    machine = MetaMachine(disk, "/data")
    before, after = (entry(index, encode_entry([described(f"s{index}")])) for index in (1, 3))
    assert machine.apply([before, entry(2, data), after]) == 1
    assert machine.fault.startswith("entry 2 cannot be read: ")
    assert [*machine.assignments.servers] == ["s1"]
    machine.make_durable()
    again = MetaMachine(disk, "/data")
    assert (again.applied_index, again.fault) == (0, "")


def test_a_file_of_a_newer_program_stays_as_it_is(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = MetaMachine(disk, "/data")
    machine.apply([entry(1, encode_entry([described("NEWER")]))])
    machine.make_durable()
    with monkeypatch.context() as patch:
        be_older(patch)
        older = MetaMachine(disk, "/data")
        assert META_FILE in older.fault
        assert UNKNOWN in older.fault
        assert (older.applied_index, older.assignments.servers) == (1, {})
        older.make_durable()
    assert [*MetaMachine(disk, "/data").assignments.servers] == ["NEWER"]


def test_a_snapshot_that_cannot_be_read_is_not_kept(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = MetaMachine(disk, "/data")
    leader.apply([entry(1, encode_entry([described("NEWER")]))])
    source = leader.open_snapshot(b"")
    machine = MetaMachine(disk, "/data")
    machine.role_changed("s1", is_leading=False)
    sink = machine.open_sink()
    while (chunk := source.next_chunk()) is not None:
        sink.add(chunk)
    be_older(monkeypatch)
    with pytest.raises(StoreError, match=UNKNOWN):
        machine.install(1)
    assert UNKNOWN in machine.fault
    assert (machine.applied_index, machine.leader) == (0, "")


# --- servers -----------------------------------------------------------------------------------


def test_a_server_that_cannot_read_an_entry_leaves_the_meta_group_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    away = world.other_than(world.meta_leader)
    world.stop(away)
    asked = world.meta_leader
    world.create(asked, "NEWER", num_replicas=1)
    with monkeypatch.context() as patch:
        be_older(patch)
        world.start_server(away)
        world.quiet()
        [line] = reports(world, away)
        assert UNKNOWN in line
        assert "entry " in line
        assert machine_of(world, away).leader == ""
        # The other servers decide, and all three keep their streams.
        for number in range(4):
            assert "error" not in world.create(asked, f"LATER{number}", num_replicas=1)
        for server in (asked, away):
            world.publish(server, "s.a", 2)
        assert {stored(world, server, "S") for server in world.nodes} == {4}
        error = world.call(away, "STREAM.CREATE.T", {"name": "T"})["error"]
        assert (error["code"], error["err_code"]) == (503, 10008)
        world.stop(away)
    world.start_server(away)
    world.quiet()
    assert len(reports(world, away)) == 1
    assert machine_of(world, away).assignments.get("$G", "LATER3") is not None
    # The server gets streams again.
    assert "error" not in world.create(away, "T")
    assert {stored(world, server, "S") for server in world.nodes} == {4}


def test_streams_go_on_when_no_server_can_read_an_entry() -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    consensus = world.nodes[world.meta_leader].consensus
    assert consensus is not None
    consensus.propose_meta([b"\x91\xc4\x02zz"])
    world.quiet()
    for server in world.nodes:
        assert len(reports(world, server)) == 1
        world.publish(server, "s.a", 1)
    assert {stored(world, server, "S") for server in world.nodes} == {3}
    for server in [*world.nodes]:
        world.stop(server)
        world.start_server(server)
    world.quiet()
    for server in world.nodes:
        assert len(reports(world, server)) == 2
        world.publish(server, "s.a", 1)
    assert {stored(world, server, "S") for server in world.nodes} == {6}


def test_a_server_whose_assignments_cannot_be_read_has_its_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    world.create("s1", "NEWER")
    away = world.other_than(world.meta_leader)
    machine_of(world, away).make_durable()
    world.stop(away)
    with monkeypatch.context() as patch:
        be_older(patch)
        world.start_server(away)
        world.quiet()
        [line] = reports(world, away)
        assert META_FILE in line
        for server in world.nodes:
            world.publish(server, "s.a", 1)
        assert {stored(world, server, "S") for server in world.nodes} == {3}
        world.stop(away)
    world.start_server(away)
    world.quiet()
    assert len(machine_of(world, away).assignments) == 2
    assert "error" not in world.create(away, "T")


def test_a_stream_that_is_led_without_the_meta_group_keeps_its_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    away = world.other_than(world.meta_leader)
    asked = world.meta_leader
    world.stop(away)
    world.create(asked, "NEWER", num_replicas=1)
    be_older(monkeypatch)
    world.start_server(away)
    world.quiet()
    change = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "max_msgs": 7}
    assert "error" not in world.call(asked, "STREAM.UPDATE.S", change)
    lead_by(world, "S", away)
    assert world.call(asked, "STREAM.INFO.S")["config"]["max_msgs"] == 7


def lead_by(world: AgreeingCluster, stream: str, server: str) -> None:
    """Have a server lead a stream."""
    placement = {"placement": {"preferred": server}}
    assert world.call(server, f"STREAM.LEADER.STEPDOWN.{stream}", placement)["success"]
    world.quiet()
