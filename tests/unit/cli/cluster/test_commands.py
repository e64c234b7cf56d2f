"""`headwater cluster status`, `step-down` and `peer-remove` against a cluster of the test's own."""

import json

from tests.kit.command_line import Tool
from tests.unit.cli.cluster.fake_cluster import CONFIG, NO_LEADER, STATE, FakeCluster, error, group


def info(name: str, cluster: dict[str, object], replicas: int = 3) -> dict[str, object]:
    """An entry of STREAM.LIST."""
    config = CONFIG | {"name": name, "num_replicas": replicas}
    return {"config": config, "state": STATE, "cluster": cluster}


def test_status_shows_servers_streams_and_problems(url: str) -> None:
    cluster = FakeCluster(url)
    streams = [info("B", group("s2", "s1", "s3!")), info("A", group("s1"), replicas=1)]
    listed = {"total": 3, "streams": streams, "missing": ["LOST"]}
    cluster.answer("STREAM.LIST", listed)
    ended = cluster.run("status")
    as_json = cluster.run("status", "--json")
    lines = [line.split() for line in ended.out.splitlines()]
    assert ended.code == 0
    assert lines[0] == ["Cluster", "trio:", "3", "streams,", "2", "problems"]
    assert ["s2", "1", "0"] in lines
    assert ["A", "1/1", "s1", "0", "5", "50", "B"] in lines
    assert ["B", "2/3", "s2", "s1,", "s3!", "4", "5", "50", "B"] in lines
    assert ["LOST", "?/?", "none", "0", "0", "0", "B"] in lines
    assert "  stream B:     s3 is not current, 4 operations behind\n" in ended.out
    assert "  stream LOST:  no server answers" in ended.out
    assert "A user of the system account sees all servers" in ended.err
    found = json.loads(as_json.out)
    assert (found["healthy"], found["meta_leader"]) == (False, None)
    assert found["streams"][1]["followers"][1] == {
        "name": "s3", "current": False, "offline": False, "lag": 4,
    }  # fmt: skip


def test_status_without_a_leader_of_the_cluster_fails_with_advice(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.answer("STREAM.LIST", NO_LEADER)
    ended = cluster.run("status")
    assert ended.code == 1
    assert "(err_code 10008)\nThe cluster has no leader at the moment; try again." in ended.err


def test_step_down_waits_for_another_leader(url: str) -> None:
    cluster = FakeCluster(url)
    before, during, after = group("s1", "s2"), group("", "s1", "s2"), group("s2", "s1")
    cluster.stream(before, before, during, after)
    cluster.answer("STREAM.LEADER.STEPDOWN.ORDERS", {"success": True})
    ended = cluster.run("step-down", "ORDERS")
    assert (ended.code, ended.out) == (0, "s2 leads stream ORDERS, in place of s1\n")
    assert cluster.requests == [("STREAM.LEADER.STEPDOWN.ORDERS", None)]


def test_step_down_waits_for_the_preferred_leader(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s1", "s2", "s3"), group("s2", "s1", "s3"), group("s3", "s1"))
    cluster.answer("STREAM.LEADER.STEPDOWN.ORDERS", {"success": True})
    ended = cluster.run("step-down", "ORDERS", "--prefer", "s3", "--json")
    assert json.loads(ended.out) == {"leader": "s3", "leader_before": "s1"}
    assert cluster.requests[0][1] == {"placement": {"preferred": "s3"}}


def test_the_leader_of_a_consumer_steps_down_too(url: str) -> None:
    cluster = FakeCluster(url)
    before, after = {"cluster": group("s1", "s2")}, {"cluster": group("s2", "s1")}
    cluster.answer("CONSUMER.INFO.ORDERS.WORKER", before, after)
    cluster.answer("CONSUMER.LEADER.STEPDOWN.ORDERS.WORKER", {"success": True})
    ended = cluster.run("step-down", "ORDERS", "WORKER")
    assert ended.out == "s2 leads consumer WORKER of ORDERS, in place of s1\n"


def test_a_leader_that_nobody_can_follow_is_left_alone(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s1"), num_replicas=1)
    ended = cluster.run("step-down", "ORDERS")
    assert (ended.code, cluster.requests) == (1, [])
    assert "No other server can lead stream ORDERS: s1 alone keeps it" in ended.err
    assert "headwater cluster scale ORDERS 3" in ended.err
    cluster = FakeCluster(url)
    cluster.stream({"leader": "alone"}, num_replicas=1)
    ended = cluster.run("step-down", "ORDERS")
    assert "The server is not part of a cluster" in ended.err


def test_a_leader_that_stays_is_a_failure(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s1", "s2"))
    cluster.answer("STREAM.LEADER.STEPDOWN.ORDERS", {"success": True})
    ended = cluster.run("step-down", "ORDERS", "--timeout", "100ms")
    assert ended.code == 1
    assert "Not done within 100ms: stream ORDERS: s1 still leads" in ended.err


def test_a_refusal_has_the_words_of_the_server(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s1", "s2"))
    unknown = error(400, 10005, 'preferred server "nope" not known')
    cluster.answer("STREAM.LEADER.STEPDOWN.ORDERS", unknown)
    ended = cluster.run("step-down", "ORDERS", "--prefer", "nope")
    assert 'preferred server "nope" not known (err_code 10005)' in ended.err
    assert "headwater cluster status" in ended.err


def test_step_down_needs_one_leader_to_be_named(url: str) -> None:
    for arguments in ((), ("ORDERS", "--meta")):
        ended = Tool(url).run("cluster", "step-down", *arguments)
        assert ended.code == 2
        assert "say whose leader: STREAM, STREAM CONSUMER or --meta" in ended.err


def test_peer_remove_asks_and_waits_for_the_new_replica(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.stream(group("s1", "s3"), group("s1", "s3", "s4!"), group("s1", "s3", "s4"))
    cluster.answer("STREAM.PEER.REMOVE.ORDERS", {"success": True})
    asked = cluster.run("peer-remove", "s2", "--stream", "ORDERS")
    assert (asked.code, cluster.requests) == (2, [])
    assert "Move the replica of stream ORDERS from s2 elsewhere?" in asked.err
    ended = cluster.run("peer-remove", "s2", "--stream", "ORDERS", "--force")
    assert (ended.code, cluster.requests) == (0, [("STREAM.PEER.REMOVE.ORDERS", {"peer": "s2"})])
    assert ended.out == "Removed the replica of stream ORDERS on s2: s1, s3, s4\n"


def test_peer_remove_can_be_begun_alone(url: str) -> None:
    cluster = FakeCluster(url)
    cluster.answer("STREAM.PEER.REMOVE.ORDERS", {"success": True})
    words = ("peer-remove", "s2", "--stream", "ORDERS", "--force", "--no-wait")
    ended = cluster.run(*words, "--json")
    spoken = cluster.run(*words)
    assert json.loads(ended.out) == {"removed": "s2", "stream": "ORDERS", "servers": None}
    assert spoken.out == "The replica of stream ORDERS leaves s2\n"


def test_servers_are_removed_and_led_by_users_of_the_system_account_only(url: str) -> None:
    for words in (("peer-remove", "s2", "--force"), ("step-down", "--meta")):
        ended = Tool(url).run("cluster", *words)
        assert (ended.code, ended.out) == (1, "")
        assert "Only users of the system account may do this" in ended.err
