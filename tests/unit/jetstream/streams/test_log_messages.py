"""The messages of a log, as rules ask for them."""

from headwater.jetstream.streams.limits import NOTHING_UNCOMMITTED, Uncommitted
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

SUBJECTS = [b"a", b"b", b"a", b"c.d"]


def stored() -> MemoryLog:
    log = MemoryLog()
    log.append(Batch([*SUBJECTS], [b""] * 4, [b"1", b"2", b"3", b"4"], [1] * 4))
    log.delete([2])
    return log


def test_all_messages_are_told() -> None:
    log = stored()
    messages = LogMessages(log, lambda: NOTHING_UNCOMMITTED)
    assert (messages.messages, messages.byte_count) == (3, log.byte_count)
    assert [*map(messages.has, range(6))] == [False, True, False, True, True, False]
    assert [*map(messages.first_from, range(6))] == [1, 1, 3, 3, 4, 0]
    assert (messages.count_of(b"a"), messages.count_of(b"b")) == (2, 0)
    assert (messages.oldest_of(b"a", 2), messages.next_of(b"a", 2)) == ([1, 3], 3)
    assert (messages.last_of(b"a"), messages.last_of(b"a", 2), messages.last_of(b"b")) == (3, 1, 0)
    assert messages.last_sequence_of(b"*.d") == 4
    assert messages.subjects_like(b">") == {b"a", b"c.d"}
    assert messages.content_at(3) == (b"", b"3")
    assert messages.bytes_of(b"a", 2, 9) == messages.size_of(3)
    assert messages.subject_of(4) == b"c.d"


def test_messages_that_are_not_visible_are_not_told() -> None:
    log, hidden = stored(), Uncommitted()
    hidden.hide(log, 3, [b"a", b"c.d"])
    messages = LogMessages(log, lambda: hidden)
    assert (messages.messages, messages.byte_count) == (1, log.size_of(1))
    assert messages.last_sequence == 2
    assert [*map(messages.has, range(6))] == [False, True, False, False, False, False]
    assert [*map(messages.first_from, range(4))] == [1, 1, 0, 0]
    assert (messages.count_of(b"a"), messages.next_of(b"a", 2), messages.last_of(b"a")) == (1, 0, 1)
    assert messages.last_sequence_of(b">") == 1
    assert messages.subjects_like(b">") == {b"a"}
    assert messages.bytes_of(b"a", 0, 9) == log.size_of(1)
