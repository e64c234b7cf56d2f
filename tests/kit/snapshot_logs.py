"""Logs that snapshots fill, which no stream uses yet, and streams that are copied by them."""

from collections.abc import Callable
from typing import Final

from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.snapshots.reader import CHUNK_BYTES_MAX, SnapshotReader
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.stream_driver import NAME, Surrounding

INCARNATION: Final = bytes(range(16))
ENTRY: Final = 7
TERM: Final = 3


class SnapshotLog:
    """An empty log for a snapshot, with its disk."""

    def __init__(self, first_chunk: bytes, mode: SyncMode = SyncMode.ALWAYS) -> None:
        self.disk = SimDisk(3)
        self.store: Store | None = None
        header = read_header(first_chunk)
        if header.config.storage is Storage.MEMORY:
            self.log: MessageLog = MemoryLog(header.first_sequence)
            return
        self.store = open_snapshot_store(self.disk)
        body = encode_body(header.config, header.created_ns, unfinished=True)
        self.log = self.store.make_stream(
            NAME, header.incarnation, body, header.first_sequence, mode, False
        )


def open_snapshot_store(disk: SimDisk) -> Store:
    """The store that a snapshot is written to."""
    entropy = SeededEntropy(labelled_rng(3, "store"))
    return open_store(disk, "/jetstream", entropy, disk.boot_id)


def chunks_of(
    stream: Stream,
    chunk_bytes_max: int = CHUNK_BYTES_MAX,
    between: Callable[[int], object] = lambda _: None,
    from_sequence: int = 0,
) -> list[bytes]:
    """All chunks of a snapshot. `between` is called with the number of chunks after each one."""
    reader = SnapshotReader(stream, INCARNATION, from_sequence, chunk_bytes_max)
    found: list[bytes] = []
    while (chunk := reader.next_chunk(ENTRY, TERM)) is not None:
        found.append(chunk)
        between(len(found))
    return found


def written(chunks: list[bytes], log: MessageLog) -> SnapshotWriter:
    """The writer of a whole snapshot."""
    writer = SnapshotWriter(chunks[0], log)
    complete = [writer.accept(chunk) for chunk in chunks[1:]]
    assert complete == [False] * (len(chunks) - 2) + [True]
    return writer


def stream_of(chunks: list[bytes]) -> Stream:
    """The stream that a follower makes of a snapshot."""
    writer = written(chunks, SnapshotLog(chunks[0]).log)
    return at_once(writer.finishing(Surrounding(BatchLimits())))
