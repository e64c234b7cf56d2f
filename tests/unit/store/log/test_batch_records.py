"""A batch is encoded once: its records are the same bytes wherever they are stored or sent."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import read_file
from headwater.store.log.batch_records import decode_batch, encode_batch, encode_behind
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, EncodedMessages, MessageLog
from headwater.testing.disk import SimDisk
from tests.kit.logs import new_log


def mixed_batch(count: int = 4) -> Batch:
    return Batch(
        [b"s.%d" % number for number in range(count)],
        [b"NATS/1.0\r\n\r\n" if number % 2 else b"" for number in range(count)],
        [b"payload %d" % number for number in range(count)],
        list(range(count)),
        [99 if number == 2 else 0 for number in range(count)],
    )


def encoded_for(log: MessageLog, first_sequence: int, count: int = 4) -> EncodedMessages:
    return encode_behind(first_sequence, mixed_batch(count), log.record_seed, b"")


def columns_of(batch: Batch) -> tuple[list[bytes], list[bytes], list[bytes], list[int], list[int]]:
    return batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, batch.expiries_ns


@pytest.mark.parametrize("make_log", [lambda: new_log(SimDisk()), MemoryLog])
def test_a_log_with_encoded_batches_is_one_with_plain_ones(make_log: type[MemoryLog]) -> None:
    plain: MessageLog = make_log()
    other: MessageLog = make_log()
    for count in (1, 4, 3):
        first = plain.append(mixed_batch(count))
        other.append_encoded(mixed_batch(count), encoded_for(other, first, count))
    assert list(other.read(1, 99, 9999)) == list(plain.read(1, 99, 9999))
    assert other.byte_count == plain.byte_count
    assert other.due_by_expiry(100) == plain.due_by_expiry(100) == [4, 8]


def test_the_files_are_the_same_bytes_whoever_encodes() -> None:
    disks = SimDisk(), SimDisk()
    plain, other = (new_log(disk) for disk in disks)
    for _ in range(9):
        first = plain.append(mixed_batch())
        other.append_encoded(mixed_batch(), encoded_for(plain, first))
    for segment in plain.segments.in_order():
        assert read_file(disks[0], segment.path) == read_file(disks[1], segment.path)


def test_a_batch_comes_back_from_its_records() -> None:
    for batch in (mixed_batch(), Batch([b"s"], [b""], [b""], [1])):
        encoded = encode_behind(2**40, batch, 7, b"before")
        found, records = decode_batch(encoded.data, encoded.begin, 7)
        assert columns_of(found) == columns_of(batch)
        assert (records.first_sequence, records.lengths) == (2**40, encoded.lengths)
        assert encoded.data[encoded.begin :] == encode_batch(2**40, batch, 7)[0]


def test_a_batch_is_stored_in_the_log_and_at_the_sequence_it_was_encoded_for() -> None:
    for log in (new_log(SimDisk()), MemoryLog()):
        of_another = encode_behind(1, mixed_batch(), log.record_seed + 1, b"")
        for encoded in (encoded_for(log, 2), of_another):
            with pytest.raises(InvariantViolation, match="this log and the next sequence"):
                log.append_encoded(mixed_batch(), encoded)
            assert log.last_sequence == 0
