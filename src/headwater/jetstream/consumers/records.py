"""Records of consumers: the only values that change a consumer's durable state.

They are written to the log of the stream, between the stream's own records
(`headwater.jetstream.records`). A record holds all that came from the clock or the network, and
nothing that follows from the state: that an acknowledged message leaves a work queue, for instance,
follows from the configuration of the stream.
"""

from collections.abc import Sequence
from typing import TypeAlias, final

from headwater.jetstream.config.consumer_config import ConsumerConfig


@final
class ConsumerCreated:
    """A consumer was created and begins at a sequence of its stream.

    A consumer with `lasts_until` above zero first delivers only the last message of each subject,
    up to and including that sequence.
    """

    __slots__ = ("config", "created_ns", "lasts_until", "name", "start_sequence")

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        created_ns: int,
        start_sequence: int,
        lasts_until: int = 0,
    ) -> None:
        self.name = name
        self.config = config
        self.created_ns = created_ns
        self.start_sequence = start_sequence
        self.lasts_until = lasts_until


@final
class ConsumerConfigured:
    """A consumer got another configuration, which was checked before.

    If the configuration has other filters, the consumer continues at `place`: earlier messages are
    not searched again. 0 stands for the message after the last delivered one.
    """

    __slots__ = ("config", "name", "place")

    def __init__(self, name: str, config: ConsumerConfig, place: int = 0) -> None:
        self.name = name
        self.config = config
        self.place = place


@final
class ConsumerDeleted:
    """A consumer was deleted."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@final
class ConsumerReset:
    """A consumer forgot its whole state and begins again at a sequence of its stream."""

    __slots__ = ("name", "start_sequence")

    def __init__(self, name: str, start_sequence: int) -> None:
        self.name = name
        self.start_sequence = start_sequence


@final
class Delivered:
    """Messages were sent: some again, then others for the first time, these in ascending order.

    Each of them took the next sequence of the consumer.
    """

    __slots__ = ("again", "name", "now_ns", "sequences")

    def __init__(
        self, name: str, again: Sequence[int], sequences: Sequence[int], now_ns: int
    ) -> None:
        self.name = name
        self.again = again
        self.sequences = sequences
        self.now_ns = now_ns


@final
class Acked:
    """Messages were acknowledged, one by one or all up to a sequence.

    `floor` is set where all messages up to a sequence were acknowledged: the consumer's and the
    stream's sequence.
    """

    __slots__ = ("floor", "name", "now_ns", "sequences")

    def __init__(
        self, name: str, sequences: Sequence[int], now_ns: int, floor: tuple[int, int] | None = None
    ) -> None:
        self.name = name
        self.sequences = sequences
        self.now_ns = now_ns
        self.floor = floor


@final
class Postponed:
    """Messages have another time of sending, so that their redelivery is due later."""

    __slots__ = ("name", "sent_ns", "sequences")

    def __init__(self, name: str, sequences: Sequence[int], sent_ns: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences
        self.sent_ns = sent_ns


@final
class Exhausted:
    """Messages reached the limit of deliveries without an acknowledgement."""

    __slots__ = ("name", "sequences")

    def __init__(self, name: str, sequences: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences


@final
class Dropped:
    """Pending messages left the stream and will not be acknowledged.

    The loss follows from a change of the stream; the record tells the journal when it took place.
    """

    __slots__ = ("name", "sequences")

    def __init__(self, name: str, sequences: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences


@final
class Forgotten:
    """All messages before a sequence left the stream, as far as the consumer is concerned.

    This follows from a change of the stream too.
    """

    __slots__ = ("before", "name", "now_ns")

    def __init__(self, name: str, before: int, now_ns: int) -> None:
        self.name = name
        self.before = before
        self.now_ns = now_ns


@final
class Pinned:
    """One client gets all messages of a priority group; with an empty id, no client does."""

    __slots__ = ("name", "now_ns", "pin_id")

    def __init__(self, name: str, pin_id: str, now_ns: int) -> None:
        self.name = name
        self.pin_id = pin_id
        self.now_ns = now_ns


ConsumerRecord: TypeAlias = (
    ConsumerCreated
    | ConsumerConfigured
    | ConsumerDeleted
    | ConsumerReset
    | Delivered
    | Acked
    | Postponed
    | Exhausted
    | Dropped
    | Forgotten
    | Pinned
)

# In order of frequency, because `isinstance` tries them from the front.
CONSUMER_RECORDS = (
    Delivered,
    Acked,
    ConsumerCreated,
    ConsumerConfigured,
    ConsumerDeleted,
    ConsumerReset,
    Postponed,
    Exhausted,
    Dropped,
    Forgotten,
    Pinned,
)
# Records of the steps of a consumer, and of messages that it loses: each is applied in one step.
STEP_RECORDS = (Delivered, Acked, Postponed, Exhausted, Dropped, Forgotten, Pinned)
# Records whose application may visit every message of the stream.
LongRecord: TypeAlias = ConsumerCreated | ConsumerConfigured | ConsumerDeleted | ConsumerReset
LONG_RECORDS = (ConsumerCreated, ConsumerConfigured, ConsumerDeleted, ConsumerReset)
