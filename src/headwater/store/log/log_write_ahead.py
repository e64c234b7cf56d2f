"""The part of one log in the server's write-ahead file (`headwater.store.disk.wal`).

A log joins the write-ahead file if its messages have to be on the disk before they are
acknowledged, or if its stream is replicated; other logs have no part in it. The file has the
entries of the log's caller, and the redo points behind which they are applied again after a crash.
The entries of a replicated stream are those of its group (`headwater.store.groups`), under the
indexes of that group's log; the log itself adds redo points only.
"""

from typing import final

from headwater.store.disk.wal import ENTRY, RedoPoint, WriteAhead


@final
class LogWriteAhead:
    """The frames of one log; without a write-ahead file there are none."""

    __slots__ = ("added_entry", "file", "identity", "is_replica")

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        # Set when the log joins.
        self.file: WriteAhead | None = None
        # Whether the entries are those of the group with the identity.
        self.is_replica = False
        # The index of the last entry.
        self.added_entry = 0

    @property
    def has_entries(self) -> bool:
        """Whether the files of the log are a cache of entries, of its caller or of its group."""
        return self.file is not None

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

    def add_redo_point(self, point: RedoPoint) -> int:
        """Name the redo point of the log; returns the number of its frame."""
        if self.file is None:
            return 0
        return self.file.add_redo_point(self.identity, point, self.is_replica)

    @property
    def synced_count(self) -> int:
        """The number of the last frame that is on the disk."""
        return 0 if self.file is None else self.file.synced_count

    @property
    def file_number(self) -> int:
        """The number of the write-ahead file that gets the next frame; 0 without a part in it."""
        return 0 if self.file is None else self.file.number

    def secure(self) -> None:
        """Return when all frames of the log so far are on the disk. Raises OSError."""
        if self.file is not None:
            self.file.must_write()
            self.file.sync()

    def forget_frames(self) -> None:
        """Make all entries of the log so far void, durably: none of them is applied again."""
        if self.file is not None:
            self.file.forget_stream(self.identity)

    def leave(self) -> None:
        """Have no part in the write-ahead file any more: no entry of it is to be applied."""
        self.file = None
        self.is_replica = False
        self.added_entry = 0
