"""The journal: entries in order, found again behind any damage, and none that never was."""

import errno
from random import Random

import pytest

from headwater.store.disk.format import ENTRY_BYTES, HEADER_BYTES, encode_entry
from headwater.store.disk.journal import (
    DELETED,
    Journal,
    JournalEntries,
    as_ranges,
    decode_ranges,
    encode_entries,
    encode_ranges,
    read_entries,
)
from headwater.testing.disk import SimDisk

PATH = "/journal.hw"
IDENTITY = bytes(range(16))
SALT = bytes(range(16, 32))
ENTRIES = [(1, 300, b""), (1, 301, b"body"), (7, DELETED, encode_ranges([(2, 5), (7, 7)]))]


def journal(disk: SimDisk) -> Journal:
    made = Journal.create(disk, PATH, IDENTITY, SALT)
    for position, kind, body in ENTRIES:
        made.write(position, [(kind, body)])
    return made


def told(found: JournalEntries) -> list[tuple[int, int, bytes]]:
    return [(entry.position, entry.kind, entry.body) for entry in found.entries]


def bytes_of(disk: SimDisk) -> bytes:
    return disk.dump()[PATH]


def whole() -> bytes:
    disk = SimDisk()
    journal(disk)
    return bytes_of(disk)


def starts() -> list[int]:
    return read_entries(whole()).offsets


# --- ranges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequences", "ranges"),
    [
        ([5], [(5, 5)]),
        ([5, 6, 7], [(5, 7)]),
        ([1, 3, 4, 9], [(1, 1), (3, 4), (9, 9)]),
        ([2**64 - 2, 2**64 - 1], [(2**64 - 2, 2**64 - 1)]),
    ],
)
def test_sequences_as_ranges(sequences: list[int], ranges: list[tuple[int, int]]) -> None:
    assert as_ranges(sequences) == ranges
    assert decode_ranges(encode_ranges(ranges)) == ranges


def test_any_set_of_sequences_survives_as_ranges() -> None:
    for seed in range(50):
        rng = Random(seed)
        sequences = sorted(rng.sample(range(1, 60), rng.randint(1, 40)))
        ranges = decode_ranges(encode_ranges(as_ranges(sequences)))
        assert [at for first, last in ranges for at in range(first, last + 1)] == sequences


def test_half_a_range_is_none() -> None:
    assert decode_ranges(encode_ranges([(1, 2)]) + b"half") == [(1, 2)]
    assert decode_ranges(b"") == []


# --- writing --------------------------------------------------------------------------------------


def test_entries_come_back_in_order() -> None:
    found = read_entries(whole())
    assert told(found) == ENTRIES
    assert found.end == len(whole())
    assert found.sound_count == 3
    assert not found.is_damaged


def test_entries_of_one_moment_are_one_write() -> None:
    disk = SimDisk()
    made = Journal.create(disk, PATH, IDENTITY, SALT)
    writes = disk.counts(PATH).writes
    made.write(9, [(300, b"a"), (301, b"b")])
    assert disk.counts(PATH).writes == writes + 1
    assert bytes_of(disk)[HEADER_BYTES:] == encode_entries(9, [(300, b"a"), (301, b"b")])
    assert made.size == len(bytes_of(disk))


@pytest.mark.parametrize("kept_size", [0, 1, 10, 30])
def test_a_write_that_fails_leaves_the_journal_as_it_was(kept_size: int) -> None:
    disk = SimDisk()
    made = journal(disk)
    before = bytes_of(disk)
    disk.fail("write", code=errno.ENOSPC, kept_size=kept_size)
    with pytest.raises(OSError, match="No space"):
        made.write(9, [(300, b"it does not fit")])
    assert bytes_of(disk) == before
    made.write(9, [(300, b"now it does")])
    assert told(read_entries(bytes_of(disk)))[-1] == (9, 300, b"now it does")


def test_what_was_synced_survives_a_power_loss() -> None:
    disk = SimDisk()
    made = journal(disk)
    made.sync()
    disk.sync_folder("/")
    made.write(9, [(300, b"not synced")])
    disk.power_loss("strict")
    assert told(read_entries(bytes_of(disk))) == ENTRIES


def test_a_closed_journal_says_so() -> None:
    made = journal(SimDisk())
    assert not made.is_closed
    made.close()
    assert made.is_closed


# --- reading what is left -------------------------------------------------------------------------


def test_torn_at_every_byte() -> None:
    data = whole()
    for size in range(HEADER_BYTES, len(data)):
        found = read_entries(data[:size])
        count = len([at for at in (*starts()[1:], len(data)) if at <= size])
        assert told(found) == ENTRIES[:count]
        assert found.is_torn
        assert not found.is_damaged


def test_a_bit_flipped_in_every_byte_costs_one_entry() -> None:
    data = whole()
    for offset in range(HEADER_BYTES, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[offset] ^= 1 << bit
            hit = len([at for at in starts() if at <= offset]) - 1
            found = read_entries(bytes(damaged))
            assert told(found) == ENTRIES[:hit] + ENTRIES[hit + 1 :]
            # Entries behind it show that it is damage. At the end it may be half a write.
            assert found.is_damaged is (hit < len(ENTRIES) - 1)
            if found.is_damaged:
                assert found.sound_count == hit
                assert f"bytes {starts()[hit]} to {starts()[hit + 1] - 1}" in found.damage


def test_damage_of_any_length_hides_nothing_behind_it() -> None:
    data = whole()
    begin, end = starts()[1], starts()[2]
    for noise in (bytes(end - begin), b"\xff" * (end - begin), b"", b"x" * 100):
        found = read_entries(data[:begin] + noise + data[end:])
        assert told(found) == [ENTRIES[0], ENTRIES[2]]
        assert found.is_damaged is bool(noise)


def test_zeros_are_no_entries() -> None:
    found = read_entries(whole() + bytes(500))
    assert told(found) == ENTRIES
    assert not found.is_damaged
    assert not found.is_torn, "nobody writes zeros"


def test_a_journal_without_entries() -> None:
    disk = SimDisk()
    Journal.create(disk, PATH, IDENTITY, SALT)
    found = read_entries(bytes_of(disk))
    assert told(found) == []
    assert found.end == HEADER_BYTES
    assert found.is_torn


def test_the_smallest_entry_at_the_very_end_is_found_behind_damage() -> None:
    last = encode_entry(3, 300, b"")
    assert len(last) == ENTRY_BYTES
    found = read_entries(whole() + b"?" * 7 + last)
    assert told(found) == [*ENTRIES, (3, 300, b"")]
    assert found.is_damaged
