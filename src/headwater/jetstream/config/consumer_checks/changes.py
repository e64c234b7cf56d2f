"""Which consumers a stream may have side by side, and which settings of a consumer may change.

Configurations here are complete (`checks.normalised`). The order of the rules is nats-server's: a
client learns the first of several errors.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerAction,
    ConsumerConfig,
    DeliverPolicy,
)
from headwater.jetstream.config.consumer_defaults import (
    Configured,
    ConsumerSurroundings,
    in_utc,
    with_expiry,
    with_expiry_after,
)
from headwater.jetstream.config.stream_checks.checks import NAME_BYTES_MAX
from headwater.jetstream.config.stream_checks.overlap import Overlaps, TooManySubjects
from headwater.jetstream.config.stream_checks.subjects import TOO_MANY_SUBJECTS, invalid
from headwater.jetstream.config.stream_config import (
    REQUIRED_LEVEL_KEY,
    Retention,
    Storage,
    StreamConfig,
)
from headwater.jetstream.errors import ApiError

STORE_FAILED: Final = "error creating store for consumer"
YEAR_OUT_OF_RANGE: Final = (
    "json: error calling MarshalJSON for type *time.Time: year outside of range [0,9999]"
)

# Settings that never change, and their names in the text of the refusal.
_FIXED_FIRST: Final = (
    ("deliver_policy", "deliver policy"),
    ("mem_storage", "storage type"),
    ("direct", "direct"),
    ("sourcing", "sourcing"),
    ("opt_start_seq", "start sequence"),
)
_FIXED_LATER: Final = (
    ("ack_policy", "ack policy"),
    ("replay_policy", "replay policy"),
    ("idle_heartbeat", "heart beats"),
    ("flow_control", "flow control"),
)
_FIXED_LAST: Final = (("max_waiting", "max waiting"),)

_QUEUE_ACKS: Final = (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL)


# --- another consumer -----------------------------------------------------------------------------


def check_addition(config: ConsumerConfig, around: ConsumerSurroundings) -> ConsumerConfig:
    """The configuration of a new consumer. Raises ApiError if the stream may not have it."""
    _check_count(around)
    is_server_own = config.direct or config.sourcing
    if around.stream.retention is Retention.WORKQUEUE and not is_server_own:
        _check_queue(config, around)
    if len(config.durable_name.encode()) > NAME_BYTES_MAX:
        raise ApiError.of(error_codes.CONSUMER_NAME_TOO_LONG, max=NAME_BYTES_MAX)
    is_on_disk = around.stream.storage is Storage.FILE and not (config.mem_storage or config.direct)
    if is_on_disk and len(config.name.encode()) > NAME_BYTES_MAX:
        # nats-server notices this when it creates a folder of that name.
        raise ApiError.of(error_codes.CONSUMER_CREATE, err=STORE_FAILED)
    return with_expiry(config)


def _check_count(around: ConsumerSurroundings) -> None:
    limits = (around.stream.max_consumers, around.account_max_consumers)
    limit = min((each for each in limits if each > 0), default=around.default_max_consumers)
    if 0 < limit <= len(around.consumers) and limit <= _count_limited(around.consumers):
        raise ApiError.of(error_codes.MAXIMUM_CONSUMERS_LIMIT)


def _count_limited(consumers: Mapping[str, Configured]) -> int:
    """The number of consumers without those by which servers copy a stream."""
    configs = (consumer.config for consumer in consumers.values())
    return sum(not (config.direct or config.sourcing) for config in configs)


def _check_queue(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    """In a work queue every message has one consumer, which acknowledges it."""
    if config.ack_policy not in _QUEUE_ACKS:
        raise ApiError.of(error_codes.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK)
    if config.deliver_policy is not DeliverPolicy.ALL:
        raise ApiError.of(error_codes.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL)
    if not config.filters:
        if _count_limited(around.consumers) > 0:
            raise ApiError.of(error_codes.CONSUMER_WQ_MULTIPLE_UNFILTERED)
        return
    check_share(config, around)


def check_share(config: ConsumerConfig, around: ConsumerSurroundings) -> None:
    """Refuse filters that overlap with those of another consumer of the work queue."""
    if not config.filters:
        return
    name = config.durable_name or config.name
    share = _Share(config.filters)
    for other_name, consumer in around.consumers.items():
        other = consumer.config
        if other_name == name or other.direct or other.sourcing:
            continue
        if not other.filters or any(map(share.has_part_of, other.filters)):
            raise ApiError.of(error_codes.CONSUMER_WQ_CONSUMER_NOT_UNIQUE)


class _Share:
    """The filters of a consumer. Literal subjects, of which there may be many, cost little."""

    __slots__ = ("_has_patterns", "_overlaps", "_plain")

    def __init__(self, filters: tuple[str, ...]) -> None:
        self._plain = frozenset(each for each in filters if _is_plain(each))
        self._has_patterns = len(self._plain) < len(filters)
        self._overlaps = Overlaps(filters)

    def has_part_of(self, subject: str) -> bool:
        """Whether a message on the subject could match a filter."""
        if subject in self._plain:
            return True
        if not self._has_patterns and _is_plain(subject):
            return False
        try:
            return any(True for _ in self._overlaps.colliding_with(subject))
        except TooManySubjects:
            raise invalid(TOO_MANY_SUBJECTS) from None


def _is_plain(subject: str) -> bool:
    return "*" not in subject and ">" not in subject


# --- an existing consumer
# --------------------------------------------------------------------------


def check_change(
    old: ConsumerConfig,
    config: ConsumerConfig,
    action: ConsumerAction,
    around: ConsumerSurroundings,
    has_interest: Callable[[bytes], bool],
) -> ConsumerConfig:
    """The configuration of an existing consumer after an update. Raises ApiError if it is refused.

    `has_interest` returns whether a subscription matches a subject.
    """
    if action is ConsumerAction.CREATE:
        config = _with_level_of(old, config)
        if config != old:
            raise ApiError.of(error_codes.CONSUMER_ALREADY_EXISTS)
    if around.stream.retention is Retention.WORKQUEUE:
        check_share(config, around)
    if config != old:
        _check_differences(old, config, has_interest)
    config = with_expiry_after(old, config)
    if config.pause_until is None:
        return config
    try:
        return msgspec.structs.replace(config, pause_until=in_utc(config.pause_until))
    except OverflowError:
        raise _refused(YEAR_OUT_OF_RANGE) from None


def _check_differences(
    old: ConsumerConfig, new: ConsumerConfig, has_interest: Callable[[bytes], bool]
) -> None:
    _check_fixed(old, new, _FIXED_FIRST)
    _check_start_time(old, new)
    _check_fixed(old, new, _FIXED_LATER)
    _check_deliver_subject(old, new, has_interest)
    _check_fixed(old, new, _FIXED_LAST)


def _with_level_of(old: ConsumerConfig, config: ConsumerConfig) -> ConsumerConfig:
    """`config` with the required level of `old`: the server's own metadata is not a difference."""
    metadata = {**config.metadata}
    metadata.pop(REQUIRED_LEVEL_KEY, None)
    if REQUIRED_LEVEL_KEY in old.metadata:
        metadata[REQUIRED_LEVEL_KEY] = old.metadata[REQUIRED_LEVEL_KEY]
    return msgspec.structs.replace(config, metadata=metadata)


def _check_fixed(
    old: ConsumerConfig, new: ConsumerConfig, fixed: Iterable[tuple[str, str]]
) -> None:
    for name, called in fixed:
        if getattr(old, name) != getattr(new, name):
            raise _refused(f"{called} can not be updated")


def _check_start_time(old: ConsumerConfig, new: ConsumerConfig) -> None:
    """Compare moments: the text may have another time zone."""
    before, after = old.opt_start_time, new.opt_start_time
    if (before and before.unix_ns) != (after and after.unix_ns):
        raise _refused("start time can not be updated")


def _check_deliver_subject(
    old: ConsumerConfig, new: ConsumerConfig, has_interest: Callable[[bytes], bool]
) -> None:
    if old.deliver_subject == new.deliver_subject:
        return
    if old.is_pull:
        raise _refused("can not update pull consumer to push based")
    if new.is_pull:
        raise _refused("can not update push consumer to pull based")
    if has_interest(old.deliver_subject.encode()):
        raise ApiError.of(error_codes.CONSUMER_NAME_EXIST)


def _refused(text: str) -> ApiError:
    return ApiError.of(error_codes.CONSUMER_CREATE, err=text)


# --- their stream ---------------------------------------------------------------------------------


def check_stream_limits(
    old: StreamConfig, new: StreamConfig, consumers: Mapping[str, Configured]
) -> None:
    """Refuse limits of a stream that its existing consumers exceed."""
    before, after = old.consumer_limits, new.consumer_limits
    if after == before:
        return
    violated = sorted(
        name
        for name, consumer in consumers.items()
        if 0 < after.inactive_threshold < consumer.config.inactive_threshold
        or 0 < after.max_ack_pending < consumer.config.max_ack_pending
    )
    if violated:
        text = f"change to limits violates consumers: {', '.join(violated)}"
        raise ApiError.of(error_codes.STREAM_UPDATE, err=text)
