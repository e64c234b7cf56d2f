"""Committers: when an entry of a stream's log counts as committed.

The level of consistency of a stream is the class of its committer, and nothing else.

    Written     the operating system has the entry: an ordinary stream
    Deferred    memory has the entry, and the disk gets it within milliseconds: `async`
    Synced      a sync of the write-ahead file covers the entry: `always`

A committer writes entries and returns the index up to which they are committed.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, final

from headwater.jetstream.proposal import Confirmed, Proposal
from headwater.jetstream.records import Record
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.log.message_log import MessageLog


class Recorded(Protocol):
    """The stream whose log a committer writes."""

    def append(self, record: Record) -> None:
        """Write the messages of a record to the log. Raises StoreError without any change."""
        ...

    @property
    def log(self) -> MessageLog:
        """The log."""
        ...


class Committer(Protocol):
    """Writes the entries of one stream, and tells when they are committed."""

    def commit(self, entries: list[Proposal]) -> int:
        """Write entries in order. Returns the index up to which they are committed by now.

        Raises StoreError if none of them will ever be.
        """
        ...

    def committed_by(self, sync: int) -> int:
        """The index up to which entries are committed once the sync of that number is done."""
        ...

    def is_durable(self, proposal: Proposal) -> bool:
        """Whether an applied proposal is durable enough to be answered."""
        ...

    def retreat(self) -> None:
        """Forget the entries that are not committed: they never will be."""
        ...


# Reports a failed write, and returns the refusal for the publishes that it concerns.
Failed = Callable[[StoreError], bytes]


@final
class Written:
    """Entries are committed when the operating system has them."""

    __slots__ = ("_failed", "_stream")

    def __init__(self, stream: Recorded, failed: Failed) -> None:
        self._stream = stream
        self._failed = failed

    def commit(self, entries: list[Proposal]) -> int:
        """Write entries; of one that fails, the records before the failure count."""
        append = self._stream.append
        for entry in entries:
            for position, record in enumerate(entry.records):
                try:
                    append(record)
                except StoreError as error:
                    _cut(entry, position, self._stream, self._failed(error))
                    break
        return entries[-1].index

    def committed_by(self, sync: int) -> int:
        """Every entry was committed when it was written."""
        return 0

    def is_durable(self, proposal: Proposal) -> bool:
        """An entry that is written is durable enough."""
        return True

    def retreat(self) -> None:
        """Forget nothing: every entry is committed."""


@final
class Deferred:
    """Entries are committed when they are in memory; `flush_wanted` has the disk get them soon."""

    __slots__ = ("_flush_wanted", "_written")

    def __init__(
        self, stream: Recorded, failed: Failed, flush_wanted: Callable[[], object]
    ) -> None:
        self._written = Written(stream, failed)
        self._flush_wanted = flush_wanted

    def commit(self, entries: list[Proposal]) -> int:
        """Keep entries in memory, and ask for a write."""
        index = self._written.commit(entries)
        self._flush_wanted()
        return index

    def committed_by(self, sync: int) -> int:
        """Every entry was committed when it was in memory."""
        return 0

    def is_durable(self, proposal: Proposal) -> bool:
        """An entry in memory is durable enough."""
        return True

    def retreat(self) -> None:
        """Forget nothing: every entry is committed."""


@final
class Synced:
    """Entries are committed when a sync covers them.

    `next_sync` is the number of the sync that will cover entries which are written now, and
    `sync_wanted` asks for it.
    """

    __slots__ = ("_covered", "_failed", "_next_sync", "_stream", "_sync_wanted")

    def __init__(
        self,
        stream: Recorded,
        failed: Failed,
        next_sync: Callable[[], int],
        sync_wanted: Callable[[], object],
    ) -> None:
        self._stream = stream
        self._failed = failed
        self._next_sync = next_sync
        self._sync_wanted = sync_wanted
        # Syncs that are to come, and the last index that each covers.
        self._covered: deque[tuple[int, int]] = deque()

    def commit(self, entries: list[Proposal]) -> int:
        """Write entries. Those with messages wait for a sync, and others for those before them."""
        committed = 0
        for entry in entries:
            for position, record in enumerate(entry.records):
                try:
                    self._stream.append(record)
                except DiskFullError as error:
                    _cut(entry, position, self._stream, self._failed(error))
                    break
            if entry.has_messages:
                self._cover(self._next_sync(), entry.index)
            elif self._covered:
                self._cover(self._covered[-1][0], entry.index)
            else:
                committed = entry.index
        if self._covered:
            self._sync_wanted()
        return committed

    def _cover(self, sync: int, index: int) -> None:
        if self._covered and self._covered[-1][0] == sync:
            self._covered.pop()
        self._covered.append((sync, index))

    def committed_by(self, sync: int) -> int:
        """The last index that the sync of that number, or one before it, covers."""
        index = 0
        while self._covered and self._covered[0][0] <= sync:
            index = self._covered.popleft()[1]
        return index

    def is_durable(self, proposal: Proposal) -> bool:
        """Entries without messages are written when they are applied, and need a sync then."""
        if proposal.has_messages:
            return True
        is_written = bool(proposal.records) or any(
            isinstance(effect, Confirmed) for effect in proposal.effects
        )
        log = self._stream.log
        # A log that has failed is not synced any more, and the answer reports the failure.
        return not is_written or log.is_synced or bool(log.offline)

    def retreat(self) -> None:
        """Forget the syncs that were to cover entries."""
        self._covered.clear()


def _cut(entry: Proposal, position: int, stream: Recorded, refusal: bytes) -> None:
    """Keep the records of an entry that were written, and refuse what rests on the others."""
    entry.records = entry.records[:position]
    entry.refuse_after(stream.log.last_sequence, refusal)
