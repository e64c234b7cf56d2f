"""The configuration of a consumer, as clients write it and as they get it back.

Field names are the keys in JSON, their order is nats-server's, and the defaults are Go's values for
an absent key; `consumer_defaults` adds the defaults of nats-server. Fields marked OMIT_EMPTY are
left out of replies while empty.

Three keys of the metadata belong to the server: `_nats.req.level` is stored with the consumer, the
other two describe the server that replies and are added to replies only.
"""

from typing import Annotated, ClassVar

import msgspec

from headwater.go.json import OMIT_EMPTY, Duration, Int, Time, Uint64
from headwater.go.times import ZERO_TIME_NS
from headwater.jetstream.config.stream_config import (
    Choice,
    Flag,
    Text,
    Texts,
    kept_metadata,
    told_metadata,
)


class DeliverPolicy(Choice):
    """The first message of the stream that a consumer delivers."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"

    @classmethod
    def spelled(cls, literal: bytes) -> bytes:
        """nats-server's word for an unset policy stands for the first policy."""
        return b'"all"' if literal == b'"undefined"' else literal


class AckPolicy(Choice):
    """The kind of acknowledgements: none, by ranges, one by one, or by flow control."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(Choice):
    """The speed of delivery of stored messages: at once, or in their original distances."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(Choice):
    """Which of several waiting clients gets the next message."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"

    @classmethod
    def refusal(cls, literal: bytes) -> str:
        """The text of the refusal, with the value as it was written."""
        return f"unknown priority policy: {literal.decode(errors='replace')}"


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a consumer. Durations are nanoseconds."""

    durable_name: Text = ""
    name: Text = ""
    description: Text = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: Annotated[Uint64, OMIT_EMPTY] = 0
    opt_start_time: Annotated[Time | None, OMIT_EMPTY] = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait: Annotated[Duration, OMIT_EMPTY] = 0
    # -1 is no limit.
    max_deliver: Annotated[Int, OMIT_EMPTY] = 0
    backoff: Annotated[tuple[Duration, ...], OMIT_EMPTY] = ()
    filter_subject: Text = ""
    filter_subjects: Texts = ()
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    # Bits, not bytes, in spite of the name.
    rate_limit_bps: Annotated[Uint64, OMIT_EMPTY] = 0
    sample_freq: Text = ""
    max_waiting: Annotated[Int, OMIT_EMPTY] = 0
    # -1 is no limit.
    max_ack_pending: Annotated[Int, OMIT_EMPTY] = 0
    flow_control: Flag = False
    headers_only: Flag = False
    # Limits of one pull request; zero is no limit.
    max_batch: Annotated[Int, OMIT_EMPTY] = 0
    max_expires: Annotated[Duration, OMIT_EMPTY] = 0
    max_bytes: Annotated[Int, OMIT_EMPTY] = 0
    # Empty for pull consumers.
    deliver_subject: Text = ""
    deliver_group: Text = ""
    idle_heartbeat: Annotated[Duration, OMIT_EMPTY] = 0
    inactive_threshold: Annotated[Duration, OMIT_EMPTY] = 0
    # Zero stands for the number of the stream.
    num_replicas: Int = 0
    mem_storage: Flag = False
    # For the consumers of servers, which read a stream for mirrors and sources.
    direct: Flag = False
    sourcing: Flag = False
    metadata: Annotated[dict[str, str], OMIT_EMPTY] = {}
    pause_until: Annotated[Time | None, OMIT_EMPTY] = None
    priority_groups: Texts = ()
    priority_policy: Annotated[PriorityPolicy, OMIT_EMPTY] = PriorityPolicy.NONE
    priority_timeout: Annotated[Duration, OMIT_EMPTY] = 0

    @property
    def is_pull(self) -> bool:
        """Whether clients pull messages, instead of having them pushed."""
        return not self.deliver_subject

    @property
    def is_durable(self) -> bool:
        """Whether the consumer stays without clients, unless it has an inactivity threshold."""
        return bool(self.durable_name)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filter subjects; empty for the whole stream."""
        return self.filter_subjects or ((self.filter_subject,) if self.filter_subject else ())

    @property
    def patterns(self) -> tuple[bytes, ...]:
        """The filter subjects as bytes, for matching."""
        return tuple(each.encode(errors="surrogateescape") for each in self.filters)

    @property
    def pause_until_ns(self) -> int | None:
        """When the pause ends; None without a pause."""
        if self.pause_until is None or self.pause_until.unix_ns == ZERO_TIME_NS:
            return None
        return self.pause_until.unix_ns


class ConsumerAction(Choice):
    """The effect of a request to create a consumer: either, or only one of the two."""

    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"

    @classmethod
    def refusal(cls, literal: bytes) -> str:
        """The text of the refusal, with the value as it was written."""
        return f"unknown consumer action: {literal.decode(errors='replace')}"


class ConsumerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    go_name: ClassVar[str] = "CreateConsumerRequest"

    stream_name: str = ""
    config: ConsumerConfig = ConsumerConfig()
    action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE
    # Refuse values that would be adjusted silently.
    pedantic: Flag = False


def required_level(config: ConsumerConfig) -> int:
    """The API level that a server needs to run this consumer as intended."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return 4
    has_priorities = (
        config.priority_policy is not PriorityPolicy.NONE
        or config.priority_timeout != 0
        or bool(config.priority_groups)
    )
    return 1 if has_priorities or config.pause_until_ns is not None else 0


def with_required_level(config: ConsumerConfig) -> ConsumerConfig:
    """The configuration to store: with the level it requires, without data of the server."""
    metadata = kept_metadata(config.metadata, required_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def with_server_metadata(config: ConsumerConfig, version: str, level: int) -> ConsumerConfig:
    """The configuration for replies that describe the server: all but those of CONSUMER.LIST."""
    metadata = told_metadata(config.metadata, version, level)
    return msgspec.structs.replace(config, metadata=metadata)
