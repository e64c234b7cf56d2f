"""What happens to a consumer, as values: the only things that change its durable state.

They live in the log of its stream, between the stream's own (`headwater.jetstream.records`).
Whatever needed the clock or the network is in the record; whatever follows from the state is not:
that an acknowledged message leaves a work queue, for instance, is drawn from the stream's settings.
"""

from collections.abc import Sequence
from typing import TypeAlias, final

from headwater.jetstream.config.consumer_config import ConsumerConfig


@final
class ConsumerCreated:
    """A consumer begins at a sequence of its stream.

    `lasts_until` is not zero where only the last message of each subject is delivered first: it is
    the last sequence to which that applies.
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
    """A consumer goes on with another configuration, which was checked.

    `place` is where it goes on if it is about other subjects from now on: what it has passed over
    before is not looked at again. 0 is behind what it delivered.
    """

    __slots__ = ("config", "name", "place")

    def __init__(self, name: str, config: ConsumerConfig, place: int = 0) -> None:
        self.name = name
        self.config = config
        self.place = place


@final
class ConsumerDeleted:
    """A consumer ends."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@final
class ConsumerReset:
    """A consumer forgets everything and begins again at a sequence of its stream."""

    __slots__ = ("name", "start_sequence")

    def __init__(self, name: str, start_sequence: int) -> None:
        self.name = name
        self.start_sequence = start_sequence


@final
class Delivered:
    """Messages were sent: some once more, then some for the first time, these in ascending order.

    Every one of them took the next sequence of the consumer.
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
    """Messages need not be delivered any more: one by one, or all up to a sequence.

    `floor` is the consumer's and the stream's sequence up to which all are acknowledged, where
    that is how it was said.
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
    """Messages count as if they had been sent at another time: they are due again later."""

    __slots__ = ("name", "sent_ns", "sequences")

    def __init__(self, name: str, sequences: Sequence[int], sent_ns: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences
        self.sent_ns = sent_ns


@final
class Exhausted:
    """Messages were delivered as often as they may be, and stay without an acknowledgement."""

    __slots__ = ("name", "sequences")

    def __init__(self, name: str, sequences: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences


@final
class Dropped:
    """Messages have left the stream: nobody will acknowledge them.

    It follows from what happens to the stream; only the journal has to be told when that was.
    """

    __slots__ = ("name", "sequences")

    def __init__(self, name: str, sequences: Sequence[int]) -> None:
        self.name = name
        self.sequences = sequences


@final
class Forgotten:
    """Everything before a sequence has left the stream, for this consumer; follows as well."""

    __slots__ = ("before", "name", "now_ns")

    def __init__(self, name: str, before: int, now_ns: int) -> None:
        self.name = name
        self.before = before
        self.now_ns = now_ns


@final
class Pinned:
    """One client gets all messages of a priority group; an empty id for none."""

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

# Those that come most often first: it is looked through from the front.
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
# Records that may be about every message of the stream.
LongRecord: TypeAlias = ConsumerCreated | ConsumerConfigured | ConsumerDeleted | ConsumerReset
LONG_RECORDS = (ConsumerCreated, ConsumerConfigured, ConsumerDeleted, ConsumerReset)
