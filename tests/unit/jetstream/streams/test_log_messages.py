"""The messages of a log, as rules ask for them."""

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
    messages = LogMessages(log)
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


def test_messages_that_come_later_are_not_counted_before() -> None:
    log = stored()
    messages = LogMessages(log)
    messages.hide(3, [b"a", b"c.d"])
    assert (messages.messages, messages.byte_count) == (1, log.size_of(1))
    assert [*map(messages.first_from, range(4))] == [1, 1, 0, 0]
    assert (messages.count_of(b"a"), messages.next_of(b"a", 2)) == (1, 0)
    messages.show(1)
    assert (messages.messages, messages.count_of(b"a"), messages.first_from(2)) == (2, 2, 3)
    messages.show_all()
    assert (messages.messages, messages.byte_count) == (3, log.byte_count)
