"""The state of a consumer: delivered messages, acknowledged ones, and those in between."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers.state import ConsumerState


def delivered(state: ConsumerState) -> tuple[int, int]:
    return state.delivered_consumer, state.delivered_stream


def floor(state: ConsumerState) -> tuple[int, int]:
    return state.floor_consumer, state.floor_stream


@pytest.fixture
def state() -> ConsumerState:
    """The state of a consumer that has delivered the messages 1, 3, 6 and 7."""
    found = ConsumerState(AckPolicy.EXPLICIT, 1)
    found.deliver((), [1, 3, 6, 7], 100)
    return found


def test_it_begins_just_before_where_it_starts() -> None:
    state = ConsumerState(AckPolicy.EXPLICIT, 5)
    assert delivered(state) == floor(state) == (0, 4)
    assert state.oldest_pending == 0


def test_a_delivery_takes_the_next_sequence_of_the_consumer(state: ConsumerState) -> None:
    assert delivered(state) == (4, 7)
    assert state.pending == {1: 1, 3: 2, 6: 3, 7: 4}
    assert state.sent_ns == dict.fromkeys((1, 3, 6, 7), 100)
    assert floor(state) == (0, 0)


def test_a_redelivery_counts_and_keeps_the_first_sequence(state: ConsumerState) -> None:
    state.deliver([3], (), 200)
    assert delivered(state) == (5, 7), "the stream's sequence does not go back"
    assert state.pending[3] == 2
    assert state.redelivered == {3: 1}
    assert state.sent_ns[3] == 200
    assert state.sent_ns[1] == 100


def test_a_redelivery_of_what_is_not_pending_only_takes_a_sequence(state: ConsumerState) -> None:
    state.deliver([2], (), 200)
    assert delivered(state) == (5, 7)
    assert not state.redelivered


def test_what_was_delivered_before_is_not_delivered_for_the_first_time_again(
    state: ConsumerState,
) -> None:
    state.deliver((), [6, 7, 9], 200)
    assert delivered(state) == (5, 9)
    assert state.pending[6] == 3
    assert state.pending[9] == 5


# --- the floor ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acked", "expected"),
    [
        ([1], (1, 2)),
        ([1, 3], (2, 5)),
        ([3], (0, 0)),
        ([3, 1], (2, 5)),
        ([1, 3, 6], (3, 6)),
        ([1, 3, 6, 7], (4, 7)),
        ([7, 6, 3], (0, 0)),
    ],
)
def test_the_floor_is_just_below_the_oldest_that_is_pending(
    state: ConsumerState, acked: list[int], expected: tuple[int, int]
) -> None:
    state.acknowledge(acked)
    assert floor(state) == expected
    for sequence in acked:
        assert sequence not in state.pending
        assert sequence not in state.sent_ns


def test_the_floor_is_the_same_one_by_one(state: ConsumerState) -> None:
    for sequence, expected in ((6, (0, 0)), (1, (1, 2)), (3, (3, 6)), (7, (4, 7))):
        state.acknowledge([sequence])
        assert floor(state) == expected


def test_an_ack_of_what_is_not_pending_changes_nothing(state: ConsumerState) -> None:
    before = state.dump()
    state.acknowledge([2, 99])
    assert state.dump() == before


def test_acknowledging_forgets_redeliveries(state: ConsumerState) -> None:
    state.deliver([1, 3], (), 200)
    state.acknowledge([1])
    assert state.redelivered == {3: 1}


def test_all_up_to_a_message_are_acknowledged_at_once(state: ConsumerState) -> None:
    state.deliver([1], (), 200)
    state.acknowledge_up_to(3, 6)
    assert floor(state) == (3, 6)
    assert [*state.pending] == [7]
    assert not state.redelivered


def test_a_floor_that_was_said_does_not_sink(state: ConsumerState) -> None:
    # The acknowledgement of a redelivery names a later sequence of the consumer.
    state.acknowledge_up_to(9, 1)
    state.acknowledge([3])
    assert floor(state) == (9, 5)


def test_without_acks_the_floor_follows() -> None:
    state = ConsumerState(AckPolicy.NONE, 1)
    state.deliver((), [2, 4], 100)
    assert delivered(state) == floor(state) == (2, 4)
    assert not state.pending


# --- giving up ------------------------------------------------------------------------------------


def test_what_is_given_up_is_remembered_as_redelivered(state: ConsumerState) -> None:
    state.deliver([1], (), 200)
    state.give_up([1, 3])
    assert sorted(state.pending) == [6, 7]
    assert state.redelivered == {1: 1, 3: 0}
    assert floor(state) == (0, 0), "it was not acknowledged"


def test_what_was_given_up_can_still_be_acknowledged(state: ConsumerState) -> None:
    state.give_up([1])
    state.acknowledge([1])
    assert not state.redelivered
    assert floor(state) == (0, 0)
    state.acknowledge([3])
    assert floor(state) == (2, 5)


def test_given_up_and_kept_come_to_the_same_floor() -> None:
    """A state that was read back meanwhile has the same floor."""
    states = []
    for is_read_back in (False, True):
        state = ConsumerState(AckPolicy.EXPLICIT, 1)
        state.deliver((), [1, 2, 3], 100)
        state.give_up([1])
        if is_read_back:
            copy = ConsumerState(AckPolicy.EXPLICIT, 1)
            pending = [(each, state.pending[each], 100) for each in sorted(state.pending)]
            copy.restore(delivered(state), floor(state), pending, [*state.redelivered.items()])
            state = copy
        state.acknowledge([3])
        states.append(state.dump())
    assert states[0] == states[1]


def test_unsettled_is_what_is_pending_or_was_given_up(state: ConsumerState) -> None:
    state.give_up([3])
    state.acknowledge([1])
    assert state.unsettled_up_to(6) == [3, 6]
    assert state.pending_up_to(6) == [6]


# --- messages that are gone -----------------------------------------------------------------------


def test_a_purge_of_everything_settles_everything(state: ConsumerState) -> None:
    state.deliver([1], (), 200)
    state.forget_before(10)
    assert delivered(state) == floor(state) == (5, 9)
    assert not state.pending
    assert not state.redelivered


def test_a_purge_of_the_beginning_leaves_the_rest(state: ConsumerState) -> None:
    state.deliver([1, 7], (), 200)
    state.forget_before(6)
    assert sorted(state.pending) == [6, 7]
    assert state.redelivered == {7: 1}
    assert floor(state) == (2, 5)
    assert delivered(state) == (6, 7)


def test_a_purge_ahead_moves_on(state: ConsumerState) -> None:
    state.acknowledge([1, 3, 6, 7])
    state.forget_before(20)
    assert delivered(state) == floor(state) == (4, 19)


def test_a_purge_before_the_floor_changes_nothing(state: ConsumerState) -> None:
    state.acknowledge([1, 3])
    before = state.dump()
    state.forget_before(2)
    assert state.dump() == before


def test_what_is_behind_the_end_is_cut(state: ConsumerState) -> None:
    state.deliver([6], (), 200)
    state.cut(5)
    assert sorted(state.pending) == [1, 3]
    assert not state.redelivered
    assert state.delivered_stream == 5
    state.acknowledge([1, 3])
    assert floor(state) == (5, 5)


# --- starting over --------------------------------------------------------------------------------


def test_beginning_again_forgets_all_but_the_pin(state: ConsumerState) -> None:
    state.pin_id, state.pinned_ns = "id", 5
    state.deliver([1], (), 200)
    state.begin(3)
    assert delivered(state) == floor(state) == (0, 2)
    assert not state.pending
    assert not state.sent_ns
    assert not state.redelivered
    assert state.pin_id == "id"


CHANGES: dict[str, Callable[[ConsumerState], Any]] = {
    "delivered": lambda state: state.deliver((), [9], 1),
    "redelivered": lambda state: state.deliver([1], (), 1),
    "acknowledged": lambda state: state.acknowledge([1]),
    "floor": lambda state: state.acknowledge_up_to(1, 1),
    "given up": lambda state: state.give_up([1]),
    "pinned": lambda state: setattr(state, "pin_id", "id"),
    "passed": lambda state: setattr(state, "passed_stream", 3),
    "sent": lambda state: state.sent_ns.update({1: 7}),
    "lasts": lambda state: setattr(state, "lasts_until", 3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_everything_durable_is_in_the_dump(
    state: ConsumerState, change: Callable[[ConsumerState], Any]
) -> None:
    before = state.dump()
    change(state)
    assert state.dump() != before
