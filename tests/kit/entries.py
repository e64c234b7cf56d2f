"""Changes to the logs of a store, by a caller that adds entries to those of ALWAYS streams.

A change to such a log is an entry, which is committed and then applied, as in a server. A change to
any other log is made at once. After a crash `redo` applies the entries that are left.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.store.disk.format import ENTRY_BYTES, Entry
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.redo import apply_entries
from headwater.store.store import Store

# The name of a change, and its arguments.
Change = tuple[str, list[Any]]


def append(store: Store, name: str, batch: Batch) -> int:
    """Append messages; returns the sequence of the first."""
    first = store.logs[name].last_sequence + 1
    expiries_ns = batch.expiries_ns or None
    columns = [batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns, expiries_ns]
    _make(store, name, ("append", columns))
    return first


def delete(
    store: Store,
    name: str,
    sequences: Sequence[int],
    erase: bool = False,
    entries: Sequence[tuple[int, bytes]] = (),
) -> None:
    """Remove messages, and write entries of the caller to the journal with that."""
    _make(store, name, ("delete", [[*sequences], erase, [*entries]]))


def skip(store: Store, name: str, count: int, timestamp_ns: int) -> None:
    """Give out sequences without messages."""
    _make(store, name, ("skip", [count, timestamp_ns]))


def write_entries(store: Store, name: str, entries: Sequence[tuple[int, bytes]]) -> None:
    """Write entries of the caller to the journal."""
    _make(store, name, ("write", [[*entries]]))


def add(log: FileLog, change: Change) -> int:
    """Add a change to the write-ahead file as an entry; returns its index."""
    index = log.durability.added_entry + 1
    log.add_entry(index, log.last_sequence, msgspec.msgpack.encode(change))
    return index


def _make(store: Store, name: str, change: Change) -> None:
    log = store.logs[name]
    if not log.has_entries:
        _apply(log, change)
        return
    log.availability.check_online()
    index = add(log, change)
    store.commit()
    if log.synced_entry >= index:
        _apply(log, change)
        log.applied_entry = index


def _apply(log: FileLog, change: Change) -> None:
    kind, values = change
    if kind == "append":
        log.append(Batch(*values))
    elif kind == "skip":
        log.skip(*values)
    elif kind == "write":
        log.write_entries(*values)
    else:
        log.delete(*values)


def redo(store: Store) -> Store:
    """Apply the entries that an earlier process has left to the logs of a store that was opened.

    Entries of the caller that they write to a journal join those that were found there.
    """
    for log in store.logs.values():
        apply_entries(log, partial(_apply_entry, log))
    store.finish_redo()
    return store


def _apply_entry(log: FileLog, index: int, follows: int, data: bytes) -> None:
    kind, values = msgspec.msgpack.decode(data)
    _apply(log, (kind, values))
    if kind in ("write", "delete"):
        log.entries += [
            Entry(follows, caller_kind, body, ENTRY_BYTES + len(body))
            for caller_kind, body in values[-1]
        ]
