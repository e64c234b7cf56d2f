"""The records that follow for a consumer from messages that left its stream."""

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers import losses
from headwater.jetstream.consumers.effects import REMOVED_REASON, Terminated
from headwater.jetstream.consumers.records import Dropped, Forgotten
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.log.message_log import PURGED_AT_A_TIME


def delivered(*sequences: int) -> ConsumerState:
    """A state in which these messages wait for acknowledgements."""
    state = ConsumerState(AckPolicy.EXPLICIT, 1)
    state.deliver((), sequences, 5)
    return state


def test_the_removal_of_other_messages_has_no_record() -> None:
    assert losses.after_removal("C", delivered(1, 2), [3], lambda _: True) == (None, [])


def test_a_pending_message_that_is_removed_is_dropped_and_told() -> None:
    state = delivered(1, 2, 4)
    state.deliver([2], (), 9)
    record, events = losses.after_removal("C", state, [2, 3], lambda each: each not in (2, 3))
    assert isinstance(record, Dropped)
    assert record.sequences == [2]
    assert events == [Terminated(2, 2, 2, REMOVED_REASON)]


def test_a_message_that_was_given_up_is_dropped_without_an_event() -> None:
    state = delivered(1, 2)
    state.give_up([2])
    record, events = losses.after_removal("C", state, [2], lambda each: each != 2)
    assert isinstance(record, Dropped)
    assert (record.sequences, events) == ([2], [])


def test_a_large_removal_finds_the_same_messages() -> None:
    removed = [*range(2, PURGED_AT_A_TIME + 4)]
    record, events = losses.after_removal("C", delivered(1, 3, 5), removed, lambda each: each < 2)
    assert isinstance(record, Dropped)
    assert record.sequences == [3, 5]
    assert [event.stream_sequence for event in events] == [3, 5]


def test_a_purge_of_some_messages_drops_those_that_are_missing() -> None:
    record = losses.after_partial_purge("C", delivered(1, 2, 3), lambda each: each != 2)
    assert isinstance(record, Dropped)
    assert record.sequences == [2]
    assert losses.after_partial_purge("C", delivered(1, 2, 3), lambda _: True) is None


def test_a_purge_of_all_messages_is_forgotten_up_to_its_end() -> None:
    record = losses.after_purge("C", delivered(1, 2), 4, 7, lambda each: each > 3)
    assert isinstance(record, Forgotten)
    assert (record.before, record.now_ns) == (4, 7)


def test_a_purge_spares_pending_messages_of_an_earlier_filter() -> None:
    record = losses.after_purge("C", delivered(1, 2), 4, 7, lambda each: each != 2)
    assert isinstance(record, Dropped)
    assert record.sequences == [2]


def test_a_purge_of_messages_that_are_acknowledged_has_no_record() -> None:
    state = delivered(1, 2)
    state.acknowledge([1, 2])
    assert losses.after_purge("C", state, 3, 7, lambda each: each > 2) is None
