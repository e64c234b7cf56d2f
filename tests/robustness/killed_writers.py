"""Processes that write to a store until they are killed, and report what the store confirmed."""

from multiprocessing.connection import Connection
from typing import Final

from headwater.runtime.filesystem import SystemFileSystem
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.entropy import SeededEntropy, labelled_rng

SEGMENT_BYTES_MAX: Final = 20_000

# A line of a writer's report: a word, and the numbers it is about.
Said = tuple[str, int, int]


def opened(folder: str) -> Store:
    """The store of a writer; a stream's name is its mode."""
    return open_store(
        SystemFileSystem(),
        folder,
        SeededEntropy(labelled_rng(1, "store")),
        "the same boot",
        modes={mode.value: mode for mode in SyncMode},
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )


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
        log.append(_next_batch(log.last_sequence + 1, 1 + turn % 40))
        store.commit()
        out.send(("written", log.last_sequence, 0))
        if turn % 7 == 0 and log.messages > 200:
            log.delete(range(log.first_sequence, log.last_sequence - 100))
            store.commit()
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
