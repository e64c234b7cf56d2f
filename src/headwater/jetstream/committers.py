"""Committers: when an entry of a stream's log counts as committed.

The level of consistency of a stream is the class of its committer, and nothing else.

    Written     at once: the operating system has an entry when it is applied
    Deferred    at once: memory has an entry when it is applied, the disk within milliseconds
    Synced      when a sync of the write-ahead file covers the entry: `always`

Entries that nobody waits for, such as the deliveries of consumers, need no sync of their own: they
are committed with the entries before them.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, final

from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record, Skipped
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.file_log import FileLog


class Committer(Protocol):
    """Writes the entries of one stream, and tells when they are committed."""

    # Whether entries may be in flight after `commit`.
    commits_later: ClassVar[bool]

    @property
    def committed(self) -> int:
        """The index up to which entries are committed, as far as the disk is concerned."""
        ...

    def commit(self, entries: list[Proposal], is_behind: bool) -> int:
        """Write entries in order. Returns the index up to which they are committed by now.

        `is_behind` says that entries before them are not committed.
        """
        ...

    def note_applied(self, index: int) -> None:
        """Note that all effects of an entry are in the log."""
        ...

    def cut(self, entry: Proposal) -> None:
        """Forget the records that an entry does not have any more, and all entries behind it."""
        ...

    def retreat(self, index: int) -> None:
        """Forget the entries behind an index, none of which is written yet."""
        ...


@final
class Written:
    """Entries are committed at once, and written when they are applied."""

    __slots__ = ()
    commits_later: ClassVar = False

    @property
    def committed(self) -> int:
        """Every entry was committed when it was proposed."""
        return 0

    def commit(self, entries: list[Proposal], is_behind: bool) -> int:
        """Commit entries; one that cannot be written is refused when it is applied."""
        return entries[-1].index

    def note_applied(self, index: int) -> None:
        """Need not know what is applied: the files are the log."""

    def cut(self, entry: Proposal) -> None:
        """Have nothing to forget: the entry is written nowhere."""

    def retreat(self, index: int) -> None:
        """Have nothing to forget: every entry was committed when it was proposed."""


@final
class Deferred:
    """Entries are committed at once, and `flush_wanted` has the disk get them soon."""

    __slots__ = ("_flush_wanted",)
    commits_later: ClassVar = False

    def __init__(self, flush_wanted: Callable[[], object]) -> None:
        self._flush_wanted = flush_wanted

    @property
    def committed(self) -> int:
        """Every entry was committed when it was proposed."""
        return 0

    def commit(self, entries: list[Proposal], is_behind: bool) -> int:
        """Commit entries, which stay in memory when they are applied, and ask for a write."""
        self._flush_wanted()
        return entries[-1].index

    def note_applied(self, index: int) -> None:
        """Need not know what is applied: the files are the log."""

    def cut(self, entry: Proposal) -> None:
        """Have nothing to forget: the entry is written nowhere."""

    def retreat(self, index: int) -> None:
        """Have nothing to forget: every entry was committed when it was proposed."""


@final
class Synced:
    """Entries are committed when a sync of the write-ahead file covers them.

    The files of the stream get an entry when it is applied; after a crash they are cut back to a
    known state, and the entries behind it are applied again. `sync_wanted` asks for a sync, and
    `sync_wanted_soon` for one within milliseconds.
    """

    __slots__ = ("_codec", "_log", "_stream", "_sync_wanted", "_sync_wanted_soon")
    commits_later: ClassVar = True

    def __init__(
        self,
        stream: Stream,
        log: FileLog,
        sync_wanted: Callable[[], object],
        sync_wanted_soon: Callable[[], object],
    ) -> None:
        self._stream = stream
        self._log = log
        self._codec = RecordCodec(log.record_seed)
        self._sync_wanted = sync_wanted
        self._sync_wanted_soon = sync_wanted_soon

    @property
    def committed(self) -> int:
        """The last entry that a sync has covered."""
        return self._log.synced_entry

    def commit(self, entries: list[Proposal], is_behind: bool) -> int:
        """Write entries. An entry that somebody waits for asks for a sync; all entries behind it
        wait for that sync too."""
        committed = 0
        for entry in entries:
            self._add(entry)
            is_behind |= entry.is_awaited
            if not is_behind:
                committed = entry.index
        if is_behind:
            self._sync_wanted()
        else:
            self._sync_wanted_soon()
        return committed

    def _add(self, entry: Proposal) -> None:
        data = encode_entry(self._codec, entry.records)
        self._log.add_entry(entry.index, _follows(entry.records, self._stream), data)

    def note_applied(self, index: int) -> None:
        """Let the files be found as they are now after a crash: they have all of the entry."""
        if not self._log.offline:
            self._log.applied_entry = index

    def cut(self, entry: Proposal) -> None:
        """Write an entry once more, without the records that could not be stored: it replaces the
        one of its index and all behind it."""
        if not self._log.offline:
            self._add(entry)
            self._sync_wanted_soon()

    def retreat(self, index: int) -> None:
        """Withdraw the entries behind an index from the next write."""
        self._log.withdraw_entries(index)


def _follows(records: Sequence[Record], stream: Stream) -> int:
    """The last sequence of the stream before the messages of an entry."""
    for record in records:
        if isinstance(record, Published | Skipped):
            return record.first_sequence - 1
    return stream.look_ahead.next_sequence - 1
