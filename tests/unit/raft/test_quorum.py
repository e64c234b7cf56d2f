"""Majorities, single and joint."""

import pytest

from headwater.raft.membership import Membership, membership_of
from headwater.raft.quorum import Outcome, committed_index, has_quorum, majority, outcome

JOINT = Membership(("c", "d", "e"), ("a", "b", "c"))


@pytest.mark.parametrize(("count", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, least: int) -> None:
    assert majority(count) == least


@pytest.mark.parametrize(
    ("voters", "matches", "index"),
    [
        ("a", {"a": 7}, 7),
        ("ab", {"a": 7, "b": 3}, 3),
        ("abc", {"a": 7, "b": 3, "c": 5}, 5),
        ("abc", {"a": 7}, 0),
        ("abcd", {"a": 9, "b": 8, "c": 2, "d": 1}, 2),
        ("abc", {"a": 7, "b": 6, "x": 9}, 6),
    ],
)
def test_an_index_is_committed_by_a_majority_of_voters(
    voters: str, matches: dict[str, int], index: int
) -> None:
    assert committed_index(membership_of(voters), matches) == index


def test_an_index_is_committed_by_both_halves() -> None:
    assert committed_index(JOINT, {"c": 9, "d": 9, "e": 9, "a": 2, "b": 1}) == 2
    assert committed_index(JOINT, {"a": 9, "b": 9, "c": 9}) == 0


@pytest.mark.parametrize(
    ("votes", "result"),
    [
        ({}, Outcome.OPEN),
        ({"a": True}, Outcome.OPEN),
        ({"a": True, "b": True}, Outcome.WON),
        ({"a": True, "b": False}, Outcome.OPEN),
        ({"a": False, "b": False}, Outcome.LOST),
        ({"x": True, "y": True}, Outcome.OPEN),
    ],
)
def test_a_vote_is_decided_as_soon_as_it_can_be(votes: dict[str, bool], result: Outcome) -> None:
    assert outcome(membership_of("abc"), votes) is result


@pytest.mark.parametrize(
    ("yes", "no", "result"),
    [
        ("cde", "", Outcome.OPEN),
        ("abc", "", Outcome.OPEN),
        ("bcd", "", Outcome.WON),
        ("cde", "ab", Outcome.LOST),
    ],
)
def test_a_joint_vote_needs_both_halves(yes: str, no: str, result: Outcome) -> None:
    votes = dict.fromkeys(yes, True) | dict.fromkeys(no, False)
    assert outcome(JOINT, votes) is result


@pytest.mark.parametrize(("present", "is_enough"), [("cde", False), ("bcd", True), ("c", False)])
def test_a_joint_quorum_is_one_of_both_halves(present: str, is_enough: bool) -> None:
    assert has_quorum(JOINT, lambda name: name in present) is is_enough
