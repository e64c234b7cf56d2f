"""Consumers of a work queue share no messages, and a change keeps the rest of a configuration."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go.json import Time
from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_checks.changes import (
    check_addition,
    check_change,
    check_stream_limits,
)
from headwater.jetstream.config.consumer_checks.checks import normalised
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerAction, ConsumerConfig
from headwater.jetstream.config.consumer_defaults import (
    INACTIVE_THRESHOLD_DEFAULT_NS,
    ConsumerSurroundings,
)
from headwater.jetstream.config.stream_checks.overlap import collide
from headwater.jetstream.config.stream_config import ConsumerLimits, Retention, StreamConfig
from headwater.jetstream.errors import ApiError

QUEUE = StreamConfig(name="S", subjects=("s.>",), retention=Retention.WORKQUEUE)
PLAIN = StreamConfig(name="S", subjects=("s.>",))

TOKENS = st.sampled_from(["a", "b", "*"])
FILTERS = st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(".".join), max_size=3)


class Consumer(NamedTuple):
    """A consumer of which only the configuration is known."""

    config: ConsumerConfig


def worker(*filters: str) -> ConsumerConfig:
    return ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, filter_subjects=filters)


def among(stream: StreamConfig, *others: ConsumerConfig) -> ConsumerSurroundings:
    consumers = {str(number): Consumer(config) for number, config in enumerate(others)}
    return ConsumerSurroundings(stream=stream, consumers=consumers)


def refusal(config: ConsumerConfig, around: ConsumerSurroundings) -> int:
    """The code of the error that refuses another consumer of a stream; 0 if it is accepted."""
    try:
        check_addition(config, around)
    except ApiError as error:
        return error.err_code
    return 0


def nobody_listens(_: bytes) -> bool:
    return False


@given(st.lists(FILTERS, min_size=1, max_size=4), FILTERS)
def test_no_message_of_a_work_queue_has_two_consumers(
    taken: list[list[str]], wanted: list[str]
) -> None:
    around = among(QUEUE, *(worker(*filters) for filters in taken))
    is_free = bool(wanted) and not any(
        not filters or any(collide(one, other) for one in wanted for other in filters)
        for filters in taken
    )
    unfiltered = error_codes.CONSUMER_WQ_MULTIPLE_UNFILTERED
    taken_code = error_codes.CONSUMER_WQ_CONSUMER_NOT_UNIQUE if wanted else unfiltered
    assert refusal(worker(*wanted), around) == (0 if is_free else taken_code.err_code)


def test_a_consumer_may_keep_its_share() -> None:
    around = among(QUEUE, worker("s.a"))
    old = ConsumerConfig(name="0", ack_policy=AckPolicy.EXPLICIT, filter_subject="s.a")
    new = ConsumerConfig(name="0", ack_policy=AckPolicy.EXPLICIT, filter_subject="s.*")
    action = ConsumerAction.CREATE_OR_UPDATE
    assert check_change(old, new, action, around, nobody_listens) == new


def test_ephemeral_consumers_end() -> None:
    around = among(PLAIN)
    assert check_addition(ConsumerConfig(), around).inactive_threshold == (
        INACTIVE_THRESHOLD_DEFAULT_NS
    )
    assert check_addition(ConsumerConfig(inactive_threshold=7), around).inactive_threshold == 7
    assert check_addition(ConsumerConfig(durable_name="D"), around).inactive_threshold == 0


def test_a_change_does_not_change_what_it_does_not_name() -> None:
    around = among(PLAIN)
    old = check_addition(normalised(ConsumerConfig(name="C"), False, around), around)
    action = ConsumerAction.CREATE_OR_UPDATE
    new = normalised(ConsumerConfig(name="C"), False, around)
    assert check_change(old, new, action, around, nobody_listens) == old


def test_a_pause_is_kept_by_the_clock_of_the_server() -> None:
    until = Time(1_000_000_000, "1970-01-01T01:00:01+01:00")
    old = ConsumerConfig(pause_until=until)
    changed = check_change(old, old, ConsumerAction.CREATE_OR_UPDATE, among(PLAIN), nobody_listens)
    assert changed.pause_until == Time(1_000_000_000, "1970-01-01T00:00:01Z")


def test_limits_of_a_stream_hold_for_its_consumers() -> None:
    consumers = {
        "b": Consumer(ConsumerConfig(max_ack_pending=10)),
        "a": Consumer(ConsumerConfig(inactive_threshold=10)),
        "c": Consumer(ConsumerConfig(max_ack_pending=-1)),
    }
    wide = StreamConfig(consumer_limits=ConsumerLimits(inactive_threshold=10, max_ack_pending=10))
    check_stream_limits(PLAIN, wide, consumers)
    check_stream_limits(wide, PLAIN, consumers)
    narrow = StreamConfig(consumer_limits=ConsumerLimits(inactive_threshold=9, max_ack_pending=9))
    with pytest.raises(ApiError) as refused:
        check_stream_limits(wide, narrow, consumers)
    assert refused.value.description == "change to limits violates consumers: a, b"
    check_stream_limits(narrow, narrow, consumers)
