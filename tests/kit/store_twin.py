"""A log as anybody would write it who need not care about speed, memory or disks.

Everything is a dict from sequence to message, looked through from one end to the other. Tests do
the same to it and to a real log, and `differences` says where the two do not agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.store.log.message_log import Batch, MessageBatch, MessageLog, StoredMessage
from headwater.subjects.grammar import matches

SizeOf = Callable[[int, int, int], int]


def file_size(subject: int, header: int, payload: int) -> int:
    """The bytes that nats-server counts on disk: 22, the subject, and 8 behind the payload."""
    with_header = 4 + header if header else 0
    return 22 + subject + with_header + payload + 8


def memory_size(subject: int, header: int, payload: int) -> int:
    """The bytes that nats-server counts in memory: 16, and all of the message."""
    return 16 + subject + header + payload


@dataclass(frozen=True)
class Kept:
    """A message."""

    subject: bytes
    header: bytes
    payload: bytes
    timestamp_ns: int
    expiry_ns: int


class Twin:
    """The obvious log."""

    def __init__(self, first_sequence: int = 1) -> None:
        self.messages: dict[int, Kept] = {}
        self.last = first_sequence - 1

    # --- changes ------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        first = self.last + 1
        expiries = batch.expiries_ns or [0] * len(batch.subjects)
        columns = (batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, expiries)
        for values in zip(*columns, strict=True):
            self.last += 1
            self.messages[self.last] = Kept(*values)
        return first

    def skip(self, count: int) -> None:
        self.last += count

    def delete(self, sequences: Sequence[int]) -> int:
        return sum(self.messages.pop(sequence, None) is not None for sequence in sequences)

    def truncate(self, last: int) -> None:
        self.last = min(self.last, last)
        self.messages = {
            sequence: kept for sequence, kept in self.messages.items() if sequence <= last
        }

    def purge(self, pattern: bytes, before: int, keep: int) -> int:
        found = [sequence for sequence in self.on((pattern,)) if not before or sequence < before]
        return self.delete(found[: max(len(found) - keep, 0)])

    # --- answers ------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        return min(self.messages, default=self.last + 1)

    def on(self, patterns: Sequence[bytes], since: int = 0, up_to: int | None = None) -> list[int]:
        return [
            sequence
            for sequence, kept in sorted(self.messages.items())
            if since <= sequence
            and (up_to is None or sequence <= up_to)
            and any(matches(pattern, kept.subject) for pattern in patterns)
        ]

    def counts(self, pattern: bytes) -> dict[bytes, int]:
        counts: dict[bytes, int] = {}
        for sequence in self.on((pattern,)):
            subject = self.messages[sequence].subject
            counts[subject] = counts.get(subject, 0) + 1
        return counts

    def extent(self, subject: bytes) -> tuple[int, int, int]:
        found = [at for at, kept in sorted(self.messages.items()) if kept.subject == subject]
        return (found[0], found[-1], len(found)) if found else (0, 0, 0)

    def last_of_each(self, patterns: Sequence[bytes], up_to: int | None) -> list[int]:
        lasts = {self.messages[at].subject: at for at in self.on(patterns, up_to=up_to)}
        return sorted(lasts.values())

    def deleted(self) -> list[int]:
        if not self.messages:
            return []
        return [at for at in range(self.first, self.last + 1) if at not in self.messages]

    def byte_count(self, size_of: SizeOf) -> int:
        return sum(
            size_of(len(kept.subject), len(kept.header), len(kept.payload))
            for kept in self.messages.values()
        )

    def at(self, timestamp_ns: int) -> int:
        found = (at for at, kept in self.messages.items() if kept.timestamp_ns >= timestamp_ns)
        return min(found, default=0)

    def stored_before(self, timestamp_ns: int) -> list[int]:
        return [at for at, kept in self.messages.items() if kept.timestamp_ns < timestamp_ns]

    def expired(self, now_ns: int) -> list[int]:
        due = [
            (kept.expiry_ns, at)
            for at, kept in self.messages.items()
            if 0 < kept.expiry_ns <= now_ns
        ]
        return [at for _, at in sorted(due)]

    def get(self, sequence: int) -> StoredMessage | None:
        kept = self.messages.get(sequence)
        if kept is None:
            return None
        return StoredMessage(sequence, kept.subject, kept.header, kept.payload, kept.timestamp_ns)

    def read(self, sequence: int, count_max: int, bytes_max: int) -> list[StoredMessage]:
        following = [at for at in sorted(self.messages) if at >= sequence]
        return self.read_at(following[:count_max], bytes_max)

    def read_at(self, sequences: Sequence[int], bytes_max: int) -> list[StoredMessage]:
        taken: list[StoredMessage] = []
        for at in sequences:
            message = self.get(at)
            if message is None:
                continue
            bytes_max -= len(message.header) + len(message.payload)
            if bytes_max < 0 and taken:
                break
            taken.append(message)
        return taken


def messages_read(
    log: MessageLog, sequence: int, count_max: int, bytes_max: int
) -> list[StoredMessage]:
    """The messages of `read` of a real log, one by one."""
    return messages_in(log.read(sequence, count_max, bytes_max))


def messages_in(batch: MessageBatch) -> list[StoredMessage]:
    """A batch, one by one."""
    columns = (batch.sequences, batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns)
    return [StoredMessage(*values) for values in zip(*columns, strict=True)]


def expanded(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Ranges as single sequences."""
    return [sequence for first, last in ranges for sequence in range(first, last + 1)]


def same_state(log: MessageLog, twin: Twin, size_of: SizeOf) -> None:
    """Both say the same of how much there is."""
    assert log.last_sequence == twin.last
    assert log.first_sequence == twin.first
    assert log.messages == len(twin.messages)
    assert log.byte_count == twin.byte_count(size_of)
    assert log.subject_counts() == twin.counts(b">")
    assert log.subject_count == len(twin.counts(b">"))
    ranges = [*log.index.gaps()]
    assert expanded(ranges) == twin.deleted()
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
    assert log.deleted_count == len(twin.deleted())


def same_dead_bytes(log: MessageLog) -> None:
    """The bytes of removed messages that still take room are counted right."""
    for segment in log.index.segments:
        pairs = zip(segment.sizes, segment.offsets, strict=True)
        assert segment.dead_bytes == sum(size for size, offset in pairs if not offset)


def same_messages(log: MessageLog, twin: Twin) -> None:
    """Both have the same messages."""
    everything = twin.read(0, 2**62, 2**62)
    assert messages_read(log, 0, 2**62, 2**62) == everything
    for message in everything:
        assert log.get(message.sequence) == message
    for subject in twin.counts(b">"):
        assert log.subject_extent(subject) == twin.extent(subject)
