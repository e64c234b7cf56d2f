"""Some messages of a log, by sequence: those that can be read, as many as fit, in few reads."""

from random import Random

import pytest

from headwater.store.disk.format import HEADER_BYTES, RECORD_BYTES
from headwater.store.disk.segment import READ_BYTES, SegmentFile, segment_name
from headwater.store.log.batch_records import GAP_BYTES_MAX
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog, StoreError
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.store_twin import messages_in

FOLDER = "/stream"
EVERYTHING = 2**62


def file_log(disk: SimDisk | None = None, segment_bytes_max: int = 2**26) -> FileLog:
    return create_log(
        disk or SimDisk(),
        FOLDER,
        SeededEntropy(Random(1)),
        segment_bytes_max=segment_bytes_max,
    )


def append(log: MessageLog, count: int, size: int = 10) -> None:
    """Every third message has a header, every fifth its own time to go."""
    numbers = range(log.last_sequence + 1, log.last_sequence + 1 + count)
    log.append(
        Batch(
            [b"s.%d" % (number % 3) for number in numbers],
            [b"NATS/1.0\r\n\r\n" if number % 3 == 0 else b"" for number in numbers],
            [b"%d " % number + bytes(size) for number in numbers],
            [*numbers],
            [10**9 if number % 5 == 0 else 0 for number in numbers],
        )
    )


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every read of a stretch of a segment from now on: where, and how many bytes."""
    found: list[tuple[int, int]] = []
    read_span = SegmentFile.read_span

    def noted(self: SegmentFile, offset: int, size: int = READ_BYTES) -> bytes:
        data = read_span(self, offset, size)
        found.append((offset, len(data)))
        return data

    monkeypatch.setattr(SegmentFile, "read_span", noted)
    return found


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_in_order_and_without_what_is_gone(kind: str) -> None:
    log = file_log(segment_bytes_max=300) if kind == "file" else MemoryLog(1, 7)
    append(log, 20)
    log.skip(100_000, 1)
    append(log, 20)
    last = log.last_sequence
    log.delete([3, *range(8, 15), last - 3])
    wanted = [0, 1, 3, 4, 5, 9, 15, 500, 99_999, last - 3, last - 2, last, last + 1, 2**63]
    batch = log.read_at(wanted, EVERYTHING)
    assert batch.sequences == [1, 4, 5, 15, last - 2, last]
    assert messages_in(batch) == [log.get(sequence) for sequence in batch.sequences]
    assert log.read_at([], EVERYTHING).sequences == []
    assert log.read_at([2**63], EVERYTHING).sequences == []


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_as_many_as_fit_and_at_least_one(kind: str) -> None:
    log = file_log(segment_bytes_max=300) if kind == "file" else MemoryLog(1, 7)
    log.append(Batch([b"s"] * 30, [b"1234"] * 30, [b"567890"] * 30, [1] * 30))
    wanted = [*range(2, 30, 3)]
    for bytes_max in range(95):
        expected = wanted[: max(bytes_max // 10, 1)]
        assert log.read_at(wanted, bytes_max).sequences == expected
    log.delete([2])
    assert log.read_at(wanted, 0).sequences == [5]


def test_neighbours_are_read_at_once(spans: list[tuple[int, int]]) -> None:
    log = file_log()
    append(log, 1000)
    assert len(log.read_at([*range(1, 1001)], EVERYTHING)) == 1000
    assert len(log.read_at([*range(1, 1001, 7)], EVERYTHING)) == 143
    assert len(spans) == 2


def test_of_messages_far_from_each_other_nothing_is_read_in_vain(
    spans: list[tuple[int, int]],
) -> None:
    log = file_log()
    for _ in range(6):
        append(log, 10)
        append(log, 1, GAP_BYTES_MAX)
    near = [1, 2, 10, 13, 21, 24, 35]
    assert log.read_at(near, EVERYTHING).sequences == near
    assert len(spans) == 4
    assert sum(size for _, size in spans) < 60 * (RECORD_BYTES + 60)


def test_no_more_is_read_than_fits(spans: list[tuple[int, int]]) -> None:
    log = file_log()
    append(log, 1000)
    assert log.read_at([*range(1, 1001)], 100).sequences == [*range(1, 7)]
    assert len(spans) <= 2
    assert sum(size for _, size in spans) < 20 * (RECORD_BYTES + 40)


def test_large_messages_one_by_one(spans: list[tuple[int, int]]) -> None:
    log = file_log()
    append(log, 3, 2 * READ_BYTES)
    append(log, 3)
    batch = log.read_at([1, 3, 4, 6], EVERYTHING)
    assert batch.sequences == [1, 3, 4, 6]
    assert messages_in(batch) == [log.get(sequence) for sequence in batch.sequences]
    assert len(spans) == 3


@pytest.mark.parametrize("hit", [1, 4, 5, 9])
def test_one_that_fails_its_checksum_is_lost_and_the_others_are_read(hit: int) -> None:
    disk = SimDisk()
    log = file_log(disk)
    append(log, 9)
    index = log.index.segments[0]
    path = f"{FOLDER}/{segment_name(1)}"
    disk.flip_bit(path, index.offsets[hit - 1] + RECORD_BYTES + 3, 2)
    wanted = [1, 2, 4, 5, 7, 9]
    expected = [at for at in wanted if at != hit]
    assert log.read_at(wanted, EVERYTHING).sequences == expected
    assert list(log.lost) == [(hit, hit)]
    assert log.read_at(wanted, EVERYTHING).sequences == expected


def test_one_of_another_sequence_is_not_taken_for_it() -> None:
    log = file_log()
    log.append(Batch([b"s"] * 4, [b""] * 4, [b"same"] * 4, [1] * 4))
    index = log.index.segments[0]
    index.offsets[1] = index.offsets[0]
    assert log.read_at([1, 2, 3], EVERYTHING).sequences == [1, 3]
    assert 2 in log.lost


def test_one_that_was_erased_is_left_out_though_nothing_else_says_so() -> None:
    disk = SimDisk()
    log = file_log(disk)
    append(log, 5)
    log.sync()
    journal = disk.dump()[f"{FOLDER}/journal.hw"]
    log.delete([3], erase=True)
    log.sync()
    file = disk.open(f"{FOLDER}/journal.hw")
    file.truncate(len(journal))
    disk.kill()
    again = open_log(disk, FOLDER, SeededEntropy(Random(2)))
    assert again.read_at([2, 3, 4], EVERYTHING).sequences == [2, 4]
    assert list(again.lost) == []


def test_what_waits_in_memory_is_read_too() -> None:
    log = file_log()
    log.defer_writes()
    append(log, 5)
    assert log.read_at([2, 5], EVERYTHING).sequences == [2, 5]


def test_a_disk_that_can_not_be_read_is_told() -> None:
    disk = SimDisk()
    log = file_log(disk)
    append(log, 5)
    disk.fail_read(f"{FOLDER}/{segment_name(1)}", HEADER_BYTES, HEADER_BYTES + 1)
    with pytest.raises(StoreError, match="message 1"):
        log.read_at([1, 2], EVERYTHING)
