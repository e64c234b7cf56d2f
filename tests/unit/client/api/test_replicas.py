"""Groups of replicas: read from answers, and judged."""

from typing import Any

import pytest

from headwater.client.api.replicas import Replica, ReplicaGroup

CURRENT = {"name": "s1", "current": True, "active": 45_468, "peer": "k2My6qdB"}
BEHIND = {"name": "s3", "current": False, "active": 0, "lag": 6, "peer": "3ahZoO2Q"}


def group(**fields: Any) -> ReplicaGroup:
    """The group of an answer from a cluster whose leader is s2."""
    return ReplicaGroup.of({"name": "trio", "leader": "s2", **fields})


def test_a_group_has_the_leader_first_and_its_followers_by_name() -> None:
    found = group(replicas=[BEHIND, CURRENT])
    assert (found.leader, found.servers, found.lag) == ("s2", ["s2", "s1", "s3"], 6)
    assert found.current_count == 2


def test_a_leader_among_the_replicas_is_no_follower() -> None:
    assert group(replicas=[CURRENT, {"name": "s2", "current": True}]).servers == ["s2", "s1"]


@pytest.mark.parametrize("cluster", [None, {}, {"leader": "NAVL"}])
def test_a_server_outside_a_cluster_has_no_problems(cluster: dict[str, Any] | None) -> None:
    found = ReplicaGroup.of(cluster)
    assert (found.is_clustered, found.problems(1), found.lag) == (False, [], 0)


def test_replicas_that_an_answer_does_not_name_are_a_problem() -> None:
    assert ReplicaGroup.of({"leader": "s2"}).problems(3) == ["no word of its replicas"]


def test_a_group_with_its_leader_and_current_replicas_has_no_problems() -> None:
    assert group(replicas=[CURRENT, CURRENT | {"name": "s3"}]).problems(3) == []
    assert group().problems(1) == []


@pytest.mark.parametrize(
    ("fields", "replicas", "problems"),
    [
        ({"leader": "", "replicas": [BEHIND]}, 3, ["no leader"]),
        (
            {"replicas": [CURRENT, BEHIND]},
            3,
            ["s3 is not current, 6 operations behind"],
        ),
        ({"replicas": [{"name": "s1", "lag": 1}]}, 2, ["s1 is not current, 1 operation behind"]),
        ({"replicas": [{"name": "s1"}]}, 2, ["s1 is not current"]),
        ({"replicas": [CURRENT | {"offline": True}]}, 2, ["s1 is offline"]),
        ({"replicas": [CURRENT]}, 3, ["2 replicas in place of 3"]),
        (
            {"desired": {"origin": {"replicas": 3}, "status": {"description": "waiting"}}},
            1,
            ["a change is under way: waiting"],
        ),
        ({"desired": {"origin": {"replicas": 3}}}, 1, ["a change is under way"]),
    ],
)
def test_every_reason_why_a_group_is_not_healthy_is_named(
    fields: dict[str, Any], replicas: int, problems: list[str]
) -> None:
    assert group(**fields).problems(replicas) == problems


def test_fields_that_an_answer_lacks_have_the_values_of_a_replica_that_was_never_seen() -> None:
    assert Replica.of({}) == Replica("", is_current=False, is_offline=False, lag=0, seen_ns=0)
