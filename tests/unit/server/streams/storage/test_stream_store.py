"""Logs are found by account and stream, and a log that a restore fills is no stream yet."""

from typing import Final

import msgspec
import pytest

from headwater.jetstream.config.stream_config import PersistMode, Storage, StreamConfig
from headwater.server.streams.storage.resources import resources_of
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog
from headwater.store.store import SyncMode
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import StoredWorld, streaming

ORDERS: Final = StreamConfig(name="ORDERS", subjects=("orders",))
IN_MEMORY: Final = StreamConfig(name="M", subjects=("m",), storage=Storage.MEMORY)
NOW_NS: Final = 1_800_000_000 * 10**9


def opened(disk: SimDisk, sync_always: bool = False) -> StreamStore:
    """The store on a disk."""
    environment = StoredWorld(disk=disk).node.environment
    options = streaming(sync_always=sync_always)
    return StreamStore(options, resources_of(options, environment), environment)


def create(files: StreamStore, account: str, config: StreamConfig) -> MessageLog:
    """Create a stream as a request does."""
    created, records = files.decide_creation(account, config, NOW_NS)
    files.set_log.commit(records)
    return files.make_log(created)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_streams_of_one_name_in_two_accounts_are_two(disk: SimDisk) -> None:
    files = opened(disk)
    for account in ("A", "B"):
        create(files, account, ORDERS)
    files.remove_log("A", ORDERS, files.store.logs["A/ORDERS"])
    assert files.stored_streams() == [("B", "ORDERS")]


def test_a_stream_file_has_the_configuration_and_the_time(disk: SimDisk) -> None:
    files = opened(disk)
    seventh = msgspec.structs.replace(ORDERS, first_seq=7)
    create(files, "A", seventh)
    files.store.close()
    files = opened(disk)
    (key,) = files.recoverable_streams()
    log = files.store.logs[str(key)]
    body = files.body_of(key, log)
    assert (key, body.config, body.created_ns) == (StreamKey("A", "ORDERS"), seventh, NOW_NS)
    assert (body.unfinished, log.first_sequence) == (False, 7)


def test_a_stream_in_memory_has_no_files(disk: SimDisk) -> None:
    files = opened(disk)
    log = create(files, "A", IN_MEMORY)
    assert isinstance(log, MemoryLog)
    assert log.first_sequence == 1
    assert files.stored_streams() == []
    files.remove_log("A", IN_MEMORY, log)


@pytest.mark.parametrize(
    ("config", "always", "mode"),
    [
        (ORDERS, False, SyncMode.INTERVAL),
        (ORDERS, True, SyncMode.ALWAYS),
        (StreamConfig(name="S", persist_mode=PersistMode.ASYNC), True, SyncMode.ASYNC),
        (IN_MEMORY, True, None),
    ],
)
def test_the_sync_mode_follows_the_configuration(
    disk: SimDisk, config: StreamConfig, always: bool, mode: SyncMode | None
) -> None:
    assert opened(disk, always).mode_of(config) is mode


def test_a_staged_log_is_no_stream(disk: SimDisk) -> None:
    files = opened(disk)
    files.stage_log("A", ORDERS, NOW_NS, 1)
    assert files.is_staged("A", "ORDERS")
    assert not files.is_staged("B", "ORDERS")
    assert files.stored_streams() == []


def test_a_staged_log_that_a_crash_leaves_says_that_it_is_unfinished(disk: SimDisk) -> None:
    files = opened(disk)
    files.stage_log("A", ORDERS, NOW_NS, 1)
    disk.kill()
    files = opened(disk)
    (key,) = files.recoverable_streams()
    assert files.body_of(key, files.store.logs[str(key)]).unfinished
    assert not files.is_staged("A", "ORDERS")


def test_a_staged_log_that_is_finished_is_a_stream(disk: SimDisk) -> None:
    files = opened(disk)
    log = files.stage_log("A", ORDERS, NOW_NS, 1)
    created, records = files.decide_restored("A", ORDERS, NOW_NS)
    files.set_log.commit(records)
    files.finish_log(created, log)
    assert not files.is_staged("A", "ORDERS")
    assert files.stored_streams() == [("A", "ORDERS")]
    assert isinstance(log, FileLog)
    assert not files.body_of(StreamKey("A", "ORDERS"), log).unfinished


@pytest.mark.parametrize("config", [ORDERS, IN_MEMORY])
def test_a_staged_log_that_is_discarded_leaves_its_name_free(
    disk: SimDisk, config: StreamConfig
) -> None:
    files = opened(disk)
    files.discard_log("A", config, files.stage_log("A", config, NOW_NS, 1))
    assert not files.is_staged("A", config.name)
    assert files.stored_streams() == []
    create(files, "A", config)
