"""The end of a batch and its partitions: arithmetic on sequences and counts.

A batch is limited in matching messages, which may be sparse among the sequences of a stream: one in
a million, or all. Only the server can count them between two sequences, so both the end and the
partitions are found by a search over counts. The search guesses by proportion, which is right at
once for evenly spread messages, and halves every other time, which ends soon for others.

Pure: `Count` asks the server. Nothing here knows a server, Spark, or an option.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from headwater.spark.read.offsets import PlannedRange

Count = Callable[[int, int], int | None]
"""The number of matching messages between two sequences, both included; None if unknown.

During one planning equal questions have equal answers.
"""

PARTITION_MESSAGES_MAX: Final = 500_000
"""A failed task begins again: this is the work that is lost, some seconds."""

PARTITION_MESSAGES_WORTH: Final = 5_000
"""Below this a second task costs more than it saves. `minPartitions` overrides it."""

PARTITION_BYTES_MAX: Final = 256 << 20
"""The limit for large messages, for the same reason."""

PARTITION_BYTES_WORTH: Final = 4 << 20
"""A few large messages of this total size are worth a task of their own too."""

PARTITIONS_DEFAULT: Final = 2

PARALLELISM_VARIABLE: Final = "HEADWATER_PARALLELISM"
"""The environment variable by which a session tells planners how many tasks it runs."""

# A batch may be this much smaller than its limit, a part than an even share, to save questions.
_SLACK: Final = 0.05


def partition_count(
    messages: int, minimum: int | None, size_bytes: int = 0, parallelism: int = PARTITIONS_DEFAULT
) -> int:
    """The number of parts; at least one, and never more than there are messages.

    As many as run at a time, `parallelism`, if they are worth it.
    """
    wanted = max(-(-messages // PARTITION_MESSAGES_MAX), -(-size_bytes // PARTITION_BYTES_MAX))
    if minimum is not None:
        wanted = max(wanted, minimum)
    else:
        worth = max(messages // PARTITION_MESSAGES_WORTH, size_bytes // PARTITION_BYTES_WORTH)
        wanted = max(wanted, min(parallelism, worth))
    return max(1, min(wanted, messages))


def end_of_batch(
    first: int, last: int, limit: int | None, count: Count, density: float = 1.0
) -> tuple[int, int | None]:
    """The last sequence of a batch from `first` on, and the number of its messages.

    There are at most `limit` and, if there are that many up to `last`, hardly fewer. If they cannot
    be counted, the batch is measured in sequences, of which `density` are assumed to be messages.
    """
    span = last - first + 1
    total = count(first, last)
    if total is None:
        if limit is None:
            return last, None
        sequences = max(1, int(limit / max(density, 1 / span)))
        return min(last, first + sequences - 1), None
    if limit is None or total <= limit:
        return last, total
    return _search(first, last, total, limit, int(limit * _SLACK), count)


def cut(
    first: int, last: int, total: int | None, parts: int, count: Count
) -> tuple[PlannedRange, ...]:
    """`parts` ranges that follow each other from `first` to `last`, evenly filled.

    `total` is the result of `count(first, last)`. There are fewer ranges if so many are not
    possible.
    """
    ranges: list[PlannedRange] = []
    while parts > 1 and first < last:
        share: int | None = None
        if total is None:
            end = first + -(-(last - first + 1) // parts) - 1
        elif total <= 1:
            break
        else:
            wanted = -(-total // parts)
            end, share = _search(first, last, total, wanted, int(wanted * _SLACK), count)
        if end >= last:
            break
        ranges.append(PlannedRange(first, end, share))
        total = None if total is None or share is None else total - share
        first, parts = end + 1, parts - 1
    ranges.append(PlannedRange(first, last, total))
    return tuple(ranges)


@dataclass(frozen=True)
class Measured:
    """A batch whose messages were read for their sizes: it ends at `last`, and has these sequences.

    `ends_bytes` has the bytes of each message and all before it.
    """

    last: int
    sequences: list[int]
    ends_bytes: list[int]

    @property
    def bytes(self) -> int:
        return self.ends_bytes[-1] if self.ends_bytes else 0


@dataclass(frozen=True)
class Limit:
    """The limit of one batch of a stream; None is no limit.

    `may_exceed`: a message that is larger than the limit of bytes is a batch of its own, or it
    would never be read. In a batch with other messages it waits for the next one.
    """

    messages: int | None = None
    bytes: int | None = None
    may_exceed: bool = True

    @property
    def is_spent(self) -> bool:
        return self.messages == 0 or self.bytes == 0

    def after(self, messages: int, size_bytes: int) -> "Limit":
        """The rest of the limit after this much."""
        return Limit(
            None if self.messages is None else max(0, self.messages - messages),
            None if self.bytes is None else max(0, self.bytes - size_bytes),
            self.may_exceed and not messages,
        )


def measure(
    last: int, limit_bytes: int, sizes: Iterable[tuple[int, int]], may_exceed: bool = True
) -> Measured:
    """The batch that holds as much of `sizes` as is within the limit, up to sequence `last`.

    `sizes` are sequences, ascending, and bytes. A message that is larger than the limit is a batch
    of its own, if it `may_exceed`.
    """
    sequences: list[int] = []
    ends_bytes: list[int] = []
    total = 0
    for sequence, size in sizes:
        total += size
        if total > limit_bytes and (sequences or not may_exceed):
            return Measured(sequence - 1, sequences, ends_bytes)
        sequences.append(sequence)
        ends_bytes.append(total)
        if total > limit_bytes:
            return Measured(sequence, sequences, ends_bytes)
    return Measured(last, sequences, ends_bytes)


def cut_measured(first: int, measured: Measured, parts: int) -> tuple[PlannedRange, ...]:
    """At most `parts` ranges from `first` to the end of the batch, with equal shares of bytes."""
    ranges: list[PlannedRange] = []
    count = len(measured.sequences)
    begin = 0
    for part in range(1, parts):
        share_bytes = measured.bytes * part // parts
        # Up to the message that exceeds the share: no part is empty.
        end = max(begin + 1, bisect_left(measured.ends_bytes, share_bytes) + 1)
        if end >= count:
            break
        last = measured.sequences[end] - 1
        ranges.append(PlannedRange(first, last, end - begin))
        first, begin = last + 1, end
    return (*ranges, PlannedRange(first, measured.last, count - begin))


def without_counts(ranges: tuple[PlannedRange, ...]) -> tuple[PlannedRange, ...]:
    """The ranges without counts, for a stream that removes messages by design."""
    return tuple(replace(part, count=None) for part in ranges)


def _search(
    first: int, last: int, total: int, wanted: int, slack: int, count: Count
) -> tuple[int, int | None]:
    """The end of a stretch from `first` with at most `wanted` messages, and their number.

    At least one, and not more than `slack` fewer than `wanted`, if `total`, the messages up to
    `last`, are more than `wanted`. If counting fails it is a guess, without a number.
    """
    if total <= wanted:
        return last, total
    if total == last - first + 1:
        return first + wanted - 1, wanted
    # Invariant: low holds at most `wanted`, high holds more.
    low, low_count = first - 1, 0
    high, high_count = last, total
    halve = False
    while high - low > 1 and low_count < max(1, wanted - slack):
        if halve:
            guess = (low + high) // 2
        else:
            share = (wanted - low_count) / (high_count - low_count)
            guess = low + max(1, min(int((high - low) * share), high - low - 1))
        halve = not halve
        found = count(first, guess)
        if found is None:
            # The stream changes too fast to be counted: an approximation is enough.
            return guess, None
        if found <= wanted:
            low, low_count = guess, found
        else:
            high, high_count = guess, found
    return low, low_count
