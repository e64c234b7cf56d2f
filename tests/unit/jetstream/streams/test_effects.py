"""The effects of records: which messages come, and which ones go, in which order."""

from typing import Any

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Published, Skipped
from headwater.jetstream.streams.effects import (
    BeyondLimits,
    Effect,
    Settled,
    Shown,
    effects_of,
)
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

ROLL_UP = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
ROLL_UP_ALL = b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"


def published(*messages: tuple[bytes, bytes]) -> Published:
    """A record with subjects and headers, for the sequences from 1 on."""
    subjects, headers = map(list, zip(*messages, strict=True))
    count = len(subjects)
    return Published(1, Batch(subjects, headers, [b"x"] * count, [1] * count), rolls_up=True)


def effects_on_log(record: Published, **settings: Any) -> list[Effect]:
    """The effects of a record whose messages a log has; the log removes those that go."""
    log, found = MemoryLog(), []
    log.append(record.batch)
    messages = LogMessages(log)
    messages.hide(1, record.batch.subjects)
    for effect in effects_of(record, messages, StreamConfig(name="S", **settings)):
        if isinstance(effect, Shown):
            messages.show(effect.end - effect.begin)
        elif isinstance(effect, BeyondLimits):
            log.delete(effect.sequences)
        found.append(effect)
    return found


def test_messages_without_limits_come_together() -> None:
    assert effects_on_log(published((b"a", b""), (b"b", b""))) == [Shown(0, 2)]


def test_limits_follow_the_messages_that_break_them() -> None:
    record = published((b"a", b""), (b"a", b""), (b"b", b""))
    found = effects_on_log(record, max_msgs_per_subject=1, max_msgs=1)
    assert found == [Shown(0, 3), BeyondLimits([1, 2])]


def test_a_roll_up_purges_before_later_messages_come() -> None:
    record = published((b"a", b""), (b"a", ROLL_UP), (b"b", b""), (b"b", ROLL_UP_ALL))
    assert effects_on_log(record, allow_rollup_hdrs=True) == [
        Shown(0, 2),
        Settled(0, 2, [(b"a", 2)]),
        Shown(2, 4),
        Settled(2, 4, [(None, 4)]),
    ]


def test_a_roll_up_has_no_effect_where_it_is_not_allowed() -> None:
    record = published((b"a", b""), (b"a", ROLL_UP))
    assert effects_on_log(record) == [Shown(0, 2)]
    assert effects_on_log(record, allow_rollup_hdrs=True, deny_purge=True) == [Shown(0, 2)]


def test_messages_come_singly_where_their_sizes_push_out_others() -> None:
    found = effects_on_log(published((b"a", b""), (b"b", b"")), max_bytes=1, max_msgs_per_subject=9)
    assert found == [Shown(0, 1), BeyondLimits([1]), Shown(1, 2), BeyondLimits([2])]


def test_each_message_of_a_stream_with_schedules_settles() -> None:
    found = effects_on_log(published((b"a", b"")), allow_msg_schedules=True)
    assert found == [Shown(0, 1), Settled(0, 1, [])]


def test_a_skipped_message_purges_up_to_its_own_sequence() -> None:
    record = Skipped(5, b"a", ROLL_UP, 1)
    messages = LogMessages(MemoryLog())
    config = StreamConfig(name="S", allow_rollup_hdrs=True)
    assert [*effects_of(record, messages, config)] == [Settled(0, 0, [(b"a", 6)])]
