"""STREAM.LIST, asked of whole servers, and the parts of it that need none."""

import json
from typing import Any

import pytest

from headwater.go.times import ZERO_TIME_TEXT
from headwater.jetstream.api.documents import LIST_MAX
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.server.cluster.assignment.stream_lists import (
    GATHERING_MAX,
    TELL,
    WAITING_MAX,
    Page,
)
from headwater.server.cluster.listener import NoRequestListener
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import API, frames_in


def names(page: Any) -> list[str]:
    """The names of the streams on a page."""
    return [each["config"]["name"] for each in page["streams"]]


def spread(world: AgreeingCluster) -> dict[str, str]:
    """Streams of one server each, by their servers: every server has one."""
    found: dict[str, str] = {}
    for number in range(9):
        cluster = world.create("s1", f"S{number}", num_replicas=1)["cluster"]
        found.setdefault(cluster["leader"], f"S{number}")
        if len(found) == len(world.nodes):
            break
    assert len(found) == len(world.nodes)
    return found


def deafen(world: AgreeingCluster, name: str) -> None:
    """Have a server ignore the requests of others."""
    cluster = world.nodes[name].cluster
    assert cluster is not None
    cluster.request_listener = NoRequestListener()


def test_every_server_lists_the_streams_of_all() -> None:
    world = AgreeingCluster()
    by_server = spread(world)
    world.create("s1", "R3")
    world.publish("s2", "r3.a", 5)
    for name in world.nodes:
        page = world.call(name, "STREAM.LIST")
        assert names(page) == sorted(names(page))
        assert {*by_server.values(), "R3"} <= {*names(page)}
        assert (page["total"], page["limit"]) == (len(names(page)), LIST_MAX)
        assert "missing" not in page
        assert "offline" not in page
        listed = {each["config"]["name"]: each for each in page["streams"]}
        assert {listed[each]["cluster"]["leader"] for each in by_server.values()} == {*world.nodes}
        assert listed["R3"]["state"]["messages"] == 5


def test_a_list_has_an_offset_and_a_subject() -> None:
    world = AgreeingCluster()
    for name in ("A", "B", "C"):
        world.create("s1", name, num_replicas=1)
    page = world.call("s2", "STREAM.LIST", {"offset": 1})
    assert (names(page), page["offset"], page["total"]) == (["B", "C"], 1, 3)
    assert names(world.call("s3", "STREAM.LIST", {"subject": "b.*"})) == ["B"]
    # As in nats-server, a page without streams has no total.
    page = world.call("s3", "STREAM.LIST", {"offset": 9})
    assert (page["streams"], page["offset"], page["total"]) == ([], 3, 0)
    (reply,) = world.answers(world.client("s1"), "STREAM.LIST", b"{")
    assert reply["error"]["err_code"] == 10025


def test_a_stream_whose_servers_are_gone_is_missing() -> None:
    world = AgreeingCluster()
    by_server = spread(world)
    leader = world.meta_leader
    gone = world.other_than(leader)
    world.stop(gone)
    world.quiet()
    page = world.call(world.other_than(gone), "STREAM.LIST")
    lost = [name for name in names(page) if name in page["missing"]]
    assert by_server[gone] in lost
    shown = next(each for each in page["streams"] if each["config"]["name"] == by_server[gone])
    assert shown["state"]["first_ts"] == ZERO_TIME_TEXT
    assert shown["cluster"]["raft_group"].startswith("S-R1F-")
    (replica,) = shown["cluster"]["replicas"]
    assert (replica["name"], replica["current"], replica["offline"]) == (gone, False, True)


def test_a_stream_without_an_answer_is_missing_after_four_seconds() -> None:
    world = AgreeingCluster()
    by_server = spread(world)
    leader = world.meta_leader
    silent = world.other_than(leader)
    deafen(world, silent)
    asker = world.client(leader)
    asker.send(f"SUB inbox 9\r\nPUB {API}STREAM.LIST inbox 0\r\n\r\n".encode())
    world.quiet(3.5)
    assert frames_in(asker.take()) == []
    world.quiet(1.0)
    (frame,) = frames_in(asker.take())
    page = json.loads(frame.payload)
    assert by_server[silent] in page["missing"]
    assert by_server[silent] not in names(page)
    assert by_server[leader] in names(page)


def test_a_stream_without_a_leader_is_described_by_its_servers() -> None:
    world = AgreeingCluster()
    cluster = world.create("s1", "R2", num_replicas=2)["cluster"]
    servers = {cluster["leader"], cluster["replicas"][0]["name"]}
    gone = next(iter(servers - {world.meta_leader}))
    world.stop(gone)
    world.quiet()
    page = world.call(world.meta_leader, "STREAM.LIST")
    assert names(page) == ["R2"]
    assert "missing" not in page
    assert "leader" not in page["streams"][0]["cluster"]


def test_documents_that_nobody_waits_for_are_dropped() -> None:
    world = AgreeingCluster()
    spread(world)
    streams = world.nodes[world.meta_leader].cluster_streams
    assert streams is not None
    for payload in (b"", b"S0", b"S0\n{}", b"S0\n{", b"\xff\n[]"):
        streams.lists.received("s1", "$G", TELL, b"no-such-list", payload)
    assert len(names(world.call("s1", "STREAM.LIST"))) >= 3


@pytest.mark.parametrize(("count", "refused"), [(0, 0), (1, 1)])
def test_lists_beyond_the_limit_are_refused(count: int, refused: int) -> None:
    world = AgreeingCluster()
    spread(world)
    leader = world.meta_leader
    asker = world.other_than(leader)
    for name in world.nodes:
        if name != leader:
            deafen(world, name)
    client = world.client(asker)
    line = f"PUB {API}STREAM.LIST inbox 0\r\n\r\n".encode()
    client.send(b"SUB inbox 9\r\n" + line * (GATHERING_MAX + WAITING_MAX + count))
    world.quiet(1.0)
    replies = [json.loads(frame.payload) for frame in frames_in(client.take())]
    assert [reply["error"]["err_code"] for reply in replies] == [10023] * refused


def page_of(count: int, offset: int = 0) -> Page:
    """A page of an account with so many streams."""
    config = StreamConfig(name="S")
    streams = [
        StreamAssignment("A", f"S{number:03}", b"", config, 0, ("s1",)) for number in range(count)
    ]
    return Page(streams, "", offset)


@pytest.mark.parametrize(
    ("count", "offset", "length"),
    [(LIST_MAX, 0, LIST_MAX), (LIST_MAX + 1, 0, LIST_MAX), (LIST_MAX + 1, LIST_MAX, 1)],
)
def test_a_page_has_so_many_streams(count: int, offset: int, length: int) -> None:
    page = page_of(count, offset)
    assert (len(page.streams), page.total) == (length, count)
