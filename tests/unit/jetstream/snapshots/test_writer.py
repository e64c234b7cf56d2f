"""A follower takes a snapshot as it is, refuses what is not in it, and finds it after a restart."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.base.sliced import at_once
from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.records import Published
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.chunks import Block, ChunkReader, ChunkWriter, SnapshotError
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.store import SyncMode
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.snapshot_logs import SnapshotLog, chunks_of, open_snapshot_store, written
from tests.kit.stream_driver import NAME, Surrounding

SMALL = 600


def busy_driver(storage: Storage) -> ConsumerDriver:
    """A stream with gaps, ids, expiries and consumers."""
    driver = ConsumerDriver(storage, allow_msg_ttl=True, allow_rollup_hdrs=True)
    for number in range(30):
        driver.publish(f"S.{number % 4}", b"x" * 20, Nats_Msg_Id=f"id {number % 9}{number}")
    driver.publish("S.a", Nats_TTL="30")
    driver.create()
    driver.create("M", mem_storage=True, ack_policy=AckPolicy.ALL)
    driver.pull(8)
    driver.ack(*driver.take()[2:5])
    driver.delete(2, 3, 9, 30)
    driver.stream.consumers.flush()
    return driver


def surroundings() -> Surrounding:
    return Surrounding(BatchLimits())


@pytest.mark.parametrize("storage", [*Storage])
def test_a_stream_with_everything_is_copied(storage: Storage) -> None:
    driver = busy_driver(storage)
    chunks = chunks_of(driver.stream, SMALL)
    writer = written(chunks, SnapshotLog(chunks[0]).log)
    stream = at_once(writer.finishing(surroundings()))
    assert stream.dump(driver.now_ns) == driver.stream.dump(driver.now_ns)


def secure(staged: SnapshotLog, stream: Stream) -> None:
    """Have a stream be there after a crash."""
    assert isinstance(staged.log, FileLog)
    staged.log.applied_entry = 0
    staged.log.secure_applied()
    staged.log.set_body(encode_body(stream.config, stream.created_ns))
    staged.log.sync()


def restarted(staged: SnapshotLog, stream: Stream, now_ns: int) -> Stream:
    """The stream as the next process finds it, if its redo point was secured."""
    staged.disk.kill()
    log = open_snapshot_store(staged.disk).logs[NAME]
    assert not log.findings.reported
    again = Stream(stream.config, log, stream.created_ns, surroundings())
    again.recover(now_ns)
    return again


@pytest.mark.parametrize("mode", [*SyncMode])
def test_a_stream_of_a_snapshot_outlives_a_restart(mode: SyncMode) -> None:
    driver = busy_driver(Storage.FILE)
    driver.drop("M")
    chunks = chunks_of(driver.stream, SMALL)
    staged = SnapshotLog(chunks[0], mode)
    stream = at_once(written(chunks, staged.log).finishing(surroundings()))
    secure(staged, stream)
    before = stream.dump(driver.now_ns)
    again = restarted(staged, stream, driver.now_ns)
    assert again.dump(driver.now_ns) == before


def test_an_entry_behind_a_snapshot_is_applied_again_to_all_of_it() -> None:
    driver = busy_driver(Storage.FILE)
    driver.drop("M")
    chunks = chunks_of(driver.stream, SMALL)
    staged = SnapshotLog(chunks[0], SyncMode.ALWAYS)
    stream = at_once(written(chunks, staged.log).finishing(surroundings()))
    log = staged.log
    assert isinstance(log, FileLog)
    assert staged.store is not None
    secure(staged, stream)
    before = log.last_sequence
    record = Published(before + 1, Batch([b"S.a"], [b""], [b"later"], [driver.now_ns]))
    log.add_entry(1, before, encode_entry(RecordCodec(log.record_seed), [record]))
    commit = staged.store.group_commit
    assert commit.begin()
    commit.sync()
    commit.finish()
    stream.append(record)
    stream.apply(record)
    expected = stream.dump(driver.now_ns)
    again = restarted(staged, stream, driver.now_ns)
    assert [index for index, _, _ in again.log.entries_to_apply] == [1]
    assert again.dump(driver.now_ns) == expected


def test_a_log_with_another_seed_gets_the_messages() -> None:
    driver = busy_driver(Storage.FILE)
    chunks = chunks_of(driver.stream, SMALL)
    staged = SnapshotLog(chunks[0])
    assert staged.log.record_seed != read_header(chunks[0]).record_seed
    stream = at_once(written(chunks, staged.log).finishing(surroundings()))
    assert stream.dump(driver.now_ns) == driver.stream.dump(driver.now_ns)


# --- faults ---------------------------------------------------------------------------------------


def blocks_of(chunks: list[bytes]) -> list[Block]:
    reader = ChunkReader()
    return [block for block in map(reader.join, chunks) if block is not None]


def chunks_with(found: list[Block]) -> list[bytes]:
    writer = ChunkWriter(1 << 20)
    return [chunk for block in found for chunk in writer.cut(block)]


def place_of(found: list[Block], kind: int) -> int:
    return next(at for at, block in enumerate(found) if block.kind == kind)


def replaced(kind: int, change: Callable[[bytes], Block]) -> Callable[[list[Block]], None]:
    """Replace the first block of a kind."""

    def replace(found: list[Block]) -> None:
        at = place_of(found, kind)
        found[at] = change(found[at].body)

    return replace


def ending(**changes: Any) -> Callable[[list[Block]], None]:
    return replaced(
        blocks.END, lambda body: blocks.encode_end(blocks.decode_end(body)._replace(**changes))
    )


def repeated(kind: int) -> Callable[[list[Block]], None]:
    """Send the first block of a kind twice."""

    def repeat(found: list[Block]) -> None:
        at = place_of(found, kind)
        found.insert(at, found[at])

    return repeat


def left_out(kind: int) -> Callable[[list[Block]], None]:
    def leave_out(found: list[Block]) -> None:
        del found[place_of(found, kind)]

    return leave_out


def removing(first: int, last: int, *ranges: tuple[int, int]) -> Callable[[list[Block]], None]:
    def remove(found: list[Block]) -> None:
        found.insert(-1, blocks.encode_present(first, last, [*ranges]))

    return remove


FAULTS: dict[str, tuple[Callable[[list[Block]], None], str]] = {
    "messages twice": (repeated(blocks.MESSAGES), "message 1 follows sequence"),
    "no messages": (left_out(blocks.MESSAGES), "and .* were sent"),
    "a consumer twice": (repeated(blocks.CONSUMER), "consumer C is there twice"),
    "no consumer": (replaced(blocks.CONSUMER, lambda _: Block(8, b"\x90")), "a consumer of a"),
    "an unknown block": (replaced(blocks.IDS, lambda _: Block(77, b"")), "kind 77 is unknown"),
    "a second header": (repeated(blocks.BEGIN), "kind 1 is unknown"),
    "another count": (ending(messages=1), "ends with 1 messages"),
    "other bytes": (ending(byte_count=1), "of 1 bytes"),
    "an earlier end": (ending(last_sequence=5), "ends with sequence 5"),
    "two ends": (repeated(blocks.END), "follows the end"),
    "a removal of what was not sent": (removing(1, 1 << 40), "it was not sent"),
    "a message that is not there": (removing(1, 4, (1, 3)), "3 messages from 1 to 4 should be"),
}


def contents(log: MessageLog) -> object:
    return [*log.read(1, 999, 1 << 30)], log.last_sequence


def accept_unless_refused(writer: SnapshotWriter, chunks: list[bytes], log: MessageLog) -> None:
    """Hand chunks to a writer; one that it refuses must leave the log as it is."""
    for chunk in chunks:
        before = contents(log)
        try:
            writer.accept(chunk)
        except SnapshotError:
            assert contents(log) == before
            raise


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("storage", [*Storage])
def test_a_fault_is_named_and_its_block_leaves_nothing(storage: Storage, name: str) -> None:
    change, fault = FAULTS[name]
    found = blocks_of(chunks_of(busy_driver(storage).stream, SMALL))
    change(found)
    chunks = chunks_with(found)
    log = SnapshotLog(chunks[0]).log
    writer = SnapshotWriter(chunks[0], log)
    with pytest.raises(SnapshotError, match=fault):
        accept_unless_refused(writer, chunks[1:], log)
    with pytest.raises(SnapshotError, match="the snapshot has a fault"):
        writer.accept(chunks[-1])


def test_a_log_that_ends_elsewhere_is_refused() -> None:
    chunks = chunks_of(busy_driver(Storage.MEMORY).stream)
    with pytest.raises(SnapshotError, match="begins at sequence 1, and the log ends with 6"):
        SnapshotWriter(chunks[0], MemoryLog(7))


def test_a_snapshot_that_is_not_complete_is_no_stream() -> None:
    chunks = chunks_of(busy_driver(Storage.MEMORY).stream)
    writer = SnapshotWriter(chunks[0], MemoryLog(1))
    with pytest.raises(InvariantViolation, match="complete"):
        at_once(writer.finishing(surroundings()))
    with pytest.raises(InvariantViolation, match="complete"):
        assert writer.place
