"""Groups in which those who remember are no quorum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.raft.membership import UNKNOWN, Membership, membership_of
from headwater.server.cluster.consensus.doubts import (
    WAIT_NS,
    Doubts,
    decode_doubts,
    encode_doubts,
)

ONE, TWO = b"1" * 16, b"2" * 16


def doubts(*peers: str) -> Doubts:
    """Server `a` and some others have forgotten in group ONE."""
    result = Doubts("a")
    result.note_own({ONE})
    for peer in peers:
        result.heard(peer, frozenset({ONE}))
    return result


def abc(_: bytes) -> Membership:
    return membership_of("abc")


def test_a_minority_waits_for_its_leader() -> None:
    assert doubts().due(abc, 0) == ([], None)


def test_a_majority_waits_for_the_others_and_then_votes() -> None:
    forgotten = doubts("b")
    assert forgotten.due(abc, 5) == ([], 5 + WAIT_NS)
    assert forgotten.due(abc, 4 + WAIT_NS) == ([], 5 + WAIT_NS)
    assert forgotten.due(abc, 5 + WAIT_NS)[0] == [ONE]


@pytest.mark.parametrize(
    ("voters", "forgetful", "is_stopped"),
    [
        ("a", "", True),
        ("ab", "", True),
        ("abc", "", False),
        ("abc", "b", True),
        ("abcd", "", False),
        ("abcd", "b", True),
        ("abcde", "b", False),
        ("abcde", "bc", True),
    ],
)
def test_members_that_have_forgotten_vote_if_the_others_are_no_quorum(
    voters: str, forgetful: str, is_stopped: bool
) -> None:
    forgotten = doubts(*forgetful)
    forgotten.due(lambda _: membership_of(voters), 0)
    due, _ = forgotten.due(lambda _: membership_of(voters), WAIT_NS)
    assert due == [ONE] * is_stopped


@pytest.mark.parametrize(
    ("forgetful", "is_stopped"), [("", False), ("b", True), ("d", False), ("de", False)]
)
def test_each_half_of_a_joint_membership_is_counted_by_itself(
    forgetful: str, is_stopped: bool
) -> None:
    joint = Membership(("d", "e", "f"), ("a", "b", "c"))
    forgotten = doubts(*forgetful)
    forgotten.due(lambda _: joint, 0)
    assert forgotten.due(lambda _: joint, WAIT_NS)[0] == [ONE] * is_stopped


def test_a_group_with_a_leader_waits_for_it() -> None:
    assert doubts("b", "c").due(lambda _: UNKNOWN, 0) == ([], None)


def test_the_wait_begins_again_when_the_majority_was_lost() -> None:
    forgotten = doubts("b")
    forgotten.due(abc, 0)
    forgotten.lost("b")
    forgotten.due(abc, WAIT_NS // 2)
    forgotten.heard("b", frozenset({ONE}))
    assert forgotten.due(abc, WAIT_NS) == ([], 2 * WAIT_NS)


def test_a_server_of_another_group_does_not_count() -> None:
    forgotten = doubts()
    forgotten.heard("b", frozenset({TWO}))
    assert forgotten.due(abc, 0) == ([], None)


def test_a_server_that_is_no_voter_does_not_count_itself() -> None:
    assert doubts("b").due(lambda _: membership_of("bcd"), 0) == ([], None)


def test_others_must_know_when_the_groups_of_this_server_change() -> None:
    forgotten = Doubts("a")
    assert not forgotten.note_own(set())
    assert forgotten.note_own({ONE})
    assert not forgotten.note_own({ONE})
    assert forgotten.note_own(set())
    assert forgotten.own == frozenset()


@given(st.sets(st.binary(min_size=16, max_size=16), max_size=5))
def test_a_list_of_groups_has_bytes(groups: set[bytes]) -> None:
    assert decode_doubts(encode_doubts(groups)) == groups


@pytest.mark.parametrize("size", [1, 15, 17])
def test_a_malformed_list_is_refused(size: int) -> None:
    with pytest.raises(PeerError, match="ends within a group"):
        decode_doubts(bytes(size))
