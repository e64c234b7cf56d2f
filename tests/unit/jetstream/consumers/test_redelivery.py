"""The times at which sent and not acknowledged messages are due again."""

import pytest

from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.consumers.redelivery import NEVER, Deadlines
from headwater.jetstream.consumers.state import ConsumerState


class Sent:
    """Messages that are sent, and their deadlines."""

    def __init__(self, ack_wait: int = 10, backoff: tuple[int, ...] = ()) -> None:
        self.state = ConsumerState(AckPolicy.EXPLICIT, 1)
        config = ConsumerConfig(ack_wait=ack_wait, backoff=backoff)
        self.deadlines = Deadlines(config, self.state)

    def send(self, *sequences: int, at: int) -> None:
        self.state.deliver((), [*sequences], at)
        self.deadlines.sent([*sequences], at)

    def send_again(self, *sequences: int, at: int) -> None:
        self.state.deliver([*sequences], (), at)
        self.deadlines.sent_again([*sequences])

    def postpone(self, sequence: int, at: int) -> None:
        self.state.sent_ns[sequence] = at
        self.deadlines.sent_again([sequence])


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_nothing_is_due_where_nothing_is_pending(sent: Sent) -> None:
    assert sent.deadlines.next_due_ns() == NEVER
    assert sent.deadlines.due(1000) == []


def test_a_message_is_due_when_its_wait_is_over(sent: Sent) -> None:
    sent.send(1, at=100)
    assert sent.deadlines.next_due_ns() == 110
    assert sent.deadlines.due(109) == []
    assert sent.deadlines.due(110) == [1]


def test_what_is_due_is_told_once_until_it_is_sent_again(sent: Sent) -> None:
    sent.send(1, at=100)
    assert sent.deadlines.due(110) == [1]
    assert sent.deadlines.due(200) == []
    sent.send_again(1, at=200)
    assert sent.deadlines.due(209) == []
    assert sent.deadlines.due(210) == [1]


def test_messages_sent_together_are_due_together_in_order(sent: Sent) -> None:
    sent.send(1, 4, 5, at=100)
    sent.send(6, at=103)
    assert sent.deadlines.due(112) == [1, 4, 5]
    assert sent.deadlines.next_due_ns() == 113
    assert sent.deadlines.due(113) == [6]


def test_what_is_due_is_in_order_whatever_made_it_due(sent: Sent) -> None:
    sent.send(1, 2, 3, at=100)
    sent.send_again(1, at=101)
    assert sent.deadlines.due(111) == [1, 2, 3]


def test_what_is_acknowledged_is_not_due(sent: Sent) -> None:
    sent.send(1, 2, at=100)
    sent.state.acknowledge([1])
    assert sent.deadlines.due(110) == [2]


def test_when_all_is_acknowledged_nobody_has_to_wake_up(sent: Sent) -> None:
    sent.send(1, 2, at=100)
    sent.state.acknowledge([1, 2])
    assert sent.deadlines.next_due_ns() == NEVER


def test_progress_puts_one_message_off(sent: Sent) -> None:
    sent.send(1, 2, at=100)
    sent.postpone(1, 105)
    assert sent.deadlines.due(110) == [2]
    assert sent.deadlines.next_due_ns() == 115
    assert sent.deadlines.due(115) == [1]


def test_a_message_can_be_put_off_to_an_earlier_time(sent: Sent) -> None:
    sent.send(1, at=100)
    sent.postpone(1, 92)
    assert sent.deadlines.next_due_ns() == 102
    assert sent.deadlines.due(102) == [1]
    assert sent.deadlines.due(110) == []


def test_the_same_message_is_not_due_twice(sent: Sent) -> None:
    sent.send(1, at=100)
    sent.postpone(1, 105)
    sent.postpone(1, 100)
    assert sent.deadlines.due(200) == [1]


# --- backoff --------------------------------------------------------------------------------------


def test_each_redelivery_has_its_own_wait_and_the_last_repeats() -> None:
    sent = Sent(ack_wait=10, backoff=(10, 20, 50))
    sent.send(1, at=0)
    at = 0
    for wait in (10, 20, 50, 50, 50):
        assert sent.deadlines.due(at + wait - 1) == []
        assert sent.deadlines.next_due_ns() == at + wait
        assert sent.deadlines.due(at + wait) == [1]
        at += wait
        sent.send_again(1, at=at)


def test_what_is_sent_again_at_once_waits_as_long_as_that_takes() -> None:
    sent = Sent(ack_wait=10, backoff=(10, 30))
    sent.send(1, at=100)
    sent.send_again(1, at=100)
    assert sent.deadlines.due(110) == []
    assert sent.deadlines.due(130) == [1]


# --- changes --------------------------------------------------------------------------------------


def test_another_wait_holds_for_what_was_sent_before(sent: Sent) -> None:
    sent.send(1, at=100)
    sent.deadlines.configure(ConsumerConfig(ack_wait=50))
    assert sent.deadlines.due(149) == []
    assert sent.deadlines.due(150) == [1]


def test_a_state_that_was_read_back_has_its_deadlines() -> None:
    sent = Sent(backoff=(10, 30))
    sent.state.restore((3, 2), (0, 0), [(1, 1, 100), (2, 2, 104)], [(2, 1)])
    sent.deadlines.recover()
    assert sent.deadlines.next_due_ns() == 110
    assert sent.deadlines.due(110) == [1]
    assert sent.deadlines.due(134) == [2]


def test_without_a_wait_nothing_is_ever_due() -> None:
    sent = Sent(ack_wait=0)
    sent.send(1, at=100)
    sent.send_again(1, at=200)
    assert sent.deadlines.next_due_ns() == NEVER
    sent.deadlines.recover()
    assert sent.deadlines.due(10**9) == []


def test_a_redelivery_of_what_is_not_pending_has_no_deadline(sent: Sent) -> None:
    sent.send(1, at=100)
    sent.deadlines.sent_again([7])
    assert sent.deadlines.due(10**9) == [1]
