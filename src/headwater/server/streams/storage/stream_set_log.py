"""The set of streams of a server, and its log: the catalogue of the store.

    decide ─▶ records ─▶ `commit`: catalogue, one sync ─▶ apply ─▶ the folder of the stream follows

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
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord
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

    __slots__ = ("_store", "streams")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.streams = StreamSet()

    # --- changes -------------------------------------------------------------------------------

    def commit(self, records: list[StreamSetRecord]) -> None:
        """Write records, all or none, and apply them. Raises StoreError."""
        durable = [record for record in records if self._is_durable(record)]
        match durable:
            case [StreamDeleted() as deleted]:
                key = str(StreamKey(deleted.account, deleted.name))
                data = _CODEC.encode(deleted)
                self._store.write_deletion(key, deleted.incarnation, data)
            case [_, *_]:
                entries = [entry for record in durable for entry in self._entries_of(record)]
                self._store.write_entries(entries)
        for record in records:
            self.streams.apply(record)

    def _is_durable(self, record: StreamSetRecord) -> bool:
        created = record
        if isinstance(record, StreamDeleted):
            there = self.streams.get(record.account, record.name)
            if there is None or there.incarnation != record.incarnation:
                return False
            created = there
        return isinstance(created, StreamCreated) and created.config.storage is Storage.FILE

    def _entries_of(self, record: StreamSetRecord) -> list[CatalogueEntry]:
        """The entries of a record, and of the folder that it finds."""
        key = str(StreamKey(record.account, record.name))
        log = self._store.logs.get(key)
        has_folder = log is not None and log.identity == record.incarnation
        data = _CODEC.encode(record)
        if isinstance(record, StreamCreated):
            kinds = (CREATED, MADE) if has_folder else (CREATED,)
        else:
            kinds = (DELETED,) if has_folder else (DELETED, REMOVED)
        first, *marks = (CatalogueEntry(kind, key, record.incarnation) for kind in kinds)
        return [first._replace(record=data), *marks]

    # --- opening -------------------------------------------------------------------------------

    def recover(self, body_of: Callable[[StreamKey], StreamBody]) -> list[StreamCreated]:
        """Make the set from the catalogue and the folders of a store that was just opened.

        Returns the streams whose folder has yet to be made. `body_of` reads the stream file of an
        open log. Raises StoreError if a newer program wrote the catalogue.
        """
        store = self._store
        unread = []
        for name, stream in store.catalogue.state.streams.items():
            record = self._record_in(name, stream.record)
            if record is not None:
                self.streams.apply(record)
            elif name in store.logs:
                unread.append(name)
        differences = store.differences
        found = dict.fromkeys([*differences.unrecorded, *differences.replaced, *unread])
        self._adopt([name for name in found if name in store.logs], body_of)
        unmade = [StreamKey.parse(name) for name in differences.unmade]
        created = [self.streams.get(*key) for key in unmade]
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

    def _adopt(self, names: list[str], body_of: Callable[[StreamKey], StreamBody]) -> None:
        """Record streams that were found by their folders."""
        store, records = self._store, list[StreamSetRecord]()
        for name in names:
            key = StreamKey.parse(name)
            try:
                body = body_of(key)
            except StoreError:
                # Reported when the stream is to run.
                continue
            if body.unfinished:
                continue
            there = self.streams.get(*key)
            if there is not None:
                records.append(StreamDeleted(*key, there.incarnation))
            identity = store.logs[name].identity
            records.append(StreamCreated(*key, identity, body.config, body.created_ns))
            self._report_adopted(name)
        if not records:
            return
        if store.catalogue.is_gone:
            text = f"{CATALOGUE_FILE}: it is gone; streams are found by their folders"
            store.findings.add("missing", text)
        try:
            store.write_entries([entry for record in records for entry in self._entries_of(record)])
        except StoreError as error:
            # The next start finds them again.
            store.findings.add("unrecorded", str(error))
        for record in records:
            self.streams.apply(record)

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
