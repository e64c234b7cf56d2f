"""Syncs of a log's files, which wait for the disk on another thread.

The log prepares the work on its own thread and takes it up there again; in between only the files
are touched, and those know what may happen to them meanwhile. It must not know the log.
"""

from typing import final

from headwater.store.disk.journal import Journal
from headwater.store.disk.segment import SegmentFile
from headwater.store.disk.wal import RedoPoint


@final
class LogSync:
    """A sync of everything that a log had written at a moment."""

    __slots__ = (
        "_journal",
        "_segments",
        "counting",
        "journal_writes",
        "last_sequence",
        "problem",
        "redo_point",
        "segment_first",
    )

    def __init__(
        self,
        segments: list[SegmentFile],
        journal: Journal,
        last_sequence: int,
        journal_writes: int,
        redo_point: RedoPoint,
        counting: int,
    ) -> None:
        """Made by `Durability.begin_sync`; segments in order."""
        self._segments = segments
        self._journal = journal
        self.last_sequence = last_sequence
        self.journal_writes = journal_writes
        # The state after the last entry that was applied, which the disk has then.
        self.redo_point = redo_point
        # The log of entries that the point is about: a stream may change it during the sync.
        self.counting = counting
        self.segment_first = segments[-1].first_sequence
        # The error for which something may not be on the disk.
        self.problem: OSError | None = None

    def run(self) -> None:
        """Return when the disk has everything. May run on another thread."""
        files: list[SegmentFile | Journal] = [*self._segments, self._journal]
        for file in files:
            try:
                file.sync()
            except OSError as error:
                # A file that is gone by now, or has a successor, need not be on the disk.
                if not file.is_closed:
                    self.problem = error
                    return
