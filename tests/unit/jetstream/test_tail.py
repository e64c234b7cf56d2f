"""The tail of an eventual stream: what its leader may apply before the quorum has it."""

import pytest
from msgspec.structs import replace

from headwater.jetstream.config.stream_config import StreamConfig, StreamSource, WriteConsistency
from headwater.jetstream.records import Configured, Published, Purged, Record, Removed, Skipped
from headwater.jetstream.tail import DRAINED_BYTES, Tail, TailLimits, entry_of, has_tail
from headwater.store.log.message_log import Batch

EVENTUAL = StreamConfig(name="S", write_consistency=WriteConsistency.EVENTUAL)


def published(first: int, count: int = 1) -> Published:
    return Published(first, Batch([b"s"] * count, [b""] * count, [b""] * count, [1] * count))


class Leader:
    """The tail of a leader whose stream ends with sequence 10, and its entries."""

    def __init__(self, messages: int = 5, byte_count: int = 100) -> None:
        self.tail = Tail(TailLimits(messages, byte_count), 10)
        self.proposed = 0
        self.applied = 0
        self.sequence = 10

    def takes(self, *records: Record, byte_count: int = 1, has_quorum: bool = True) -> bool:
        """Propose an entry at the next place. Returns whether it may be applied."""
        self.proposed += 1
        self.tail.add(entry_of(self.proposed, records, byte_count))
        return self.takes_waiting(has_quorum)

    def takes_waiting(self, has_quorum: bool = True) -> bool:
        first = self.applied + 1
        is_taken = self.tail.take(self.proposed, first, self.proposed, has_quorum)
        if is_taken:
            self.applied = self.proposed
        return is_taken

    def publishes(self, count: int = 1, byte_count: int = 1, has_quorum: bool = True) -> bool:
        record = published(self.sequence + 1, count)
        self.sequence += count
        return self.takes(record, byte_count=byte_count, has_quorum=has_quorum)


def test_a_stream_has_a_tail_by_its_setting() -> None:
    assert has_tail(EVENTUAL)
    assert not has_tail(replace(EVENTUAL, write_consistency=WriteConsistency.STRONG))


def test_a_mirror_has_none() -> None:
    assert not has_tail(replace(EVENTUAL, mirror=StreamSource(name="O")))


def test_entries_are_taken_up_to_so_many_sequences() -> None:
    leader = Leader(messages=5)
    assert [leader.publishes() for _ in range(6)] == [True] * 5 + [False]


def test_a_batch_counts_with_all_its_messages() -> None:
    leader = Leader(messages=5)
    assert leader.publishes(3)
    assert not leader.publishes(3)


def test_sequences_that_are_passed_over_count() -> None:
    assert not Leader(messages=5).takes(Skipped(16, b"", b"", 1))
    assert not Leader(messages=5).takes(Purged(b">", 17, 0, 1))
    assert Leader(messages=5).takes(Purged(b">", 3, 0, 1))


def test_entries_are_taken_up_to_so_many_bytes() -> None:
    leader = Leader(byte_count=100)
    assert leader.publishes(byte_count=60)
    assert not leader.publishes(byte_count=60)


def test_entries_without_messages_are_limited_too() -> None:
    leader = Leader(messages=3, byte_count=100)
    assert [leader.takes(Removed([1])) for _ in range(4)] == [True, True, True, False]
    leader.tail.committed(1)
    assert leader.takes_waiting()


def test_what_the_quorum_has_makes_room() -> None:
    leader = Leader(messages=1, byte_count=60)
    assert leader.publishes(byte_count=60)
    assert not leader.publishes(byte_count=60)
    leader.tail.committed(1)
    assert leader.tail.committed_sequence == 11
    assert leader.takes_waiting()


@pytest.mark.parametrize(
    "record", [Configured(EVENTUAL, 1), Removed([1], erase=True)], ids=["configured", "erased"]
)
def test_what_cannot_be_taken_back_waits_for_the_quorum(record: Record) -> None:
    assert not Leader().takes(record)


def test_a_message_that_expires_does_not_wait() -> None:
    assert Leader().takes(Removed([1]))


def test_an_entry_that_has_waited_counts_when_the_quorum_has_it() -> None:
    leader = Leader(messages=2)
    leader.publishes()
    assert not leader.publishes(2)
    leader.tail.committed(1)
    leader.tail.committed_awaited(2)
    leader.applied = 2
    assert leader.tail.committed_sequence == 13
    assert leader.publishes(2)


def test_entries_that_were_in_flight_before_the_tail_wait_for_the_quorum() -> None:
    leader = Leader()
    leader.proposed = 1
    assert not leader.publishes()
    leader.tail.committed_awaited(2)
    leader.applied = 2
    assert leader.publishes()


def test_entries_that_are_withdrawn_count_no_more() -> None:
    leader = Leader(messages=1)
    leader.publishes()
    assert not leader.publishes()
    leader.tail.cut(2)
    leader.proposed, leader.sequence = 1, 11
    leader.tail.committed(1)
    assert leader.publishes()


def test_a_tail_that_is_held_takes_nothing() -> None:
    leader = Leader()
    leader.tail.is_held = True
    assert not leader.publishes()
    leader.tail.is_held = False
    assert leader.takes_waiting()


def test_the_tail_is_empty_now_and_then_while_there_is_a_quorum() -> None:
    leader = Leader(messages=100, byte_count=10 * DRAINED_BYTES)
    leader.publishes(byte_count=DRAINED_BYTES)
    assert leader.publishes()
    assert not leader.publishes()
    # Without a quorum nobody would ever empty it.
    assert leader.takes_waiting(has_quorum=False)
    assert not leader.publishes()
    leader.tail.committed(3)
    assert leader.tail.is_empty
    assert leader.takes_waiting()


def test_a_tail_that_rests_takes_nothing_while_there_is_a_quorum() -> None:
    leader = Leader()
    leader.tail.is_resting = True
    assert not leader.publishes()
    assert leader.takes_waiting(has_quorum=False)
