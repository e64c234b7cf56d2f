"""A stream as bytes, and a stream again: whole, in pieces, damaged, cut short."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import OperatingError
from headwater.store.disk.format import FormatError
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.recovery.opening import create_log
from headwater.store.snapshot import SnapshotReader, write_snapshot
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

ENTRIES = [(CALLER_KINDS, b"consumer"), (CALLER_KINDS + 1, b"")]


def sample(log: MessageLog) -> MessageLog:
    """Messages of several subjects with headers, gaps, an expiry and a skipped end."""
    for number in range(1, 60):
        expiries = [number * 1000 if number % 7 == 0 else 0]
        header = b"NATS/1.0\r\nA: b\r\n\r\n" if number % 3 == 0 else b""
        log.append(
            Batch([b"s.%d" % (number % 4)], [header], [bytes([number]) * 90], [number], expiries)
        )
    log.delete([1, 2, 3, 20, 21, 40])
    log.skip(5, 100)
    return log


def taken(log: MessageLog) -> bytes:
    return b"".join(write_snapshot(log, b"configuration", ENTRIES))


def restored(data: bytes, piece: int | None = None) -> SnapshotReader:
    reader = SnapshotReader()
    for start in range(0, len(data), piece or len(data)):
        reader.feed(data[start : start + (piece or len(data))])
        if reader.is_begun and reader.log is None:
            reader.log = MemoryLog(reader.first_sequence)
            reader.feed(b"")
    return reader


def everything(log: MessageLog) -> object:
    batch = log.read(0, 10_000, 1 << 30)
    return (
        log.first_sequence,
        log.last_sequence,
        log.deleted_ranges(),
        log.subject_counts(),
        sorted(log.expiries.pending()),
        list(
            zip(
                batch.sequences,
                batch.subjects,
                batch.headers,
                batch.payloads,
                batch.timestamps_ns,
                strict=True,
            )
        ),
    )


def file_log() -> MessageLog:
    entropy = SeededEntropy(Random(1))
    return create_log(SimDisk(), "/store/s", entropy, segment_bytes_max=2_000)


@pytest.mark.parametrize("piece", [None, 1, 7, 1000])
@pytest.mark.parametrize("make", [MemoryLog, file_log])
def test_what_went_in_comes_out(make: type[MemoryLog], piece: int | None) -> None:
    log = sample(make())
    reader = restored(taken(log), piece)
    assert reader.is_complete
    assert reader.body == b"configuration"
    assert [(entry.kind, entry.body) for entry in reader.entries] == ENTRIES
    assert reader.log is not None
    live = {pair for pair in log.expiries.pending() if log.index.has(pair[0])}
    log.expiries.due(10**9)
    log.expiries.extend(sorted(live))
    assert everything(reader.log) == everything(log)


def test_an_empty_log_keeps_its_place() -> None:
    log = sample(MemoryLog())
    log.purge()
    reader = restored(taken(log))
    assert reader.is_complete
    assert reader.log is not None
    assert (reader.log.messages, reader.log.last_sequence) == (0, log.last_sequence)


def test_one_cut_short_is_not_complete() -> None:
    data = taken(sample(MemoryLog()))
    for end in range(1, len(data), 97):
        assert not restored(data[:end]).is_complete


@given(st.data())
def test_a_flipped_bit_is_noticed(data: st.DataObject) -> None:
    snapshot = bytearray(taken(sample(MemoryLog())))
    position = data.draw(st.integers(0, len(snapshot) - 1))
    snapshot[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert not restored(bytes(snapshot)).is_complete
    except OperatingError:
        pass


def test_what_is_none_is_refused() -> None:
    with pytest.raises(FormatError):
        restored(b"hello, this is not a snapshot at all")
