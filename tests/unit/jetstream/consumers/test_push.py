"""Messages sent without being asked for: interest, heartbeats, flow control."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers.push import (
    COPY_WINDOW_BYTES,
    COPY_WINDOW_BYTES_MAX,
    COPY_WINDOW_BYTES_MIN,
    QUICK_NS,
    SLOW_NS,
    WINDOW_BYTES_MAX,
    WINDOW_BYTES_MIN,
    FlowWindow,
)
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.consumer_driver import DELIVER, ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume

PUSH: dict[str, Any] = {"deliver_subject": DELIVER}
FLOW = {**PUSH, "flow_control": True, "idle_heartbeat": 5 * NS_PER_S}
# A quarter of a window.
LARGE = b"x" * (WINDOW_BYTES_MIN // 4)


# --- interest -------------------------------------------------------------------------------------


def test_nothing_is_sent_before_somebody_listens(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH)
    driver.fill("S.a", "S.b")
    assert not driver.take()
    assert not driver.consumer().info(driver.now_ns).push_bound
    driver.listen()
    got = driver.take()
    assert sequences(got) == [1, 2]
    assert {each.to for each in got} == {DELIVER}
    assert driver.consumer().info(driver.now_ns).push_bound


def test_what_is_published_is_sent_at_once(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH, filter_subject="S.a")
    driver.listen()
    driver.fill("S.a", "S.b", "S.a")
    assert sequences(driver.take()) == [1, 3]


def test_when_nobody_listens_messages_wait_and_what_is_due_too(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH)
    driver.listen()
    driver.fill("S.a")
    driver.take()
    driver.leave()
    driver.fill("S.a")
    driver.advance(40)
    assert not driver.take()
    driver.listen()
    assert [(got.sequence, got.deliveries) for got in driver.take()] == [(1, 2), (2, 1)]


def test_interest_that_returns_brings_nothing_before_it_is_due(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH)
    driver.listen()
    driver.fill("S.a")
    driver.take()
    driver.leave()
    driver.listen()
    assert not driver.take()


def test_another_subject_gets_everything_that_is_pending(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH)
    driver.listen()
    driver.fill("S.a", "S.a")
    driver.leave()
    driver.take()
    driver.change(deliver_subject="other")
    driver.listen()
    assert [(got.to, got.sequence, got.deliveries) for got in driver.take()] == [
        ("other", 1, 2),
        ("other", 2, 2),
    ]


def test_what_was_sent_to_another_subject_is_not_sent_again_after_a_restart(
    consume: Consume,
) -> None:
    driver = consume()
    driver.create(**PUSH)
    driver.listen()
    driver.fill("S.a")
    driver.change(deliver_subject="other")
    driver.take()
    if driver.is_on_disk:
        driver.restart()
        driver.listen()
    assert not driver.take()


# --- heartbeats -----------------------------------------------------------------------------------


def test_heartbeats_say_how_far_it_is(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH, idle_heartbeat=NS_PER_S, filter_subject="S.a")
    driver.listen()
    driver.fill("S.a", "S.b")
    driver.advance(1)
    (told,) = driver.take_told()
    assert (told.to, told.text) == (DELIVER, "100 Idle Heartbeat")
    assert told.fields == {"Nats-Last-Consumer": "1", "Nats-Last-Stream": "2"}


def test_messages_put_heartbeats_off(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH, idle_heartbeat=NS_PER_S)
    driver.listen()
    for _ in range(5):
        driver.advance(0.9)
        driver.fill("S.a")
    assert not driver.take_told()
    driver.advance(3)
    assert len(driver.take_told()) == 3


def test_nobody_who_listens_hears_nothing(consume: Consume) -> None:
    driver = consume()
    driver.create(**PUSH, idle_heartbeat=NS_PER_S)
    driver.advance(5)
    assert not driver.take_told()


# --- flow control ---------------------------------------------------------------------------------


def window() -> FlowWindow:
    return FlowWindow(b"$JS.FC.S.C.", SeededEntropy(labelled_rng(1, "flow")))


def copy_window() -> FlowWindow:
    return FlowWindow(b"$JS.FC.S.C.", SeededEntropy(labelled_rng(1, "flow")), is_of_copy=True)


def room(flow: FlowWindow) -> int:
    """The largest number of bytes that a window with nothing sent lets through."""
    flow.sent(1)
    sent = 1
    while flow.is_open:
        flow.sent(1024)
        sent += 1024
    flow.confirm(flow.ask(0), QUICK_NS + 1)
    return (sent - 1) // 1024 * 1024


def test_a_window_asks_beyond_its_half_and_closes_beyond_its_end() -> None:
    flow = window()
    assert not flow.sent(WINDOW_BYTES_MIN // 2)
    assert flow.sent(1)
    subject = flow.ask(0)
    assert subject.startswith(b"$JS.FC.S.C.")
    assert not flow.sent(WINDOW_BYTES_MIN // 2 - 1)
    assert flow.is_open, "just full"
    flow.sent(1)
    assert not flow.is_open


def test_an_answer_opens_it_and_doubles_it() -> None:
    flow = window()
    flow.sent(WINDOW_BYTES_MIN + 1)
    assert not flow.is_open
    assert flow.confirm(flow.ask(0), 0)
    assert flow.is_open
    assert not flow.asked
    assert not flow.sent(WINDOW_BYTES_MIN), "half of twice as much"


def test_only_the_outstanding_request_can_be_answered() -> None:
    flow = window()
    flow.sent(WINDOW_BYTES_MIN + 1)
    assert not flow.confirm(b"", 0)
    first = flow.ask(0)
    assert flow.confirm(first, 0)
    assert not flow.confirm(first, 0)
    assert not flow.confirm(b"", 0)


def test_a_window_grows_to_its_limit() -> None:
    flow = window()
    for _ in range(10):
        flow.sent(WINDOW_BYTES_MAX + 1)
        assert flow.confirm(flow.ask(0), 0)
    flow.sent(WINDOW_BYTES_MAX)
    assert flow.is_open
    flow.sent(1)
    assert not flow.is_open


@given(
    sizes=st.lists(st.integers(min_value=1, max_value=WINDOW_BYTES_MIN), max_size=12),
    answers=st.lists(st.booleans(), max_size=12),
)
def test_many_at_once_are_counted_as_one_by_one(sizes: list[int], answers: list[bool]) -> None:
    """The window asks, closes and opens after the same messages, whenever answers come."""
    ways = []
    for is_together in (False, True):
        flow, answering, asked_at, sent = window(), iter(answers), [], 0
        while sent < len(sizes):
            if not flow.is_open:
                # Now the question has to be answered.
                assert flow.confirm(flow.asked, 0)
            elif flow.asked and next(answering, False):
                flow.confirm(flow.asked, 0)
            if is_together:
                # Messages are counted together up to a question; while it is open, one by one.
                count = flow.sent_all(sizes[sent : sent + 1] if flow.asked else sizes[sent:])
                sent += count
                is_due = flow.is_due
            else:
                is_due = flow.sent(sizes[sent])
                sent += 1
            if is_due:
                flow.ask(0)
                asked_at.append(sent)
        ways.append((asked_at, flow.is_open, flow._sent_bytes, flow._asked_bytes))
    assert ways[0] == ways[1]


def test_what_is_beyond_the_window_is_not_taken_together() -> None:
    flow = window()
    flow.sent(WINDOW_BYTES_MIN - 5)
    flow.ask(0)
    assert flow.sent_all([3, 3, 3, 3]) == 2
    assert not flow.is_open


@pytest.fixture
def flow(consume: Consume) -> ConsumerDriver:
    """A stream whose consumer pushes large messages with flow control, and has stopped."""
    driver = consume(max_msg_size=-1)
    driver.create(**FLOW)
    for _ in range(12):
        driver.publish("S.a", LARGE)
    driver.listen()
    return driver


def test_sending_stops_until_it_is_confirmed(flow: ConsumerDriver) -> None:
    assert sequences(flow.take()) == [1, 2, 3, 4]
    (told,) = flow.take_told()
    assert (told.to, told.text) == (DELIVER, "100 FlowControl Request")
    assert told.reply is not None
    flow.confirm(b"$JS.FC.S.C.none")
    assert not flow.take()
    flow.confirm(told.reply)
    assert sequences(flow.take())[:5] == [5, 6, 7, 8, 9]


def test_a_heartbeat_tells_what_is_to_be_answered(flow: ConsumerDriver) -> None:
    (asked,) = flow.take_told()
    assert asked.reply is not None
    flow.advance(5)
    (told,) = flow.take_told()
    assert told.fields["Nats-Consumer-Stalled"] == asked.reply.decode()


def test_an_acknowledgement_by_flow_control(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject=DELIVER, ack_policy=AckPolicy.FLOW_CONTROL, ack_wait=0)
    driver.listen()
    driver.fill("S.a", "S.a", "S.a")
    assert driver.pending() == [1, 2, 3]
    driver.advance(1)
    asked = [told for told in driver.take_told() if told.reply]
    assert asked[0].reply is not None
    header = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    driver.confirm(asked[0].reply, header=header)
    assert driver.pending() == [3]
    assert driver.figures()[1] == (2, 2)


def test_more_than_was_sent_is_not_acknowledged(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject=DELIVER, ack_policy=AckPolicy.FLOW_CONTROL, ack_wait=0)
    driver.listen()
    driver.fill("S.a", "S.a", "S.a")
    driver.advance(1)
    asked = [told.reply for told in driver.take_told() if told.reply]
    header = b"NATS/1.0\r\nNats-Last-Consumer: 999\r\nNats-Last-Stream: 9999999999\r\n\r\n"
    driver.confirm(asked[0] or b"", header=header)
    assert driver.figures() == ((3, 3), (3, 3))


def test_the_window_of_a_copy_grows_while_confirmations_come_soon() -> None:
    flow = copy_window()
    assert room(flow) == COPY_WINDOW_BYTES
    for _ in range(3):
        assert flow.confirm(flow.ask(0), QUICK_NS)
    assert room(flow) == COPY_WINDOW_BYTES * 8
    for _ in range(10):
        assert flow.confirm(flow.ask(0), 0)
    assert room(flow) == COPY_WINDOW_BYTES_MAX


def test_the_window_of_a_copy_shrinks_while_confirmations_come_late() -> None:
    flow = copy_window()
    flow.confirm(flow.ask(0), SLOW_NS)
    assert room(flow) == COPY_WINDOW_BYTES
    for _ in range(5):
        flow.confirm(flow.ask(0), SLOW_NS + 1)
    assert room(flow) == COPY_WINDOW_BYTES_MIN
