"""The messages of a stream as they will be; tests/properties/test_look_ahead.py asks for more."""

from typing import Any

import pytest

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Removed
from headwater.jetstream.streams import foreseen as foreseen_module
from headwater.jetstream.streams.foreseen import Foreseen, Message, removes_messages
from headwater.jetstream.streams.limits import size_rule
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

SIZE = size_rule(Storage.MEMORY)


def batch_of(*subjects: bytes) -> Batch:
    count = len(subjects)
    return Batch([*subjects], [b""] * count, [b"x"] * count, [1] * count)


def foreseen(log: MemoryLog, **settings: Any) -> Foreseen:
    config = StreamConfig(name="S", storage=Storage.MEMORY, **settings)
    return Foreseen(LogMessages(log), config, removes_messages(config))


def stored(*subjects: bytes) -> MemoryLog:
    log = MemoryLog()
    log.append(batch_of(*subjects))
    return log


def message(subject: bytes) -> Message:
    return subject, 10, b"", b"y"


def test_the_log_is_seen_through() -> None:
    messages = foreseen(stored(b"a", b"b", b"a"))
    assert (messages.messages, messages.count_of(b"a")) == (3, 2)
    assert messages.last_sequence_of(b"a") == 3
    assert messages.content_of(b"b") == (b"", b"x")


def test_an_admitted_message_pushes_out_the_oldest_one() -> None:
    messages = foreseen(stored(b"a", b"b"), max_msgs=2)
    messages.admit(3, message(b"c"), [])
    assert [*map(messages.has, range(1, 4))] == [False, True, True]
    assert (messages.messages, messages.first_from(0), messages.last_sequence_of(b"a")) == (2, 2, 0)
    assert messages.content_of(b"c") == (b"", b"y")


def test_a_turn_goes_back_to_a_mark() -> None:
    messages = foreseen(stored(b"a", b"b"), max_msgs=2, allow_rollup_hdrs=True)
    messages.admit(3, message(b"c"), [])
    mark = messages.mark()
    messages.admit(4, message(b"c"), [(None, 4)])
    assert messages.messages == 1
    messages.go_back(mark)
    assert [*map(messages.has, range(1, 5))] == [False, True, True, False]
    messages.go_back(0)
    assert [*map(messages.has, range(1, 5))] == [True, True, False, False]


def test_searches_begin_again_at_a_message_that_stays_after_all() -> None:
    messages = foreseen(stored(b"a", b"b", b"a"), max_msgs=3, max_msgs_per_subject=2)
    messages.admit(4, message(b"a"), [])
    assert (messages.first_from(0), messages.oldest_of(b"a", 1)) == (2, [3])
    messages.go_back(0)
    assert (messages.first_from(0), messages.oldest_of(b"a", 1)) == (1, [1])
    assert not messages.has_since(4)


def test_searches_begin_again_where_many_messages_stay_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreseen_module, "DROPPED_SINGLY_MAX", 0)
    messages = foreseen(stored(b"a", b"a"), allow_rollup_hdrs=True)
    messages.admit(3, message(b"a"), [(b"a", 3)])
    assert (messages.first_from(0), messages.oldest_of(b"a", 1), messages.messages) == (3, [3], 1)
    messages.go_back(0)
    assert (messages.first_from(0), messages.oldest_of(b"a", 2), messages.messages) == (
        1,
        [1, 2],
        2,
    )


def test_messages_since_a_sequence_are_told() -> None:
    messages = foreseen(stored(b"a"))
    messages.admit(2, message(b"b"), [])
    assert messages.has_since(2)
    assert messages.has_since(2, b"b")
    assert not messages.has_since(2, b"a")
    assert not messages.has_since(3)


def test_a_committed_record_is_seen_in_the_log() -> None:
    log = stored(b"a", b"b")
    messages = foreseen(log, max_msgs=2)
    first, second = Published(3, batch_of(b"c")), Published(4, batch_of(b"d"))
    messages.follow(first, SIZE)
    messages.follow(second, SIZE)
    log.append(first.batch)
    log.delete([1])
    messages.commit_oldest()
    assert [*map(messages.has, range(1, 5))] == [False, False, True, True]
    messages.retreat()
    assert [*map(messages.has, range(1, 5))] == [False, True, True, False]


def test_a_removed_last_message_uncovers_the_one_before_it() -> None:
    messages = foreseen(stored(b"a", b"a", b"b"))
    messages.follow(Removed([2]), SIZE)
    assert messages.last_sequence_of(b"a") == 1
    assert messages.last_sequence_of(b"*") == 3


def test_a_purge_reaches_the_messages_before_it_only() -> None:
    messages = foreseen(stored(b"a", b"b"))
    messages.follow(Purged(b"a"), SIZE)
    messages.follow(Published(3, batch_of(b"a")), SIZE)
    messages.follow(Purged(b">"), SIZE)
    messages.follow(Published(4, batch_of(b"b")), SIZE)
    assert (messages.messages, messages.first_from(0)) == (1, 4)
    messages.retreat()
    messages.retreat()
    assert [*map(messages.has, range(1, 4))] == [False, True, True]


@pytest.mark.parametrize(
    ("purge", "left"),
    [
        (Purged(b">", before=3), [3, 4]),
        (Purged(b">", before=9), []),
        (Purged(b">", keep=1), [4]),
        (Purged(b"a", before=3), [2, 3, 4]),
        (Purged(b"a", keep=1), [2, 3, 4]),
        (Purged(b"*", before=3), [3, 4]),
        (Purged(b"*", keep=3), [2, 3, 4]),
        (Purged(b">", before=4, keep=2), [2, 3, 4]),
    ],
)
def test_a_purge_may_keep_messages(purge: Purged, left: list[int]) -> None:
    messages = foreseen(stored(b"a", b"b", b"a", b"c"))
    messages.follow(purge, SIZE)
    assert [*filter(messages.has, range(1, 5))] == left
    messages.retreat()
    assert [*filter(messages.has, range(1, 5))] == [1, 2, 3, 4]


def test_limits_of_another_configuration_hold_from_its_record_on() -> None:
    config = StreamConfig(name="S", max_msgs=3, max_msgs_per_subject=1)
    messages = foreseen(stored(b"a", b"b", b"a", b"c", b"d"), max_msgs=3, max_msgs_per_subject=1)
    messages.follow(Configured(config, 1), SIZE)
    assert [*filter(messages.has, range(1, 6))] == [3, 4, 5]


def test_a_record_that_is_not_foreseen_changes_nothing_and_is_forgotten_in_its_turn() -> None:
    messages = foreseen(stored(b"a"))
    messages.follow(Published(2, batch_of(b"a")), SIZE)
    messages.pass_by()
    assert messages.messages == 2
    messages.retreat()
    messages.retreat()
    assert messages.messages == 1
