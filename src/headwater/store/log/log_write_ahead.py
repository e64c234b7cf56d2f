"""The part of one log in the server's write-ahead file (`headwater.store.disk.wal`).

A log joins the write-ahead file if its messages have to be on the disk before they are
acknowledged; other logs have no part in it.
"""

from typing import final

from headwater.store.disk.wal import JOURNAL, SYNCED, WriteAhead


@final
class LogWriteAhead:
    """The frames of one log; without a write-ahead file there are none."""

    __slots__ = ("file", "identity")

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        # Set when the log joins. Appends add their records to it themselves (`LogSegments.write`).
        self.file: WriteAhead | None = None

    def add_journal(self, offset: int, data: bytes) -> None:
        """Add bytes that were appended to the journal at `offset`."""
        if self.file is not None:
            self.file.add(self.identity, JOURNAL, 0, offset, data)

    def add_synced(self, segment_first: int, size: int) -> None:
        """Say that this much of the log's last segment is on the disk."""
        if self.file is not None:
            self.file.add(self.identity, SYNCED, segment_first, size, b"")

    def forget_frames(self) -> None:
        """See to it, durably, that no frame of the log so far is put back into its files."""
        if self.file is not None:
            self.file.forget_stream(self.identity)
