"""The limits of a stream: which messages they remove, oldest first.

The functions inspect messages and return sequences; the stream removes the messages. One rule
serves twice: for the messages that a stream has, when others become visible, and for those that it
will have, when a publish is checked (`headwater.jetstream.streams.foreseen`).
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from headwater.base.sliced import Work
from headwater.jetstream.config.stream_config import Discard, Storage, StreamConfig
from headwater.store.index.walks import gathering_excess, gathering_oldest
from headwater.store.log.message_log import MessageLog


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
        """The first message from a sequence on; 0 without one."""
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


def gathering_beyond_subject_limit(log: MessageLog, config: StreamConfig) -> Work[list[int]]:
    """The messages of all subjects beyond the limit per subject, found some at a time."""
    limit = config.max_msgs_per_subject
    return (yield from gathering_excess(log.index, limit)) if limit > 0 else []


def gathering_beyond_totals(log: MessageLog, config: StreamConfig) -> Work[list[int]]:
    """The messages beyond the limits of the whole stream, found some at a time."""
    if not exceeds_totals(log, config):
        return []
    messages, size = log.messages, log.byte_count
    count = messages - config.max_msgs if config.max_msgs > 0 else 0
    size = size - config.max_bytes if config.max_bytes > 0 else 0
    return (yield from gathering_oldest(log.index, count, size))


def exceeds_totals(log: MessageLog, config: StreamConfig) -> bool:
    """Whether a log has messages beyond the limits of the whole stream."""
    return config.discard is Discard.OLD and _is_beyond(config, log.messages, log.byte_count)


def narrows_subject_limit(config: StreamConfig, before: StreamConfig) -> bool:
    """Whether messages within the limit per subject of a configuration may be beyond the next."""
    limit = config.max_msgs_per_subject
    return limit > 0 and not 0 < before.max_msgs_per_subject <= limit


def _is_beyond(config: StreamConfig, messages: int, size: int) -> bool:
    return 0 < config.max_msgs < messages or 0 < config.max_bytes < size


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
        config.max_bytes > 0 and config.max_msgs_per_subject > 0 and config.discard is Discard.OLD
    )
