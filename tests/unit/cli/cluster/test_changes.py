"""`headwater cluster scale`, `move` and `wait-healthy` against a cluster of the test's own."""

import json

from tests.kit.command_line import Tool
from tests.kit.stream_servers import free_port
from tests.unit.cli.cluster.fake_cluster import (
    CONFIG,
    NO_LEADER,
    STATE,
    FakeCluster,
    error,
    group,
)

UPDATE = "STREAM.UPDATE.ORDERS"
WHOLE = group("s2", "s1", "s3")


def test_scale_changes_the_replicas_alone_and_waits_until_all_are_current(url: str) -> None:
    cluster = FakeCluster(url)
    growing = group("s2", "s1", "s3!", desired={"status": {"description": "adding s3"}})
    cluster.stream(group("s2"), growing, group("s2", "s1!", "s3!"), WHOLE)
    cluster.answer(UPDATE, {"config": CONFIG})
    ended = cluster.run("scale", "ORDERS", "5")
    # The configuration says 3, so that an increase to 5 is asked for, and 3 are waited for.
    assert cluster.requests == [(UPDATE, CONFIG | {"num_replicas": 5})]
    assert ended.out == "Stream ORDERS is on 3 servers: s2 (leader), s1, s3\n"
    assert (ended.code, ended.err) == (0, "Waiting for stream ORDERS\n")


def test_scale_to_the_present_number_only_waits(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(WHOLE)
    ended = cluster.run("scale", "ORDERS", "3", "--json")
    assert (ended.code, cluster.requests) == (0, [])
    assert json.loads(ended.out)["leader"] == "s2"


def test_fewer_replicas_are_asked_about(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(WHOLE)
    ended = cluster.run("scale", "ORDERS", "1")
    assert (ended.code, cluster.requests) == (2, [])
    assert "Keep stream ORDERS on 1 in place of 3 servers?" in ended.err


def test_a_change_can_be_begun_alone(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s2", "s1!", "s3"))
    cluster.answer(UPDATE, {"config": CONFIG})
    ended = cluster.run("scale", "ORDERS", "4", "--no-wait")
    assert ended.out == "Stream ORDERS is under way: s1 is not current, 4 operations behind\n"
    assert ended.code == 0


def test_a_change_that_takes_too_long_goes_on(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s2", "s1"))
    ended = cluster.run("scale", "ORDERS", "3", "--timeout", "100ms")
    assert ended.code == 1
    assert "stream ORDERS: 2 replicas in place of 3" in ended.err
    assert "headwater cluster wait-healthy --stream ORDERS" in ended.err


def test_a_refused_change_has_the_words_of_the_server_and_advice(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(WHOLE)
    busy = error(400, 10226, "stream reconfiguration already in progress")
    cluster.answer(UPDATE, busy)
    ended = cluster.run("scale", "ORDERS", "5")
    assert (ended.code, ended.out) == (1, "")
    assert "already in progress (err_code 10226)\nWait until it is done with: " in ended.err


def move(cluster: FakeCluster, *arguments: str, **config: object) -> object:
    """The placement that a move sends."""
    cluster.stream(WHOLE, **config)
    cluster.answer(UPDATE, {"config": CONFIG})
    ended = cluster.run("move", "ORDERS", *arguments)
    assert ended.code == 0, ended.err
    return [body["placement"] for _, body in cluster.requests]


def test_move_replaces_the_tags_and_keeps_the_rest_of_the_placement(url: str) -> None:
    placed = {"cluster": "trio", "tags": ["old"]}
    cluster = FakeCluster(url)
    words = ("--tag", "zone:b,ssd", "--tag", "!slow")
    sent = move(cluster, *words, placement=placed)
    assert sent == [{"cluster": "trio", "tags": ["zone:b", "ssd", "!slow"]}]
    cluster = FakeCluster(url)
    assert move(cluster, "--cluster", "east") == [{"cluster": "east"}]
    cluster = FakeCluster(url)
    assert move(cluster, "--tag", "old", placement=placed) == []


def test_move_needs_a_place(url: str) -> None:
    ended = Tool(url).run("cluster", "move", "ORDERS")
    assert ended.code == 2
    assert "say where to: --tag TAG or --cluster NAME" in ended.err


def listed(*names_and_groups: tuple[str, dict[str, object]]) -> dict[str, object]:
    """An answer to STREAM.LIST."""
    streams = [
        {"config": CONFIG | {"name": name}, "state": STATE, "cluster": cluster}
        for name, cluster in names_and_groups
    ]
    return {"total": len(streams), "streams": streams}


def test_wait_healthy_ends_when_every_stream_is(url: str) -> None:
    cluster = FakeCluster(url)
    behind, lost = listed(("A", WHOLE), ("B", group("s1", "s2!", "s3"))), listed(("A", WHOLE))
    lost["missing"] = ["B"]
    cluster.answer("STREAM.LIST", NO_LEADER, behind, lost, listed(("A", WHOLE)))
    ended = cluster.run("wait-healthy")
    assert (ended.code, ended.out) == (0, "Healthy: 1 stream of cluster trio\n")
    assert ended.err == "Waiting for cluster\nWaiting for stream B\n"


def test_wait_healthy_for_some_streams_ignores_others(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.answer("STREAM.LIST", listed(("A", WHOLE), ("B", group("", "s1"))))
    one = cluster.run("wait-healthy", "--stream", "A", "--json")
    other = cluster.run("wait-healthy", "--stream", "B", "--timeout", "100ms")
    assert (one.code, json.loads(one.out)["healthy"]) == (0, False)
    assert other.code == 1
    assert "stream B: no leader" in other.err


def test_the_number_of_servers_is_known_to_the_system_account_only(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.answer("STREAM.LIST", listed())
    ended = cluster.run("wait-healthy", "--servers", "3")
    assert ended.code == 1
    assert "Only users of the system account may do this" in ended.err


def test_wait_healthy_tries_a_server_that_is_not_there_until_the_time_is_over() -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    ended = Tool(url).run("cluster", "wait-healthy", "--timeout", "300ms")
    assert ended.code == 3
    assert ended.err.startswith("Waiting for server\nError: Cannot reach nats://127.0.0.1:")
