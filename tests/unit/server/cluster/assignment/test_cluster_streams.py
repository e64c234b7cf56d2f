"""The streams of a server and its cluster, joined: bad requests cost nothing that lasts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import API, frames_in
from tests.kit.stored_world import streaming

REQUESTS = 1_000


def tables(world: AgreeingCluster) -> list[tuple[int, ...]]:
    """The sizes of all that requests could fill, on each server."""
    found: list[tuple[int, ...]] = []
    for node in world.nodes.values():
        joined, consensus = node.cluster_streams, node.consensus
        assert joined is not None
        assert consensus is not None
        assert consensus.meta is not None
        found.append(
            (
                len(joined.meta.assignments.streams_of("$G")),
                len(joined.requests._undecided),
                len(joined.assigned._unanswered),
                len(joined.assigned._unanswered_updates),
                joined.router.waiting,
                len(consensus.groups),
                consensus.meta.log.last_index,
            )
        )
    return found


def ask_often(world: AgreeingCluster, operation: str, body: object) -> list[Any]:
    """The replies to very many equal requests, sent at once to a server that does not lead."""
    client = world.client(world.other_than(world.meta_leader))
    payload = json.dumps(body).encode()
    line = f"PUB {API}{operation} inbox {len(payload)}\r\n".encode() + payload + b"\r\n"
    client.send(b"SUB inbox 1\r\n" + line * REQUESTS)
    world.quiet(3.0)
    return [json.loads(frame.payload) for frame in frames_in(client.take())]


def logged(world: AgreeingCluster) -> int:
    """The lines that all servers have logged."""
    return sum(len(lines) for lines in world.logs.values())


STREAM = {"name": "BAD", "subjects": ["bad"]}


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("STREAM.CREATE.BAD", {**STREAM, "num_replicas": 6}, 10052),
        ("STREAM.CREATE.BAD", {**STREAM, "num_replicas": 5}, 10005),
        ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "num_replicas": 5}, 10005),
        ("STREAM.PEER.REMOVE.S", {"peer": "nobody"}, 10040),
        (
            "STREAM.UPDATE.S",
            {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "placement": {"tags": ["x"]}},
            10005,
        ),
    ],
    ids=["six replicas", "five on three", "scaled to five", "unknown peer", "move to nowhere"],
)
def test_bad_requests_are_refused_by_name_and_leave_nothing(
    operation: str, body: dict[str, Any], code: int
) -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    world.publish("s1", "s.a", 3)
    sizes, lines = tables(world), logged(world)
    replies = ask_often(world, operation, body)
    assert [each["error"]["err_code"] for each in replies] == [code] * REQUESTS
    assert tables(world) == sizes
    assert logged(world) - lines <= 1
    world.publish("s2", "s.a")
    info = world.call("s3", "STREAM.INFO.S")
    assert info["state"]["messages"] == 4
    assert info["config"]["num_replicas"] == 3


def test_moves_that_conflict_with_one_under_way_are_refused() -> None:
    tags: dict[str, Any] = {f"s{n}": {"server_tags": (f"t{n % 2}",)} for n in range(1, 6)}
    world = AgreeingCluster(5, **tags)
    assert "error" not in world.create("s1", "S", placement={"tags": ["t1"]})
    lines = logged(world)
    asked = [
        {"name": "S", "subjects": ["s.>"], "num_replicas": 2, "placement": {"tags": [tag]}}
        for tag in ("t0", "t1") * 10
    ]
    client = world.client("s2")
    client.send(b"SUB inbox 1\r\n")
    for body in asked:
        payload = json.dumps(body).encode()
        client.send(f"PUB {API}STREAM.UPDATE.S inbox {len(payload)}\r\n".encode())
        client.send(payload + b"\r\n")
    world.quiet(12.0)
    replies = [json.loads(frame.payload) for frame in frames_in(client.take())]
    assert len(replies) == len(asked)
    assert any("error" in each for each in replies)
    assert {each[:5] for each in tables(world)} == {(1, 0, 0, 0, 0)}
    assert logged(world) - lines <= len(world.nodes) * 2
    assert "error" not in world.call("s1", "STREAM.INFO.S")


def test_a_server_that_was_removed_is_described_no_more() -> None:
    world = AgreeingCluster(4)
    gone = world.other_than(world.meta_leader)
    leader = world.nodes[world.meta_leader].cluster_streams
    assert leader is not None
    assert gone in leader._described
    world.stop(gone)
    world.quiet(1.0)
    leader._servers_changed(gone)
    assert gone not in leader._described


def test_servers_tell_each_other_how_long_written_bytes_wait_for_a_sync() -> None:
    roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
    world = AgreeingCluster(
        s1={"jetstream": replace(roomy, sync_always=True)},
        s2={"jetstream": replace(roomy, sync_interval_s=10.0), "server_tags": ("ssd",)},
    )
    [created] = world.replies("s1", "STREAM.CREATE.S", {"name": "S", "num_replicas": 3})
    assert "error" not in created
    world.quiet()
    for name in world.nodes:
        [told] = world.replies(name, "STREAM.INFO.S", {"sync_intervals": True})
        assert told["sync_intervals"] == [
            {"server": "s1", "sync_interval": "always"},
            {"server": "s2", "sync_interval": "10s"},
            {"server": "s3", "sync_interval": "2m0s"},
        ]
        [plain] = world.replies(name, "STREAM.INFO.S")
        assert "sync_intervals" not in plain
    placed = {"name": "T", "placement": {"tags": ["sync:always"]}}
    [created] = world.replies("s3", "STREAM.CREATE.T", placed)
    assert created["cluster"]["leader"] == "s1"
