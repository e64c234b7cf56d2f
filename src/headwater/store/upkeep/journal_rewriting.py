"""Rewriting a journal in fewer entries, while its log goes on.

Most of a journal could be said in fewer entries: that messages were deleted one after the other, or
that the end was cut off. `JournalRewriting.run` reads the journal up to its end at the beginning,
and writes a successor that says the same; the log adds the entries that were written meanwhile and
swaps the two (`JournalRewrites.finish`). Entries of callers give way to those that callers say are
still true at the beginning; callers who do not say keep theirs, in order.

Opening the log finds the same from the successor as from the journal.
"""

from collections.abc import Iterator
from typing import Final, final

from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.format import Entry, FileHeader, encode_entry
from headwater.store.disk.journal import (
    CALLER_KINDS,
    DELETED,
    ERASED_BY_HALF,
    LOST,
    TRUNCATED,
    TRUNCATING,
    Journal,
    decode_ranges,
    encode_ranges,
    read_entries,
)
from headwater.store.disk.unfinished import UnfinishedFile
from headwater.store.errors import StoreError
from headwater.store.index.ranges import RangeSet

# Ranges in one entry.
RANGES_AT_A_TIME: Final = 65_536


@final
class JournalRewriting:
    """A journal and its successor. Made by `JournalRewrites.begin`."""

    __slots__ = (
        "_covered_bytes",
        "_file",
        "_files",
        "_header",
        "_journal",
        "_path",
        "caller_bytes_covered",
        "caller_entries",
        "last_sequence",
    )

    def __init__(
        self,
        files: FileSystem,
        path: str,
        successor_path: str,
        header: FileHeader,
        journal: Journal,
        last_sequence: int,
        caller_entries: list[tuple[int, bytes]] | None,
        caller_bytes_covered: int,
    ) -> None:
        """`header` is the successor's, `last_sequence` the log's. Must be run. Raises OSError."""
        self._files = files
        self._path = path
        self._header = header
        self._journal = journal
        self._covered_bytes = journal.size
        # The last sequence that entries of the successor may speak of.
        self.last_sequence = last_sequence
        # The entries that replace all that callers wrote, and the bytes they wrote since the last
        # time.
        self.caller_entries = caller_entries
        self.caller_bytes_covered = caller_bytes_covered
        self._file = UnfinishedFile(files, successor_path)
        self._file.lend_to_thread()

    def is_of(self, journal: Journal) -> bool:
        """Whether the successor is one of this journal."""
        return journal is self._journal

    def run(self) -> None:
        """Write the successor, durable but for its name. May run on another thread.

        Raises StoreError if that fails, which does not take the log offline.
        """
        try:
            # Through a descriptor of its own: the log goes on writing through the other one.
            data = read_file(self._files, self._path)[: self._covered_bytes]
            found = read_entries(data)
            if found.is_damaged or found.end != self._covered_bytes:
                raise StoreError(f"{self._path} is not rewritten: it is damaged")
            shorter = b"".join(shortened(found.entries, self.last_sequence, self.caller_entries))
            self._file.file.write(self._header.encode() + shorter)
            self._file.file.sync()
        except OSError as error:
            raise StoreError(f"{self._path} is not rewritten: {error}") from error
        finally:
            self._file.return_from_thread()

    def catch_up(self) -> None:
        """Add the entries that were written since, durably. Raises OSError."""
        following = self._journal.read_from(self._covered_bytes)
        if following:
            self._file.file.write(following)
            self._file.file.sync()

    def put_in_place(self) -> Journal:
        """Replace the journal; its folder is still to be synced. Raises OSError."""
        self._file.rename(self._path)
        return Journal(self._file.file, self._header.salt)

    def discard(self) -> None:
        """Leave no successor behind."""
        self._file.discard()


def shortened(
    entries: list[Entry],
    last_sequence: int,
    caller_entries: list[tuple[int, bytes]] | None = None,
) -> Iterator[bytes]:
    """Entries that say the same as those of a whole journal, at the end of which the log ends with
    `last_sequence`.

    `caller_entries` take the place of those of callers; None keeps them.
    """
    deleted, lost = _Ranges(), _Ranges()
    for entry in entries:
        if entry.kind == DELETED:
            deleted.add(entry.body)
        elif entry.kind == LOST:
            lost.add(entry.body)
        elif entry.kind == ERASED_BY_HALF:
            deleted.add(entry.body)
            lost.remove(entry.body)
        elif entry.kind in (TRUNCATING, TRUNCATED):
            # The sequences were given out again: earlier entries do not hold for them.
            deleted.remove(entry.body)
            lost.remove(entry.body)
    for kind, ranges in ((DELETED, deleted), (LOST, lost)):
        for body in ranges.bodies():
            yield encode_entry(last_sequence, kind, body)
    if caller_entries is not None:
        for kind, body in caller_entries:
            yield encode_entry(last_sequence, kind, body)
        return
    for entry in entries:
        if entry.kind >= CALLER_KINDS:
            # The entry may have followed messages that were cut off since.
            position = min(entry.position, last_sequence)
            yield encode_entry(position, entry.kind, entry.body)


@final
class _Ranges:
    """Ranges in any order, of which there may be millions."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: list[tuple[int, int]] = []

    def add(self, body: bytes) -> None:
        self._pairs += decode_ranges(body)

    def remove(self, body: bytes) -> None:
        ranges = self._joined()
        for first, last in decode_ranges(body):
            ranges.remove(first, last)
        self._pairs = list(ranges)

    def bodies(self) -> Iterator[bytes]:
        pairs = list(self._joined())
        for begin in range(0, len(pairs), RANGES_AT_A_TIME):
            yield encode_ranges(pairs[begin : begin + RANGES_AT_A_TIME])

    def _joined(self) -> RangeSet:
        # In order, each is joined to the last one or put behind it.
        return RangeSet(sorted(self._pairs))
