"""A batch is encoded once: its records are the same bytes wherever they are stored or sent."""

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import FormatError
from headwater.store.index.tally import Tally
from headwater.store.log.batch_records import (
    decode_batch,
    decode_with_lengths,
    encode_batch,
    encode_behind,
    encode_with_lengths,
)
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


def alike_batch(count: int) -> Batch:
    times_ns = list(range(count))
    return Batch([b"s.one"] * count, [b""] * count, [b"payload"] * count, times_ns)


def encoded_for(log: MessageLog, first_sequence: int, count: int = 4) -> EncodedMessages:
    return encode_behind(first_sequence, mixed_batch(count), log.record_seed, b"")


def columns_of(batch: Batch) -> list[list[bytes] | list[int]]:
    return [[*getattr(batch, name)] for name in Batch.COLUMNS]


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


@pytest.mark.parametrize("make_log", [lambda: new_log(SimDisk()), MemoryLog])
@pytest.mark.parametrize("are_alike", [False, True])
def test_a_log_grows_by_received_records_as_by_messages(
    make_log: type[MemoryLog], are_alike: bool
) -> None:
    """All that is known of the messages without a look into their records, and what is in these."""
    plain: MessageLog = make_log()
    other: MessageLog = make_log()
    for log in (plain, other):
        log.index.tally = Tally()
        log.append(mixed_batch())
    for count in (1, 20, 3, 40):
        batch = alike_batch(count) if are_alike else mixed_batch(count)
        first = plain.append(batch)
        sent = encode_with_lengths(first, batch, other.record_seed, b"before")
        received, encoded = decode_with_lengths(sent.data, 6, count, other.record_seed)
        other.append_encoded(received, encoded)
        assert columns_of(received)[:4] == columns_of(batch)[:4]
        assert any(received.expiries_ns) == any(batch.expiries_ns)
    assert vars_of(other) == vars_of(plain)
    assert list(other.read(1, 999, 99_999)) == list(plain.read(1, 999, 99_999))


def vars_of(log: MessageLog) -> dict[str, object]:
    """The index of a log, and what follows from it."""
    index = log.index
    assert index.tally is not None
    segments, subjects = index.segments, index.subjects
    return {
        "columns": [column.tolist() for each in segments for column in each.columns()],
        "totals": [log.messages, *((each.live, each.live_bytes) for each in segments)],
        "names": subjects.names,
        "extents": [subjects.extent(name) for name in subjects.names],
        "expiries": sorted(log.expiries.pending()),
        "tally": (index.tally.stored, index.tally.removed),
    }


@pytest.mark.parametrize("given", [0, 1, 3, 5, 2**32 - 1])
def test_other_lengths_than_those_of_the_messages_are_refused(given: int) -> None:
    data = bytearray(encode_with_lengths(1, mixed_batch(), 7, b"").data)
    data[:4] = given.to_bytes(4, "little")
    with pytest.raises(FormatError):
        decode_with_lengths(bytes(data), 0, 4, 7)


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
