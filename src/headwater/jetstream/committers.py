"""Committers: when an entry of a log counts as committed.

The level of consistency of a stream is the class of its committer, and nothing else. A committer
makes no write of its own: it asks for one, which the turn of the server makes for all logs at once.

    Written     at once: the operating system has an entry when it is applied
    Deferred    at once: memory has an entry when it is applied, the disk within milliseconds
    Synced      when a sync of the log covers the entry: a stream with `always`, whose entries are
                in the write-ahead file, and the set of streams, whose log is the catalogue
    Quorum      when a majority of the servers that hold the stream have the entry; on an eventual
                stream, when the log of the leader has it, as far as its tail reaches

Entries that nobody waits for, such as the deliveries of consumers, need no sync of their own: they
are committed with the entries before them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, final

from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.consumers.records import CONSUMER_RECORDS
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record, Skipped
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.tail import Tail, entry_of
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog

# The records of a log.
R = TypeVar("R")


class Consumers(Protocol):
    """The consumers of a stream."""

    def commit_later(self) -> None:
        """Expect records to be committed later than they are proposed, from now on."""
        ...


class Effects(Protocol):
    """The files of a stream, which follow from its log."""

    def flush(self) -> StoreError | None:
        """Write all effects of the entries that are applied. Returns the error, if there is one."""
        ...

    def write_removals(self) -> StoreError | None:
        """Write the removals of messages that wait, if there are any. Returns the error, if there
        is one."""
        ...


class Committer(Protocol[R]):
    """Writes the entries of one log, and tells when they are committed."""

    @property
    def committed(self) -> int:
        """The index up to which entries are committed, as far as the disk is concerned."""
        ...

    def prepare(self, consumers: Consumers) -> None:
        """Tell the consumers of the log when their records will be committed."""
        ...

    def commit_alone(self) -> bool:
        """Commit an entry with nothing in flight before it. Returns False, and does nothing, if it
        has to wait: then it goes the way of `commit`."""
        ...

    def commit_unawaited(self) -> bool:
        """Commit records that nobody waits for, with nothing in flight, without an entry. Returns
        False if they need one."""
        ...

    def commit(self, entries: list[Proposal[R]], is_behind: bool) -> int:
        """Write entries in order. Returns the index up to which they are committed by now.

        `is_behind` says that entries before them are not committed.
        """
        ...

    def finish(self, entry: Proposal[R], effects: Effects) -> StoreError | None:
        """Have the effects of an entry that was applied written, as far as its answers tell of
        them. Returns the error, if there is one."""
        ...

    def stalled(self) -> bool:
        """Note that an entry found no room on the disk of this server. Returns whether it waits for
        room; otherwise it is refused."""
        ...

    def failed(self) -> None:
        """Note that a committed entry cannot be stored here any more."""
        ...

    def retreat(self, index: int) -> None:
        """Forget the entries behind an index, none of which is written yet."""
        ...


class _AtOnce:
    """Entries are committed when they are proposed: the files are the log."""

    __slots__ = ()

    @property
    def committed(self) -> int:
        """Every entry was committed when it was proposed."""
        return 0

    def prepare(self, consumers: Consumers) -> None:
        """Leave consumers as they are: nothing of them is ever undone."""

    def commit_unawaited(self) -> bool:
        """Commit records, which are written when they are applied. Returns True."""
        return True

    def finish(self, entry: Proposal[Record], effects: Effects) -> StoreError | None:
        """Write the removals that the records have caused, before anybody is told."""
        return effects.write_removals() if entry.records else None

    def stalled(self) -> bool:
        """Have an entry that finds no room refused: it is written nowhere. Returns False."""
        return False

    def failed(self) -> None:
        """Have nothing to note: the entry is written nowhere."""

    def retreat(self, index: int) -> None:
        """Have nothing to forget: every entry was committed when it was proposed."""


@final
class Written(_AtOnce):
    """Entries are committed at once, and written when they are applied."""

    __slots__ = ()

    def commit_alone(self) -> bool:
        """Commit an entry; one that cannot be written is refused when it is applied."""
        return True

    def commit(self, entries: list[Proposal[Record]], is_behind: bool) -> int:
        """Commit entries; one that cannot be written is refused when it is applied."""
        return entries[-1].index


@final
class Deferred(_AtOnce):
    """Entries are committed at once, and `flush_wanted` has the disk get them soon."""

    __slots__ = ("_flush_wanted",)

    def __init__(self, flush_wanted: Callable[[], object]) -> None:
        self._flush_wanted = flush_wanted

    def commit_alone(self) -> bool:
        """Commit an entry, which stays in memory when it is applied, and ask for a write."""
        self._flush_wanted()
        return True

    def commit(self, entries: list[Proposal[Record]], is_behind: bool) -> int:
        """Commit entries, which stay in memory when they are applied, and ask for a write."""
        self._flush_wanted()
        return entries[-1].index


class SyncedLog(Protocol):
    """A log whose entries are on the disk after a sync."""

    # The last entry whose effects are in the files that follow from the log.
    applied_entry: int

    @property
    def offline(self) -> str:
        """The reason why the log cannot be written; empty if it can."""
        ...

    @property
    def synced_entry(self) -> int:
        """The last entry that the disk has."""
        ...

    def withdraw_entries(self, index: int) -> None:
        """Drop the entries behind an index, none of which is written."""
        ...


@final
class Synced(Generic[R]):
    """Entries are committed when a sync of the log covers them.

    The files that follow from the log get an entry when it is applied; after a crash they are
    brought to a known state, and the entries behind it are applied again. `add` adds an entry to
    the next write of the log. `sync_wanted` asks for a sync, and `sync_wanted_soon` for one within
    milliseconds.
    """

    __slots__ = ("_add", "_log", "_sync_wanted", "_sync_wanted_soon")

    def __init__(
        self,
        log: SyncedLog,
        add: Callable[[Proposal[R]], object],
        sync_wanted: Callable[[], object],
        sync_wanted_soon: Callable[[], object],
    ) -> None:
        self._log = log
        self._add = add
        self._sync_wanted = sync_wanted
        self._sync_wanted_soon = sync_wanted_soon

    @property
    def committed(self) -> int:
        """The last entry that a sync has covered."""
        return self._log.synced_entry

    def prepare(self, consumers: Consumers) -> None:
        """Have consumers be ahead of the log, and able to undo their steps."""
        consumers.commit_later()

    def commit_alone(self) -> bool:
        """Have the entry wait for its sync. Returns False."""
        return False

    def commit_unawaited(self) -> bool:
        """Have the records make an entry. Returns False."""
        return False

    def commit(self, entries: list[Proposal[R]], is_behind: bool) -> int:
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

    def finish(self, entry: Proposal[R], effects: Effects) -> StoreError | None:
        """Write the effects; if the files lack a part of them, they get the entry again after a
        crash."""
        error = effects.flush()
        if error is None:
            self.note_applied(entry.index)
        return error

    def note_applied(self, index: int) -> None:
        """Let the files be found as they are now after a crash: they have all of the entry."""
        if not self._log.offline:
            self._log.applied_entry = index

    def stalled(self) -> bool:
        """Have the entry wait, which is in the write-ahead file. Returns True."""
        return True

    def failed(self) -> None:
        """Have nothing to note: the next start applies the entry."""

    def retreat(self, index: int) -> None:
        """Withdraw the entries behind an index from the next write."""
        self._log.withdraw_entries(index)


class ReplicatedLog(Protocol):
    """The log that a majority of servers have to have."""

    def withdraw(self, place: int) -> bool:
        """Withdraw all entries from a place on. Returns False if some of them may be committed."""
        ...

    def disown(self, place: int) -> None:
        """Have the entries from a place on withdrawn if this server, which ceases to lead, leads
        again before another one has."""
        ...

    def hand_over(self) -> None:
        """Have another server lead soon, if that is possible."""
        ...


@final
class Quorum:
    """Entries are committed when a majority of servers have them, by the word of their consensus.

    Entries of a turn travel as one entry of the replicated log. `proposal_wanted` asks for a call
    of `propose_by`, and `proposal_wanted_soon` for one within milliseconds. `applied` is called
    with the place in the replicated log up to which everything is applied. `failed` is called when
    a committed entry cannot be stored here.
    """

    __slots__ = (
        "_applied",
        "_codec",
        "_failed",
        "_in_flight",
        "_log",
        "_proposal_wanted",
        "_proposal_wanted_soon",
        "_unapplied",
        "_unproposed",
        "alone",
        "committed",
        "tail",
    )

    def __init__(
        self,
        codec: RecordCodec,
        proposal_wanted: Callable[[], object],
        proposal_wanted_soon: Callable[[], object],
        applied: Callable[[int], object],
        failed: Callable[[], object],
        log: ReplicatedLog,
    ) -> None:
        self._codec = codec
        self._proposal_wanted = proposal_wanted
        self._proposal_wanted_soon = proposal_wanted_soon
        self._applied = applied
        self._failed = failed
        self._log = log
        self.committed = 0
        # The bytes of entries that are not proposed yet, with their indexes.
        self._unproposed: list[tuple[int, bytes]] = []
        # Places in the replicated log that are proposed, with the index of their last entry.
        self._in_flight: deque[tuple[int, int]] = deque()
        # Likewise places that are committed and not wholly applied.
        self._unapplied: deque[tuple[int, int]] = deque()
        # The entries that the log of this server alone commits, on an eventual stream.
        self.tail: Tail | None = None
        # The index of an entry that shares its place with none behind it: they may be withdrawn.
        self.alone = 0

    def prepare(self, consumers: Consumers) -> None:
        """Have consumers be ahead of the log, and able to undo their steps."""
        consumers.commit_later()

    def commit_alone(self) -> bool:
        """Have the entry wait for the majority. Returns False."""
        return False

    def commit_unawaited(self) -> bool:
        """Have the records make an entry. Returns False."""
        return False

    def commit(self, entries: list[Proposal[Record]], is_behind: bool) -> int:
        """Keep entries for the next proposal. Nothing is committed by that."""
        tail = self.tail
        for entry in entries:
            data = encode_entry(self._codec, entry.records)
            self._unproposed.append((entry.index, data))
            is_behind |= entry.is_awaited
            if tail is not None:
                tail.add(entry_of(entry.index, entry.records, len(data)))
        if is_behind:
            self._proposal_wanted()
        else:
            self._proposal_wanted_soon()
        return 0

    def propose_by(self, propose: Callable[[list[bytes]], int | None]) -> bool:
        """Propose the entries of the turn by a call that returns the place of the first, or None
        if this server cannot propose now: then they wait for the next call. Returns whether no
        entries are left."""
        batch = split_batch(self._unproposed, self.alone)
        first = propose([data for _, data in batch]) if batch else None
        if first is not None:
            self._unproposed = []
            self._in_flight += [(first + at, index) for at, (index, _) in enumerate(batch)]
        return not self._unproposed

    def place_committed(self, place: int) -> bool:
        """Note that the replicated log is committed up to a place. Returns whether entries of this
        committer are committed by it."""
        tail, is_news = self.tail, False
        if tail is not None:
            tail.committed(place)
        while self._in_flight and self._in_flight[0][0] <= place:
            self._commit_oldest()
            is_news = True
        if is_news and tail is not None:
            tail.committed_awaited(self.committed)
        return is_news

    def _commit_oldest(self) -> None:
        proposed = self._in_flight.popleft()
        self._unapplied.append(proposed)
        self.committed = proposed[1]

    def place_written(self, place: int, has_quorum: bool) -> bool:
        """Note that the log of this server has everything up to a place. Returns whether entries of
        this committer are committed by it: those that the tail of an eventual stream takes."""
        tail, is_news = self.tail, False
        while tail is not None and self._in_flight and self._in_flight[0][0] <= place:
            oldest, last = self._in_flight[0]
            if not tail.take(oldest, self.committed + 1, last, has_quorum):
                break
            self._commit_oldest()
            is_news = True
        return is_news

    def _place_of(self, index: int) -> int:
        """The place in the replicated log of an entry that is not committed; 0 if it has none."""
        return next((place for place, last in self._in_flight if last >= index), 0)

    def disown(self, index: int) -> None:
        """Have the entries from the place of an index on withdrawn if this server leads again."""
        if place := self._place_of(index):
            self._log.disown(place)

    def withdraw(self, index: int) -> int:
        """Withdraw the entries from the place of an index on, and forget those that are not
        proposed. Returns the index of the first of them; 0 if it may be committed by now.

        All entries of a place are withdrawn, and some of them may be before the index.
        """
        # The oldest may be committed, and wait for room on the disk.
        index = max(index, self.committed + 1)
        place = self._place_of(index)
        if place and not self._log.withdraw(place):
            return 0
        while self._in_flight and self._in_flight[-1][1] >= index:
            self._in_flight.pop()
        if place:
            index = (self._in_flight[-1][1] if self._in_flight else self.committed) + 1
        if self.tail is not None:
            self.tail.cut(index)
        self._unproposed = [each for each in self._unproposed if each[0] < index]
        return index

    @property
    def has_unapplied(self) -> bool:
        """Whether entries are committed and not wholly applied."""
        return bool(self._unapplied)

    @property
    def first_unapplied(self) -> int:
        """The first place that is committed and not wholly applied; 0 if there is none."""
        return self._unapplied[0][0] if self._unapplied else 0

    def finish(self, entry: Proposal[Record], effects: Effects) -> StoreError | None:
        """Write the effects, and report that this replica has them."""
        error = effects.flush()
        if error is None:
            self.note_applied(entry.index)
        return error

    def note_applied(self, index: int) -> None:
        """Report the place in the replicated log up to which everything is applied."""
        place = 0
        while self._unapplied and self._unapplied[0][1] <= index:
            place = self._unapplied.popleft()[0]
        if place:
            self._applied(place)

    def entries_of(
        self, proposals: list[Proposal[Record]], place_max: int
    ) -> list[tuple[int, bytes]]:
        """The entries of the replicated log up to a place, by place, of which these proposals are
        the rest."""
        found: list[tuple[int, bytes]] = []
        for place, last in self._unapplied:
            if place > place_max:
                break
            of_place = [each.records for each in proposals if each.index <= last]
            proposals = proposals[len(of_place) :]
            found.append((place, b"".join(encode_entry(self._codec, each) for each in of_place)))
        return found

    def stalled(self) -> bool:
        """Have the entry wait, and another server lead, which may have room. Returns True."""
        self._log.hand_over()
        return True

    def failed(self) -> None:
        """Report that a committed entry cannot be stored: this replica lacks it."""
        self._failed()

    def retreat(self, index: int) -> None:
        """Have nothing to withdraw: a server that ceases to lead has no committer."""


PROPOSAL_BYTES_MAX: Final = 1024 * 1024
"""Entries of a turn beyond this many bytes go into another entry of the replicated log."""


def split_batch(entries: list[tuple[int, bytes]], alone: int = 0) -> list[tuple[int, bytes]]:
    """Join the bytes of entries, in their order, to pieces of a limited size; each piece with the
    index of its last entry. A piece ends with the entry whose index is `alone`."""
    pieces: list[tuple[int, bytes]] = []
    joined: list[bytes] = []
    size = last = 0
    for index, data in entries:
        if joined and (size + len(data) > PROPOSAL_BYTES_MAX or last == alone):
            pieces.append((last, b"".join(joined)))
            joined, size = [], 0
        joined.append(data)
        size += len(data)
        last = index
    if joined:
        pieces.append((last, b"".join(joined)))
    return pieces


@final
class StreamEntries:
    """The entries of one stream in the write-ahead file."""

    __slots__ = ("_codec", "_log", "_stream")

    def __init__(self, stream: Stream, log: FileLog) -> None:
        self._stream = stream
        self._log = log
        self._codec = RecordCodec(log.record_seed)

    def add(self, entry: Proposal[Record]) -> None:
        """Add an entry to the next write."""
        data = encode_entry(self._codec, entry.records)
        self._log.add_entry(entry.index, _follows(entry.records, self._stream), data)


def _follows(records: Sequence[Record], stream: Stream) -> int:
    """The last sequence of the stream before an entry, which is the newest in flight."""
    for record in records:
        if isinstance(record, Published | Skipped):
            return record.first_sequence - 1
    count = sum(not isinstance(record, CONSUMER_RECORDS) for record in records)
    return stream.look_ahead.next_sequence_without(count) - 1
