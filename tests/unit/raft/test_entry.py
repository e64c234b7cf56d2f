"""Entries are equal by all their fields and are charged for more than their data."""

import pytest

from headwater.raft.entry import ENTRY_OVERHEAD_BYTES, Entry, EntryKind, size_of

ENTRY = Entry(2, 7, EntryKind.DATA, b"x", 100, 5)


@pytest.mark.parametrize(
    "other",
    [
        Entry(3, 7, EntryKind.DATA, b"x", 100, 5),
        Entry(2, 8, EntryKind.DATA, b"x", 100, 5),
        Entry(2, 7, EntryKind.NOOP, b"x", 100, 5),
        Entry(2, 7, EntryKind.DATA, b"y", 100, 5),
        Entry(2, 7, EntryKind.DATA, b"x", 101, 5),
        Entry(2, 7, EntryKind.DATA, b"x", 100, 6),
        "entry",
    ],
)
def test_entries_that_differ_in_a_field_are_not_equal(other: object) -> None:
    assert other != ENTRY
    assert Entry(2, 7, EntryKind.DATA, b"x", 100, 5) == ENTRY


def test_an_empty_entry_has_a_size() -> None:
    assert size_of(Entry(1, 1, EntryKind.NOOP, b"")) == ENTRY_OVERHEAD_BYTES
    assert size_of(ENTRY) == ENTRY_OVERHEAD_BYTES + 1


def test_an_entry_shows_its_place_and_kind() -> None:
    assert repr(ENTRY) == "Entry(2/7 data b'x')"
