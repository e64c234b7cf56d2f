"""Clusters as text: titles, tables and states."""

import pytest

from headwater.cli.cluster.render import (
    cluster_fields,
    problems_text,
    server_state,
    servers_table,
    streams_table,
    title_text,
)
from headwater.cli.cluster.view import ClusterView, ServerView, StreamView
from headwater.client.api.replicas import Replica, ReplicaGroup

BEHIND = Replica("s2", is_current=False, is_offline=False, lag=1_200, seen_ns=5)
CURRENT = Replica("s3", is_current=True, is_offline=False, lag=0, seen_ns=5)
META = ReplicaGroup("trio", "s1", (BEHIND, CURRENT), None)
SERVERS = (
    ServerView("s1", is_online=True, leads=1, version="2.15.1", tags=("ssd", "zone:1")),
    ServerView("s2", is_online=True, follows=1, size_bytes=2048),
    ServerView("s3", is_online=True),
    ServerView("s4", is_online=False),
    ServerView("s5", is_online=True),
    ServerView("s6", is_online=True, has_streams=False),
)
STREAMS = (StreamView("A", "ORDERS", 3, META, messages=1_000, size_bytes=10),)
VIEW = ClusterView("trio", SERVERS, META, STREAMS)


def test_the_title_counts_servers_streams_and_problems() -> None:
    assert title_text(VIEW).plain == (
        "Cluster trio: 6 servers, meta leader s1, 1 stream, 2 problems"
    )
    fine = ClusterView("trio", (), ReplicaGroup("trio", "", (), None), ())
    assert title_text(fine).plain == "Cluster trio: 0 servers, no meta leader, 0 streams, 1 problem"
    assert title_text(ClusterView("c", SERVERS, None, ())).plain == "Cluster c: 0 streams, healthy"


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("s1", "meta leader"),
        ("s2", "1,200 behind"),
        ("s3", "current"),
        ("s4", "offline"),
        ("s5", "not a member"),
        ("s6", "no JetStream"),
    ],
)
def test_a_server_has_the_state_that_the_group_of_all_servers_knows(name: str, state: str) -> None:
    server = next(each for each in SERVERS if each.name == name)
    assert server_state(VIEW, server) == state


def test_a_server_outside_a_cluster_is_online() -> None:
    alone = ClusterView("", SERVERS, ReplicaGroup.of(None), ())
    assert server_state(alone, SERVERS[0]) == "online"


def test_tables_show_more_to_the_system_account() -> None:
    header, first, *_ = servers_table(VIEW).text(None).plain.splitlines()
    assert header.split() == ["server", "state", "version", "tags", "leads", "follows", "size"]
    assert "ssd, zone:1" in first
    header, row = streams_table(VIEW).text(None).plain.splitlines()
    assert header.split()[:3] == ["stream", "account", "replicas"]
    assert row.split() == [
        "ORDERS", "A", "2/3", "s1", "s2!,", "s3", "1,200", "1,000", "10", "B",
    ]  # fmt: skip
    other = ClusterView("trio", SERVERS, None, STREAMS)
    assert servers_table(other).text(None).plain.split()[:3] == ["server", "leads", "follows"]
    assert "account" not in streams_table(other).text(None).plain


def test_a_stream_of_a_server_outside_a_cluster_has_all_its_replicas() -> None:
    stream = StreamView("", "A", 1, ReplicaGroup.of(None))
    assert " 1/1 " in streams_table(ClusterView("", (), None, (stream,))).text(None).plain


def test_replicas_that_nobody_tells_of_are_not_counted() -> None:
    for replicas, text in ((3, " ?/3 "), (0, " ?/? ")):
        stream = StreamView("", "A", replicas, ReplicaGroup.of(None))
        assert text in streams_table(ClusterView("trio", (), None, (stream,))).text(None).plain


def test_problems_are_named_with_their_parts() -> None:
    reason = "s2 is not current, 1,200 operations behind"
    assert problems_text(VIEW).plain == (
        f"\nProblems\n  cluster:          {reason}\n  stream A/ORDERS:  {reason}"
    )
    assert cluster_fields(VIEW)["problems"][0] == {"part": "cluster", "problem": reason}


def test_text_from_servers_cannot_steer_the_terminal() -> None:
    evil = ClusterView("x\x1b[2J", (ServerView("s\x07", is_online=True),), META, ())
    assert "x\\x1b[2J" in title_text(evil).plain
    assert "s\\x07" in servers_table(evil).text(None).plain
