"""The interest of this server's own clients, as the other servers are told of it.

A ledger counts the subscriptions of an account by pattern and queue group. The first and the last
subscription to a pattern are announced; of a queue group every change is, because its size is the
weight by which other servers choose among them. Changes of a turn are gathered, so that a client
that comes and goes within it is never heard of.

Subscriptions of the server itself are in a ledger if they are for clients of all servers: streams
that are led here, transfers of backups, and the services of the system account.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from headwater.wire.peer_frames import Interest

# The interests of one frame; so many patterns of a usual length are a few tens of KB.
INTERESTS_PER_FRAME_MAX: Final = 1_000
# Longer patterns go into more frames. A frame has one interest, however long it is.
INTEREST_BYTES_MAX: Final = 1024 * 1024


def in_frames(interests: Iterable[Interest]) -> Iterator[list[Interest]]:
    """Interests in parts, each of which one frame has room for."""
    part: list[Interest] = []
    size = 0
    for interest in interests:
        own = len(interest[0]) + len(interest[1])
        if part and (len(part) == INTERESTS_PER_FRAME_MAX or size + own > INTEREST_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(interest)
        size += own
    if part:
        yield part


@final
class Ledger:
    """The subscriptions of one account; `changed` is called when there is news to announce.

    `mark` returns the number that peers echo once they have heard from this server after the call.
    """

    __slots__ = ("_changed", "_counts", "_news", "mark")

    def __init__(self, changed: Callable[[], None], mark: Callable[[], int]) -> None:
        self._counts: dict[tuple[bytes, bytes], int] = {}
        self._news: dict[tuple[bytes, bytes], None] = {}
        self._changed = changed
        self.mark = mark

    def add(self, pattern: bytes, queue: bytes | None) -> None:
        """A subscription has come."""
        self._count(pattern, queue or b"", 1)

    def remove(self, pattern: bytes, queue: bytes | None) -> None:
        """A subscription has gone."""
        self._count(pattern, queue or b"", -1)

    def _count(self, pattern: bytes, queue: bytes, change: int) -> None:
        key = pattern, queue
        before = self._counts.get(key, 0)
        after = before + change
        if after > 0:
            self._counts[key] = after
        else:
            self._counts.pop(key, None)
        if queue or not before or after <= 0:
            self._news[key] = None
            self._changed()

    def all(self) -> Iterator[Interest]:
        """Every interest, for a server that has just come."""
        for (pattern, queue), count in self._counts.items():
            yield pattern, queue, count if queue else 1

    def take_news(self) -> list[Interest]:
        """The changes since the last call, each as it is now."""
        news, self._news = self._news, {}
        counts = self._counts
        return [
            (pattern, queue, counts.get((pattern, queue), 0) if queue else int(key in counts))
            for key in news
            for pattern, queue in (key,)
        ]
