"""Write-ahead files as earlier versions wrote them, with copies of what logs append."""

from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.store_file import STORE_FILE, StoreFile
from headwater.store.disk.wal import SEGMENT, SYNCED, WriteAhead
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch


class CopyingAhead:
    """The write-ahead file of an open store that adds none of its own."""

    def __init__(self, files: FileSystem, folder: str, entropy: Entropy) -> None:
        path = f"{folder}/{STORE_FILE}"
        identity = StoreFile.decode(read_file(files, path), path).identity
        self._ahead = WriteAhead(files, folder, identity, 1, entropy)

    def add_stream(self, log: FileLog) -> None:
        """Say how much of a log is on the disk."""
        last = log.segments.last
        self._ahead.add(log.identity, SYNCED, last.first_sequence, last.size, b"")

    def append(self, log: FileLog, batch: Batch) -> None:
        """Append to a log, and make a copy of its bytes durable."""
        segment = log.segments.last
        offset = segment.size
        log.append(batch)
        data = segment.file.read(offset, segment.size - offset)
        self._ahead.add(log.identity, SEGMENT, segment.first_sequence, offset, data)
        self._ahead.write()
        self._ahead.sync()
