"""The limits of a stream: which messages they remove, oldest first.

The functions inspect messages and return sequences; the stream removes the messages. One rule
serves twice: for the messages that a stream has, when others become visible, and for those that it
will have, when a publish is checked (`headwater.jetstream.streams.foreseen`).
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias, final

from headwater.base.sliced import Work
from headwater.jetstream.config.stream_config import Discard, Storage, StreamConfig
from headwater.store.index.walks import gathering_excess, gathering_oldest
from headwater.store.log.message_log import MessageLog

SEQUENCE_MAX: Final = (1 << 64) - 1


class Messages(Protocol):
    """The messages of a stream at some moment, as far as limits count them."""

    @property
    def messages(self) -> int:
        """The number of messages."""
        ...

    @property
    def byte_count(self) -> int:
        """The sum of their sizes."""
        ...

    def count_of(self, subject: bytes) -> int:
        """The number of messages of a subject."""
        ...

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        """The first messages of a subject, which has at least `count`."""
        ...

    def first_from(self, sequence: int) -> int:
        """The first message from a sequence on; 0 if there is none."""
        ...

    def size_of(self, sequence: int) -> int:
        """The size of a message."""
        ...


# The size of a message against the limits, from its subject, header and body.
SizeRule: TypeAlias = Callable[[bytes, bytes, bytes], int]

# The bytes that nats-server adds to the size of a message, by kind of storage.
_FILE_OVERHEAD_BYTES: Final = 30
_FILE_HEADER_OVERHEAD_BYTES: Final = 4
_MEMORY_OVERHEAD_BYTES: Final = 16
OVERHEAD_BYTES_MAX: Final = _FILE_OVERHEAD_BYTES + _FILE_HEADER_OVERHEAD_BYTES


def size_rule(storage: Storage) -> SizeRule:
    """The rule by which nats-server counts the size of a message in a storage."""
    return _size_in_memory if storage is Storage.MEMORY else _size_in_file


def _size_in_memory(subject: bytes, header: bytes, body: bytes) -> int:
    return len(subject) + len(header) + len(body) + _MEMORY_OVERHEAD_BYTES


def _size_in_file(subject: bytes, header: bytes, body: bytes) -> int:
    size = len(subject) + len(header) + len(body) + _FILE_OVERHEAD_BYTES
    return size + _FILE_HEADER_OVERHEAD_BYTES if header else size


def beyond_limits(messages: Messages, config: StreamConfig, subjects: Iterable[bytes]) -> list[int]:
    """The messages to remove after messages on `subjects` were added."""
    gone: list[int] = []
    limit = config.max_msgs_per_subject
    if limit > 0:
        for subject in dict.fromkeys(subjects):
            excess = messages.count_of(subject) - limit
            if excess > 0:
                gone += messages.oldest_of(subject, excess)
    if config.discard is Discard.OLD:
        gone += _beyond_totals(messages, config, gone)
    return gone


def _beyond_totals(messages: Messages, config: StreamConfig, going: list[int]) -> list[int]:
    count, size = messages.messages - len(going), messages.byte_count
    if config.max_bytes > 0:
        size -= sum(map(messages.size_of, going))
    if not _is_beyond(config, count, size):
        return []
    gone = []
    already = set(going)
    sequence = messages.first_from(0)
    while _is_beyond(config, count, size):
        if sequence not in already:
            gone.append(sequence)
            count -= 1
            size -= messages.size_of(sequence)
        sequence = messages.first_from(sequence + 1)
    return gone


def gathering_beyond_subject_limit(
    log: MessageLog, config: StreamConfig, uncommitted: "Uncommitted"
) -> Work[list[int]]:
    """The messages of all subjects beyond the limit per subject, found some at a time."""
    limit = config.max_msgs_per_subject
    if limit <= 0:
        return []
    ids = log.index.subjects.ids
    uncounted = {
        ids[subject]: count for subject, count in uncommitted.by_subject.items() if subject in ids
    }
    return (yield from gathering_excess(log.index, limit, uncounted))


def gathering_beyond_totals(
    log: MessageLog, config: StreamConfig, uncommitted: "Uncommitted"
) -> Work[list[int]]:
    """The messages beyond the limits of the whole stream, found some at a time."""
    messages = log.messages - uncommitted.messages
    size = log.byte_count - uncommitted.byte_count
    if config.discard is not Discard.OLD or not _is_beyond(config, messages, size):
        return []
    count = messages - config.max_msgs if config.max_msgs > 0 else 0
    size = size - config.max_bytes if config.max_bytes > 0 else 0
    return (yield from gathering_oldest(log.index, count, size))


def _is_beyond(config: StreamConfig, messages: int, size: int) -> bool:
    return 0 < config.max_msgs < messages or 0 < config.max_bytes < size


@final
class Uncommitted:
    """The messages that are in a log and not yet visible."""

    __slots__ = ("by_subject", "byte_count", "first", "messages")

    def __init__(self) -> None:
        # No message before this sequence is hidden.
        self.first = SEQUENCE_MAX
        self.messages = 0
        self.byte_count = 0
        # The number of those messages, for subjects that have any.
        self.by_subject: dict[bytes, int] = {}

    def hide(self, log: MessageLog, first: int, subjects: list[bytes]) -> None:
        """Add messages that are in the log, from the sequence `first` on."""
        self.first = min(self.first, first)
        self.messages += len(subjects)
        self.byte_count += _sizes(log, first, len(subjects))
        counts = self.by_subject
        for subject in subjects:
            counts[subject] = counts.get(subject, 0) + 1

    def show(self, log: MessageLog, first: int, subjects: list[bytes]) -> None:
        """Remove messages that became visible, oldest first."""
        self.messages -= len(subjects)
        self.first = first + len(subjects) if self.messages else SEQUENCE_MAX
        self.byte_count -= _sizes(log, first, len(subjects))
        counts = self.by_subject
        for subject in subjects:
            count = counts[subject] - 1
            if count:
                counts[subject] = count
            else:
                del counts[subject]

    def subjects_in(self, log: MessageLog) -> int:
        """The number of subjects whose messages are all invisible."""
        return sum(
            log.subject_extent(subject)[2] == count for subject, count in self.by_subject.items()
        )


def _sizes(log: MessageLog, first: int, count: int) -> int:
    return sum(map(log.size_of, range(first, first + count)))


NOTHING_UNCOMMITTED: Final = Uncommitted()


def has_limits(config: StreamConfig) -> bool:
    """Whether an incoming message may remove others."""
    return config.max_msgs_per_subject > 0 or (
        config.discard is Discard.OLD and (config.max_msgs > 0 or config.max_bytes > 0)
    )


def has_to_go_singly(config: StreamConfig) -> bool:
    """Whether the result depends on applying messages one by one.

    A large message may push out the first of the stream, and then be replaced itself by a smaller
    one.
    """
    return (
        config.discard is Discard.OLD and config.max_bytes > 0 and config.max_msgs_per_subject > 0
    )
