"""Pull requests: their fields, the order in which they are served, and their ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.pull import (
    LOOK_NS,
    PullBodies,
    PullDocument,
    PullQueue,
    PullRefusedError,
    PullRequest,
)
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from tests.kit.consumer_driver import sequences
from tests.unit.jetstream.consumers.conftest import Consume

SUBJECTS = ["S.a"] * 10


# --- fields of a request --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b"5", 5),
        (b" 7\n", 7),
        (b"-3", -3),
        (b"x", 1),
        (b"1.5", 1),
        (b"9" * 30, 1),
        (b"{}", 0),
        (b'{"batch": 4}', 4),
        (b'{"BATCH": 4}', 4),
        (b'{"batch": null}', 0),
    ],
)
def test_a_body_says_how_many(body: bytes, batch: int) -> None:
    assert PullBodies(ConsumerConfig()).request(b"I", body, 0).left == batch


def test_a_request_says_how_long_and_how_much() -> None:
    body = b'{"batch":2,"expires":1000,"max_bytes":50,"no_wait":true,"idle_heartbeat":500}'
    request = PullBodies(ConsumerConfig()).request(b"I", body, 7)
    assert (request.expires_ns, request.bytes_left, request.no_wait) == (1007, 50, True)
    assert (request.heartbeat_ns, request.heartbeat_at_ns) == (500, 507)


@pytest.mark.parametrize(
    ("body", "config", "text"),
    [
        (b'{"batch":"a"}', {}, "400 Bad Request - json: cannot unmarshal string"),
        (b"{", {}, "400 Bad Request - "),
        (b'{"idle_heartbeat":6,"expires":10}', {}, "400 Bad Request - heartbeat value too large"),
        (b'{"idle_heartbeat":6}', {}, "400 Bad Request - heartbeat value too large"),
        (b"6", {"max_batch": 5}, "409 Exceeded MaxRequestBatch of 5"),
        (
            b'{"expires":2000000000}',
            {"max_expires": NS_PER_S},
            "409 Exceeded MaxRequestExpires of 1s",
        ),
        (b'{"max_bytes":6}', {"max_bytes": 5}, "409 Exceeded MaxRequestMaxBytes of 5"),
        (b'{"min_pending":1}', {}, "400 Bad Request - Not a Overflow Priority consumer"),
        (b'{"id":"a"}', {}, "400 Bad Request - Not a Pinned Client Priority consumer"),
        (b'{"priority":10}', {}, "400 Bad Request - Priority must be between 0 and 9"),
    ],
)
def test_what_may_not_be_asked_for(body: bytes, config: dict[str, Any], text: str) -> None:
    with pytest.raises(PullRefusedError) as refusal:
        PullBodies(ConsumerConfig(**config)).request(b"I", body, 0)
    assert refusal.value.header.decode().startswith(f"NATS/1.0 {text}")


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (b"5", (5, 0, 0)),
        (b'{"batch":5}', (5, 0, 0)),
        (b'{"expires":10}', (0, 10, 0)),
        (b'{"max_bytes":5}', (0, 0, 5)),
    ],
)
def test_a_request_just_at_the_limit_is_taken(body: bytes, taken: tuple[int, int, int]) -> None:
    limits = ConsumerConfig(max_batch=5, max_expires=10, max_bytes=5)
    request = PullBodies(limits).request(b"I", body, 0)
    assert (request.left, request.expires_ns, request.bytes_left) == taken


# --- in turn --------------------------------------------------------------------------------------


def test_requests_get_messages_in_turn(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(3, "I")
    driver.pull(1, "J")
    driver.pull(2, "K")
    driver.fill(*SUBJECTS)
    assert [got.to for got in driver.take()] == ["I", "J", "K", "I", "K", "I"]


def test_a_request_is_served_from_what_is_there(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*SUBJECTS)
    got = driver.pull(4)
    assert sequences(got) == [1, 2, 3, 4]
    assert [each.left for each in got] == [9, 8, 7, 6]
    assert not driver.consumer().wants_messages


@pytest.mark.parametrize("body", [b"{}", b"0", b"-2", b'{"batch": -5}'])
def test_who_asks_for_none_gets_one(consume: Consume, body: bytes) -> None:
    driver = consume()
    driver.create()
    driver.pull_by(body)
    driver.fill(*SUBJECTS)
    assert sequences(driver.take()) == [1]


def test_who_left_is_passed_over(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(2, "I")
    driver.pull(2, "J")
    driver.host.unheard.add(b"I")
    driver.fill("S.a", "S.a")
    assert [got.to for got in driver.take()] == ["J", "J"]
    assert not driver.take_told()


def test_a_sole_request_of_one_who_left_ends_silently(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(2, "I")
    driver.host.unheard.add(b"I")
    driver.fill("S.a", "S.a")
    assert not driver.take()
    assert driver.consumer().position.pending_count() == 2
    assert sequences(driver.pull(2, "J")) == [1, 2]


def test_more_than_a_turn_is_sent_in_several(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=-1)
    driver.fill(*["S.a"] * 2500)
    assert sequences(driver.pull(3000)) == [*range(1, 2501)]
    assert [each.left for each in driver.take()] == [*range(2499, -1, -1)]


# --- ends of requests -----------------------------------------------------------------------------


def test_a_request_expires_with_what_it_did_not_get(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(3, expires=5, max_bytes=1000)
    driver.fill("S.a")
    size = 1000 - len(b"S.a") - len(driver.take()[0].reply) - 1
    driver.advance(4.9)
    assert not driver.take_told()
    driver.advance(0.1)
    (told,) = driver.take_told()
    assert (told.to, told.text) == ("I", "408 Request Timeout")
    assert told.fields == {"Nats-Pending-Messages": "2", "Nats-Pending-Bytes": str(size)}
    driver.fill("S.a")
    assert not driver.take()


def test_a_request_whose_time_was_over_before_is_told_at_once(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a")
    assert not driver.pull(1, expires=-1)
    driver.advance(0)
    assert driver.texts() == ["408 Request Timeout"]


def test_bytes_end_a_request(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.publish("S.a", b"x" * 100)
    assert not driver.pull(1, "I", max_bytes=100)
    (told,) = driver.take_told()
    assert told.text == "409 Message Size Exceeds MaxBytes"
    assert told.fields == {"Nats-Pending-Messages": "1", "Nats-Pending-Bytes": "100"}
    assert sequences(driver.pull(1, "J", max_bytes=200)) == [1]
    assert driver.texts() == ["409 Batch Completed"]


def test_a_message_too_large_for_one_goes_to_the_next(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(1, "I", max_bytes=100)
    driver.pull(1, "J")
    driver.publish("S.a", b"x" * 100)
    assert [got.to for got in driver.take()] == ["J"]
    assert driver.texts("I") == ["409 Message Size Exceeds MaxBytes"]


def test_bytes_that_are_just_used_up_end_it_without_a_word(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.publish("S.a", b"x" * 10)
    driver.publish("S.a", b"x" * 10)
    reply = b"$JS.ACK.S.C.1.1.1.%d.1" % driver.now_ns
    assert sequences(driver.pull(5, max_bytes=len(b"S.a") + len(reply) + 10)) == [1]
    assert not driver.take_told()
    assert not driver.consumer().wants_messages


def test_all_who_wait_are_told_when_the_consumer_goes(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(1, "I")
    driver.pull(1, "J")
    driver.drop()
    told = driver.take_told()
    assert [(each.to, each.text) for each in told] == [
        ("I", "409 Consumer Deleted"),
        ("J", "409 Consumer Deleted"),
    ]
    assert told[0].fields == {}


# --- requests that do not wait --------------------------------------------------------------------


def test_without_waiting_there_is_nothing_to_be_had(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(5, no_wait=True)
    assert driver.texts() == ["404 No Messages"]


def test_without_waiting_one_gets_what_is_there(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a")
    assert sequences(driver.pull(5, no_wait=True)) == [1, 2]
    assert driver.texts() == ["404 No Messages"]
    assert not driver.consumer().wants_messages


def test_without_waiting_also_what_is_due_again_counts(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a")
    (got,) = driver.pull()
    driver.ack(got, payload=b"-NAK")
    (again,) = driver.pull(1, no_wait=True)
    assert again.deliveries == 2
    assert not driver.take_told()


def test_who_waits_for_some_time_gets_the_first_ones(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(5, no_wait=True, expires=10)
    assert not driver.take_told()
    driver.fill("S.a", "S.a")
    assert sequences(driver.take()) == [1, 2]
    assert driver.texts() == ["404 No Messages"]


def test_what_others_wait_for_is_not_there(consume: Consume) -> None:
    driver = consume()
    driver.create(max_ack_pending=1)
    driver.fill("S.a", "S.a", "S.a")
    driver.pull(4, "I")
    driver.pull(1, "J", no_wait=True)
    assert driver.texts("J") == ["408 Requests Pending"]


def test_a_long_answer_is_not_cut_off(consume: Consume) -> None:
    """A request keeps its messages of the next turn, whatever else falls due."""
    driver = consume()
    driver.create(max_ack_pending=-1)
    driver.fill(*["S.a"] * 1500)
    assert len(driver.pull(1500, no_wait=True, expires=60)) == 1500
    assert not driver.take_told()


# --- heartbeats -----------------------------------------------------------------------------------


def test_who_waits_hears_heartbeats(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(5, expires=10, idle_heartbeat=2)
    driver.advance(1.9)
    assert not driver.take_told()
    driver.advance(0.1)
    (told,) = driver.take_told()
    assert told.text == "100 Idle Heartbeat"
    assert told.fields == {"Nats-Last-Consumer": "0", "Nats-Last-Stream": "0"}


def test_a_message_puts_the_heartbeat_off(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(5, expires=60, idle_heartbeat=2)
    driver.advance(1.5)
    driver.fill("S.a")
    driver.advance(1.9)
    assert not driver.take_told()
    driver.advance(0.1)
    (told,) = driver.take_told()
    assert told.fields == {"Nats-Last-Consumer": "1", "Nats-Last-Stream": "1"}


def test_heartbeats_go_on_until_the_end(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.pull(1, expires=5, idle_heartbeat=1)
    driver.advance(20)
    assert driver.texts() == [*["100 Idle Heartbeat"] * 4, "408 Request Timeout"]


# --- the limit of waiting requests ----------------------------------------------------------------


def test_so_many_may_wait(consume: Consume) -> None:
    driver = consume()
    driver.create(max_waiting=2)
    driver.pull(1, "I")
    driver.pull(1, "J")
    assert not driver.take_told()
    driver.pull(1, "K")
    assert driver.texts() == ["409 Exceeded MaxWaiting"]


def test_with_heartbeats_one_too_many_is_not_told(consume: Consume) -> None:
    driver = consume()
    driver.create(max_waiting=1)
    driver.pull(1, "I")
    driver.pull(1, "J", expires=10, idle_heartbeat=1)
    assert not driver.take_told()
    assert driver.consumer().info(driver.now_ns).num_waiting == 1


def test_a_full_queue_is_looked_through_for_those_who_left(consume: Consume) -> None:
    driver = consume()
    driver.create(max_waiting=2)
    driver.pull(1, "I")
    driver.pull(1, "J", expires=1)
    driver.host.unheard.add(b"I")
    driver.advance(0.5)
    driver.pull(1, "K")
    assert driver.texts("K") == []
    driver.fill("S.a", "S.a")
    assert [got.to for got in driver.take()] == ["J", "K"]


class Crowd:
    """A queue without a consumer."""

    def __init__(self, max_waiting: int) -> None:
        self.unheard: set[bytes] = set()
        self.queue = PullQueue(max_waiting, lambda reply: reply not in self.unheard, None)
        self.out: Proposal[Record] = Proposal()

    def add(self, reply: bytes, batch: int = 1, now_ns: int = 0) -> None:
        self.queue.add(PullRequest(reply, PullDocument(batch=batch), now_ns), 0, now_ns, self.out)


def test_a_full_queue_is_looked_through_now_and_then_only() -> None:
    crowd = Crowd(1)
    crowd.add(b"I", now_ns=LOOK_NS + 1)
    with pytest.raises(PullRefusedError):
        crowd.add(b"J", now_ns=LOOK_NS + 1 + LOOK_NS)
    crowd.unheard.add(b"I")
    with pytest.raises(PullRefusedError):
        crowd.add(b"J", now_ns=LOOK_NS + 2 + LOOK_NS)
    crowd.add(b"J", now_ns=2 * LOOK_NS + 2 + LOOK_NS)
    assert crowd.queue.replies() == [b"J"]


def test_the_queue_knows_how_much_is_wanted() -> None:
    crowd = Crowd(10)
    crowd.add(b"I", 3)
    crowd.add(b"J", 0)
    crowd.add(b"K", -5)
    assert crowd.queue.wanted == 5
    first = crowd.queue.next(10, 0, crowd.out)
    assert first is not None
    crowd.queue.served(first, 1, 0, crowd.out)
    assert crowd.queue.wanted == 4
    crowd.unheard |= {b"J"}
    crowd.queue.look_through(0, False, crowd.out)
    assert crowd.queue.wanted == 3
    crowd.queue.end_all(True, crowd.out)
    assert crowd.queue.wanted == len(crowd.queue.waiting) == 0


@given(
    batches=st.lists(st.integers(min_value=-1, max_value=4), min_size=1, max_size=5),
    count=st.integers(min_value=1, max_value=12),
)
def test_the_short_way_serves_in_the_same_order(batches: list[int], count: int) -> None:
    shared, single = Crowd(10), Crowd(10)
    for number, batch in enumerate(batches):
        shared.add(b"%d" % number, batch)
        single.add(b"%d" % number, batch)
    expected: list[bytes] = []
    while len(expected) < count and (request := single.queue.next(1, 0, single.out)) is not None:
        expected.append(request.reply)
        single.queue.served(request, 1, 0, single.out)
    assert shared.queue.share(count, 0, shared.out) == expected
    assert shared.queue.wanted == single.queue.wanted
    assert shared.queue.replies() == single.queue.replies()
    assert shared.out.at_once == single.out.at_once == []


def test_the_short_way_is_not_for_those_who_have_to_be_looked_at() -> None:
    for name, value in (("bytes_left", 5), ("expires_ns", 3)):
        crowd = Crowd(10)
        request = PullRequest(b"I", PullDocument(batch=5), 0)
        setattr(request, name, value)
        crowd.queue.add(request, 0, 0, crowd.out)
        assert crowd.queue.share(3, 3, crowd.out) == []
    crowd = Crowd(10)
    crowd.add(b"I", 5)
    crowd.unheard.add(b"I")
    assert crowd.queue.share(3, 3, crowd.out) == []
    assert crowd.queue.wanted == 5


def test_a_push_consumer_is_not_pulled_from(consume: Consume) -> None:
    driver = consume()
    driver.create(deliver_subject="D")
    driver.pull(1)
    assert driver.texts() == ["409 Consumer is push based"]
