"""A batch is encoded once: its records are the same bytes wherever they are stored or sent."""

from random import Random

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import FormatError
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.recovery.opening import create_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import FOLDER, new_log


def mixed_batch(count: int = 4) -> Batch:
    return Batch(
        [b"s.%d" % number for number in range(count)],
        [b"NATS/1.0\r\n\r\n" if number % 2 else b"" for number in range(count)],
        [b"payload %d" % number for number in range(count)],
        list(range(count)),
        [99 if number == 2 else 0 for number in range(count)],
    )


def columns_of(batch: Batch) -> tuple[list[bytes], list[bytes], list[bytes], list[int], list[int]]:
    return batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, batch.expiries_ns


@pytest.mark.parametrize("make_log", [lambda: new_log(SimDisk()), MemoryLog])
def test_a_log_with_encoded_batches_is_one_with_plain_ones(make_log: type[MemoryLog]) -> None:
    plain: MessageLog = make_log()
    other: MessageLog = make_log()
    for count in (1, 4, 3):
        first = plain.append(mixed_batch(count))
        other.append_encoded(other.encode(first, mixed_batch(count)))
    assert list(other.read(1, 99, 9999)) == list(plain.read(1, 99, 9999))
    assert other.byte_count == plain.byte_count
    assert other.due_by_expiry(100) == plain.due_by_expiry(100) == [4, 8]


def test_the_files_are_the_same_bytes_whoever_encodes() -> None:
    disks = SimDisk(), SimDisk()
    plain, other = (new_log(disk) for disk in disks)
    for _ in range(9):
        first = plain.append(mixed_batch())
        other.append_encoded(plain.encode(first, mixed_batch()))
    for segment in plain.segments.in_order():
        assert read_file(disks[0], segment.path) == read_file(disks[1], segment.path)


def test_a_batch_comes_back_from_its_records() -> None:
    log = new_log(SimDisk())
    for batch in (mixed_batch(), Batch([b"s"], [b""], [b""], [1])):
        encoded = log.encode(2**40, batch)
        found = log.decode(encoded.data)
        assert columns_of(found.batch) == columns_of(batch)
        assert (found.first_sequence, found.data, found.lengths) == (
            encoded.first_sequence,
            encoded.data,
            encoded.lengths,
        )


def test_a_batch_is_stored_at_the_sequence_it_was_encoded_for_or_not_at_all() -> None:
    for log in (new_log(SimDisk()), MemoryLog()):
        encoded = log.encode(2, mixed_batch())
        with pytest.raises(InvariantViolation, match="next sequence"):
            log.append_encoded(encoded)
        assert log.last_sequence == 0


def test_records_with_any_bit_flipped_are_no_batch() -> None:
    log = new_log(SimDisk())
    data = log.encode(1, mixed_batch(2)).data
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"message \d+: "):
            log.decode(bytes(flipped))


def test_records_cut_short_out_of_order_or_of_another_stream_are_no_batch() -> None:
    log = new_log(SimDisk())
    one, two = log.encode(1, mixed_batch(1)).data, log.encode(2, mixed_batch(1)).data
    stranger: FileLog = create_log(SimDisk(), FOLDER, SeededEntropy(Random(7)))
    for data in (b"", one[:-1], one + b"x", two + one, one + one):
        with pytest.raises(FormatError, match=r"message \d+: "):
            log.decode(data)
    assert log.decode(one + two).lengths == [len(one), len(two)]
    with pytest.raises(FormatError, match=r"message \d+: "):
        stranger.decode(one)
