"""The records of an entry are written together, and counted one by one without the disk."""

from collections.abc import Callable
from errno import EIO, ENOSPC

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.room import Room
from headwater.store.errors import DiskFullError, OfflineError
from headwater.store.log.batch_records import encode_behind
from headwater.store.log.durability import Durability
from headwater.store.log.file_log import FileLog
from headwater.store.log.log_end import SKIPPED_IN_PLACE_MAX
from headwater.store.log.message_log import Batch, EncodedMessages, Passed
from headwater.testing.disk import PowerLost, SimDisk
from tests.kit.logs import FOLDER, add_messages, log_after_kill, new_log, sequences_in

SEGMENT = f"{FOLDER}/segment-*"
HEADER = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"


def batch(*subjects: bytes) -> Batch:
    count = len(subjects)
    return Batch([*subjects], [b""] * count, [b"x"] * count, [7] * count, [10**9] * count)


def encoded(log: FileLog, first: int, messages: Batch) -> EncodedMessages:
    return encode_behind(first, messages, log.record_seed, b"before")


def write_entry(log: FileLog) -> None:
    """Write two messages, a sequence without one, and a message."""
    first = log.index.next_sequence
    log.write_together(
        [
            encoded(log, first, batch(b"a", b"b")),
            Passed(first + 2, 1, 8, HEADER),
            encoded(log, first + 3, batch(b"c")),
        ]
    )


def count_entry(log: FileLog) -> None:
    first = log.index.next_sequence
    log.append_encoded(batch(b"a", b"b"), encoded(log, first, batch(b"a", b"b")))
    log.skip(1, 8, HEADER)
    assert log.append(batch(b"c")) == first + 3


def test_an_entry_is_one_write_and_is_counted_without_the_disk() -> None:
    disk = SimDisk()
    log = new_log(disk, 2)
    before = disk.operations
    write_entry(log)
    assert disk.operations == before + 1
    assert log.last_sequence == 2, "nothing of it is in the index"
    count_entry(log)
    assert disk.operations == before + 1
    assert sequences_in(log) == [1, 2, 3, 4, 6]
    assert [len(log.expiries), log.subject_of(6)] == [3, b"c"]
    again = log_after_kill(disk)
    assert sequences_in(again) == [1, 2, 3, 4, 6]
    assert again.passed == {5: (HEADER, 8)}


def test_nothing_else_is_stored_before_an_entry_is_counted() -> None:
    log = new_log(SimDisk())
    write_entry(log)
    with pytest.raises(InvariantViolation):
        write_entry(log)
    with pytest.raises(InvariantViolation):
        log.write_together([encoded(log, 9, batch(b"a"))])


@pytest.mark.parametrize(("code", "error"), [(ENOSPC, DiskFullError), (EIO, OfflineError)])
def test_an_entry_that_is_not_written_leaves_the_log_as_it_was(
    code: int, error: type[Exception]
) -> None:
    disk = SimDisk()
    log = new_log(disk, 2)
    fault = disk.fail("write", SEGMENT, code=code, kept_size=None, times=None)
    with pytest.raises(error):
        write_entry(log)
    assert sequences_in(log) == [1, 2]
    disk.heal(fault)
    if code == ENOSPC:
        log.availability.room.look_for_room()
        write_entry(log)
        count_entry(log)
        assert sequences_in(log) == [1, 2, 3, 4, 6]


def test_a_crash_amid_the_write_leaves_a_beginning_of_the_entry() -> None:
    found = set()
    for kept in range(0, 300, 7):
        disk = SimDisk()
        log = new_log(disk, 1)
        disk.crash_at(disk.operations, "during", kept_size=kept)
        with pytest.raises(PowerLost):
            write_entry(log)
        log = log_after_kill(disk)
        found.add((*sequences_in(log), log.last_sequence))
    assert found >= {(1, 1), (1, 2, 2), (1, 2, 3, 3), (1, 2, 3, 4), (1, 2, 3, 5, 5)}


def test_an_entry_that_is_too_long_for_the_segment_begins_another_one() -> None:
    log = new_log(SimDisk(), 3)
    segments = len(log.segments.in_order())
    for _ in range(20):
        write_entry(log)
        count_entry(log)
    assert len(log.segments.in_order()) > segments
    assert log.messages == 3 + 20 * 3


def test_an_entry_that_waits_in_memory_is_flushed_with_all_others() -> None:
    disk = SimDisk()
    log = new_log(disk)
    log.defer_writes()
    add_messages(log, 1)
    write_entry(log)
    assert log.segments.waiting_bytes > 0
    log.flush()
    count_entry(log)
    assert sequences_in(log) == [1, 2, 3, 5]
    assert sequences_in(log_after_kill(disk)) == [1, 2, 3, 5]


def test_a_log_that_has_failed_counts_nothing_more() -> None:
    log = new_log(SimDisk())
    write_entry(log)
    log.go_offline("broken")
    with pytest.raises(OfflineError):
        log.append(batch(b"a", b"b"))
    with pytest.raises(OfflineError):
        log.skip(1, 8)
    log.close()


WRITES: dict[str, Callable[[FileLog], object]] = {
    "entry": write_entry,
    "append": lambda log: add_messages(log, 1),
    "append encoded": lambda log: log.append_encoded(
        batch(b"a"), encoded(log, log.index.next_sequence, batch(b"a"))
    ),
    "skip": lambda log: log.skip(1, 9),
}


@pytest.mark.parametrize("write", WRITES)
def test_only_a_log_that_has_entries_may_use_the_reserve(
    write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_entries in (False, True):
        monkeypatch.setattr(Durability, "has_entries", has_entries)
        disk = SimDisk()
        log = new_log(disk, 1)
        room = Room(disk, FOLDER, reserve_bytes=1000)
        assert room.look_for_room()
        log.share_room(room)
        disk.fail("write", SEGMENT, code=ENOSPC)
        if has_entries:
            WRITES[write](log)
            assert room.is_full
            # Nor is it refused because another write has found no room.
            if write != "entry":
                WRITES[write](log)
        else:
            with pytest.raises(DiskFullError):
                WRITES[write](log)


def test_a_long_skip_begins_a_segment_and_leaves_no_header() -> None:
    disk = SimDisk()
    log = new_log(disk, 2)
    log.skip(SKIPPED_IN_PLACE_MAX + 1, 9)
    assert log.index.segments[-1].first_sequence == SKIPPED_IN_PLACE_MAX + 4
    again = log_after_kill(disk)
    assert (again.last_sequence, again.passed) == (SKIPPED_IN_PLACE_MAX + 3, {})
