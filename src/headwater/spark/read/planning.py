"""Where a batch ends and how it is cut into partitions: arithmetic on sequences and counts.

A batch is bounded in messages that match, which may lie thinly in the sequences of a stream: one in
a million, or all. How many there are between two sequences is known by the server alone, so both
questions are answered by a search over counts. It guesses by proportion, which is right at once
where messages lie evenly, and halves every other time, which ends soon where they do not.

Pure: `Count` is whoever can count. Nothing here knows a server, Spark, or an option.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from headwater.spark.read.offsets import PlannedRange

Count = Callable[[int, int], int | None]
"""How many messages that match lie from one sequence to another, both included; None if nobody can
say. The same answer to the same question during one planning."""

PARTITION_MESSAGES_MAX: Final = 500_000
"""A task that fails begins again: this much is lost with it, some seconds of work."""

PARTITION_MESSAGES_WORTH: Final = 5_000
"""Below this a second task costs more than it saves. `minPartitions` overrides it."""

PARTITION_BYTES_MAX: Final = 256 << 20
"""So much for the same reason where messages are large."""

PARTITION_BYTES_WORTH: Final = 4 << 20
"""Few messages of this size together are worth a task of their own too."""

PARTITIONS_DEFAULT: Final = 2

PARALLELISM_VARIABLE: Final = "HEADWATER_PARALLELISM"
"""The variable of the environment by which a session tells planners how many tasks it runs."""

# A batch may be this much smaller than its limit, a part than an even share, to save questions.
_SLACK: Final = 0.05


def partition_count(
    messages: int, minimum: int | None, size_bytes: int = 0, parallelism: int = PARTITIONS_DEFAULT
) -> int:
    """Into how many parts to cut; never more than there are messages, and at least one.

    As many as there are tasks at a time, `parallelism`, as far as they are worth it.
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
    """The last sequence of a batch from `first` on, and how many messages it holds.

    They are at most `limit` and, if there are that many up to `last`, hardly fewer. Where nobody
    can count, the batch is measured in sequences, of which `density` are taken to be messages.
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

    `total` is what `count(first, last)` said. Fewer ranges come out where so many are not possible.
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
    """A batch whose messages were looked at: it ends at `last`, and has these sequences.

    `ends_bytes` are the bytes of each message and all before it.
    """

    last: int
    sequences: list[int]
    ends_bytes: list[int]

    @property
    def bytes(self) -> int:
        return self.ends_bytes[-1] if self.ends_bytes else 0


@dataclass(frozen=True)
class Limit:
    """The most that one batch may take of a stream; None is not bounded.

    `may_exceed`: a message that is larger than all the bytes is a batch of its own, or it would
    never be read. Of a batch that has something already it waits for the next one.
    """

    messages: int | None = None
    bytes: int | None = None
    may_exceed: bool = True

    @property
    def is_spent(self) -> bool:
        return self.messages == 0 or self.bytes == 0

    def after(self, messages: int, size_bytes: int) -> "Limit":
        """The rest of the limit when a batch has so much."""
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
        # Up to the message that goes beyond the share: no part is empty.
        end = max(begin + 1, bisect_left(measured.ends_bytes, share_bytes) + 1)
        if end >= count:
            break
        last = measured.sequences[end] - 1
        ranges.append(PlannedRange(first, last, end - begin))
        first, begin = last + 1, end
    return (*ranges, PlannedRange(first, measured.last, count - begin))


def without_counts(ranges: tuple[PlannedRange, ...]) -> tuple[PlannedRange, ...]:
    """The same ranges of a stream whose messages go by design."""
    return tuple(replace(part, count=None) for part in ranges)


def _search(
    first: int, last: int, total: int, wanted: int, slack: int, count: Count
) -> tuple[int, int | None]:
    """The end of a stretch from `first` with at most `wanted` messages, and how many it has.

    At least one, and not more than `slack` fewer than `wanted`, if `total`, the messages up to
    `last`, are more than `wanted`. Where counting fails it is a guess, without a number.
    """
    if total <= wanted:
        return last, total
    if total == last - first + 1:
        return first + wanted - 1, wanted
    # Always: low holds at most `wanted`, high holds more.
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
            # Too much happens in the stream to count it right now: near enough will do.
            return guess, None
        if found <= wanted:
            low, low_count = guess, found
        else:
            high, high_count = guess, found
    return low, low_count
