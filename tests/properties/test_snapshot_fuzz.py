"""Any bytes in place of a snapshot raise one error and leave no part of a block.

Chunks with changed bytes fail their checksums. Blocks with changed bytes and right checksums, as
only a defect of the other server would send them, are refused by their own rules or do no harm.
"""

import tracemalloc
from functools import cache
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.chunks import Block, ChunkReader, ChunkWriter, SnapshotError
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.snapshot_logs import chunks_of
from tests.kit.stream_driver import Surrounding

SIZES: Final = st.integers(0, 8)
KINDS: Final = range(1, 11)
MEMORY_BYTES_MAX: Final = 16 * 1024 * 1024


@cache
def snapshot() -> list[bytes]:
    """The chunks of a stream with all kinds of blocks."""
    driver = ConsumerDriver(
        Storage.MEMORY, allow_msg_ttl=True, allow_msg_schedules=True, allow_rollup_hdrs=True
    )
    for number in range(12):
        driver.publish(f"S.{number % 4}", b"x" * 20, Nats_Msg_Id=f"id {number}", Nats_TTL="30")
    driver.publish("S.s", Nats_Schedule="@every 5s", Nats_Schedule_Target="S.t")
    driver.create()
    driver.pull(5)
    driver.ack(*driver.take()[1:3])
    driver.delete(7)
    driver.stream.log.note_lost([(7, 7)])
    found = chunks_of(driver.stream, 300, lambda count: driver.delete(1 + count % 3))
    kinds = {block.kind for block in joined(found)}
    assert kinds == {*range(blocks.BEGIN, blocks.END + 1)}
    return found


def joined(chunks: list[bytes]) -> list[Block]:
    reader = ChunkReader()
    return [block for block in map(reader.join, chunks) if block is not None]


def contents(log: MessageLog) -> tuple[object, ...]:
    return [*log.read(1, 999, 1 << 30)], log.last_sequence, log.byte_count


def is_refused_or_a_stream(chunks: list[bytes]) -> bool:
    """Whether chunks raise the error of snapshots, without a part of a block, or make a stream."""
    try:
        writer, complete = accept_all(chunks, MemoryLog())
    except SnapshotError as error:
        return bool(str(error))
    if complete:
        at_once(writer.finishing(Surrounding(BatchLimits())))
    return True


def accept_all(chunks: list[bytes], log: MessageLog) -> tuple[SnapshotWriter, bool]:
    """The writer of some chunks, and whether they were all; one that is refused leaves nothing."""
    writer, complete = SnapshotWriter(chunks[0], log), False
    for chunk in chunks[1:]:
        before = contents(log)
        try:
            complete = writer.accept(chunk)
        except SnapshotError:
            assert contents(log) == before
            raise
    return writer, complete


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_changed_chunks_are_refused(data: st.DataObject) -> None:
    chunks = [*snapshot()]
    number = data.draw(st.integers(0, len(chunks) - 1))
    chunk = chunks[number]
    at = data.draw(st.integers(0, len(chunk)))
    changed = chunk[:at] + data.draw(st.binary(max_size=8)) + chunk[at + data.draw(SIZES) :]
    chunks[number] = changed
    log = MemoryLog()
    if changed != chunk:
        with pytest.raises(SnapshotError):
            accept_all(chunks, log)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_blocks_are_refused_or_do_no_harm(data: st.DataObject) -> None:
    found = joined(snapshot())
    number = data.draw(st.integers(0, len(found) - 1))
    kind, body, has_checksums = found[number]
    at = data.draw(st.integers(0, len(body)))
    changed = body[:at] + data.draw(st.binary(max_size=8)) + body[at + data.draw(SIZES) :]
    other = data.draw(st.sampled_from([kind, kind, kind, *KINDS]))
    found[number] = Block(other, changed, has_checksums)
    writer = ChunkWriter(1 << 20)
    chunks = [chunk for block in found for chunk in writer.cut(block)]
    tracemalloc.start()
    try:
        assert is_refused_or_a_stream(chunks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_BYTES_MAX


@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(Block, st.sampled_from(KINDS), st.binary(max_size=60)), max_size=5))
def test_any_blocks_are_refused_or_do_no_harm(found: list[Block]) -> None:
    writer = ChunkWriter(1 << 20)
    chunks = [chunk for block in (joined(snapshot())[0], *found) for chunk in writer.cut(block)]
    assert is_refused_or_a_stream(chunks)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="chunk"):
        read_header(data)
