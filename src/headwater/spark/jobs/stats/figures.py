"""The figures of the job `stats`, as plain values: counts per group and window.

A group is a subject, or all subjects with the same first tokens; windows are spans of time of one
length, without gaps: a window without messages has zeros. Times are seconds since the epoch,
durations seconds, sizes bytes of payload.

Knows neither Spark nor how figures are shown.
"""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final


@dataclass(frozen=True)
class Distribution:
    """The distribution of `count` values: half of them are at most `p50`, and so on."""

    count: int
    min: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Span:
    """The messages of some time. Without values there is no distribution.

    `gap` is the time from one message of the group to the next; `latency` that from the producer's
    time in a message to the time it was stored.
    """

    messages: int
    bytes: int
    size: Distribution | None = None
    gap: Distribution | None = None
    latency: Distribution | None = None


NOTHING: Final = Span(0, 0)


@dataclass(frozen=True)
class Group:
    """Some subjects: over the whole time, and window by window."""

    name: str
    total: Span
    windows: tuple[Span, ...]


@dataclass(frozen=True)
class Figures:
    """All figures of some messages.

    They are of one `stream`, and were read from `source`, the stream itself or an archive of it.
    `groups` are the largest ones, largest first; if there were more, the last one is of all the
    others, and `groups_merged` is their number. `all` is everything in one group. `unreadable`
    messages had no readable producer's time; None if it was not read.
    """

    stream: str
    source: str
    first_s: float | None
    last_s: float | None
    window_s: float
    window_starts_s: tuple[float, ...]
    all: Group
    groups: tuple[Group, ...]
    groups_merged: int = 0
    unreadable: int | None = None

    @property
    def duration_s(self) -> float:
        """From the first message to the last."""
        if self.first_s is None or self.last_s is None:
            return 0.0
        return self.last_s - self.first_s

    @property
    def rate(self) -> float | None:
        """Messages per second between the first and the last; None for fewer than two moments."""
        return self.all.total.messages / self.duration_s if self.duration_s > 0 else None

    def is_whole(self, position: int) -> bool:
        """Whether a window lies between the first message and the last.

        The rest of any other window is unknown, so it has counts and no rate.
        """
        if self.first_s is None or self.last_s is None:
            return False
        begin = self.window_starts_s[position]
        return self.first_s <= begin and begin + self.window_s <= self.last_s

    def to_json(self) -> dict[str, Any]:
        """The figures as a document: the fields of the dataclasses, and times as texts."""
        document = dataclasses.asdict(self)
        document["first"] = time_text(self.first_s)
        document["last"] = time_text(self.last_s)
        document["duration_s"] = self.duration_s
        document["rate"] = self.rate
        return document


def time_text(time_s: float | None) -> str | None:
    """A time in RFC 3339, in microseconds."""
    if time_s is None:
        return None
    moment = datetime.fromtimestamp(time_s, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
