"""Consumers in backups: their values, and the checks on them.

A backup has the configuration of a consumer, its deliveries and its acknowledgements. Here they are
checked and converted into entries for the journal of the stream, which take little memory until the
stream exists. Whether the stream may have the consumer is not checked here.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, final

import msgspec

from headwater.go.quoting import quote
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import SEQUENCE_MAX, TIMESTAMP_NS_MAX
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.records import ConsumerCreated
from headwater.jetstream.consumers.state import ConsumerState

# Enough for a million messages without an acknowledgement.
CONSUMER_BYTES_MAX: Final = 64 * 1024 * 1024
# Estimates of the memory of a running consumer, and of each message it has not finished.
CONSUMER_MEMORY_BYTES: Final = 4096
UNSETTLED_MEMORY_BYTES: Final = 400


class Place(NamedTuple):
    """The two sequences of a delivery."""

    consumer: int
    stream: int


class Pending(msgspec.Struct, gc=False):
    """A message without an acknowledgement, with nats-server's keys for it in JSON."""

    consumer_sequence: int = msgspec.field(name="Sequence", default=0)
    sent_ns: int = msgspec.field(name="Timestamp", default=0)


class Standing(msgspec.Struct, kw_only=True):
    """Deliveries and acknowledgements of a consumer as in a backup, unchecked."""

    delivered: Place
    floor: Place
    # By sequence of the stream.
    pending: Mapping[int, Pending]
    # Deliveries beyond the first, by sequence of the stream.
    redelivered: Mapping[int, int]
    lasts_until: int = 0
    passed_stream: int = 0


class BackedUpConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer as it comes out of a backup."""

    name: str
    config: ConsumerConfig
    # 0 if the backup does not have it.
    created_ns: int = 0
    start_sequence: int
    lasts_until: int
    memory_bytes: int
    # The body of the journal entry with the state.
    state: bytes

    def entries(self, config: ConsumerConfig, now_ns: int) -> list[tuple[int, bytes]]:
        """The journal entries of the consumer, with the configuration it gets."""
        created = ConsumerCreated(
            self.name,
            config,
            self.created_ns or now_ns,
            self.start_sequence,
            self.lasts_until,
        )
        return [codec.encode(created), (codec.STATE, self.state)]


def backed_up(
    name: str, config: ConsumerConfig, standing: Standing, created_ns: int = 0
) -> BackedUpConsumer:
    """Check and convert a consumer of a backup. Raises BackupError for impossible values."""
    name = config.durable_name or name
    if not name:
        raise BackupError("it has no name")
    _check(standing)
    delivered, floor = standing.delivered, standing.floor
    if not delivered.consumer and config.opt_start_seq > delivered.stream + 1:
        # The consumer waits for later messages; nats-server leaves its start out of the backup.
        delivered = floor = Place(0, min(config.opt_start_seq - 1, SEQUENCE_MAX))
    state = ConsumerState(config.ack_policy, delivered.stream + 1, standing.lasts_until)
    has_acks = config.ack_policy is not AckPolicy.NONE
    pending = standing.pending if has_acks else {}
    state.restore(
        delivered,
        floor,
        [(sequence, each.consumer_sequence, each.sent_ns) for sequence, each in pending.items()],
        [*standing.redelivered.items()],
    )
    state.passed_stream = standing.passed_stream
    unsettled = len(standing.pending) + len(standing.redelivered)
    return BackedUpConsumer(
        name=name,
        config=config,
        created_ns=created_ns,
        start_sequence=delivered.stream + 1,
        lasts_until=standing.lasts_until,
        memory_bytes=CONSUMER_MEMORY_BYTES + unsettled * UNSETTLED_MEMORY_BYTES,
        state=codec.encode_state(name, state)[1],
    )


def _check(standing: Standing) -> None:
    delivered, floor = standing.delivered, standing.floor
    numbers = (*delivered, *floor, standing.lasts_until, standing.passed_stream)
    if min(numbers) < 0 or max(numbers) > SEQUENCE_MAX:
        raise BackupError("one of its sequences is out of range")
    if floor.consumer > delivered.consumer:
        raise BackupError("bad ack floor for consumer")
    if floor.stream > delivered.stream:
        raise BackupError("bad ack floor for stream")
    for sequence, pending in standing.pending.items():
        is_in_range = (
            floor.stream < sequence <= delivered.stream
            and 0 < pending.consumer_sequence <= delivered.consumer
        )
        if not is_in_range:
            raise BackupError(f"bad pending entry, sequence [{sequence}] out of range")
        if not 0 < pending.sent_ns <= TIMESTAMP_NS_MAX:
            raise BackupError(f"bad pending entry, sequence [{sequence}] has no possible time")
    for sequence, count in standing.redelivered.items():
        if not (0 < sequence <= delivered.stream and 0 <= count <= SEQUENCE_MAX):
            raise BackupError(f"bad redelivered entry, sequence [{sequence}] out of range")


@final
class BackedUpConsumers:
    """The consumers of a backup, as far as it was read."""

    __slots__ = ("_by_name", "_memory_bytes", "_memory_bytes_max")

    def __init__(self, memory_bytes_max: int) -> None:
        self._by_name: dict[str, BackedUpConsumer] = {}
        self._memory_bytes = 0
        self._memory_bytes_max = memory_bytes_max

    def __iter__(self) -> Iterator[BackedUpConsumer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, consumer: BackedUpConsumer) -> None:
        """Add a consumer. Raises BackupError."""
        if consumer.name in self._by_name:
            raise BackupError(f"it has the consumer {quote(consumer.name)} twice")
        self._by_name[consumer.name] = consumer
        self._memory_bytes += consumer.memory_bytes
        if self._memory_bytes > self._memory_bytes_max:
            raise BackupError("its consumers would take more memory than the server may use")
