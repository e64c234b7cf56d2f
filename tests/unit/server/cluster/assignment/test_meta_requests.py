"""Requests that the leader of the meta group decides, asked of whole servers."""

from typing import Any

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.server.cluster.assignment import meta_requests
from headwater.server.configuration.options import AccountOptions, UserOptions
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.stored_world import streaming

ROOM = 1 << 20
SMALL = streaming(max_file_bytes=ROOM, max_memory_bytes=ROOM)
LOGIN = {"user": "a", "pass": "p"}


def holders(world: AgreeingCluster, stream: str, asked: str = "s1") -> set[str]:
    """The servers of a stream."""
    cluster = world.call(asked, f"STREAM.INFO.{stream}")["cluster"]
    return {cluster["leader"], *(each["name"] for each in cluster.get("replicas", ()))}


def fill(world: AgreeingCluster, subject: str, size: int) -> None:
    """Publish so many bytes."""
    client = world.client("s1")
    body = bytes(1 << 10)
    for _ in range(size // len(body)):
        client.send(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    world.quiet(3.0)


# --- placement ---------------------------------------------------------------------------------


def test_a_stream_goes_where_the_fewest_bytes_are_stored() -> None:
    world = AgreeingCluster()
    world.create("s1", "FULL", num_replicas=1)
    fill(world, "full.a", 1 << 16)
    [full] = holders(world, "FULL")
    for number in range(8):
        world.create("s1", f"S{number}", num_replicas=1)
        assert full not in holders(world, f"S{number}")


@pytest.mark.parametrize(("storage", "is_refused"), [("file", True), ("memory", False)])
def test_stored_bytes_take_room_on_their_servers(storage: str, is_refused: bool) -> None:
    world = AgreeingCluster(jetstream=SMALL)
    world.create("s1", "FULL")
    fill(world, "full.a", ROOM // 2)
    reply = world.create("s1", "BIG", storage=storage, max_bytes=ROOM * 3 // 4)
    assert ("error" in reply) is is_refused
    if is_refused:
        assert reply["error"]["err_code"] == 10005
        assert "insufficient storage" in reply["error"]["description"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_an_update_beyond_the_room_of_the_servers_is_refused(replicas: int) -> None:
    world = AgreeingCluster(jetstream=SMALL)
    world.create("s1", "S", num_replicas=replicas, max_bytes=1000)
    change = {"name": "S", "subjects": ["s.>"], "num_replicas": replicas, "max_bytes": ROOM + 1}
    error = world.call("s1", "STREAM.UPDATE.S", change)["error"]
    assert (error["code"], error["err_code"]) == (500, 10047)
    assert world.call("s1", "STREAM.INFO.S")["config"]["max_bytes"] == 1000
    grown = world.call("s1", "STREAM.UPDATE.S", change | {"max_bytes": ROOM})
    assert grown["config"]["max_bytes"] == ROOM


def test_a_server_that_was_not_heard_since_the_leader_began_is_not_chosen() -> None:
    world = AgreeingCluster()
    away = world.other_than(world.meta_leader)
    world.stop(away)
    for name in [each for each in world.nodes if each != away]:
        world.stop(name)
        world.start_server(name)
    world.quiet(12.0)
    there = world.other_than(away)
    refused = world.create(there, "R3")["error"]
    assert refused["err_code"] == 10005
    assert "peer offline" in refused["description"]
    assert "error" not in world.create(there, "R2", num_replicas=2)
    world.start_server(away)
    world.quiet()
    assert "error" not in world.create(there, "R3")
    assert away in holders(world, "R3", there)


# --- the set of streams ------------------------------------------------------------------------


def limited() -> AgreeingCluster:
    """A cluster with an account that may have two streams of 1,000 bytes in all."""
    user = UserOptions("a", "p", "A")
    limits = AccountLimits(max_storage=1_000, max_streams=2)
    return AgreeingCluster(accounts=(AccountOptions("A", (user,), jetstream=limits),))


def create(world: AgreeingCluster, name: str, stream: str, **config: Any) -> Any:
    """Have a user of the limited account create a stream on one server."""
    chosen = {"name": stream, "subjects": [stream], "max_bytes": 100, **config}
    return world.call(name, f"STREAM.CREATE.{stream}", chosen, **LOGIN)


def test_reservations_of_all_servers_count_with_their_replicas() -> None:
    world = limited()
    assert create(world, "s1", "A", num_replicas=3, max_bytes=301)["config"]["num_replicas"] == 3
    assert create(world, "s2", "B", max_bytes=98)["error"]["err_code"] == 10047
    assert "error" not in create(world, "s3", "C", max_bytes=97)


def test_an_account_has_no_more_streams_than_it_may() -> None:
    world = limited()
    for name in ("A", "B"):
        assert "error" not in create(world, "s1", name)
    assert create(world, "s2", "C")["error"]["err_code"] == 10027
    assert world.call("s3", "STREAM.DELETE.A", **LOGIN)["success"]
    assert "error" not in create(world, "s2", "C")


def test_requests_of_one_turn_are_decided_one_after_the_other() -> None:
    world = AgreeingCluster()
    client = world.client("s2")
    bodies = [b'{"name":"%c","subjects":["one.subject"]}' % each for each in b"AB"]
    asked = [
        b"PUB $JS.API.STREAM.CREATE.%c inbox %d\r\n%b\r\n" % (name, len(body), body)
        for name, body in zip(b"AB", bodies, strict=True)
    ]
    client.send(b"SUB inbox 1\r\n" + b"".join(asked))
    world.quiet()
    answers = client.take()
    assert answers.count(b"stream_create_response") == 2
    assert answers.count(b'"err_code":10065') == 1
    assert world.call("s1", "STREAM.NAMES")["streams"] == ["A"]


def test_a_request_beyond_those_that_may_wait_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meta_requests, "UNDECIDED_MAX", 2)
    world = AgreeingCluster()
    client = world.client(world.meta_leader)
    bodies = [b'{"name":"S%d","subjects":["s%d"]}' % (each, each) for each in range(4)]
    asked = [
        b"PUB $JS.API.STREAM.CREATE.S%d inbox %d\r\n%b\r\n" % (number, len(body), body)
        for number, body in enumerate(bodies)
    ]
    client.send(b"SUB inbox 1\r\n" + b"".join(asked))
    world.quiet()
    # The first is decided at once, and two may wait for it.
    assert client.take().count(b'"err_code":10008') == 1
    assert world.call("s1", "STREAM.NAMES")["streams"] == ["S0", "S1", "S2"]


def test_names_are_those_of_all_servers_and_of_one_subject_if_asked() -> None:
    world = AgreeingCluster()
    for number in range(4):
        world.create(f"s{number % 3 + 1}", f"S{number}", num_replicas=1)
    everything = world.call("s1", "STREAM.NAMES")
    assert everything["streams"] == ["S0", "S1", "S2", "S3"]
    assert world.call("s2", "STREAM.NAMES", {"offset": 3})["streams"] == ["S3"]
    assert world.call("s3", "STREAM.NAMES", {"subject": "s2.x"})["streams"] == ["S2"]


def test_each_request_is_counted_where_it_is_decided() -> None:
    world = AgreeingCluster()

    def counts() -> list[tuple[int, int]]:
        homes = [node.jetstream for node in world.nodes.values()]
        accounts = [home.accounts["$G"] for home in homes if home is not None]
        return [(each.api_total, each.api_errors) for each in accounts]

    before = counts()
    assert world.call("s1", "STREAM.DELETE.NONE")["error"]["err_code"] == 10059
    grown = [
        (total - was_total, errors - was_errors)
        for (total, errors), (was_total, was_errors) in zip(counts(), before, strict=True)
    ]
    assert sorted(grown) == [(0, 0), (0, 0), (1, 1)]
