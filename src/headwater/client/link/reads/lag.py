"""The lag of a reader behind its stream: in messages, bytes and seconds.

Sequences are known at once. Messages that match are counted by the server, unless the stream is too
busy for that; bytes are those of so many messages of the stream's average size, because no server
says how large a range is. Seconds are the age of the oldest message that is still to be read.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.reads.counts import count_messages
from headwater.client.link.reads.patterns import ALL
from headwater.go.times import parse_time

_NS_PER_S: Final = 1_000_000_000
_SIZES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Lag:
    """The part still to be read; messages and bytes are None if the server did not count them."""

    sequences: int = 0
    messages: int | None = 0
    bytes: int | None = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As the progress of a query has it."""
        document: dict[str, Any] = {"behind": self.sequences}
        if self.messages is not None and self.bytes is not None:
            document |= {"behindMessages": self.messages, "behindBytes": self.bytes}
        return document | {"behindSeconds": self.seconds}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Lag":
        return cls(
            int(document.get("behind", 0)),
            document.get("behindMessages"),
            document.get("behindBytes"),
            float(document.get("behindSeconds", 0.0)),
        )

    def __add__(self, other: "Lag") -> "Lag":
        """The lag of two streams together: seconds are those of the one that is more behind."""
        return Lag(
            self.sequences + other.sequences,
            _sum(self.messages, other.messages),
            _sum(self.bytes, other.bytes),
            max(self.seconds, other.seconds),
        )

    def __str__(self) -> str:
        """A line of progress: `lag 1,200 messages, 3.4 MiB, 12 s`."""
        if not self.sequences:
            return "lag 0"
        if self.messages is None or self.bytes is None:
            return f"lag {self.sequences:,} sequences, {self.seconds:,.0f} s"
        return f"lag {self.messages:,} messages, {_size(self.bytes)}, {self.seconds:,.0f} s"


def lag_behind(
    connection: Connection, info: StreamInfo, next_sequence: int, subjects: tuple[str, ...] = ()
) -> Lag:
    """The lag of a reader that goes on at `next_sequence`."""
    first, last = max(next_sequence, 1), info.last_seq
    if first > last:
        return Lag()
    messages = count_messages(connection, info, first, last, subjects)
    mean_bytes = info.bytes / max(1, info.messages)
    stored_ns = oldest_time_ns(connection, info, first, subjects)
    age_ns = 0 if stored_ns is None else time.time_ns() - stored_ns
    return Lag(
        last + 1 - next_sequence,
        messages,
        None if messages is None else round(messages * mean_bytes),
        round(max(0, age_ns) / _NS_PER_S, 3),
    )


def oldest_time_ns(
    connection: Connection, info: StreamInfo, first: int, subjects: tuple[str, ...]
) -> int | None:
    """The time of the oldest message that matches from a sequence on; None if no message does."""
    api = ApiClient(connection)
    found = [
        api.message(info.name, {"seq": first, "next_by_subj": pattern})
        for pattern in subjects or (ALL,)
    ]
    return min((parse_time(each.time) for each in found if each is not None), default=None)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _size(size_bytes: int) -> str:
    for unit_bytes, name in _SIZES:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:,.1f} {name}"
    return f"{size_bytes} B"
