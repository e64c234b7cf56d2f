"""The limits of a stream: which messages they remove, oldest first.

The functions inspect a log and return sequences; the stream removes the messages. Messages that are
in the log and not yet visible do not count: they remove others only when they become visible.
"""

from collections.abc import Iterable
from typing import Final, final

from headwater.base.sliced import Work
from headwater.jetstream.config.stream_config import Discard, StreamConfig
from headwater.store.index.walks import gathering_excess, gathering_oldest
from headwater.store.log.message_log import MessageLog


def beyond_limits(
    log: MessageLog,
    config: StreamConfig,
    subjects: Iterable[bytes],
    uncommitted: "Uncommitted",
) -> list[int]:
    """The messages to remove after messages on `subjects` were stored."""
    gone: list[int] = []
    if config.max_msgs_per_subject > 0:
        limit = config.max_msgs_per_subject
        for subject in dict.fromkeys(subjects):
            gone += _beyond_subject_limit(
                log, subject, limit + uncommitted.by_subject.get(subject, 0)
            )
    if config.discard is Discard.OLD:
        gone += _beyond_totals(log, config, gone, uncommitted)
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


def _beyond_subject_limit(log: MessageLog, subject: bytes, limit: int) -> list[int]:
    sequence, _, count = log.subject_extent(subject)
    gone = []
    for _ in range(count - limit):
        gone.append(sequence)
        sequence = log.next_sequence_of((subject,), sequence + 1)
    return gone


def _beyond_totals(
    log: MessageLog, config: StreamConfig, going: list[int], uncommitted: "Uncommitted"
) -> list[int]:
    messages = log.messages - uncommitted.messages - len(going)
    size = log.byte_count - uncommitted.byte_count
    if config.max_bytes > 0:
        size -= sum(map(log.size_of, going))
    if not _is_beyond(config, messages, size):
        return []
    gone = []
    already = set(going)
    sequence = log.first_sequence
    while _is_beyond(config, messages, size):
        if sequence not in already:
            gone.append(sequence)
            messages -= 1
            size -= log.size_of(sequence)
        sequence = log.index.next_message(sequence + 1)
    return gone


def _is_beyond(config: StreamConfig, messages: int, size: int) -> bool:
    return 0 < config.max_msgs < messages or 0 < config.max_bytes < size


@final
class Uncommitted:
    """The messages that are in a log and not yet visible."""

    __slots__ = ("by_subject", "byte_count", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.byte_count = 0
        # The number of those messages, for subjects that have any.
        self.by_subject: dict[bytes, int] = {}

    def hide(self, log: MessageLog, first: int, subjects: list[bytes]) -> None:
        """Add messages that are in the log, from the sequence `first` on."""
        self.messages += len(subjects)
        self.byte_count += _sizes(log, first, len(subjects))
        counts = self.by_subject
        for subject in subjects:
            counts[subject] = counts.get(subject, 0) + 1

    def show(self, log: MessageLog, first: int, subjects: list[bytes]) -> None:
        """Remove messages that became visible, oldest first."""
        self.messages -= len(subjects)
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
