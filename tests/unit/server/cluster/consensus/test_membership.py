"""The servers of the meta group."""

from headwater.raft.membership import MEMBERS_MAX, Membership, membership_of
from headwater.server.cluster.consensus.membership import next_membership


def test_a_server_joins_as_a_learner_and_is_promoted() -> None:
    current = membership_of("ab")
    current = next_membership(current, "abc", lambda _: False) or current
    assert current == membership_of("ab", "c")
    assert next_membership(current, "abc", lambda _: False) is None
    current = next_membership(current, "abc", lambda _: True) or current
    assert current == membership_of("abc")
    assert next_membership(current, "abc", lambda _: True) is None


def test_servers_are_admitted_one_at_a_time_and_promoted_first() -> None:
    current = membership_of("ab", "d")
    assert next_membership(current, "cde", lambda _: True) == membership_of("abd")
    assert next_membership(current, "cde", lambda _: False) == membership_of("ab", "cd")


def test_a_server_that_is_away_stays_a_member() -> None:
    assert next_membership(membership_of("abc"), "a", lambda _: True) is None


def test_a_joint_membership_is_left_first() -> None:
    assert next_membership(Membership(("a",), ("b",)), "c", lambda _: True) is None


def test_a_group_has_no_more_servers_than_a_membership_can_name() -> None:
    names = [f"s{each:02}" for each in range(MEMBERS_MAX)]
    assert next_membership(membership_of(names), ["new"], lambda _: True) is None
