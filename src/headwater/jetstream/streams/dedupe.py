"""The dedupe window: message ids of recent publishes.

An id counts for a window of time after the timestamp of its message. Nothing here reads a clock:
the same calls with the same times leave the same window on every replica, and an id past the window
is never found, however late it is dropped.

The window holds millions of ids: one dictionary from id to position, and packed columns with the
id, the sequence and the timestamp of each position. The garbage collector tracks neither ids nor
integers, so no object per id adds to its work.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Final, final

from headwater.base.columns import Numbers
from headwater.base.emptying import Container
from headwater.base.invariants import check
from headwater.base.sliced import Work
from headwater.jetstream.header_names import MSG_ID
from headwater.wire.headers import value_of

# Ids dropped with every id that is added: more than one, so that dropping catches up.
FORGOTTEN_PER_ADD_MAX: Final = 2
# Ids dropped by one call: a full window that ends at once must not delay everything else.
FORGOTTEN_PER_CALL_MAX: Final = 4096
# The columns are trimmed when their dead front is this long and makes up half of them.
_DEAD_FRONT_MIN: Final = 1024

_CRLF: Final = b"\r\n"
_ID_LINE: Final = _CRLF + MSG_ID + b":"


def id_in(header: bytes) -> bytes:
    """The message id in a header; empty without one."""
    return value_of(header, MSG_ID) or b"" if header else b""


def ids_in(headers: list[bytes]) -> list[bytes]:
    """The message ids of many headers, empty without one, and without a call for each header."""
    return [header.partition(_ID_LINE)[2].partition(_CRLF)[0].lstrip(b" ") for header in headers]


@final
class DedupeWindow:
    """Ids in the order of their messages. A window of zero finds and keeps nothing."""

    __slots__ = (
        "_base",
        "_dead",
        "_positions",
        "_sequences",
        "_timestamps",
        "_window_ns",
        "ids",
        "last_id",
    )

    def __init__(self, window_ns: int) -> None:
        check(window_ns >= 0, "a dedupe window has a length")
        self._window_ns = window_ns
        self._positions: dict[bytes, int] = {}
        # Ids in the order they came, some of them dropped already; empty if no id is kept.
        self.ids: list[bytes] = []
        self._sequences = array("Q")
        self._timestamps = array("q")
        # The id of the last message, whether it counts or not; empty if the message had none.
        self.last_id = b""
        # Position of the first element of the columns; the first `_dead` of them are forgotten.
        self._base = 0
        self._dead = 0

    def __len__(self) -> int:
        """The number of ids, including those that are past the window but not dropped yet."""
        return len(self._positions)

    @property
    def window_ns(self) -> int:
        """The time for which an id counts."""
        return self._window_ns

    def find(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id; 0 if no such message is within the window."""
        position = self._positions.get(message_id)
        if position is None:
            return 0
        index = position - self._base
        if now_ns - self._timestamps[index] >= self._window_ns:
            return 0
        return self._sequences[index]

    def entry(self, message_id: bytes) -> tuple[int, int] | None:
        """The sequence and the timestamp of the message with this id, even past the window."""
        position = self._positions.get(message_id)
        if position is None:
            return None
        index = position - self._base
        return self._sequences[index], self._timestamps[index]

    def add(self, message_id: bytes, sequence: int, timestamp_ns: int) -> None:
        """Add the id of a stored message, whose sequence is higher than all before it."""
        if self._window_ns == 0:
            return
        self._forget(timestamp_ns, FORGOTTEN_PER_ADD_MAX)
        self._positions[message_id] = self._base + len(self._sequences)
        self.ids.append(message_id)
        self._sequences.append(sequence)
        self._timestamps.append(timestamp_ns)

    def add_all(self, ids: list[bytes], first_sequence: int, timestamps_ns: Numbers) -> None:
        """Add the ids of messages with consecutive sequences, empty for a message without an id.

        The result equals that of `add` for one after the other.
        """
        if self._window_ns == 0:
            return
        added = [*filter(None, ids)]
        self._forget(timestamps_ns[-1], FORGOTTEN_PER_ADD_MAX * len(added))
        begin = self._base + len(self._sequences)
        self._positions.update(zip(added, range(begin, begin + len(added)), strict=True))
        self.ids.extend(added)
        sequences = range(first_sequence, first_sequence + len(ids))
        self._sequences.extend(compress(sequences, ids))
        self._timestamps.extend(compress(timestamps_ns, ids))

    def note_messages(
        self, headers: list[bytes], first_sequence: int, timestamps_ns: Numbers
    ) -> None:
        """Add the ids in the headers of messages that were stored or skipped."""
        last = headers[-1]
        self.last_id = id_in(last) if last else b""
        if any(headers):
            self.add_all(ids_in(headers), first_sequence, timestamps_ns)

    def has_any(self, ids: list[bytes]) -> bool:
        """Whether one of these ids is kept, past the window or not."""
        return not self._positions.keys().isdisjoint(ids)

    def are_new(self, ids: list[bytes]) -> bool:
        """Whether no id stands here twice or is kept already; empty ids do not count."""
        some = [*filter(None, ids)]
        return len(set(some)) == len(some) and not self.has_any(some)

    def forget_before(self, now_ns: int) -> bool:
        """Drop ids that are past the window at `now_ns`. Returns whether some are left."""
        return self._forget(now_ns, FORGOTTEN_PER_CALL_MAX)

    def next_end_ns(self) -> int:
        """When the oldest id passes the window; 0 for never."""
        if self._dead == len(self.ids):
            return 0
        return self._timestamps[self._dead] + self._window_ns

    def setting_window(self, window_ns: int, now_ns: int) -> Work[None]:
        """Change the length of the window, some ids at a time; no lookup may come in between.

        Ids past the old window do not come back.
        """
        check(window_ns >= 0, "a dedupe window has a length")
        while self._forget(now_ns, FORGOTTEN_PER_CALL_MAX):
            yield FORGOTTEN_PER_CALL_MAX
        self._window_ns = window_ns
        while self._forget(now_ns, FORGOTTEN_PER_CALL_MAX):
            yield FORGOTTEN_PER_CALL_MAX

    def abandon(self) -> list[Container]:
        """Drop all ids after the deletion of the stream. Returns the containers to be emptied."""
        containers: list[Container] = [self._positions, self.ids]
        self._positions, self.ids, self._dead = {}, [], 0
        self._sequences, self._timestamps = array("Q"), array("q")
        return containers

    def entries(self, now_ns: int) -> Iterator[tuple[bytes, int, int]]:
        """The id, sequence and timestamp of all ids that count at `now_ns`, oldest first."""
        for index in range(self._dead, len(self.ids)):
            message_id = self.ids[index]
            if self._positions.get(message_id) == self._base + index:
                timestamp_ns = self._timestamps[index]
                if now_ns - timestamp_ns < self._window_ns:
                    yield message_id, self._sequences[index], timestamp_ns

    def entries_from(
        self, position: int, count_max: int
    ) -> tuple[int, list[tuple[bytes, int, int]]]:
        """The id, sequence and timestamp of the ids from a position on, in the order they came.

        Returns the position behind them, too. Ids keep their positions as long as they are kept,
        and others are added behind them: so a caller can read a window some ids at a time while it
        changes. An id that was published again after its window is there twice.
        """
        begin = max(position - self._base, self._dead)
        end = min(begin + count_max, len(self.ids))
        found = zip(
            self.ids[begin:end],
            self._sequences[begin:end],
            self._timestamps[begin:end],
            strict=True,
        )
        return self._base + end, [*found]

    @property
    def first_sequence(self) -> int:
        """The sequence of the oldest id that is kept, past the window or not; 0 without any."""
        return self._sequences[self._dead] if self._dead < len(self.ids) else 0

    def of_messages(self, sequences: Iterable[int]) -> list[tuple[bytes, int, int]]:
        """The id, sequence and timestamp of messages whose ids are kept, even past the window."""
        found: list[tuple[bytes, int, int]] = []
        if self._dead == len(self.ids):
            return found
        kept = self._sequences
        first, last = kept[self._dead], kept[-1]
        for sequence in sequences:
            if first <= sequence <= last:
                index = bisect_left(kept, sequence, self._dead)
                message_id = self.ids[index]
                # The id may have been published again after its window.
                is_current = self._positions.get(message_id) == self._base + index
                if kept[index] == sequence and is_current:
                    found.append((message_id, sequence, self._timestamps[index]))
        return found

    def sequences(self) -> "array[int]":
        """The sequences of the messages whose ids are kept, past the window or not."""
        return self._sequences[self._dead :]

    def restore(self, entries: Iterable[tuple[bytes, int, int]]) -> None:
        """Add the tuples that `entries` returned before a restart."""
        check(not self._positions, "restored into a window in use")
        for message_id, sequence, timestamp_ns in entries:
            self.add(message_id, sequence, timestamp_ns)

    def _forget(self, now_ns: int, count_max: int) -> bool:
        """Drop up to `count_max` ids. Returns whether the next id is past the window too."""
        last_ns = now_ns - self._window_ns
        ids, timestamps, positions = self.ids, self._timestamps, self._positions
        while self._dead < len(ids) and count_max and timestamps[self._dead] <= last_ns:
            message_id = ids[self._dead]
            ids[self._dead] = b""
            # The id may have been published again after its window.
            if positions.get(message_id) == self._base + self._dead:
                del positions[message_id]
            self._dead += 1
            count_max -= 1
        if self._dead >= _DEAD_FRONT_MIN and self._dead * 2 >= len(timestamps):
            del ids[: self._dead], self._sequences[: self._dead], timestamps[: self._dead]
            self._base += self._dead
            self._dead = 0
        return self._dead < len(ids) and timestamps[self._dead] <= last_ns
