"""Records of streams and of the set of streams: the only values that change durable state.

`decide` makes records, and `Stream.append` queues them in the look-ahead. Once they are as durable
as the stream's level asks for, `Stream.apply` stores their messages in the log and applies their
effects. Two replicas that apply the same records are equal. A record holds all that came from the
clock or from random numbers, and nothing that follows from the state. `headwater.jetstream.codec`
has the bytes of every record.
"""

from typing import TypeAlias, final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.records import ConsumerRecord
from headwater.store.log.message_log import Batch, EncodedMessages


@final
class Published:
    """Messages for the next sequences; the log stores all of them or none.

    `rolls_up` says that the headers of some of them replace other messages. `encoded` has the bytes
    of the record once it was encoded or decoded, so that a stream encodes messages once; its
    `begin` is behind the fixed part of the record.
    """

    __slots__ = ("batch", "encoded", "first_sequence", "rolls_up")

    def __init__(self, first_sequence: int, batch: Batch, rolls_up: bool = False) -> None:
        self.first_sequence = first_sequence
        self.batch = batch
        self.rolls_up = rolls_up
        self.encoded: EncodedMessages | None = None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last message."""
        return self.first_sequence + len(self.batch.subjects) - 1


@final
class Skipped:
    """A message without interest: it takes a sequence and is not stored.

    Without a subject, all sequences up to this one are passed over: some of them may have been
    given out, to messages that are lost.
    """

    __slots__ = ("first_sequence", "header", "subject", "timestamp_ns")

    def __init__(
        self, first_sequence: int, subject: bytes, header: bytes, timestamp_ns: int
    ) -> None:
        self.first_sequence = first_sequence
        self.subject = subject
        self.header = header
        self.timestamp_ns = timestamp_ns

    @property
    def last_sequence(self) -> int:
        """The sequence that the message took."""
        return self.first_sequence


@final
class Removed:
    """Messages are removed, by a request or because they expired.

    `is_lost` says that no replica can read them: those that are there count as lost.
    """

    __slots__ = ("erase", "is_lost", "sequences")

    def __init__(self, sequences: list[int], erase: bool = False, is_lost: bool = False) -> None:
        self.sequences = sequences
        self.erase = erase
        self.is_lost = is_lost


@final
class Purged:
    """Messages on matching subjects are removed: before a sequence, or all but the last ones."""

    __slots__ = ("before", "keep", "now_ns", "pattern")

    def __init__(self, pattern: bytes, before: int = 0, keep: int = 0, now_ns: int = 0) -> None:
        self.pattern = pattern
        self.before = before
        self.keep = keep
        self.now_ns = now_ns


@final
class Configured:
    """The stream gets another configuration, which was checked."""

    __slots__ = ("config", "now_ns")

    def __init__(self, config: StreamConfig, now_ns: int) -> None:
        self.config = config
        self.now_ns = now_ns


@final
class Copied:
    """A source of the stream was copied up to a sequence of its own.

    `source` is the source by its index name, `identity` that of the stream it is, empty if that is
    not known. The record stands before the messages that were copied, and holds once the stream
    has given out `last_sequence`: the position is never ahead of the messages.
    """

    __slots__ = ("identity", "last_sequence", "sequence", "source")

    def __init__(
        self, source: bytes, sequence: int, identity: bytes, last_sequence: int = 0
    ) -> None:
        self.source = source
        self.sequence = sequence
        self.identity = identity
        self.last_sequence = last_sequence


@final
class StreamCreated:
    """A stream was created, with a configuration that was checked.

    `incarnation` are 16 random bytes: a stream that is created again under its name has others.
    """

    __slots__ = ("account", "config", "created_ns", "incarnation", "name")

    def __init__(
        self, account: str, name: str, incarnation: bytes, config: StreamConfig, created_ns: int
    ) -> None:
        self.account = account
        self.name = name
        self.incarnation = incarnation
        self.config = config
        self.created_ns = created_ns


@final
class StreamDeleted:
    """A stream was deleted: the one of this incarnation, no earlier or later one of its name."""

    __slots__ = ("account", "incarnation", "name")

    def __init__(self, account: str, name: str, incarnation: bytes) -> None:
        self.account = account
        self.name = name
        self.incarnation = incarnation


Record: TypeAlias = Published | Skipped | Removed | Purged | Configured | Copied | ConsumerRecord
# The records of the set of streams.
StreamSetRecord: TypeAlias = StreamCreated | StreamDeleted
