"""Logs are found by account and stream, and a log that a restore fills is no stream yet."""

from typing import Final

import msgspec
import pytest

from headwater.jetstream.config.stream_config import PersistMode, Storage, StreamConfig
from headwater.jetstream.records import StreamCreated
from headwater.raft.storage import BIRTH_INDEX
from headwater.server.streams.storage.resources import resources_of
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.groups.frames import GroupMode, GroupState, SnapshotMark
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.store import SyncMode
from headwater.testing.disk import SimDisk
from tests.kit.stored_streams import StoredStreams
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
    return StoredStreams(files).create(account, config, NOW_NS)


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


@pytest.mark.parametrize(
    ("config", "always", "mode"),
    [
        (ORDERS, False, GroupMode.WRITTEN),
        (ORDERS, True, GroupMode.SYNCED),
        (IN_MEMORY, True, GroupMode.MEMORY),
    ],
)
def test_the_mode_of_a_group_follows_the_sync_mode(
    disk: SimDisk, config: StreamConfig, always: bool, mode: GroupMode
) -> None:
    assert opened(disk, always).group_mode_of(config) is mode


@pytest.mark.parametrize("config", [ORDERS, IN_MEMORY])
def test_only_a_stream_that_is_stored_later_defers_its_writes(
    disk: SimDisk, config: StreamConfig
) -> None:
    files = opened(disk)
    assert not files.defers_writes(config)
    assert files.defers_writes(StreamConfig(name="S", persist_mode=PersistMode.ASYNC))


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
    assert StoredStreams(files).restore("A", ORDERS, NOW_NS) is log
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


# --- replicas -------------------------------------------------------------------------------------

REPLICATED: Final = msgspec.structs.replace(ORDERS, num_replicas=3)


def test_the_log_of_a_stream_with_several_replicas_is_one_of_them(disk: SimDisk) -> None:
    files = opened(disk, sync_always=True)
    log = create(files, "A", REPLICATED)
    assert log.is_replica
    assert log.applied_entry == BIRTH_INDEX
    assert not create(files, "A", msgspec.structs.replace(IN_MEMORY, num_replicas=3)).is_replica


@pytest.mark.parametrize("always", [False, True])
def test_a_first_member_killed_before_its_first_sync_needs_no_other_to_fill_it(
    disk: SimDisk, always: bool
) -> None:
    files = opened(disk, always)
    log = create(files, "A", REPLICATED)
    assert isinstance(log, FileLog)
    mark = SnapshotMark(BIRTH_INDEX, BIRTH_INDEX)
    files.store.groups.create(log.identity, GroupMode.WRITTEN, mark, GroupState(BIRTH_INDEX))
    files.store.commit()
    disk.kill()
    files = opened(disk, always)
    found = files.store.logs["A/ORDERS"]
    assert found.is_replica
    assert (found.must_refill, found.offline) == ("", "")
    assert found.applied_entry == BIRTH_INDEX


@pytest.mark.parametrize("always", [False, True])
def test_a_stream_becomes_a_replica_and_one_of_this_server_again(
    disk: SimDisk, always: bool
) -> None:
    files = opened(disk, always)
    log = create(files, "A", ORDERS)
    created = files.set_log.streams.get("A", "ORDERS")
    assert created is not None
    scaled = StreamCreated("A", "ORDERS", created.incarnation, REPLICATED, NOW_NS)
    files.join_group(scaled, 5)
    assert log.is_replica
    assert log.applied_entry == 5
    files.leave_group(created)
    assert not log.is_replica
    assert log.has_entries is always


def test_a_replica_that_is_emptied_keeps_its_configuration(disk: SimDisk) -> None:
    files = opened(disk)
    log = create(files, "A", REPLICATED)
    created = files.set_log.streams.get("A", "ORDERS")
    assert created is not None
    log.append(Batch([b"orders"], [b""], [b"1"], [NOW_NS]))
    log.applied_entry = 1
    log = files.begin_refill(created)
    assert (log.messages, log.applied_entry) == (0, 0)
    assert files.body_of(StreamKey("A", "ORDERS"), log).config == REPLICATED
