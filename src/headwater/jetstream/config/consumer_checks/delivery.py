"""Rules for the delivery of a consumer's messages: push or pull, and their limits.

The order of the rules is nats-server's: a client learns the first of several errors.
"""

from typing import Final

from headwater.base.clock import NS_PER_MS
from headwater.go.durations import format_duration
from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.config.consumer_defaults import (
    FLOW_CONTROL_HEARTBEAT_NS,
    ConsumerSurroundings,
)
from headwater.jetstream.config.stream_checks.overlap import is_literal, is_subset
from headwater.jetstream.config.stream_checks.subjects import invalid, is_valid_subject
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.errors import ApiError
from headwater.subjects.grammar import has_blank_or_control

HEARTBEAT_MIN_NS: Final = 100 * NS_PER_MS
REQUEST_EXPIRES_MIN_NS: Final = NS_PER_MS


def check_waits(config: ConsumerConfig) -> None:
    """Refuse negative waits for acknowledgements."""
    if any(wait_ns < 0 for wait_ns in config.backoff):
        raise ApiError.of(error_codes.CONSUMER_BACK_OFF_NEGATIVE)
    if config.ack_wait < 0:
        raise ApiError.of(error_codes.CONSUMER_ACK_WAIT_NEGATIVE)


def check_acks_by_flow_control(config: ConsumerConfig) -> None:
    """Refuse settings that cannot be combined with acknowledgements by flow control."""
    if config.ack_policy is not AckPolicy.FLOW_CONTROL:
        return
    if config.is_pull:
        raise ApiError.of(error_codes.CONSUMER_ACK_FC_REQUIRES_PUSH)
    if not config.flow_control:
        raise ApiError.of(error_codes.CONSUMER_ACK_FC_REQUIRES_FC)
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT_NS:
        raise invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise ApiError.of(error_codes.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING)
    if config.ack_wait != 0 or config.backoff:
        raise ApiError.of(error_codes.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT)
    if config.max_deliver > 0:
        raise ApiError.of(error_codes.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER)


def check_backoff(config: ConsumerConfig) -> None:
    """Refuse more waits than deliveries."""
    if config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise ApiError.of(error_codes.CONSUMER_MAX_DELIVER_BACKOFF)


def check_delivery(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    """Refuse settings of push in a pull consumer and the reverse, and values beyond a limit."""
    if config.is_pull:
        _check_pull(config, around)
    else:
        _check_push(config, around)
    _check_limits(config, around)
    if config.direct and config.is_pull:
        raise ApiError.of(error_codes.CONSUMER_DIRECT_REQUIRES_PUSH)
    if config.direct and config.is_durable:
        raise ApiError.of(error_codes.CONSUMER_DIRECT_REQUIRES_EPHEMERAL)


def _check_push(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    subject = config.deliver_subject
    if not is_literal(subject):
        raise ApiError.of(error_codes.CONSUMER_DELIVER_TO_WILDCARDS)
    if not is_valid_subject(subject):
        raise ApiError.of(error_codes.CONSUMER_INVALID_DELIVER_SUBJECT)
    if has_blank_or_control(config.deliver_group):
        raise invalid("consumer deliver group cannot contain blanks or control characters")
    if any(is_subset(subject, captured) for captured in around.stream.subjects):
        raise ApiError.of(error_codes.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting != 0:
        raise ApiError.of(error_codes.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise ApiError.of(error_codes.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED)
    if 0 < config.idle_heartbeat < HEARTBEAT_MIN_NS:
        raise ApiError.of(error_codes.CONSUMER_SMALL_HEARTBEAT)


def _check_pull(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    is_queue = around.stream.retention is Retention.WORKQUEUE
    if config.ack_policy is AckPolicy.NONE and is_queue:
        raise ApiError.of(error_codes.CONSUMER_PULL_REQUIRES_ACK)
    if config.rate_limit_bps > 0:
        raise ApiError.of(error_codes.CONSUMER_PULL_WITH_RATE_LIMIT)
    if config.idle_heartbeat > 0:
        raise ApiError.of(error_codes.CONSUMER_HB_REQUIRES_PUSH)
    if config.flow_control:
        raise ApiError.of(error_codes.CONSUMER_FC_REQUIRES_PUSH)
    if 0 < config.max_expires < REQUEST_EXPIRES_MIN_NS:
        raise ApiError.of(error_codes.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL)
    limit = around.server_max_request_batch
    if 0 < limit < config.max_batch:
        raise ApiError.of(error_codes.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED, limit=limit)


def _check_limits(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    given = around.stream.consumer_limits
    limits = (around.server_max_ack_pending, around.account_max_ack_pending, given.max_ack_pending)
    for limit in limits:
        if 0 < limit < config.max_ack_pending:
            raise ApiError.of(error_codes.CONSUMER_MAX_PENDING_ACK_EXCESS, limit=limit)
    if 0 < given.inactive_threshold < config.inactive_threshold:
        limit_text = format_duration(given.inactive_threshold)
        raise ApiError.of(error_codes.CONSUMER_INACTIVE_THRESHOLD_EXCESS, limit=limit_text)
