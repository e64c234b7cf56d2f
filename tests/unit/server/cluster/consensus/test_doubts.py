"""Groups in which those who remember are no quorum."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.raft.membership import UNKNOWN, Membership, membership_of
from headwater.server.cluster.consensus.doubts import (
    Doubts,
    decode_doubts,
    encode_doubts,
)

WAIT_NS = 7
ONE, TWO = b"1" * 16, b"2" * 16


def doubts(*peers: str) -> Doubts:
    """Server `a` and some others have forgotten in group ONE."""
    result = Doubts("a", WAIT_NS)
    result.note_own({ONE})
    for peer in peers:
        result.heard(peer, frozenset({ONE}))
    return result


def due(
    forgotten: Doubts,
    now_ns: int,
    membership_of: Callable[[bytes], Membership] | None = None,
    present: str = "abcdef",
) -> tuple[list[bytes], int | None]:
    """The groups in which a server votes again, while some servers are connected."""
    return forgotten.due(membership_of or abc, present.__contains__, now_ns)


def abc(_: bytes) -> Membership:
    return membership_of("abc")


def test_a_minority_waits_for_its_leader() -> None:
    assert due(doubts(), 0) == ([], None)


def test_a_majority_waits_for_the_others_and_then_votes() -> None:
    forgotten = doubts("b")
    assert due(forgotten, 5) == ([], 5 + WAIT_NS)
    assert due(forgotten, 4 + WAIT_NS) == ([], 5 + WAIT_NS)
    assert due(forgotten, 5 + WAIT_NS)[0] == [ONE]


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
    due(forgotten, 0, lambda _: membership_of(voters))
    groups, _ = due(forgotten, WAIT_NS, lambda _: membership_of(voters))
    assert groups == [ONE] * is_stopped


def test_a_member_that_has_forgotten_waits_for_a_quorum_to_be_connected() -> None:
    forgotten = doubts()

    def ab(_: bytes) -> Membership:
        return membership_of("ab")

    assert due(forgotten, 0, ab, present="a") == ([], None)
    assert due(forgotten, WAIT_NS, ab, present="ab") == ([], 2 * WAIT_NS)
    assert due(forgotten, 2 * WAIT_NS, ab, present="ab")[0] == [ONE]


@pytest.mark.parametrize(
    ("forgetful", "is_stopped"), [("", False), ("b", True), ("d", False), ("de", False)]
)
def test_each_half_of_a_joint_membership_is_counted_by_itself(
    forgetful: str, is_stopped: bool
) -> None:
    joint = Membership(("d", "e", "f"), ("a", "b", "c"))
    forgotten = doubts(*forgetful)
    due(forgotten, 0, lambda _: joint)
    assert due(forgotten, WAIT_NS, lambda _: joint)[0] == [ONE] * is_stopped


def test_a_group_with_a_leader_waits_for_it() -> None:
    assert due(doubts("b", "c"), 0, lambda _: UNKNOWN) == ([], None)


def test_the_wait_begins_again_when_the_majority_was_lost() -> None:
    forgotten = doubts("b")
    due(forgotten, 0)
    forgotten.lost("b")
    due(forgotten, WAIT_NS // 2)
    forgotten.heard("b", frozenset({ONE}))
    assert due(forgotten, WAIT_NS) == ([], 2 * WAIT_NS)


def test_a_server_of_another_group_does_not_count() -> None:
    forgotten = doubts()
    forgotten.heard("b", frozenset({TWO}))
    assert due(forgotten, 0) == ([], None)


def test_a_server_that_is_no_voter_does_not_count_itself() -> None:
    assert due(doubts("b"), 0, lambda _: membership_of("bcd")) == ([], None)


def test_others_must_know_when_the_groups_of_this_server_change() -> None:
    forgotten = Doubts("a", WAIT_NS)
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
