"""A stream on a server that does not lead it: entries are applied in order, or end its work."""

from collections.abc import Callable

import pytest

from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Record, Skipped
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams import follower
from headwater.server.streams.follower import StreamFollower
from headwater.store.errors import DiskFullError
from headwater.store.log.memory_log import MemoryLog
from tests.kit.stream_driver import BEGINNING_NS, Surrounding
from tests.kit.world import ManualClock, ManualScheduler


class NoSlices:
    """Slices of long applications, which these entries do not need."""

    def add(self, work: Callable[[], object]) -> None:
        raise AssertionError("no entry here takes long")


class Following:
    """A follower of a stream in memory, and the calls that it made."""

    def __init__(self) -> None:
        host = Surrounding(BatchLimits())
        account = JetStreamAccount("A", AccountLimits(), host.server)
        config = StreamConfig(name="S", subjects=("s.>",))
        self.stream = Stream(config, MemoryLog(1), BEGINNING_NS, account)
        self.codec = RecordCodec(self.stream.log.record_seed)
        self.before: list[StreamConfig] = []
        self.failures: list[str] = []
        self.waiting: list[Callable[[], object]] = []
        self.places: list[int] = []
        self.follower = StreamFollower(
            self.stream,
            0,
            NoSlices(),  # type: ignore[arg-type]
            ManualScheduler(ManualClock()),
            self.places.append,
            self.before.append,
            self.failures.append,
            self.waiting.append,
        )

    def entry(self, *records: Record) -> bytes:
        return encode_entry(self.codec, list(records))


def skipped(to: int) -> Skipped:
    return Skipped(to, b"", b"", BEGINNING_NS)


def test_entries_are_applied_in_order_and_the_last_place_is_told() -> None:
    following = Following()
    data = [(place, following.entry(skipped(place * 10))) for place in (1, 2, 3)]
    assert following.follower.apply(data) == 3
    assert following.stream.log.last_sequence == 30
    assert following.failures == []


def test_an_entry_without_records_moves_the_place_alone() -> None:
    following = Following()
    assert following.follower.apply([(7, b"")]) == 7
    assert following.stream.log.last_sequence == 0


def test_bytes_that_are_no_records_end_the_work_of_the_replica_once() -> None:
    following = Following()
    following.follower.apply([(1, following.entry(skipped(5)))])
    place = following.follower.apply([(2, b"\xff\xff\xff"), (3, following.entry(skipped(9)))])
    assert place == 1
    assert following.stream.log.last_sequence == 5
    following.follower.apply([(4, b"\xff\xff\xff")])
    (reason,) = following.failures
    assert reason.startswith("entry 2 cannot be read: ")


def test_another_configuration_is_told_with_the_one_before() -> None:
    following = Following()
    first = following.stream.config
    config = StreamConfig(name="S", subjects=("s.>",), max_msgs=5)
    following.follower.apply([(1, following.entry(Configured(config, BEGINNING_NS)))])
    assert following.before == [first]
    assert following.stream.config.max_msgs == 5
    following.follower.apply([(2, following.entry(skipped(3)))])
    assert following.before == [first]


# --- a disk without room ----------------------------------------------------------------------


def full(following: Following, patch: pytest.MonkeyPatch) -> None:
    def skip(*_: object) -> None:
        raise DiskFullError("no room")

    patch.setattr(following.stream.log, "skip", skip)


def test_an_entry_that_finds_no_room_waits_with_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    following = Following()
    following.follower.apply([(1, following.entry(skipped(5)))])
    with monkeypatch.context() as patch:
        full(following, patch)
        data = [(place, following.entry(skipped(place * 10))) for place in (2, 3)]
        assert following.follower.apply(data) == 1
        (go_on,) = following.waiting
        go_on()
        assert following.follower.place == 1
    assert len(following.waiting) == 2, "it waits again"
    following.waiting[1]()
    assert following.follower.place == 3
    assert following.places == [1, 3]
    assert following.stream.log.last_sequence == 30
    assert following.failures == []


def test_too_many_bytes_behind_an_entry_without_room_end_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "STALLED_BYTES_MAX", 100)
    following = Following()
    full(following, monkeypatch)
    for place in range(1, 9):
        following.follower.apply([(place, following.entry(skipped(place)))])
    (reason,) = following.failures
    assert "too many entries" in reason
    following.waiting[0]()
    assert following.follower.place == 0


def test_a_follower_that_has_ended_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    following = Following()
    full(following, monkeypatch)
    following.follower.apply([(1, following.entry(skipped(5)))])
    following.follower.end()
    following.waiting[0]()
    assert following.places == []
