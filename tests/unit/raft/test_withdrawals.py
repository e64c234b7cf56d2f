"""The withdrawals of a log: what they cover, and for how long they are known."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft import withdrawals
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.withdrawals import Withdrawals

LAST = 99


def withdrawal(first: int, index: int) -> Entry:
    return Entry(2, index, EntryKind.WITHDRAWAL, withdrawals.encode(first))


def withdrawn(*ranges: tuple[int, int]) -> Withdrawals:
    """The withdrawals with these first entries and places."""
    found = Withdrawals()
    for first, index in ranges:
        found.add(withdrawal(first, index))
    return found


def test_the_first_entry_survives_the_bytes() -> None:
    assert withdrawals.first_of(withdrawal(7, 9)) == 7


@pytest.mark.parametrize(
    "entry",
    [
        Entry(2, 9, EntryKind.WITHDRAWAL, b""),
        Entry(2, 9, EntryKind.WITHDRAWAL, withdrawals.encode(3) + b"x"),
        withdrawal(0, 9),
        withdrawal(9, 9),
        withdrawal(10, 9),
    ],
    ids=["empty", "long", "zero", "itself", "later"],
)
def test_a_withdrawal_of_nothing_is_malformed(entry: Entry) -> None:
    assert withdrawals.first_of(entry) == 0
    with pytest.raises(InvariantViolation):
        Withdrawals().add(entry)


@pytest.mark.parametrize(
    ("index", "lowered"), [(2, 2), (3, 2), (6, 2), (7, 7), (8, 8)], ids=lambda each: str(each)
)
def test_an_index_is_lowered_unless_it_divides_nothing(index: int, lowered: int) -> None:
    assert withdrawn((3, 7)).lowered(index, LAST) == lowered


def test_ranges_that_touch_nest_or_overlap_are_left_together() -> None:
    assert withdrawn((3, 7), (7, 9)).lowered(8, LAST) == 2
    assert withdrawn((3, 7), (8, 9)).lowered(8, LAST) == 7
    assert withdrawn((5, 7), (3, 9)).lowered(6, LAST) == 2
    assert withdrawn((3, 7), (6, 9)).lowered(8, LAST) == 2


def test_a_withdrawal_that_is_not_reached_does_not_count() -> None:
    assert withdrawn((3, 7)).lowered(5, 6) == 5
    assert withdrawn((3, 7)).lowered(5, 7) == 2


def test_only_data_are_withdrawn_and_only_by_a_committed_withdrawal() -> None:
    found = withdrawn((3, 6))
    entries = [
        Entry(2, 2, EntryKind.DATA, b"before"),
        Entry(2, 3, EntryKind.DATA, b"withdrawn", 8, 9),
        Entry(2, 4, EntryKind.MEMBERSHIP, b"members"),
        Entry(2, 5, EntryKind.NOOP, b""),
        withdrawal(3, 6),
        Entry(2, 7, EntryKind.DATA, b"behind"),
    ]
    assert found.without_effect(entries, 5) == entries
    emptied = Entry(2, 3, EntryKind.NOOP, b"", 8, 9)
    assert found.without_effect(entries, 6) == [entries[0], emptied, *entries[2:]]
    # An entry keeps its data in the log.
    assert entries[1].data == b"withdrawn"


def test_a_withdrawal_that_is_cut_off_or_trimmed_is_forgotten() -> None:
    found = withdrawn((3, 7), (8, 12))
    found.cut(12)
    assert (found.lowered(9, LAST), found.lowered(5, LAST)) == (9, 2)
    found.trim(6)
    assert found.lowered(6, LAST) == 2
    found.trim(7)
    assert not found
