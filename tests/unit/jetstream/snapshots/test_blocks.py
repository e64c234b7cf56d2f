"""Every block comes back from its bytes; a malformed one is refused with the fault named."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.jetstream.codec.values import encode_values
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.blocks import NUMBER_MAX, Place, SnapshotEnd, SnapshotHeader
from headwater.jetstream.snapshots.chunks import Block, SnapshotError
from headwater.store.log.batch_records import encode_batch
from headwater.store.log.message_log import Batch
from headwater.store.log.record_runs import RecordRun
from tests.kit.record_values import INCARNATION, STREAM_CONFIG

SEED = 0xC0FFEE
HEADER = SnapshotHeader(INCARNATION, Place(9, 2), 5, 7, SEED, 10**18, STREAM_CONFIG)
END = SnapshotEnd(Place(12, 3), STREAM_CONFIG, 99, 10**18, b"id", 4, True, 6, 3, 1000)
RANGES = [(3, 4), (6, 6), (9, 10)]
IDS = [(b"a", 1, 100), (b"b" * 300, 7, 200)]
EXPIRIES = [(1, 100), (2**60, 2**62)]
SCHEDULES = [(b"S.a", 1, 100), (b"S.b", 7, 0)]


def run_of(first: int, count: int) -> RecordRun:
    subjects = [b"S.%d" % number for number in range(count)]
    batch = Batch(subjects, [b""] * count, [b"x"] * count, [first] * count)
    return RecordRun(first, count, encode_batch(first, batch, SEED)[0])


def test_values_come_back() -> None:
    assert blocks.decode_header(blocks.encode_header(HEADER)) == HEADER
    assert blocks.decode_end(blocks.encode_end(END).body) == END
    assert blocks.decode_present(blocks.encode_present(2, 10, RANGES).body) == (2, 10, RANGES)
    assert blocks.decode_present(blocks.encode_present(2, 10, []).body) == (2, 10, [])
    assert blocks.decode_lost(blocks.encode_lost(RANGES).body) == RANGES
    assert blocks.decode_ids(blocks.encode_ids(IDS).body) == IDS
    assert blocks.decode_expiries(blocks.encode_expiries(EXPIRIES).body) == EXPIRIES
    assert blocks.decode_schedules(blocks.encode_schedules(SCHEDULES).body) == SCHEDULES


def test_messages_come_back_as_the_bytes_of_a_segment() -> None:
    runs = [run_of(3, 2), run_of(9, 1)]
    found = blocks.decode_messages(blocks.encode_messages(runs).body, SEED)
    assert [encoded.data for _, encoded in found] == [run.data for run in runs]
    assert [encoded.first_sequence for _, encoded in found] == [3, 9]
    assert found[0][0].subjects == [b"S.0", b"S.1"]


def messages(*runs: RecordRun) -> Callable[[], object]:
    return lambda: blocks.decode_messages(blocks.encode_messages([*runs]).body, SEED)


def header(**changes: Any) -> Callable[[], object]:
    return lambda: blocks.decode_header(blocks.encode_header(HEADER._replace(**changes)))


def end(**changes: Any) -> Callable[[], object]:
    return lambda: blocks.decode_end(blocks.encode_end(END._replace(**changes)).body)


def present(first: int, last: int, *ranges: tuple[int, int]) -> Callable[[], object]:
    return lambda: blocks.decode_present(blocks.encode_present(first, last, [*ranges]).body)


MALFORMED: dict[str, tuple[Callable[[], object], str]] = {
    "another first block": (
        lambda: blocks.decode_header(Block(blocks.END, b"")),
        "begins with a block of kind 9",
    ),
    "a newer version": (
        lambda: blocks.decode_header(Block(blocks.BEGIN, encode_values([2]))),
        "its version 2 is unknown",
    ),
    "an incarnation": (header(incarnation=b"short"), "another length"),
    "no first sequence": (header(first_sequence=0), "out of range"),
    "a sequence too far": (header(from_sequence=NUMBER_MAX + 1), "out of range"),
    "a seed": (header(record_seed=1 << 32), "out of range"),
    "a place": (header(place=Place(-1, 0)), "out of range"),
    "no configuration": (
        lambda: blocks.decode_header(
            Block(blocks.BEGIN, encode_values([1, INCARNATION, [1, 1], 1, 1, 1, 1, b"{"]))
        ),
        "configuration",
    ),
    "no sequence": (end(last_sequence=-1), "out of range"),
    "no time": (end(last_ns=1 << 63), "out of range"),
    "no flag": (end(tells_first_sequence=1), "no bool"),
    "no end": (lambda: blocks.decode_end(b""), "the end of a snapshot cannot be read"),
    "no messages": (lambda: blocks.decode_messages(b"", SEED), "no runs"),
    "no runs": (messages(), "no runs"),
    "runs out of order": (messages(run_of(9, 1), run_of(3, 1)), "message 3 follows message 9"),
    "runs that meet": (messages(run_of(3, 2), run_of(4, 1)), "message 4 follows message 4"),
    "runs beyond all sequences": (messages(run_of(NUMBER_MAX, 2)), "out of range"),
    "a run that is cut off": (
        lambda: blocks.decode_messages(blocks.encode_messages([run_of(3, 2)]).body[:-1], SEED),
        "end before or behind their block",
    ),
    "a damaged message": (
        lambda: blocks.decode_messages(blocks.encode_messages([run_of(3, 2)]).body, SEED + 1),
        "message 3: its record fails its checksum",
    ),
    "no range": (lambda: blocks.decode_present(b""), "no range"),
    "half a range": (lambda: blocks.decode_present(bytes(17)), "incomplete"),
    "an empty range": (present(4, 3), "no range of sequences"),
    "a range before": (present(4, 9, (3, 4)), "3 to 4 is no range of 4 to 9"),
    "a range behind": (present(4, 9, (5, 10)), "5 to 10 is no range of 4 to 9"),
    "ranges that meet": (present(4, 9, (5, 7), (7, 8)), "7 to 8 is no range of 8 to 9"),
    "half an id": (lambda: blocks.decode_ids(blocks.encode_ids(IDS).body[:-1]), "incomplete"),
    "half an expiry": (lambda: blocks.decode_expiries(bytes(15)), "incomplete"),
    "no expiry": (lambda: blocks.decode_expiries(bytes(16)), "before all times"),
    "half a schedule": (
        lambda: blocks.decode_schedules(encode_values([b"S.a", 1])),
        "2 values, not 0",
    ),
    "a schedule in no stream": (
        lambda: blocks.decode_schedules(encode_values([b"S.a", 0, 1])),
        "out of range",
    ),
    "a schedule at no time": (
        lambda: blocks.decode_schedules(encode_values([b"S.a", 1, -1])),
        "out of range",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_block_is_refused_with_its_fault(name: str) -> None:
    decode, fault = MALFORMED[name]
    with pytest.raises(SnapshotError, match=fault):
        decode()


def test_the_configuration_of_the_end_may_be_another() -> None:
    other = END._replace(config=StreamConfig(name="S"))
    assert blocks.decode_end(blocks.encode_end(other).body).config == StreamConfig(name="S")
