"""The draft of a turn: accepted messages over the records in flight."""

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.foreseen import Message
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing.draft import Draft
from headwater.store.log.memory_log import MemoryLog

CONFIG = StreamConfig(name="S", storage=Storage.MEMORY)


def draft(window_ns: int = 100) -> Draft:
    dedupe = DedupeWindow(window_ns)
    dedupe.last_id = b"before"
    return Draft(LookAhead(MemoryLog(), dedupe, CONFIG))


def message(subject: bytes) -> Message:
    return subject, 10, b"", b"x"


def test_accepted_messages_count_as_stored() -> None:
    turn = draft()
    assert (turn.next_sequence, turn.last_id) == (1, b"before")
    assert turn.add(message(b"a"), b"x", []) == 1
    assert turn.skip(b"y") == 2
    assert (turn.next_sequence, turn.last_id, turn.byte_count) == (3, b"y", 10)
    assert (turn.find_id(b"x", 1), turn.find_id(b"y", 1), turn.find_id(b"z", 1)) == (1, 2, 0)
    assert turn.are_new([b"z"])
    assert not turn.are_new([b"x"])
    assert turn.messages.messages == 1


def test_a_dropped_batch_leaves_nothing_behind() -> None:
    turn = draft()
    turn.add(message(b"a"), b"x", [])
    begin = turn.begin_batch()
    assert turn.is_batch_empty
    turn.add(message(b"b"), b"y", [])
    assert turn.has_written(b"b")
    assert not turn.has_written(b"a")
    turn.go_back(begin)
    assert (turn.next_sequence, turn.last_id, turn.byte_count) == (2, b"x", 10)
    assert (turn.find_id(b"x", 1), turn.find_id(b"y", 1), turn.messages.messages) == (1, 0, 1)


def test_ids_do_not_count_without_a_window() -> None:
    turn = draft(window_ns=0)
    turn.add(message(b"a"), b"x", [])
    assert turn.find_id(b"x", 1) == 0
