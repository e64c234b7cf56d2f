"""Runs have the bytes of a log's segments without what is gone, and fill another log."""

import pytest

from headwater.store.errors import StoreError
from headwater.store.log.batch_records import decode_batch
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.log.record_runs import RecordRun, read_runs
from headwater.testing.disk import SimDisk
from tests.kit.logs import new_log

MUCH = 1 << 20


def all_runs(log: MessageLog, bytes_max: int = MUCH) -> list[RecordRun]:
    found: list[RecordRun] = []
    sequence = 0
    while runs := read_runs(log, sequence, bytes_max):
        found += runs
        sequence = runs[-1].last_sequence + 1
    return found


def fill(log: MessageLog, count: int = 40) -> None:
    for number in range(count):
        expiry_ns = 10**9 if number % 7 == 3 else 0
        header = b"NATS/1.0\r\n\r\n" if number % 3 else b""
        log.append(Batch([b"s.%d" % (number % 5)], [header], [b"x" * 30], [number], [expiry_ns]))


def copy_of(runs: list[RecordRun], log: MessageLog, seed: int) -> MessageLog:
    for run in runs:
        batch, encoded = decode_batch(run.data, 0, seed)
        assert (encoded.first_sequence, len(encoded.lengths)) == run[:2]
        missing = run.first_sequence - log.last_sequence - 1
        if missing:
            log.skip(missing, 0)
        log.append_encoded(batch, encoded)
    return log


@pytest.mark.parametrize("gone", [[], [1], [40], [*range(5, 25)], [*range(1, 41, 2)]])
@pytest.mark.parametrize("bytes_max", [0, 100, MUCH])
def test_runs_fill_a_log_on_disk_as_they_are(gone: list[int], bytes_max: int) -> None:
    log = new_log(SimDisk())
    fill(log)
    log.delete(gone)
    runs = all_runs(log, bytes_max)
    again = copy_of(runs, new_log(SimDisk()), log.record_seed)
    assert [*again.read(1, 99, MUCH)] == [*log.read(1, 99, MUCH)]
    assert again.byte_count == log.byte_count
    there = [pair for pair in log.expiries.pending() if log.index.has(pair[0])]
    assert sorted(again.expiries.pending()) == sorted(there)


def test_runs_of_a_log_in_memory_have_no_expiries() -> None:
    log = MemoryLog(segment_messages_max=16)
    fill(log)
    log.delete([3, 4, 20])
    again = copy_of(all_runs(log), MemoryLog(), log.record_seed)
    assert [*again.read(1, 99, MUCH)] == [*log.read(1, 99, MUCH)]
    assert not again.expiries.pending()


def test_a_run_has_messages_of_one_segment() -> None:
    log = MemoryLog(segment_messages_max=16)
    fill(log)
    assert [run[:2] for run in all_runs(log)] == [(1, 16), (17, 16), (33, 8)]


def test_messages_without_gaps_are_one_run_and_the_bytes_of_the_segment() -> None:
    log = new_log(SimDisk())
    fill(log, 8)
    [run] = read_runs(log, 1, MUCH)
    segment = log.segments.last
    begin = log.index.segments[-1].offsets[0]
    assert run.data == segment.file.read(begin, segment.size - begin)


def test_records_of_a_file_with_another_seed_get_the_seed_of_the_log() -> None:
    log = new_log(SimDisk())
    fill(log, 4)
    expected = all_runs(log)
    # Files of earlier versions begin their checksums with a salt of their own.
    older = log.segments.last.seed
    log.record_seed ^= 0x5EED
    [run] = read_runs(log, 1, MUCH)
    assert log.record_seed != older
    decode_batch(run.data, 0, log.record_seed)
    log.record_seed = older
    assert all_runs(log) == expected


def damage(log: FileLog, sequence: int) -> None:
    segment = log.index.segment_of(sequence)
    offset = segment.offsets[sequence - segment.first_sequence]
    log.segments.by_first[segment.first_sequence].file.overwrite(offset + 40, b"#")


def test_a_message_that_cannot_be_read_is_lost_and_not_in_a_run() -> None:
    log = new_log(SimDisk())
    fill(log, 8)
    damage(log, 4)
    assert [run[:2] for run in all_runs(log)] == [(1, 3), (5, 4)]
    assert [*log.lost] == [(4, 4)]


def test_a_message_that_cannot_be_read_and_still_counts_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = new_log(SimDisk())
    fill(log, 8)
    damage(log, 4)
    monkeypatch.setattr(type(log), "get", lambda *_: None)
    with pytest.raises(StoreError, match="message 4 cannot be read"):
        all_runs(log)
