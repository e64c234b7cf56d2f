"""The set of streams of a server, and its log: the catalogue of the store.

    Group.propose ─▶ `add_entry` ─▶ catalogue: one write and one sync for all entries of a turn
                                      └─▶ apply ─▶ the folder follows

The catalogue is the log behind the group of the set, as the write-ahead file is that of a stream
with `always`: the committer `Synced` adds entries, and they are committed when a sync covers them,
which waits for the disk off the loop (`headwater.store.catalogue_commit`).
Streams in memory are in the set and not in its log: they end with the process, and no other server
has to know of them.

When the store is opened, the set is what the catalogue says. Its folders may say something else:

    a folder without a record            adopted: the record is made from the stream file; reported
    a folder of another incarnation      adopted in place of the recorded one; reported
    a record whose folder is gone        the stream stays in the set; reported until it is replaced
    a record whose folder was not made   `unmade`: a crash came between, and the folder is made now
    a folder whose deletion is recorded  removed by the store

A folder that a restore has not filled to its end has no record, and is not adopted.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.codec.errors import NewerRecordError, RecordError
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.meta.stream_set import StreamSet
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import StreamCreated, StreamSetRecord
from headwater.jetstream.streams.file import StreamBody
from headwater.store.log.message_log import StoreError
from headwater.store.recovery.catalogue import (
    CATALOGUE_FILE,
    CREATED,
    DELETED,
    MADE,
    REMOVED,
    CatalogueEntry,
)
from headwater.store.store import Store

# Between the names of account and stream in a key of the store. Stream names cannot contain it.
_SEPARATOR: Final = "/"
_CODEC: Final = RecordCodec()


class StreamKey(NamedTuple):
    """The names that a stored stream is found by."""

    account: str
    stream: str

    def __str__(self) -> str:
        return self.account + _SEPARATOR + self.stream

    @classmethod
    def parse(cls, name: str) -> "StreamKey":
        """The key in the name by which the store knows a stream."""
        account, _, stream = name.partition(_SEPARATOR)
        return cls(account, stream)


@final
class StreamSetLog:
    """The set of streams of one store, as it is on the disk."""

    __slots__ = ("_commit", "_store", "applied_entry", "streams")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commit = store.catalogue_commit
        self.streams = StreamSet()
        # The last entry that folders follow.
        self.applied_entry = 0

    # --- entries -------------------------------------------------------------------------------

    @property
    def offline(self) -> str:
        """The reason why the store cannot be written; empty if it can."""
        return self._store.offline

    @property
    def synced_entry(self) -> int:
        """The last entry that the disk has."""
        return self._commit.synced

    def add_entry(self, entry: Proposal[StreamSetRecord]) -> None:
        """Add an entry to the next commit."""
        entries = [each for record in entry.records for each in self._entries(record)]
        self._commit.add(entry.index, entries)

    def withdraw_entries(self, index: int) -> None:
        """Drop the entries behind an index, none of which is written."""
        self._commit.withdraw(index)

    def when_finished(self, call: Callable[[], object]) -> None:
        """Have a function called each time that entries are on the disk, or cannot be written."""
        self._commit.finished = call

    def take_problem(self) -> StoreError | None:
        """The error, once, for which the entries of the last commit are not written."""
        return self._commit.take_problem()

    def commit(self) -> None:
        """Write the entries that were added, and wait for the disk."""
        self._commit.commit()

    def _entries(self, record: StreamSetRecord) -> list[CatalogueEntry]:
        """The entries of a record that is in flight, and of the folder that it finds; none for a
        stream in memory."""
        created = record if isinstance(record, StreamCreated) else self.streams.creation_of(record)
        if created is None or created.config.storage is not Storage.FILE:
            return []
        log = self._store.logs.get(_name_of(record))
        has_folder = log is not None and log.identity == record.incarnation
        if record is created:
            return [_entry(CREATED, record), *([_entry(MADE, record)] if has_folder else [])]
        # The folder of a stream whose creation is in flight is yet to come.
        is_gone = not has_folder and not self.streams.is_coming(created)
        return [_entry(DELETED, record), *([_entry(REMOVED, record)] if is_gone else [])]

    # --- opening -------------------------------------------------------------------------------

    def recover(self) -> None:
        """Make the set from the catalogue of a store that was just opened.

        Raises StoreError if a newer program wrote the catalogue.
        """
        for name, stream in self._store.catalogue.state.streams.items():
            record = self._record_in(name, stream.record)
            if record is not None:
                self.streams.apply(record)

    @property
    def unmade(self) -> list[StreamCreated]:
        """The streams whose folder has yet to be made, because a crash came between."""
        keys = [StreamKey.parse(name) for name in self._store.differences.unmade]
        created = [self.streams.get(*key) for key in keys]
        return [stream for stream in created if stream is not None]

    def _record_in(self, name: str, data: bytes) -> StreamCreated | None:
        """The record of a creation in the catalogue; None if it is empty or malformed."""
        key = StreamKey.parse(name)
        try:
            record = _CODEC.decode(data) if data else None
        except NewerRecordError as error:
            raise StoreError(f"{CATALOGUE_FILE}: stream {name}: {error}") from error
        except RecordError as error:
            self._store.findings.add("unreadable", f"{CATALOGUE_FILE}: stream {name}: {error}")
            return None
        if isinstance(record, StreamCreated) and StreamKey(record.account, record.name) == key:
            return record
        return None

    def decide_adopt(self, body_of: Callable[[StreamKey], StreamBody]) -> Proposal[StreamSetRecord]:
        """The adoption of the streams that were found by their folders when the store was opened,
        and are not in the set. `body_of` reads the stream file of an open log."""
        store, found = self._store, list[StreamCreated]()
        for name in self._unrecorded_names():
            key = StreamKey.parse(name)
            try:
                body = body_of(key)
            except StoreError:
                # Reported when the stream is to run.
                continue
            if not body.unfinished:
                identity = store.logs[name].identity
                found.append(StreamCreated(*key, identity, body.config, body.created_ns))
                self._report_adopted(name)
        if found and store.catalogue.is_gone:
            text = f"{CATALOGUE_FILE}: it is gone; streams are found by their folders"
            store.findings.add("missing", text)
        return self.streams.decide_adopt(found)

    def _unrecorded_names(self) -> list[str]:
        """The open logs without a record of their incarnation that can be read."""
        store = self._store
        unread = [
            name
            for name in store.catalogue.state.streams
            if self.streams.get(*StreamKey.parse(name)) is None
        ]
        differences = store.differences
        found = dict.fromkeys([*differences.unrecorded, *differences.replaced, *unread])
        return [name for name in found if name in store.logs]

    def report_unrecorded(self, error: StoreError) -> None:
        """Report that adopted streams could not be recorded: the next start finds them again."""
        self._store.findings.add("unrecorded", str(error))

    def _report_adopted(self, name: str) -> None:
        store, catalogue = self._store, self._store.catalogue
        is_complete = catalogue.is_sound and not catalogue.is_gone
        if name in store.differences.replaced:
            text = f"stream {name}: its folder is of another incarnation than the recorded one"
        elif is_complete and name not in catalogue.state.streams:
            text = f"stream {name}: its folder was there without a record"
        else:
            # The catalogue itself is reported, or is that of an earlier version.
            return
        store.findings.add("adopted", text)


def _entry(kind: int, record: StreamSetRecord) -> CatalogueEntry:
    """An entry about a stream; a creation and a deletion have the bytes of their record."""
    data = _CODEC.encode(record) if kind in (CREATED, DELETED) else b""
    return CatalogueEntry(kind, _name_of(record), record.incarnation, data)


def _name_of(record: StreamSetRecord) -> str:
    """The name by which the store knows the stream of a record."""
    return str(StreamKey(record.account, record.name))
