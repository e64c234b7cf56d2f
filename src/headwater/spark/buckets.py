"""Key-value buckets as tables: the entries of a stream, read as keys, revisions and operations.

An entry is a message at `$KV.<bucket>.<key>`; its revision is its sequence. A delete leaves a
marker: the header `KV-Operation` is `DEL` or `PURGE`, and in a marker that the server wrote itself
(an age limit, a purge of the stream), `Nats-Marker-Reason` has the reason.

A row is an entry, markers included: with `history` all that the bucket still holds, otherwise the
newest of each key. A filter on `operation = 'put'` leaves the values alone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

import pyarrow as pa

from headwater.base.columns import StoredColumns
from headwater.client.link.reads.ranges import CHUNK_ROWS, Columns, SequenceRange
from headwater.spark.read.batches import Column, texts
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
    """The part of a subject after `$KV.<bucket>.`; in a mirror the bucket is that of the origin."""
    return subject.split(b".", 2)[-1]


def operation_of(header: bytes) -> str:
    """The operation of an entry on its key."""
    if not header:
        return PUT
    operation = value_of(header, _OPERATION)
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation]
    return _BY_REASON.get(value_of(header, _MARKER_REASON) or b"", PUT)


def _keys(columns: StoredColumns) -> pa.Array:
    return texts([key_of(subject) for subject in columns.subjects])


def _operations(columns: StoredColumns) -> pa.Array:
    return pa.array([operation_of(header) for header in columns.headers], pa.string())


COLUMNS: Final[dict[str, Column]] = {
    "key": _keys,
    "revision": lambda columns: pa.array(columns.sequences, pa.int64()),
    "operation": _operations,
}


CATCH_UP_ROUNDS_MAX: Final = 32
"""The limit of rounds: each reads the entries written during the one before, so there are few."""

Read = Callable[[SequenceRange], Iterator[Columns]]
"""The entries of a range of revisions."""

Newest = Callable[[], int]
"""The newest revision at the time of the call."""


class CatchUp:
    """Reads on behind a revision, until no key can have been missed.

    A key that was not met when a round begins has its entry in the revisions of the round, unless
    it is put again before it is read. If every revision is found, or no entry is left behind the
    previous round, there is no such key: `is_complete`, and the keys are known as they were at
    `revision`. Otherwise `revision` is the last one that was read.
    """

    def __init__(self, read: Read, newest: Newest, after: int) -> None:
        self.revision = after
        self.is_complete = False
        self._read = read
        self._newest = newest

    def chunks(self) -> Iterator[Columns]:
        """The entries; those of the last round may be newer than `revision`."""
        for _ in range(CATCH_UP_ROUNDS_MAX):
            first, last = self.revision + 1, max(self._newest(), self.revision)
            within = found = reached = 0
            for chunk in self._read(SequenceRange(first, last, is_open=True)):
                found += len(chunk)
                within += bisect_right(chunk.sequences, last)
                yield chunk
                reached = chunk.sequences[-1]
            self.is_complete = found == 0 or within == last - first + 1
            self.revision = last if self.is_complete else max(last, reached)
            if self.is_complete:
                return


class LatestEntries:
    """The newest entry of each key, in one pass by one task.

    A bucket drops an entry when its key is put again, so a reader that stops at the revision at
    which it began misses the keys that were put while it read. It therefore reads on until it has
    caught up, and adds the keys it has not seen. Every key that existed all the time is returned
    once.

    For a stream the subjects are the keys.
    """

    def __init__(self, read: Read, one_per_key: bool, share: tuple[int, int] = (0, 1)) -> None:
        """`one_per_key`: the bucket itself keeps no more than the newest entry.

        `share`: the part of the keys to return, and the number of parts.
        """
        self._read = read
        self._one_per_key = one_per_key
        self._part, self._parts = share
        self._seen: set[bytes] = set()
        # The newest entry so far of keys that have several.
        self._kept: dict[bytes, tuple[int, int, bytes, bytes]] = {}

    def chunks(self, first: int, last: int, newest: Newest | None) -> Iterator[Columns]:
        """Entries from `first` to `last`, and on to the revision that `newest` returns, if given.

        Without `newest` the table is as of revision `last`.
        """
        yield from self.changes(first, last, None, last, newest)

    def changes(
        self, first: int, last: int, count: int | None, head: int, newest: Newest | None
    ) -> Iterator[Columns]:
        """The keys with an entry from `first` to `last`, of which there were once `count`.

        At that moment the bucket ended at revision `head`. If fewer are left (or there is no
        `count`), others have been put again since: the entries behind `head` are read as well, up
        to the revision that `newest` returns, if given. They include the missing keys, and maybe
        further ones.
        """
        found = 0
        for chunk in self._read(SequenceRange(first, last)):
            found += len(chunk)
            if self._one_per_key and self._parts == 1:
                # No entry of the range can have been replaced by another one of the range.
                self._seen.update(chunk.subjects)
                yield chunk
            else:
                yield from self._releasable(chunk)
        if newest is not None and (count is None or found < count):
            for chunk in CatchUp(self._read, newest, head).chunks():
                yield from self._releasable(chunk)
        yield from self._rest()

    def _releasable(self, chunk: Columns) -> Iterator[Columns]:
        """The part of a chunk that can be returned already."""
        if not self._one_per_key:
            chunk = self._shared(chunk)
            entries = zip(
                chunk.sequences, chunk.timestamps_ns, chunk.headers, chunk.payloads, strict=True
            )
            self._kept.update(zip(chunk.subjects, entries, strict=True))
            return
        unseen = chunk.picked(self._unseen(chunk.subjects))
        if len(unseen):
            yield unseen

    def _unseen(self, subjects: list[bytes]) -> list[int]:
        places = []
        for place, subject in enumerate(subjects):
            if subject not in self._seen and self._is_ours(subject):
                self._seen.add(subject)
                places.append(place)
        return places

    def _shared(self, chunk: Columns) -> Columns:
        if self._parts == 1:
            return chunk
        return chunk.picked([at for at, key in enumerate(chunk.subjects) if self._is_ours(key)])

    def _is_ours(self, subject: bytes) -> bool:
        return self._parts == 1 or crc32(subject) % self._parts == self._part

    def _rest(self) -> Iterator[Columns]:
        """The newest entries of keys that have several; they are known at the end only."""
        ordered = sorted(self._kept, key=lambda subject: self._kept[subject][0])
        for begin in range(0, len(ordered), CHUNK_ROWS):
            subjects = ordered[begin : begin + CHUNK_ROWS]
            kept = [self._kept[subject] for subject in subjects]
            yield Columns(subjects, *(list(column) for column in zip(*kept, strict=True)))
