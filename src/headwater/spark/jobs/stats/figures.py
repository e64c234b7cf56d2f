"""The figures of the job `stats`, as plain values: what was counted, per group and window.

A group is a subject, or all subjects with the same first tokens; a window is a span of time, all of
the same length, without holes: one in which nothing came says so. Times are seconds since the
epoch, durations seconds, sizes bytes of payload.

Knows neither Spark nor how figures are shown.
"""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final


@dataclass(frozen=True)
class Distribution:
    """How values spread: half of them are at most `p50`, and so on. `count` of them there were."""

    count: int
    min: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Span:
    """What came in some time. A distribution is None where there is nothing to spread.

    `gap` is the time from one message of the group to the next; `latency` that from the time its
    producer wrote into a message to the time it was stored.
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
    """All there is to say about some messages.

    They are of one `stream`, and were read from `source`, the stream itself or an archive of it.
    `groups` are the largest ones, largest first; if there were more, the last one is of all the
    others, and `groups_merged` says how many they are. `all` is everything in one group.
    `unreadable` messages had no producer's time where it should be; None if none was looked for.
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

        Nobody knows what came in the rest of any other window, so it has counts and no rate.
        """
        if self.first_s is None or self.last_s is None:
            return False
        begin = self.window_starts_s[position]
        return self.first_s <= begin and begin + self.window_s <= self.last_s

    def to_json(self) -> dict[str, Any]:
        """As a document: the dataclasses' own fields, and times that people can read."""
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
