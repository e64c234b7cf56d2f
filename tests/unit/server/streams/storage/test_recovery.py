"""A stream is recovered as it was, and a stream that cannot run is reported and kept."""

from typing import Final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.storage.recovery import recover_stream, report_recovered
from headwater.server.streams.storage.resources import resources_of
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.testing.disk import SimDisk
from tests.kit.api_world import ApiWorld
from tests.kit.stored_streams import StoredStreams
from tests.kit.stored_world import StoredWorld, streaming

CONFIG: Final = StreamConfig(name="S", subjects=("s",))
KEY: Final = StreamKey("A", "S")
NOW_NS: Final = 1_800_000_000 * 10**9


class Start:
    """A server that starts on a disk, as far as its store."""

    def __init__(self, disk: SimDisk) -> None:
        self.world = StoredWorld(disk=disk)
        options, environment = streaming(), self.world.node.environment
        self.files = StreamStore(options, resources_of(options, environment), environment)

    def recover(self, has_account: bool = True, has_key: bool = False) -> Stream | None:
        account = ApiWorld().account if has_account else None
        log = self.world.node.log
        return recover_stream(self.files, KEY, account, NOW_NS, log, has_key)

    @property
    def stored(self) -> list[StreamKey]:
        return self.files.stored_streams()

    def has_logged(self, text: str) -> bool:
        return any(text in line for line in self.world.log_lines)


def restarted(is_staged: bool = False) -> Start:
    """A start on a disk with one stream, or with a log that a restore has not finished."""
    disk = SimDisk()
    files = Start(disk).files
    if is_staged:
        files.stage_log("A", CONFIG, NOW_NS, 1)
    else:
        StoredStreams(files).create("A", CONFIG, NOW_NS)
    files.store.close()
    return Start(disk)


def test_a_stream_has_its_configuration_and_time_again() -> None:
    start = restarted()
    stream = start.recover()
    assert stream is not None
    assert (stream.config, stream.created_ns) == (CONFIG, NOW_NS)
    report_recovered(start.files, KEY, stream, start.world.node.log)
    assert start.has_logged("Restored 0 messages for stream 'A > S'")


def test_a_stream_of_an_account_without_jetstream_is_kept() -> None:
    start = restarted()
    assert start.recover(has_account=False) is None
    assert start.has_logged("account without JetStream: it is kept")
    assert start.stored == [KEY]


def test_a_log_that_was_not_restored_to_its_end_is_removed() -> None:
    start = restarted(is_staged=True)
    assert start.recover() is None
    assert start.has_logged("was not restored to its end: it is removed")
    assert start.stored == []


def test_a_stream_that_was_made_without_a_key_is_reported_and_runs() -> None:
    start = restarted()
    assert start.recover(has_key=True) is not None
    assert start.has_logged("was made without a key and stays unencrypted")
