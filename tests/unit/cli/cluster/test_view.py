"""Clusters from the answers of servers, and the problems in them."""

from typing import Any

from headwater.cli.cluster.view import ClusterView, view_of_account, view_of_system

CURRENT = {"current": True, "active": 1_000_000}


def group(leader: str, *followers: str, **fields: Any) -> dict[str, Any]:
    """`cluster` of an answer; all followers are current."""
    replicas = [{"name": name, **CURRENT} for name in followers]
    return {"name": "trio", "leader": leader, "replicas": replicas, **fields}


def detail(name: str, replicas: int, cluster: dict[str, Any], messages: int = 0) -> dict[str, Any]:
    """A stream, as JSZ and STREAM.LIST tell of it."""
    return {
        "name": name,
        "config": {"name": name, "num_replicas": replicas},
        "state": {"messages": messages, "bytes": messages * 10},
        "cluster": cluster,
    }


def jsz(
    server: str, meta: dict[str, Any], *streams: dict[str, Any], account: str = "A", **data: Any
) -> dict[str, Any]:
    """The answer of a server to JSZ."""
    return {
        "server": {"name": server, "cluster": "trio", "ver": "2.15.1", "tags": ["ssd"]},
        "data": {
            "meta_cluster": meta,
            "account_details": [{"name": account, "stream_detail": list(streams)}],
            **data,
        },
    }


def healthy() -> list[dict[str, Any]]:
    """Three servers whose leader is s1, with a stream on all of them led by s2."""
    followers_view = group("s2", "s2", "s3", replicas=[{"name": "s3"}, {"name": "s2"}])
    return [
        jsz("s1", group("s1", "s2", "s3"), detail("ORDERS", 3, followers_view)),
        jsz("s2", group("s1", "s1", "s3"), detail("ORDERS", 3, group("s2", "s1", "s3"), 7)),
        jsz("s3", group("s1", "s1"), storage=10, memory=5),
    ]


# --- the system account -------------------------------------------------------------------------


def test_the_system_account_sees_all_servers_and_the_streams_of_all_accounts() -> None:
    other = jsz("s3", group("s1", "s1"), detail("JOBS", 1, group("s3")), account="B")
    view = view_of_system([*healthy()[:2], other])
    assert view.cluster == "trio"
    assert [each.name for each in view.servers] == ["s1", "s2", "s3"]
    assert [each.label for each in view.streams] == ["A/ORDERS", "B/JOBS"]
    assert [(each.leads, each.follows) for each in view.servers] == [(0, 1), (1, 0), (1, 1)]
    assert view.meta is not None
    assert (view.meta.leader, view.problems) == ("s1", [])


def test_a_stream_is_as_its_leader_describes_it() -> None:
    for answers in (healthy(), healthy()[::-1]):
        (stream,) = view_of_system(answers).streams
        assert (stream.messages, stream.size_bytes, stream.problems) == (7, 70, [])


def test_a_server_tells_of_its_version_its_tags_and_its_bytes() -> None:
    server = view_of_system(healthy()).servers[2]
    assert (server.version, server.tags, server.size_bytes) == ("2.15.1", ("ssd",), 15)
    assert view_of_system([jsz("s1", {}, disabled=True)]).servers[0].has_streams is False


def test_a_server_that_does_not_answer_is_offline_everywhere() -> None:
    view = view_of_system(healthy()[:2])
    assert [(each.name, each.is_online) for each in view.servers] == [
        ("s1", True),
        ("s2", True),
        ("s3", False),
    ]
    assert view.problems == [("cluster", "s3 is offline"), ("stream A/ORDERS", "s3 is offline")]


def test_a_leader_that_does_not_answer_leads_no_more() -> None:
    view = view_of_system([healthy()[0], healthy()[2]])
    assert view.streams[0].group.leader == ""
    assert ("stream A/ORDERS", "no leader") in view.problems


def test_a_cluster_without_a_meta_leader_has_a_problem() -> None:
    replicas = [{"name": "s1", "current": True}, {"name": "s2"}]
    view = view_of_system([jsz("s1", {"name": "trio", "replicas": replicas})])
    assert view.problems == [("cluster", "no meta leader"), ("cluster", "s2 is offline")]


def test_a_server_outside_a_cluster_has_no_problems() -> None:
    alone = {"server": {"name": "one"}, "data": {"streams": 0}}
    view = view_of_system([alone])
    assert (view.cluster, view.problems) == ("", [])


# --- other accounts -----------------------------------------------------------------------------


def seen(*streams: dict[str, Any], missing: tuple[str, ...] = ()) -> ClusterView:
    """The cluster of a user whose server is s1."""
    return view_of_account({"server_name": "s1", "cluster": "trio"}, streams, missing)


def test_other_accounts_see_their_streams_and_the_servers_of_those() -> None:
    view = seen(detail("B", 2, group("s2", "s3")), detail("A", 1, group("s2")))
    assert view.meta is None
    assert [each.name for each in view.streams] == ["A", "B"]
    assert [(each.name, each.leads, each.follows) for each in view.servers] == [
        ("s1", 0, 0),
        ("s2", 2, 0),
        ("s3", 0, 1),
    ]
    assert view.problems == []


def test_a_stream_that_no_server_told_about_is_a_problem() -> None:
    assert seen(missing=("LOST",)).problems == [("stream LOST", "no server answers")]


def test_streams_are_found_by_name_in_every_account_and_an_unknown_one_is_a_problem() -> None:
    view = view_of_system(healthy())
    assert [each.label for each in view.named(["ORDERS"])] == ["A/ORDERS"]
    assert view.problems_of(view.named(["NOPE"])) == [("stream NOPE", "no server answers")]
