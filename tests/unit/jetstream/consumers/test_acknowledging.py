"""The acknowledgements of receivers, and their effects."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.consumers.acks import NO_NUMBER, AckAddress
from headwater.jetstream.consumers.effects import AckSampled, Naked, Terminated
from tests.kit.consumer_driver import DELIVER, ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume


@pytest.fixture
def driver(consume: Consume) -> ConsumerDriver:
    """A stream with an explicit consumer and five messages."""
    made = consume()
    made.create()
    made.fill(*["S.a"] * 5)
    return made


def address(sequence: int, number: int = 1) -> AckAddress:
    return AckAddress(b"S", b"C", 1, sequence, number)


# --- one by one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"+ACK", b"+OK"])
def test_a_plain_ack_settles_one_message(driver: ConsumerDriver, payload: bytes) -> None:
    got = driver.pull(3)
    driver.ack(got[1], payload=payload)
    assert driver.pending() == [1, 3]
    assert driver.figures() == ((3, 3), (0, 0))
    driver.ack(got[0], payload=payload)
    assert driver.figures() == ((3, 3), (2, 2))


@pytest.mark.parametrize("payload", [b"+ack", b"ACK", b"+ACKS", b"-NACK", b"+WPI ", b"x"])
def test_other_words_do_nothing_and_are_answered(driver: ConsumerDriver, payload: bytes) -> None:
    (got,) = driver.pull()
    before = driver.consumer().dump()
    driver.ack(got, payload=payload, reply=b"R")
    assert driver.consumer().dump() == before
    assert driver.answered == [b"R"]


def test_an_ack_counts_by_the_streams_sequence_alone(driver: ConsumerDriver) -> None:
    driver.pull(2)
    driver.say_by_address("C", [(AckAddress(b"S", b"C", 77, 2, 99), b"+ACK", None)])
    assert driver.pending() == [1]


def test_acks_are_answered_if_they_can_be_about_a_message(driver: ConsumerDriver) -> None:
    driver.pull(2)
    for sequence, reply in ((1, b"first"), (1, b"once more"), (0, b"none"), (3, b"not yet")):
        driver.say_by_address("C", [(address(sequence), b"+ACK", reply)])
    driver.say_by_address("C", [(address(NO_NUMBER), b"+ACK", b"no number")])
    assert driver.answered == [b"first", b"once more", b"none"]


def test_acks_of_a_turn_are_one_record(driver: ConsumerDriver) -> None:
    got = driver.pull(5)
    driver.ack(got[4], got[0], got[2], got[0])
    assert driver.pending() == [2, 4]
    assert driver.figures() == ((5, 5), (1, 1))


def test_acks_in_any_order_outlive_a_restart(consume: Consume) -> None:
    """Acks of 5, 1 and 7 are not taken for acks of 5 to 7."""
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 8)
    got = driver.pull(8)
    driver.ack(got[4], got[0], got[6])
    if driver.is_on_disk:
        driver.restart()
    assert driver.pending() == [2, 3, 4, 6, 8]


def test_an_ack_makes_room(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=2)
    driver.fill(*["S.a"] * 4)
    got = driver.pull(4)
    assert sequences(got) == [1, 2]
    driver.take()
    driver.ack(got[1])
    assert sequences(driver.take()) == [3]


# --- once more ------------------------------------------------------------------------------------


def test_a_nak_brings_it_at_once(driver: ConsumerDriver) -> None:
    got = driver.pull(2)
    driver.ack(got[1], payload=b"-NAK")
    assert driver.take_events() == [Naked(2, 2, 1)]
    (again,) = driver.pull(1)
    assert (again.sequence, again.deliveries, again.number) == (2, 2, 3)
    assert driver.consumer().state.redelivered == {2: 1}


def test_naks_come_back_in_their_order_and_before_what_is_new(driver: ConsumerDriver) -> None:
    got = driver.pull(3)
    driver.ack(got[2], got[0], payload=b"-NAK")
    assert sequences(driver.pull(4)) == [3, 1, 4, 5]


def test_naks_in_any_order_are_counted_right_after_a_restart(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 7)
    got = driver.pull(7)
    driver.ack(got[4], got[0], got[6], payload=b"-NAK")
    driver.pull(3)
    if driver.is_on_disk:
        driver.restart()
    assert driver.consumer().state.redelivered == {1: 1, 5: 1, 7: 1}


def test_a_nak_may_put_it_off(driver: ConsumerDriver) -> None:
    (got,) = driver.pull()
    driver.ack(got, payload=b'-NAK {"delay": 5000000000}')
    driver.pull(1)
    driver.take()
    driver.pull(1, "J")
    assert sequences(driver.take("J")) == [3]
    driver.pull(9, "K")
    driver.take()
    driver.advance(4.9)
    assert not driver.take()
    driver.advance(0.1)
    assert [(each.sequence, each.deliveries) for each in driver.take()] == [(1, 2)]


def test_a_delay_takes_back_a_nak_without_one(driver: ConsumerDriver) -> None:
    (got,) = driver.pull()
    driver.ack(got, payload=b"-NAK")
    driver.ack(got, payload=b"-NAK 10s")
    assert sequences(driver.pull(9)) == [2, 3, 4, 5]


@pytest.mark.parametrize("delay", [b"0s", b"-5s", b"{}", b"-2562047h"])
def test_no_delay_is_soon(driver: ConsumerDriver, delay: bytes) -> None:
    (got,) = driver.pull()
    driver.ack(got, payload=b"-NAK " + delay)
    driver.advance(0)
    assert sequences(driver.pull()) == [1]


def test_the_longest_waits_do_no_harm(consume: Consume) -> None:
    driver = consume()
    driver.create(ack_wait=(1 << 63) - 1)
    driver.fill("S.a")
    (got,) = driver.pull()
    driver.ack(got, payload=b"-NAK -2562047h")
    driver.ack(got, payload=b"-NAK 2562047h")
    driver.ack(got, payload=b"+WPI")
    assert driver.pending() == [1]


@pytest.mark.parametrize("number", [0, 9, NO_NUMBER])
def test_a_nak_of_another_delivery_does_nothing(driver: ConsumerDriver, number: int) -> None:
    driver.pull(2)
    driver.say_by_address("C", [(address(1, number), b"-NAK", b"R")])
    assert sequences(driver.pull(1)) == [3]
    assert driver.answered == [b"R"]
    assert not driver.take_events()


def test_progress_is_time_anew(driver: ConsumerDriver) -> None:
    got = driver.pull(2)
    driver.advance(20)
    driver.ack(got[0], payload=b"+WPI", reply=b"R")
    driver.advance(20)
    assert sequences(driver.pull(2)) == [2, 3]
    driver.advance(10)
    assert sequences(driver.pull(1)) == [1]
    assert driver.answered == [b"R"]


def test_progress_of_what_is_not_pending_does_nothing(driver: ConsumerDriver) -> None:
    (got,) = driver.pull()
    driver.ack(got)
    before = driver.consumer().dump()
    driver.ack(got, payload=b"+WPI")
    assert driver.consumer().dump() == before


# --- never more -----------------------------------------------------------------------------------


def test_a_term_settles_and_is_told(driver: ConsumerDriver) -> None:
    got = driver.pull(2)
    driver.ack(got[1], payload=b"+TERM no good", reply=b"R")
    assert driver.pending() == [1]
    assert driver.take_events() == [Terminated(2, 2, 1, "no good")]
    assert driver.answered == [b"R"]
    driver.ack(got[1], payload=b"+TERM")
    assert len(driver.take_events()) == 1, "also if it was settled before"


def test_next_acknowledges_and_asks_for_more(driver: ConsumerDriver) -> None:
    (got,) = driver.pull()
    driver.ack(got, payload=b"+NXT 2", reply=b"I")
    assert driver.pending() == [2, 3]
    assert sequences(driver.take()) == [1, 2, 3]
    assert not driver.answered
    driver.ack(got, payload=b"+NXT")
    assert driver.pending() == [2, 3], "nobody to send it to"


def test_next_that_asks_wrongly_acknowledges_all_the_same(driver: ConsumerDriver) -> None:
    (got,) = driver.pull()
    driver.ack(got, payload=b"+NXT {", reply=b"I")
    assert driver.texts()[0].startswith("400 Bad Request")
    assert driver.pending() == []


# --- all up to one --------------------------------------------------------------------------------


@pytest.fixture
def all_up_to(consume: Consume) -> ConsumerDriver:
    made = consume()
    made.create(ack_policy=AckPolicy.ALL)
    made.fill(*["S.a"] * 6)
    return made


def test_an_ack_is_for_all_before_it(all_up_to: ConsumerDriver) -> None:
    got = all_up_to.pull(5)
    all_up_to.ack(got[2])
    assert all_up_to.pending() == [4, 5]
    assert all_up_to.figures() == ((5, 5), (3, 3))
    all_up_to.ack(got[0], reply=b"R")
    assert all_up_to.figures() == ((5, 5), (3, 3)), "it does not go back"
    assert all_up_to.answered == [b"R"]


def test_the_floor_is_what_the_ack_says(all_up_to: ConsumerDriver) -> None:
    all_up_to.pull(3)
    all_up_to.advance(31)
    again = all_up_to.pull(3)
    all_up_to.ack(again[1])
    assert all_up_to.figures() == ((6, 3), (5, 2))


@pytest.mark.parametrize("number", [1000, NO_NUMBER])
def test_more_than_was_delivered_is_not_acknowledged(
    all_up_to: ConsumerDriver, number: int
) -> None:
    got = all_up_to.pull(2)
    all_up_to.say_by_address("C", [(address(got[0].sequence, number), b"+ACK", None)])
    assert all_up_to.figures() == ((2, 2), (2, 1))
    all_up_to.say_by_address("C", [(address(number, number), b"+ACK", None)])
    assert all_up_to.pending() == [2]


def test_with_flow_control_no_more_than_was_delivered_either(consume: Consume) -> None:
    driver = consume()
    driver.create(
        ack_policy=AckPolicy.ALL,
        deliver_subject=DELIVER,
        flow_control=True,
        idle_heartbeat=NS_PER_S,
    )
    driver.listen()
    driver.fill("S.a", "S.a")
    driver.say_by_address("C", [(address(NO_NUMBER, NO_NUMBER), b"+ACK", None)])
    assert driver.figures() == ((2, 2), (2, 2))
    driver.fill("S.a")
    assert sequences(driver.take()) == [1, 2, 3]


def test_what_was_given_up_is_acknowledged_with_what_comes_after(consume: Consume) -> None:
    driver = consume(retention=Retention.INTEREST)
    driver.create(ack_policy=AckPolicy.ALL, max_deliver=1)
    driver.fill("S.a", "S.a")
    driver.pull(1)
    driver.advance(31)
    (got,) = driver.pull(1)
    driver.ack(got)
    assert driver.sequences == []
    assert not driver.consumer().state.redelivered


# --- samples --------------------------------------------------------------------------------------


def test_samples_tell_how_long_it_took(consume: Consume) -> None:
    driver = consume()
    driver.create(sample_freq="100%")
    driver.fill("S.a", "S.a", "S.a")
    got = driver.pull(3)
    driver.advance(5)
    driver.ack(got[0])
    driver.ack(got[0])
    driver.ack(got[1], payload=b"+TERM")
    assert driver.take_events() == [
        AckSampled(1, 1, 5 * NS_PER_S, 1),
        Terminated(2, 2, 1, ""),
    ]


def test_no_samples_where_none_are_wanted(driver: ConsumerDriver) -> None:
    driver.ack(*driver.pull(5))
    assert not driver.take_events()
