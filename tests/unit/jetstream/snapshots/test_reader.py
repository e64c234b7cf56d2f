"""A snapshot is of its end, and complete, whatever happens while it is read."""

import tracemalloc
from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots import reader as reader_module
from headwater.jetstream.snapshots.blocks import Place
from headwater.jetstream.snapshots.chunks import Block, ChunkReader, SnapshotError
from headwater.jetstream.snapshots.reader import (
    CHUNK_BYTES_MAX,
    END_BYTES_MAX,
    SnapshotReader,
)
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.errors import StoreError
from headwater.store.log.durability import Durability
from headwater.store.log.file_log import FileLog
from tests.kit.damage import flip_bit_of
from tests.kit.snapshot_logs import (
    ENTRY,
    INCARNATION,
    TERM,
    SnapshotLog,
    chunks_of,
    stream_of,
    written,
)
from tests.kit.stream_driver import NAME, Publish, StreamDriver, Surrounding

SMALL = 100

both_storages = pytest.mark.parametrize("storage", [*Storage])


def driver_of(storage: Storage, count: int = 30, **config: Any) -> StreamDriver:
    driver = StreamDriver(storage, **config)
    if count:
        driver.fill(*[f"S.{number % 4}" for number in range(count)])
    return driver


def check_equal(driver: StreamDriver, chunks: list[bytes]) -> Stream:
    """Check that a snapshot makes the stream of a driver, as it is now. Returns what it makes."""
    copy = stream_of(chunks)
    assert copy.dump(driver.now_ns) == driver.stream.dump(driver.now_ns)
    assert copy.state() == driver.stream.state()
    assert copy.log.index.end() == driver.stream.log.index.end()
    return copy


def blocks_in(chunks: list[bytes]) -> list[Block]:
    reader = ChunkReader()
    return [block for block in map(reader.join, chunks) if block is not None]


def sequences_sent(chunks: list[bytes]) -> list[int]:
    found: list[int] = []
    seed = read_header(chunks[0]).record_seed
    for kind, body, _ in blocks_in(chunks):
        if kind == blocks.MESSAGES:
            for _, encoded in blocks.decode_messages(body, seed):
                first = encoded.first_sequence
                found += range(first, first + len(encoded.lengths))
    return found


@both_storages
@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_stream_at_rest_is_copied(storage: Storage, count: int) -> None:
    driver = driver_of(storage, count)
    check_equal(driver, chunks_of(driver.stream))


@both_storages
def test_chunks_are_bounded(storage: Storage) -> None:
    driver = driver_of(storage)
    driver.publish("S.large", b"x" * 10_000)
    chunks = chunks_of(driver.stream, SMALL)
    assert max(map(len, chunks[1:])) <= SMALL
    check_equal(driver, chunks)
    driver.publish_together([Publish("S.a", b"x" * 2000)] * 1000)
    large = chunks_of(driver.stream)
    assert max(map(len, large)) <= CHUNK_BYTES_MAX
    assert min(map(len, large[1:4])) > CHUNK_BYTES_MAX // 2


@both_storages
def test_messages_that_come_while_it_is_read_are_in_it(storage: Storage) -> None:
    driver = driver_of(storage)

    def publish(count: int) -> None:
        if count < 9:
            driver.fill("S.a", "S.new")

    check_equal(driver, chunks_of(driver.stream, SMALL, publish))


@both_storages
@pytest.mark.parametrize("gone", [[1, 2, 3], [5], [30], [*range(1, 31)], [*range(2, 31, 2)]])
@pytest.mark.parametrize("at", [1, 4, 8])
def test_messages_that_go_while_it_is_read_are_not_in_it(
    storage: Storage, gone: list[int], at: int
) -> None:
    driver = driver_of(storage)

    def delete(count: int) -> None:
        if count == at:
            driver.delete(*gone)

    check_equal(driver, chunks_of(driver.stream, 600, delete))


@both_storages
def test_a_message_is_sent_once(storage: Storage) -> None:
    driver = driver_of(storage)
    chunks = chunks_of(driver.stream, SMALL, lambda count: driver.delete(count))
    sent = sequences_sent(chunks)
    assert sent == sorted({*sent})


def test_a_snapshot_has_the_place_of_its_end() -> None:
    driver = driver_of(Storage.MEMORY)
    reader = SnapshotReader(driver.stream, INCARNATION, chunk_bytes_max=SMALL)
    chunks: list[bytes] = []
    entry = 10
    while reader.end is None and (chunk := reader.next_chunk(entry, 1)) is not None:
        chunks.append(chunk)
        entry += 1
    # The rest was read at the end.
    driver.fill("S.later")
    while (chunk := reader.next_chunk(99, 9)) is not None:
        chunks.append(chunk)
    assert reader.end == Place(entry - 1, 1)
    writer = written(chunks, SnapshotLog(chunks[0]).log)
    assert writer.place == reader.end
    assert writer.header.place == Place(10, 1)
    stream = at_once(writer.finishing(Surrounding(BatchLimits())))
    assert stream.log.last_sequence == 30


@both_storages
def test_an_update_while_it_is_read_is_in_it(storage: Storage) -> None:
    driver = driver_of(storage)

    def update(count: int) -> None:
        if count == 3:
            driver.update(max_msgs=7, description="other")

    copy = check_equal(driver, chunks_of(driver.stream, SMALL, update))
    assert copy.config.max_msgs == 7


@both_storages
def test_ids_that_have_passed_a_shorter_window_do_not_come_back(storage: Storage) -> None:
    driver = StreamDriver(storage, duplicate_window=100 * NS_PER_S)
    for number in range(20):
        driver.publish("S.a", Nats_Msg_Id=f"id {number}")
    # A chunk of ids is not the first of the ids, and not the last.
    kinds = [chunk[8] for chunk in chunks_of(driver.stream, SMALL)]
    at = kinds.index(blocks.IDS) + 3

    def shorten(count: int) -> None:
        if count == at:
            driver.advance(10)
            driver.publish("S.a", Nats_Msg_Id="kept")
            driver.update(duplicate_window=5 * NS_PER_S)
            driver.update(duplicate_window=100 * NS_PER_S)

    chunks = chunks_of(driver.stream, SMALL, shorten)
    copy = check_equal(driver, chunks)
    assert copy.dedupe.find(b"kept", driver.now_ns) == 21
    assert not copy.dedupe.find(b"id 1", driver.now_ns)


@both_storages
def test_ids_of_messages_that_are_gone_count(storage: Storage) -> None:
    driver = StreamDriver(storage)
    for message_id in "xyz":
        driver.publish("S.a", Nats_Msg_Id=message_id)
    driver.purge()
    copy = check_equal(driver, chunks_of(driver.stream))
    assert copy.dedupe.find(b"y", driver.now_ns) == 2


@both_storages
def test_an_empty_stream_tells_what_it_was_told(storage: Storage) -> None:
    driver = StreamDriver(storage)
    driver.purge()
    assert driver.stream.state().first_seq == 1
    check_equal(driver, chunks_of(driver.stream))


@both_storages
@pytest.mark.parametrize("before", [40, 200_000])
@pytest.mark.parametrize("count", [0, 3])
def test_sequences_that_a_purge_has_skipped_are_given_out(
    storage: Storage, before: int, count: int
) -> None:
    driver = driver_of(storage, count)
    driver.purge(before=before)
    copy = stream_of(chunks_of(driver.stream))
    assert copy.dump(driver.now_ns) == driver.stream.dump(driver.now_ns)
    assert copy.log.last_sequence == before - 1
    # No message to come is older than those that are gone.
    assert copy.log.index.end() == driver.stream.log.index.end()


@both_storages
def test_a_stream_far_from_its_first_sequence_is_copied_without_the_gap(storage: Storage) -> None:
    driver = driver_of(storage, first_seq=10_000_000)
    chunks = chunks_of(driver.stream)
    assert read_header(chunks[0]).first_sequence == 10_000_000
    check_equal(driver, chunks)


@both_storages
def test_lost_messages_are_lost_in_the_copy(storage: Storage) -> None:
    driver = driver_of(storage)
    driver.delete(3)
    driver.stream.log.note_lost([(3, 3)])
    copy = check_equal(driver, chunks_of(driver.stream))
    assert [*copy.log.lost] == [(3, 3)]


def test_a_message_that_cannot_be_read_and_counts_ends_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = driver_of(Storage.FILE)
    log = driver.stream.log
    assert isinstance(log, FileLog)
    log.segments.last.file.overwrite(log.index.segments[-1].offsets[4] + 33, b"#")
    monkeypatch.setattr(FileLog, "get", lambda *_: None)
    with pytest.raises(StoreError, match="message 5 cannot be read"):
        chunks_of(driver.stream)


@pytest.mark.parametrize("position", [0, 4, 29])
def test_a_snapshot_waits_for_a_message_that_its_replica_cannot_read(
    monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    driver = driver_of(Storage.FILE)
    log = driver.stream.log
    assert isinstance(log, FileLog)
    monkeypatch.setattr(Durability, "is_replica", True)
    flip_bit_of(driver.disk, log, position + 1)
    reader = SnapshotReader(driver.stream, INCARNATION, 0, CHUNK_BYTES_MAX)
    chunks: list[bytes] = []
    while chunk := reader.next_chunk(ENTRY, TERM):
        chunks.append(chunk)
    for _ in range(3):
        assert reader.next_chunk(ENTRY, TERM) == b""
    assert reader.end is None
    assert sequences_sent(chunks) == [*range(1, position + 1)]
    driver.publish("S.later")
    flip_bit_of(driver.disk, log, position + 1)
    while (chunk := reader.next_chunk(ENTRY, TERM)) is not None:
        chunks.append(chunk)
    assert sequences_sent(chunks) == [*range(1, 32)]
    check_equal(driver, chunks)


# --- what a follower has already ------------------------------------------------------------------


@both_storages
@pytest.mark.parametrize("broken_off", [2, 5, 12, 20])
@pytest.mark.parametrize("gone", [[], [1, 2, 3], [*range(1, 15)], [7]])
def test_a_second_snapshot_sends_what_the_first_did_not(
    storage: Storage, broken_off: int, gone: list[int]
) -> None:
    driver = driver_of(storage)
    first = chunks_of(driver.stream, SMALL)[:broken_off]
    staged = SnapshotLog(first[0])
    writer = SnapshotWriter(first[0], staged.log)
    for chunk in first[1:]:
        writer.accept(chunk)
    last = staged.log.last_sequence
    driver.delete(*gone)
    driver.fill("S.later")
    second = chunks_of(driver.stream, SMALL, from_sequence=last + 1)
    assert sequences_sent(second) == [each for each in driver.sequences if each > last]
    stream = at_once(written(second, staged.log).finishing(Surrounding(BatchLimits())))
    assert stream.dump(driver.now_ns) == driver.stream.dump(driver.now_ns)


def test_a_follower_that_has_more_than_the_stream_is_refused() -> None:
    driver = driver_of(Storage.MEMORY)
    SnapshotReader(driver.stream, INCARNATION, 31)
    with pytest.raises(SnapshotError, match=f"the last sequence of {NAME} is 30"):
        SnapshotReader(driver.stream, INCARNATION, 32)


# --- the cost -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "limit"), [("END_MESSAGES_MAX", 20), ("END_BYTES_MAX", 20 * 40)])
def test_only_a_few_messages_are_left_for_the_end(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(reader_module, name, limit)
    driver = driver_of(Storage.MEMORY)
    reader = SnapshotReader(driver.stream, INCARNATION, chunk_bytes_max=SMALL)
    for _ in range(200):
        # More than the end may take, so that there is none as long as this goes on.
        driver.publish_together([Publish("S.a", b"x" * 20)] * 21)
        driver.purge(keep=1)
        reader.next_chunk(ENTRY, TERM)
        assert reader.end is None
    while reader.next_chunk(ENTRY, TERM) is not None:
        pass
    assert reader.end == Place(ENTRY, TERM)


def test_a_snapshot_takes_memory_for_its_chunks_alone() -> None:
    driver = driver_of(Storage.FILE, 0)
    for _ in range(8):
        driver.publish_together([Publish("S.a", b"x" * 1000)] * 1000)
    reader = SnapshotReader(driver.stream, INCARNATION)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        while reader.next_chunk(ENTRY, TERM) is not None:
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < END_BYTES_MAX
