"""Defaults of a consumer: from the server, its account and its stream.

The module also makes the other silent adjustments of nats-server, unless the client asked for
errors instead (pedantic). The order is nats-server's: a client learns the first of several
adjustments.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import Time
from headwater.go.times import format_time
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig, PriorityPolicy
from headwater.jetstream.config.stream_checks.subjects import pedantic_error
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError

ACK_WAIT_DEFAULT_NS: Final = 30 * NS_PER_S
MAX_WAITING_DEFAULT: Final = 512
MAX_ACK_PENDING_DEFAULT: Final = 1000
PRIORITY_TIMEOUT_DEFAULT_NS: Final = 120 * NS_PER_S
# The lifetime of an ephemeral consumer without clients.
INACTIVE_THRESHOLD_DEFAULT_NS: Final = 5 * NS_PER_S
# The only heartbeat that can be combined with acknowledgements by flow control.
FLOW_CONTROL_HEARTBEAT_NS: Final = NS_PER_S

_UNLIMITED: Final = -1
# The values that smaller ones are raised to, in the order of the checks.
_FLOORS: Final = {
    "max_deliver": _UNLIMITED,
    "max_waiting": 0,
    "max_ack_pending": _UNLIMITED,
    "max_batch": 0,
    "max_expires": 0,
    "max_bytes": 0,
    "idle_heartbeat": 0,
    "inactive_threshold": 0,
    "priority_timeout": 0,
}


class Configured(Protocol):
    """Another consumer of the stream, as far as the rules need it."""

    @property
    def config(self) -> ConsumerConfig: ...


class ConsumerSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The facts beside the request that rules and defaults need. Zero or less is no limit."""

    stream: StreamConfig
    # All consumers of the stream by name, including the one in the request if it exists.
    consumers: Mapping[str, Configured] = {}
    server_max_ack_pending: int = 0
    server_max_request_batch: int = 0
    account_max_ack_pending: int = 0
    account_max_consumers: int = 0
    # For streams without a limit of their own or of their account.
    default_max_consumers: int = 0


def with_defaults(
    config: ConsumerConfig, pedantic: bool, around: ConsumerSurroundings
) -> ConsumerConfig:
    """`config` with all defaults, whether it breaks a rule or not."""
    config = _with_floors(config, pedantic)
    config = _with_acks(config, pedantic)
    config = _with_limits(config, pedantic, around)
    changes: dict[str, object] = {}
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        changes["priority_timeout"] = PRIORITY_TIMEOUT_DEFAULT_NS
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        changes |= {"flow_control": True, "idle_heartbeat": FLOW_CONTROL_HEARTBEAT_NS}
    return msgspec.structs.replace(config, **changes)


def _with_floors(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    values = {name: getattr(config, name) for name in _FLOORS}
    for name, floor in _FLOORS.items():
        if pedantic and values[name] < floor:
            must = "must be set to -1" if floor == _UNLIMITED else "must not be negative"
            raise pedantic_error(f"{name} {must}")
        values[name] = max(values[name], floor)
    values["max_deliver"] = values["max_deliver"] or _UNLIMITED
    if config.is_pull:
        values["max_waiting"] = values["max_waiting"] or MAX_WAITING_DEFAULT
    return msgspec.structs.replace(config, **values)


def _with_acks(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    """Set the ack wait: the first wait of the backoff, or the default."""
    ack_wait_ns = config.ack_wait
    if ack_wait_ns == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        ack_wait_ns = ACK_WAIT_DEFAULT_NS
    if config.backoff:
        if pedantic and ack_wait_ns != config.backoff[0]:
            raise pedantic_error("first backoff value has to equal batch AckWait")
        ack_wait_ns = config.backoff[0]
    return msgspec.structs.replace(config, ack_wait=ack_wait_ns)


def _with_limits(
    config: ConsumerConfig, pedantic: bool, around: ConsumerSurroundings
) -> ConsumerConfig:
    """Set the defaults of the stream, then those of the account and the server."""
    given = around.stream.consumer_limits
    max_ack_pending, inactive_threshold = config.max_ack_pending, config.inactive_threshold
    max_batch = config.max_batch
    if max_ack_pending == 0:
        if pedantic and given.max_ack_pending > 0:
            raise _missing("max_ack_pending")
        max_ack_pending = given.max_ack_pending
    if inactive_threshold == 0:
        if pedantic and given.inactive_threshold > 0:
            raise _missing("inactive_threshold")
        inactive_threshold = given.inactive_threshold
    if max_ack_pending == 0 and config.ack_policy is not AckPolicy.NONE:
        limits = (around.server_max_ack_pending, around.account_max_ack_pending)
        max_ack_pending = min([MAX_ACK_PENDING_DEFAULT, *(each for each in limits if each > 0)])
    if config.is_pull and max_batch == 0 and around.server_max_request_batch > 0:
        if pedantic:
            raise pedantic_error("max_request_batch must be set if it's JetStream limits are set")
        max_batch = around.server_max_request_batch
    return msgspec.structs.replace(
        config,
        max_ack_pending=max_ack_pending,
        inactive_threshold=inactive_threshold,
        max_batch=max_batch,
    )


def _missing(name: str) -> ApiError:
    return pedantic_error(f"{name} must be set if it's configured in stream limits")


def with_expiry(config: ConsumerConfig) -> ConsumerConfig:
    """Give a new consumer that is not durable an inactivity threshold."""
    if config.is_durable or config.inactive_threshold > 0:
        return config
    return msgspec.structs.replace(config, inactive_threshold=INACTIVE_THRESHOLD_DEFAULT_NS)


def with_expiry_after(old: ConsumerConfig, config: ConsumerConfig) -> ConsumerConfig:
    """Give an updated consumer an inactivity threshold, unless it was durable before."""
    threshold_ns = config.inactive_threshold
    if threshold_ns == old.inactive_threshold or threshold_ns > 0 or old.is_durable:
        return config
    return msgspec.structs.replace(config, inactive_threshold=INACTIVE_THRESHOLD_DEFAULT_NS)


def in_utc(time: Time) -> Time:
    """The time in UTC. Raises OverflowError outside the calendar."""
    return Time(time.unix_ns, format_time(time.unix_ns))
