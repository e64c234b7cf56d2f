"""Memberships, the way from one to the next, and their bytes."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft import membership as memberships
from headwater.raft.membership import (
    MEMBERS_MAX,
    NAME_BYTES_MAX,
    MalformedMembership,
    Membership,
    membership_of,
)

JOINT = Membership(("c", "d", "e"), ("a", "b", "c"), ("b", "f"))


def test_a_change_of_voters_passes_through_a_joint_membership() -> None:
    current, target = membership_of("abc"), membership_of("cde", "b")
    joint = memberships.change(current, target)
    assert joint == Membership(("c", "d", "e"), ("a", "b", "c"), ("b",))
    assert joint.is_joint
    assert joint.left() == target


def test_a_change_of_learners_alone_is_one_step() -> None:
    assert memberships.change(membership_of("abc"), membership_of("cba", "d")) == membership_of(
        "abc", "d"
    )


def test_a_joint_membership_is_left_before_the_next_change() -> None:
    with pytest.raises(InvariantViolation, match="is left before"):
        memberships.change(JOINT, membership_of("abc"))
    with pytest.raises(InvariantViolation, match="members that it ends with"):
        memberships.change(membership_of("abc"), JOINT)


def test_a_leaving_voter_counts_until_the_joint_membership_is_left() -> None:
    assert [name for name in JOINT.members() if JOINT.is_voter(name)] == [*"abcde"]
    assert JOINT.electors() == (*"abcde",)
    assert JOINT.members() == (*"abcdef",)
    assert not JOINT.left().is_voter("b")


@pytest.mark.parametrize(
    ("voters", "learners", "fault"),
    [
        ([], ["a"], "a membership has no voters"),
        (["a", "a"], [], "members are not sorted, or one is named twice"),
        (["a"], ["a"], "a member is voter and learner"),
        (["a", ""], [], "a member's name is empty or too long"),
        (["x" * (NAME_BYTES_MAX + 1)], [], "a member's name is empty or too long"),
        (
            [f"s{number}" for number in range(MEMBERS_MAX + 1)],
            [],
            f"a membership has more than {MEMBERS_MAX} members",
        ),
    ],
)
def test_a_membership_keeps_its_rules(voters: list[str], learners: list[str], fault: str) -> None:
    with pytest.raises(InvariantViolation, match=fault):
        membership_of(voters, learners)


def test_the_largest_membership_is_encoded() -> None:
    names = [f"s{number}".ljust(NAME_BYTES_MAX, "x") for number in range(MEMBERS_MAX)]
    largest = membership_of(names)
    assert memberships.decode(memberships.encode(largest)) == largest


@pytest.mark.parametrize("membership", [membership_of("a"), membership_of("ab", "cd"), JOINT])
def test_a_membership_survives_its_bytes(membership: Membership) -> None:
    assert memberships.decode(memberships.encode(membership)) == membership


@pytest.mark.parametrize("cut", range(len(memberships.encode(JOINT))))
def test_a_cut_membership_is_refused(cut: int) -> None:
    with pytest.raises(MalformedMembership):
        memberships.decode(memberships.encode(JOINT)[:cut])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (memberships.encode(JOINT) + b"x", "bytes after its end"),
        (b"\x02\x01\x00\x00\x01a", "unknown version 2 of a membership"),
        (b"\x01\x01\x00\x00\x01\xff", "not UTF-8"),
        (b"\x01\x00\x00\x00", "no voters"),
        (b"\x01\x02\x00\x00\x01b\x01a", "not sorted"),
    ],
)
def test_malformed_bytes_are_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMembership, match=reason):
        memberships.decode(data)
