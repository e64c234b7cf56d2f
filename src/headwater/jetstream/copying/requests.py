"""The requests by which a stream asks an origin for its messages, and their answers.

The consumer is a push consumer of the origin that is not listed, needs no acknowledgements, and has
flow control and heartbeats. An origin with work queue or interest retention turns it into a durable
consumer that acknowledges by flow control, so that no message leaves before it is copied. A
consumer that the configuration names is there already, and is only told where to begin again.
"""

from typing import Final, NamedTuple

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import write
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerConfig,
    ConsumerRequest,
    DeliverPolicy,
)
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.header_names import REQUIRED_API_LEVEL
from headwater.jetstream.streams.origin_positions import Position
from headwater.wire.headers import with_value

HEARTBEAT_NS: Final = NS_PER_S
INACTIVE_NS: Final = 10 * NS_PER_S
_ACK_WAIT_NS: Final = 22 * 3600 * NS_PER_S
_STREAM_IDENTITY: Final = b"Nats-Stream-Identity"
# Consumers that can be told to begin again, and the identity of streams.
_LEVEL: Final = b"4"
_LEVEL_OF_IDENTITY: Final = b"5"


class Ask(NamedTuple):
    """A request, and the subject at which the messages of the origin will arrive."""

    subject: bytes
    header: bytes
    body: bytes
    deliver_subject: bytes


class _Config(msgspec.Struct):
    ack_policy: str = ""
    deliver_subject: str = ""


class _Sequences(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class Refused(msgspec.Struct):
    """The error of an answer."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Answer(msgspec.Struct):
    """The part of a consumer's description that matters."""

    error: Refused | None = None
    name: str = ""
    config: _Config | None = None
    delivered: _Sequences = msgspec.field(default_factory=_Sequences)
    ack_floor: _Sequences = msgspec.field(default_factory=_Sequences)

    @property
    def acks_by_flow(self) -> bool:
        """Whether the consumer acknowledges by the answers to its flow control."""
        return self.config is not None and self.config.ack_policy == AckPolicy.FLOW_CONTROL.value


_decode: Final = msgspec.json.Decoder(Answer).decode


def read_answer(body: bytes) -> Answer | None:
    """Read an answer; None if the body is none."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def creation_of(origin: Origin, position: Position, start: ConsumerConfig, inbox: str) -> Ask:
    """The request for a consumer that begins as `start` says, which has only the settings of a
    start."""
    filters = origin.filters
    single = filters[0] if len(filters) == 1 else ""
    config = msgspec.structs.replace(
        start,
        name=origin.consumer_name,
        deliver_subject=inbox,
        ack_policy=AckPolicy.NONE,
        ack_wait=_ACK_WAIT_NS,
        max_deliver=1,
        filter_subject=single,
        filter_subjects=() if single else filters,
        flow_control=True,
        idle_heartbeat=HEARTBEAT_NS,
        inactive_threshold=INACTIVE_NS,
        direct=True,
        sourcing=True,
        metadata=_metadata(origin),
    )
    name = origin.source.name
    call = f"CONSUMER.CREATE.{name}"
    if single:
        call += f".{config.name}.{single}"
    body = write(ConsumerRequest(stream_name=name, config=config))
    header = with_value(b"", REQUIRED_API_LEVEL, _LEVEL)
    if not origin.is_mirrored:
        header = with_value(b"", REQUIRED_API_LEVEL, _LEVEL_OF_IDENTITY)
    if position.identity:
        header = with_value(header, _STREAM_IDENTITY, position.identity)
    return Ask(origin.api_subject(call), header, body, inbox.encode(errors="surrogateescape"))


def reset_of(origin: Origin, name: str, inbox: str) -> Ask:
    """The request that has a consumer begin again with the first message that is not copied."""
    call = f"CONSUMER.RESET.{origin.source.name}.{name}"
    header = with_value(b"", REQUIRED_API_LEVEL, _LEVEL)
    return Ask(origin.api_subject(call), header, b"", inbox.encode(errors="surrogateescape"))


def start_of(origin: Origin, sequence: int) -> ConsumerConfig:
    """The start of a consumer behind a sequence of the origin; 0 if nothing was copied yet."""
    source = origin.source
    if sequence > 0:
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence + 1
        )
    if source.opt_start_seq > 0:
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=source.opt_start_seq
        )
    if source.opt_start_time is not None:
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=source.opt_start_time
        )
    return ConsumerConfig(deliver_policy=DeliverPolicy.ALL)


def _metadata(origin: Origin) -> dict[str, str]:
    kind = "mirror" if origin.is_mirrored else "src"
    home = origin.home
    found = {f"_nats.{kind}.stream": home.stream, f"_nats.{kind}.acc": home.account}
    if home.domain:
        found[f"_nats.{kind}.domain"] = home.domain
    return found
