"""Key-value buckets as tables: the entries of a stream, read as keys, revisions and operations.

An entry is a message at `$KV.<bucket>.<key>`; its revision is its sequence. A delete leaves a
marker: the header `KV-Operation` says `DEL` or `PURGE`, and where a server wrote the marker itself
(an age limit, a purge of the stream), `Nats-Marker-Reason` says why.

A row is an entry, markers included: with `history` all that the bucket still holds, otherwise the
newest of each key. Whoever wants values alone filters on `operation = 'put'`.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from headwater.spark.batches import Column, MessageColumns, texts
from headwater.spark.link.ranges import Columns
from headwater.wire.headers import value_of

PUT: Final = "put"
DELETE: Final = "delete"
PURGE: Final = "purge"

_OPERATION: Final = b"KV-Operation"
_MARKER_REASON: Final = b"Nats-Marker-Reason"
_BY_OPERATION: Final = {b"DEL": DELETE, b"PURGE": PURGE}
_BY_REASON: Final = {b"Remove": DELETE, b"MaxAge": PURGE, b"Purge": PURGE}


def subjects_of(bucket: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns of keys as patterns of the stream's subjects; whole subjects stay as they are."""
    prefix = f"$KV.{bucket}."
    return tuple(
        pattern if pattern.startswith("$KV.") else prefix + pattern for pattern in patterns
    )


def key_of(subject: bytes) -> bytes:
    """What follows `$KV.<bucket>.`; in a mirror the bucket is that of the origin."""
    return subject.split(b".", 2)[-1]


def operation_of(header: bytes) -> str:
    """What the entry did to its key."""
    if not header:
        return PUT
    operation = value_of(header, _OPERATION)
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation]
    return _BY_REASON.get(value_of(header, _MARKER_REASON) or b"", PUT)


def _keys(columns: MessageColumns) -> pa.Array:
    return texts([key_of(subject) for subject in columns.subjects])


def _operations(columns: MessageColumns) -> pa.Array:
    return pa.array([operation_of(header) for header in columns.headers], pa.string())


COLUMNS: Final[dict[str, Column]] = {
    "key": _keys,
    "revision": lambda columns: pa.array(columns.sequences, pa.int64()),
    "operation": _operations,
}


CATCH_UP_ROUNDS_MAX: Final = 32
"""Each round reads what was written during the one before: after a few there is next to nothing."""

Read = Callable[[int, int], Iterator[Columns]]
"""The entries from one revision to another, both included."""


class LatestEntries:
    """The newest entry of each key, in one pass by one task.

    A bucket forgets an entry when its key is put again, so a reader that stops at the revision at
    which it began misses the keys that were put while it read. It therefore reads on until it has
    caught up, and takes from there the keys it has not seen. Every key that was there all the time
    comes out once.
    """

    def __init__(self, read: Read, one_per_key: bool) -> None:
        """`one_per_key`: the bucket itself keeps no more than the newest."""
        self._read = read
        self._one_per_key = one_per_key
        self._seen: set[bytes] = set()

    def chunks(self, first: int, last: int, newest: Callable[[], int] | None) -> Iterator[Columns]:
        """Entries from `first` to `last`, and on to what `newest` says there is by then, if given.

        Without that the table is as of revision `last`.
        """
        if self._one_per_key:
            # Nothing within these revisions can have been replaced by something else within them.
            for chunk in self._read(first, last):
                self._seen.update(chunk.subjects)
                yield chunk
        else:
            yield from self._newest_of_each(first, last)
        if newest is None:
            return
        for _ in range(CATCH_UP_ROUNDS_MAX):
            first, last = last + 1, newest()
            found = 0
            for chunk in self._read(first, last):
                found += len(chunk)
                yield chunk.picked(self._unseen(chunk.subjects))
            if found == last - first + 1:
                # Every revision was there: nothing was put again meanwhile.
                return

    def _newest_of_each(self, first: int, last: int) -> Iterator[Columns]:
        """Holds an entry per key: which one is the newest is known at the end."""
        kept: dict[bytes, tuple[int, int, bytes, bytes]] = {}
        for chunk in self._read(first, last):
            entries = zip(
                chunk.sequences, chunk.timestamps_ns, chunk.headers, chunk.payloads, strict=True
            )
            kept.update(zip(chunk.subjects, entries, strict=True))
        self._seen.update(kept)
        ordered = sorted(kept, key=lambda subject: kept[subject][0])
        columns = [list(column) for column in zip(*(kept[s] for s in ordered), strict=True)]
        if ordered:
            yield Columns(ordered, *columns)

    def _unseen(self, subjects: list[bytes]) -> list[int]:
        places = []
        for place, subject in enumerate(subjects):
            if subject not in self._seen:
                self._seen.add(subject)
                places.append(place)
        return places
