"""The state that a member begins with."""

import pytest

from headwater.raft.membership import UNKNOWN, membership_of
from headwater.raft.storage import BIRTH_INDEX, HardState, blank, born


def test_a_group_is_born_with_a_membership_behind_index_zero() -> None:
    saved = born(membership_of("abc"))
    assert saved.snapshot.membership == membership_of("abc")
    assert saved.last_index == saved.applied == saved.hard_state.commit == BIRTH_INDEX > 0


def test_a_blank_member_lacks_even_the_birth_of_its_group() -> None:
    saved = blank()
    assert saved.last_index < BIRTH_INDEX
    assert saved.snapshot.membership == UNKNOWN


@pytest.mark.parametrize(
    "other",
    [
        HardState(3, "a", 4, 5),
        HardState(2, "b", 4, 5),
        HardState(2, "a", 5, 5),
        HardState(2, "a", 4, 6),
        None,
    ],
)
def test_hard_states_that_differ_in_a_field_are_not_equal(other: object) -> None:
    assert other != HardState(2, "a", 4, 5)
    assert HardState(2, "a", 4, 5) == HardState(2, "a", 4, 5)


def test_a_hard_state_shows_whether_its_member_has_forgotten() -> None:
    assert repr(HardState(2, "a", 4)) == "HardState(term=2 vote='a' commit=4)"
    assert repr(HardState(2, "a", 4, 9)) == "HardState(term=2 vote='a' commit=4 recovery=9)"
