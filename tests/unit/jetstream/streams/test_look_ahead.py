"""Records in flight; tests/properties/test_look_ahead.py compares them with applied ones."""

from typing import Any

import msgspec

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Removed, Skipped
from headwater.jetstream.streams import look_ahead
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

WINDOW_NS = 100
CONFIG = StreamConfig(name="S", storage=Storage.MEMORY)


def header(message_id: bytes) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id if message_id else b""


def published(first: int, *ids: bytes, now_ns: int = 1) -> Published:
    count = len(ids)
    batch = Batch([b"a"] * count, [*map(header, ids)], [b"x"] * count, [now_ns] * count)
    return Published(first, batch)


def ahead_of(*records: Any) -> LookAhead:
    log = MemoryLog()
    dedupe = DedupeWindow(WINDOW_NS)
    found = LookAhead(log, dedupe, CONFIG)
    for record in records:
        found.propose(record)
    return found


def test_nothing_in_flight_is_the_log() -> None:
    ahead = ahead_of()
    assert (len(ahead), ahead.messages, ahead.next_sequence, ahead.oldest) == (0, 0, 1, None)
    assert (ahead.last_id, ahead.last_ns, ahead.byte_count) == (b"", 0, 0)


def test_the_next_sequence_and_the_last_id_follow_the_newest_message() -> None:
    ahead = ahead_of(published(1, b"x", b"y"), Skipped(3, b"a", header(b"z"), 7), Purged(b">"))
    assert (ahead.next_sequence, ahead.last_id, ahead.last_ns) == (4, b"z", 7)
    assert (len(ahead), ahead.messages) == (3, 2)


def test_ids_in_flight_count_within_the_window() -> None:
    ahead = ahead_of(published(1, b"x", b""), Skipped(3, b"a", header(b"z"), 7))
    assert (ahead.find_id(b"x", 2), ahead.find_id(b"z", 8), ahead.find_id(b"y", 2)) == (1, 3, 0)
    assert ahead.find_id(b"x", 1 + WINDOW_NS) == 0
    assert ahead.are_new([b"y", b"", b""])
    assert not ahead.are_new([b"x"])
    assert not ahead.are_new([b"y", b"y"])


def test_ids_in_flight_before_an_update_do_not_come_back_with_its_window() -> None:
    ahead = LookAhead(MemoryLog(), DedupeWindow(WINDOW_NS), CONFIG)
    ahead.propose(published(1, b"old"))
    config = msgspec.structs.replace(CONFIG, duplicate_window=3 * WINDOW_NS)
    ahead.propose(Configured(config, WINDOW_NS + 1))
    ahead.propose(published(2, b"new", now_ns=WINDOW_NS + 1))
    end_ns = 3 * WINDOW_NS
    assert (ahead.find_id(b"old", end_ns), ahead.find_id(b"new", end_ns)) == (0, 2)


def test_the_window_of_an_update_in_flight_counts_for_ids_that_were_within_the_one_before() -> None:
    log, dedupe = MemoryLog(), DedupeWindow(WINDOW_NS)
    dedupe.add_all([b"old", b"new"], 1, [1, 50])
    ahead = LookAhead(log, dedupe, CONFIG)
    config = msgspec.structs.replace(CONFIG, duplicate_window=3 * WINDOW_NS)
    ahead.propose(Configured(config, WINDOW_NS + 1))
    assert (ahead.find_id(b"old", WINDOW_NS + 1), ahead.find_id(b"new", WINDOW_NS + 1)) == (0, 2)
    assert (ahead.find_id(b"new", 349), ahead.find_id(b"new", 350)) == (2, 0)
    ahead.retreat(1)
    assert (ahead.find_id(b"new", 149), ahead.find_id(b"new", 150)) == (2, 0)


def test_a_purge_up_to_a_later_sequence_in_flight_makes_that_the_next() -> None:
    ahead = ahead_of(published(1, b"x"), Purged(b">", before=50), Removed([1]))
    assert ahead.next_sequence == 50
    assert [*map(ahead.next_sequence_without, (1, 2, 3))] == [50, 2, 1]
    assert ahead_of(Purged(b"a", before=50)).next_sequence == 1


def test_a_retreat_gives_an_id_back_to_the_message_that_had_it_before() -> None:
    ahead = ahead_of(published(1, b"x"), published(2, b"x"))
    assert ahead.find_id(b"x", 2) == 2
    forgotten = ahead.retreat(1)
    assert [each.first_sequence for each in forgotten if isinstance(each, Published)] == [2]
    assert ahead.find_id(b"x", 2) == 1
    ahead.retreat(1)
    assert (ahead.find_id(b"x", 2), ahead.next_sequence, ahead.byte_count) == (0, 1, 0)


def test_some_records_have_to_be_committed_before_publishes_go_on() -> None:
    limited = msgspec.structs.replace(CONFIG, max_bytes=10)
    ahead = ahead_of(published(1, b"x"), Configured(limited, 1))
    assert ahead.needs_commit
    ahead.retreat(1)
    assert not ahead.needs_commit


def test_messages_and_bytes_in_flight_are_bounded(monkeypatch: Any) -> None:
    ahead = ahead_of(published(1, b"x", b"y"))
    assert not ahead.is_full
    monkeypatch.setattr(look_ahead, "IN_FLIGHT_MESSAGES_MAX", 2)
    assert ahead.is_full
    monkeypatch.setattr(look_ahead, "IN_FLIGHT_MESSAGES_MAX", 3)
    monkeypatch.setattr(look_ahead, "IN_FLIGHT_BYTES_MAX", ahead.byte_count)
    assert ahead.is_full


def test_a_retreat_does_not_bring_the_ids_of_committed_records_back() -> None:
    log = MemoryLog()
    ahead = LookAhead(log, DedupeWindow(WINDOW_NS), CONFIG)
    first = published(1, b"x")
    ahead.propose(first)
    ahead.propose(published(2, b"x"))
    assert not ahead.are_new([b"x"])
    log.append(first.batch)
    ahead.commit_oldest()
    ahead.retreat(1)
    assert ahead.are_new([b"x"]), "the dedupe window has the ids of the log"


def test_another_change_of_the_log_changes_what_is_foreseen() -> None:
    config = msgspec.structs.replace(CONFIG, max_msgs=2)
    log = MemoryLog()
    log.append(published(1, b"", b"").batch)
    ahead = LookAhead(log, DedupeWindow(WINDOW_NS), config)
    ahead.propose(published(3, b""))
    assert [*map(ahead.foreseen().has, (1, 2, 3))] == [False, True, True]
    log.delete([1])
    ahead.log_changed()
    assert [*map(ahead.foreseen().has, (1, 2, 3))] == [False, True, True]
    assert ahead.foreseen().messages == 2


def test_a_message_that_is_removed_twice_is_missed_once() -> None:
    log = MemoryLog()
    log.append(published(1, b"", b"").batch)
    ahead = LookAhead(log, DedupeWindow(WINDOW_NS), CONFIG)
    ahead.propose(Removed([1]))
    assert ahead.foreseen().messages == 1
    log.delete([1])
    ahead.log_changed()
    assert ahead.foreseen().messages == 1
