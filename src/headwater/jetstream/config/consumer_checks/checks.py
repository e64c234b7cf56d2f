"""The rules for the configuration of a consumer: those of nats-server 2.15, with code and text.

The order matters: a client learns the first of several errors. The rules read the configuration and
its surroundings; they change nothing and know no running consumer. Which consumers a stream may
have side by side is in `changes`.
"""

import re
from typing import Final

from headwater.go.quoting import quote
from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_checks.delivery import (
    check_acks_by_flow_control,
    check_backoff,
    check_delivery,
    check_waits,
)
from headwater.jetstream.config.consumer_checks.filters import check_filters, check_start
from headwater.jetstream.config.consumer_config import ConsumerConfig, PriorityPolicy
from headwater.jetstream.config.consumer_defaults import ConsumerSurroundings, with_defaults
from headwater.jetstream.config.stream_checks.checks import (
    DESCRIPTION_BYTES_MAX,
    METADATA_BYTES_MAX,
)
from headwater.jetstream.config.stream_checks.sources import is_valid_name
from headwater.jetstream.config.stream_checks.subjects import invalid
from headwater.jetstream.config.stream_config import Retention
from headwater.jetstream.errors import ApiError

_NAME_BANS_TEXT: Final = "can not contain '.', '*', '>', '\\', '/'"
_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}", re.ASCII)

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
# More digits are out of range, and converting them to a number would cost time.
_DIGITS_MAX: Final = 19
_INT64_MAX: Final = (1 << 63) - 1


def normalised(
    config: ConsumerConfig, pedantic: bool, around: ConsumerSurroundings
) -> ConsumerConfig:
    """`config` with all defaults. Raises ApiError for the first rule that it breaks."""
    config = with_defaults(config, pedantic, around)
    _check_names(config)
    _check_replicas(config, around)
    check_waits(config)
    check_acks_by_flow_control(config)
    check_backoff(config)
    if len(config.description.encode()) > DESCRIPTION_BYTES_MAX:
        raise ApiError.of(error_codes.CONSUMER_DESCRIPTION_TOO_LONG, max=DESCRIPTION_BYTES_MAX)
    check_delivery(config, around)
    check_filters(config)
    check_start(config)
    _check_sampling(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise ApiError.of(error_codes.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS)
    if config.durable_name and config.name and config.durable_name != config.name:
        raise ApiError.of(error_codes.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH)
    _check_metadata(config)
    _check_priorities(config)
    return config


def _check_names(config: ConsumerConfig) -> None:
    if config.name and not is_valid_name(config.name):
        raise invalid(f"consumer name {_NAME_BANS_TEXT}")
    if config.durable_name and not is_valid_name(config.durable_name):
        raise invalid(f"consumer durable name {_NAME_BANS_TEXT}")


def _check_replicas(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    """A consumer that decides which messages stay has to be on every server of the stream."""
    count, stream = config.num_replicas, around.stream
    if count > stream.num_replicas:
        raise ApiError.of(error_codes.CONSUMER_REPLICAS_EXCEEDS_STREAM)
    if count < 0:
        raise ApiError.of(error_codes.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    if stream.retention is not Retention.LIMITS and count not in (0, stream.num_replicas):
        raise ApiError.of(error_codes.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM)


def _check_sampling(config: ConsumerConfig) -> None:
    if not config.sample_freq:
        return
    text = config.sample_freq.removesuffix("%")
    reason = ""
    if _WHOLE_NUMBER.fullmatch(text) is None:
        reason = f"strconv.Atoi: parsing {quote(text)}: invalid syntax"
    elif not _is_int64(text):
        reason = f"strconv.Atoi: parsing {quote(text)}: value out of range"
    elif text.startswith("-") and text.strip("-0"):
        # Go's parser has no error for this value.
        reason = "<nil>"
    if reason:
        raise ApiError.of(error_codes.CONSUMER_INVALID_SAMPLING, err=reason)


def _is_int64(text: str) -> bool:
    digits = text.lstrip("+-").lstrip("0")
    limit = _INT64_MAX + text.startswith("-")
    return len(digits) <= _DIGITS_MAX and int(digits or "0") <= limit


def _check_metadata(config: ConsumerConfig) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if size > METADATA_BYTES_MAX:
        limit = f"{METADATA_BYTES_MAX // 1024}KB"
        raise ApiError.of(error_codes.CONSUMER_METADATA_LENGTH, limit=limit)


def _check_priorities(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise ApiError.of(error_codes.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE)
        if config.priority_timeout > 0:
            raise ApiError.of(error_codes.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE)
        return
    if not config.is_pull:
        raise ApiError.of(error_codes.CONSUMER_PUSH_WITH_PRIORITY_GROUP)
    if not config.priority_groups:
        raise ApiError.of(error_codes.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP)
    for group in config.priority_groups:
        if not group:
            raise ApiError.of(error_codes.CONSUMER_EMPTY_GROUP_NAME)
        check_group_name(group)


def check_group_name(group: str) -> None:
    """Raises ApiError for an invalid name of a priority group."""
    if _GROUP_NAME.fullmatch(group) is None:
        raise ApiError.of(error_codes.CONSUMER_INVALID_GROUP_NAME)
