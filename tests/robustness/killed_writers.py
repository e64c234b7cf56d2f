"""Processes that write to a store until they are killed, and report what the store confirmed."""

from multiprocessing.connection import Connection
from typing import Final

from headwater.runtime.filesystem import SystemFileSystem
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit import entries

SEGMENT_BYTES_MAX: Final = 20_000

# A line of a writer's report: a word, and the numbers it is about.
Said = tuple[str, int, int]


GROUPS: Final = {mode.name.lower(): b"%016d" % mode for mode in GroupMode if mode}
AHEAD_BYTES_MAX: Final = 30_000


def opened(folder: str) -> Store:
    """The store of a writer; a stream's name is its mode."""
    store = open_store(
        SystemFileSystem(),
        folder,
        SeededEntropy(labelled_rng(1, "store")),
        "the same boot",
        modes={mode.value: mode for mode in SyncMode},
        segment_bytes_max=SEGMENT_BYTES_MAX,
        ahead_bytes_max=AHEAD_BYTES_MAX,
    )
    return entries.redo(store)


def payload_of(sequence: int) -> bytes:
    return b"message %d " % sequence + bytes(sequence % 300)


def _next_batch(first: int, count: int) -> Batch:
    payloads = [payload_of(sequence) for sequence in range(first, first + count)]
    return Batch([b"s"] * count, [b""] * count, payloads, [first] * count)


def write(folder: str, name: str, out: Connection) -> None:
    """Report every batch once it is written or, for `always`, on the disk; and every deletion."""
    store = opened(folder)
    log = store.logs[name] if store.logs else store.create_stream(name, mode=SyncMode(name))
    turn = 0
    while True:
        turn += 1
        entries.append(store, name, _next_batch(log.last_sequence + 1, 1 + turn % 40))
        out.send(("written", log.last_sequence, 0))
        if turn % 7 == 0 and log.messages > 200:
            entries.delete(store, name, range(log.first_sequence, log.last_sequence - 100))
            out.send(("deleted", log.first_sequence, 0))
        if turn % 50 == 0:
            log.checkpoints.write_now()


def write_later(folder: str, name: str, out: Connection) -> None:
    """Report every batch as soon as it is in memory, and now and then that it was written."""
    store = opened(folder)
    log = store.logs[name] if store.logs else store.create_stream(name, mode=SyncMode.ASYNC)
    turn = 0
    while True:
        turn += 1
        first = log.append(_next_batch(log.last_sequence + 1, 1 + turn % 40))
        out.send(("given", first, log.last_sequence))
        if turn % 5 == 0:
            store.flush()
            out.send(("written", log.last_sequence, 0))


def write_group(folder: str, name: str, out: Connection) -> None:
    """Report the term and the last entry of a group whenever a reply may leave."""
    store = opened(folder)
    identity = GROUPS[name]
    if identity not in store.groups:
        mode, mark = GroupMode[name.upper()], SnapshotMark(1, 1, b"m")
        store.groups.create(identity, mode, mark, GroupState(1))
        store.commit()
    log, turn = store.groups[identity], 0
    while True:
        turn += 1
        state = log.state
        if turn % 9 == 0:
            state = GroupState(state.term + 1, f"server {turn}", log.snapshot.index)
        first = log.last_index + 1
        entries = [
            GroupEntry(index, state.term, 1, 0, 0, payload_of(index))
            for index in range(first, first + 1 + turn % 20)
        ]
        ticket = log.save(state=state, entries=entries)
        store.commit()
        assert store.groups.numbers.covers(ticket)
        out.send((state.vote, state.term, log.last_index))
        if turn % 30 == 0:
            log.compact(log.last_index - 100, b"members")
