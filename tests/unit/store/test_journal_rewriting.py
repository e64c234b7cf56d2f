"""A journal written anew says the same in fewer words, whatever is journalled meanwhile."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.store.format import HEADER_BYTES, Entry
from headwater.store.journal import (
    CALLER_KINDS,
    DELETED,
    LOST,
    TRUNCATED,
    TRUNCATING,
    decode_ranges,
    encode_ranges,
    read_entries,
)
from headwater.store.journal_rewriting import shortened
from headwater.store.log import JOURNAL_FILE, JOURNAL_NEW_FILE, FileLog
from headwater.store.message_log import Batch, StoreError
from headwater.store.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

FOLDER = "/stream"
PATH = f"{FOLDER}/{JOURNAL_FILE}"
NEW_PATH = f"{FOLDER}/{JOURNAL_NEW_FILE}"
SEQUENCE_MAX = 40

ranges = st.tuples(st.integers(1, SEQUENCE_MAX), st.integers(0, 6)).map(
    lambda pair: (pair[0], min(pair[0] + pair[1], SEQUENCE_MAX))
)
own = st.tuples(
    st.sampled_from([DELETED, DELETED, DELETED, LOST, TRUNCATING, TRUNCATED]),
    st.lists(ranges, max_size=4).map(encode_ranges),
)
callers = st.tuples(st.sampled_from([CALLER_KINDS, 301]), st.binary(max_size=4))


def facts_of(entries: list[Entry]) -> tuple[set[int], set[int], list[tuple[int, bytes]]]:
    """What is deleted, what is lost, and what callers wrote: sequence by sequence."""
    gone: dict[int, set[int]] = {DELETED: set(), LOST: set()}
    written = []
    for entry in entries:
        if entry.kind >= CALLER_KINDS:
            written.append((entry.kind, entry.body))
            continue
        named = {
            sequence
            for first, last in decode_ranges(entry.body)
            for sequence in range(first, last + 1)
        }
        if entry.kind in gone:
            gone[entry.kind] |= named
        else:
            gone[DELETED] -= named
            gone[LOST] -= named
    return gone[DELETED], gone[LOST], written


def read_back(parts: list[bytes]) -> list[Entry]:
    data = bytes(HEADER_BYTES) + b"".join(parts)
    found = read_entries(data)
    assert found.end == len(data)
    return found.entries


@given(st.lists(st.one_of(own, callers), max_size=20))
def test_the_same_is_said(written: list[tuple[int, bytes]]) -> None:
    entries = [Entry(at, kind, body, 0) for at, (kind, body) in enumerate(written)]
    again = read_back(list(shortened(entries, last_sequence=7)))
    assert facts_of(again) == facts_of(entries)
    assert all(entry.position <= 7 for entry in again)
    positions = [min(entry.position, 7) for entry in entries if entry.kind >= CALLER_KINDS]
    assert [entry.position for entry in again if entry.kind >= CALLER_KINDS] == positions


def test_deletions_one_after_the_other_become_one() -> None:
    entries = [Entry(900, DELETED, encode_ranges([(at, at)]), 0) for at in range(1, 1001)]
    (only,) = read_back(list(shortened(entries, 1000)))
    assert decode_ranges(only.body) == [(1, 1000)]


# --- in a log -----------------------------------------------------------------------------------


def append(log: FileLog, count: int) -> None:
    numbers = range(log.last_sequence + 1, log.last_sequence + 1 + count)
    payloads = [b"message %d" % number for number in numbers]
    log.append(Batch([b"s"] * count, [b""] * count, payloads, [*numbers]))


def used() -> tuple[SimDisk, FileLog]:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)))
    append(log, 100)
    log.write_entries([(CALLER_KINDS, b"first")])
    for sequence in range(1, 60):
        log.delete([sequence])
    log.write_entries([(CALLER_KINDS, b"second")])
    return disk, log


def reopened(disk: SimDisk, machine_fell: bool = False) -> FileLog:
    return open_log(disk, FOLDER, SeededEntropy(Random(2)), machine_fell=machine_fell)


def sequences_of(log: FileLog) -> list[int]:
    return log.read(0, 10_000, 2**62).sequences


def bodies_of(log: FileLog) -> list[bytes]:
    return [entry.body for entry in log.entries]


def test_what_is_journalled_meanwhile_is_in_it() -> None:
    disk, log = used()
    before = log.journal_bytes
    work = log.begin_journal_rewrite()
    log.delete([70])
    work.run()
    log.delete([71, 72])
    append(log, 3)
    log.write_entries([(CALLER_KINDS, b"third")])
    assert log.finish_journal_rewrite(work)
    log.delete([80])
    assert log.journal_bytes < before / 4
    expected = sequences_of(log)
    disk.kill()
    again = reopened(disk)
    assert again.findings.reported == []
    assert sequences_of(again) == expected
    assert bodies_of(again) == [b"first", b"second", b"third"]
    assert NEW_PATH not in disk.dump()


def test_the_checkpoint_is_used_with_the_journal_before_and_after() -> None:
    disk, log = used()
    log.checkpoint()
    log.delete([90])
    work = log.begin_journal_rewrite()
    work.run()
    assert log.finish_journal_rewrite(work)
    log.delete([91])
    expected = sequences_of(log)
    disk.kill()
    again = reopened(disk)
    assert again.checkpoint_sequence == 100
    assert again.findings.reported == []
    assert sequences_of(again) == expected
    # One of the new journal does not speak of the old one's bytes either.
    again.checkpoint()
    again.delete([92])
    disk.kill()
    once_more = reopened(disk)
    assert once_more.checkpoint_sequence == 100
    assert sequences_of(once_more) == sorted({*expected} - {92})


def test_one_begun_before_another_was_put_in_place_is_given_up() -> None:
    disk, log = used()
    work = log.begin_journal_rewrite()
    work.run()
    log.rewrite_journal([(CALLER_KINDS, b"only")])
    assert not log.finish_journal_rewrite(work)
    assert NEW_PATH not in disk.dump()
    disk.kill()
    assert bodies_of(reopened(disk)) == [b"only"]


def test_a_cut_of_the_end_meanwhile_is_in_it() -> None:
    disk, log = used()
    log.write_entries([(CALLER_KINDS, b"third")])
    work = log.begin_journal_rewrite()
    work.run()
    log.truncate(95)
    assert log.finish_journal_rewrite(work)
    append(log, 2)
    expected = sequences_of(log)
    disk.kill()
    again = reopened(disk)
    assert again.findings.reported == []
    assert sequences_of(again) == expected == [*range(60, 98)]
    assert bodies_of(again) == [b"first", b"second", b"third"]


def test_a_damaged_journal_is_left_for_recovery() -> None:
    disk, log = used()
    disk.flip_bit(PATH, HEADER_BYTES + 30, 1)
    before = disk.dump()[PATH]
    work = log.begin_journal_rewrite()
    with pytest.raises(StoreError, match="damaged"):
        work.run()
    log.abandon_journal_rewrite(work)
    assert disk.dump()[PATH] == before
    assert NEW_PATH not in disk.dump()
    assert log.offline == ""


@pytest.mark.parametrize("by_callers", [True, False])
def test_entries_on_the_disk_do_not_speak_of_messages_that_are_not(by_callers: bool) -> None:
    """Else a power loss that takes the messages takes the entries with them, long synced ones."""
    disk, log = used()
    log.sync()
    append(log, 5)
    log.write_entries([(CALLER_KINDS, b"third")])
    if by_callers:
        log.rewrite_journal([(CALLER_KINDS, body) for body in (b"first", b"second", b"third")])
    else:
        work = log.begin_journal_rewrite()
        work.run()
        assert log.finish_journal_rewrite(work)
    disk.power_loss("strict")
    again = reopened(disk, machine_fell=True)
    assert bodies_of(again) == [b"first", b"second", b"third"]
    assert again.findings.reported == []
