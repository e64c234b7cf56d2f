"""The part of one log in the server's write-ahead file (`headwater.store.disk.wal`).

A log joins the write-ahead file if its messages have to be on the disk before they are
acknowledged; other logs have no part in it. A log whose caller writes entries has those in the file
and redo points; any other has copies of the bytes that it writes to its own files.
"""

from typing import final

from headwater.store.disk.wal import ENTRY, JOURNAL, SYNCED, RedoPoint, WriteAhead


@final
class LogWriteAhead:
    """The frames of one log; without a write-ahead file there are none."""

    __slots__ = ("added_entry", "copied_to", "file", "identity")

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        # Set when the log joins.
        self.file: WriteAhead | None = None
        # The file for copies of all that is written; None if the log has entries there. Appends add
        # their records to it themselves (`LogSegments.write`).
        self.copied_to: WriteAhead | None = None
        # The index of the last entry.
        self.added_entry = 0

    @property
    def has_entries(self) -> bool:
        """Whether the log is durable by the entries of its caller."""
        return self.file is not None and self.copied_to is None

    def add_entry(self, index: int, follows: int, data: bytes) -> None:
        """Add an entry of the caller that follows the stream's last sequence `follows`."""
        if self.file is not None:
            self.file.add(self.identity, ENTRY, index, follows, data)
            self.added_entry = index

    def withdraw_entries(self, index: int) -> None:
        """Drop the entries behind an index, none of which has been written."""
        if self.file is not None:
            self.file.withdraw_entries(self.identity, index)
            self.added_entry = min(self.added_entry, index)

    def add_journal(self, offset: int, data: bytes) -> None:
        """Add bytes that were appended to the journal at `offset`."""
        if self.copied_to is not None:
            self.copied_to.add(self.identity, JOURNAL, 0, offset, data)

    def add_synced(self, segment_first: int, size: int) -> None:
        """Say that this much of the log's last segment is on the disk."""
        if self.copied_to is not None:
            self.copied_to.add(self.identity, SYNCED, segment_first, size, b"")

    def add_redo_point(self, point: RedoPoint) -> None:
        """Name the redo point of a log that has entries."""
        if self.file is not None:
            self.file.add_redo_point(self.identity, point)

    def secure(self) -> None:
        """Return when all frames of the log so far are on the disk. Raises OSError."""
        if self.file is not None:
            self.file.must_write()
            self.file.sync()

    def forget_frames(self) -> None:
        """See to it, durably, that no frame of the log so far is put back into its files, and no
        entry applied."""
        if self.file is not None:
            self.file.forget_stream(self.identity)
