"""Segments of a log in which no message is left: their files are removed."""

from typing import Final, final

from headwater.base.sliced import Work, at_once
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.journal import DELETED, encode_ranges
from headwater.store.errors import DiskFullError
from headwater.store.index.log_index import LogIndex
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.availability import Availability
from headwater.store.log.checkpoints import Checkpoints
from headwater.store.log.durability import Durability
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.segments import LogSegments

# The last segment of a log from which everything was deleted goes when it is at least this large.
EMPTIED_BYTES_MIN: Final = 1024 * 1024
# Units of work to remove the file of a segment, which may be large.
REMOVAL_COST: Final = 4096
# A turn removes this many files at most; upkeep removes the others.
REMOVED_AT_ONCE_MAX: Final = 8


@final
class EmptiedSegments:
    """The emptied segments of one log."""

    __slots__ = (
        "_availability",
        "_checkpoints",
        "_durability",
        "_folder",
        "_index",
        "_journal",
        "_segments",
        "are_possible",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        segments: LogSegments,
        journal: LogJournal,
        durability: Durability,
        checkpoints: Checkpoints,
    ) -> None:
        self._folder = folder
        self._availability = availability
        self._index = index
        self._segments = segments
        self._journal = journal
        self._durability = durability
        self._checkpoints = checkpoints
        # Whether segments may have been emptied whose files are still there.
        self.are_possible = True

    def remove_some(self) -> None:
        """Remove the files of some emptied segments. Raises StoreError."""
        try:
            at_once(self.removing(REMOVED_AT_ONCE_MAX))
        except OSError as error:
            raise self._availability.failed("removing segments", error) from error
        # Some stay if they are many, or if the disk has no room for the entry that names them.
        self.are_possible = bool(self._find(1))

    def removing(self, count_max: int | None = None) -> Work[None]:
        """Remove the files of emptied segments, the oldest first. Raises StoreError, OSError.

        Segments for whose removal the disk has no room stay, and say nothing any more.
        """
        empty = self._find(count_max)
        if not empty:
            return
        if any(self._checkpoints.ends_in(index.first_sequence) for index in empty):
            # Its last segment is about to go.
            self._checkpoints.discard()
        try:
            self._durability.secure_caller_entries()
            # Also of sequences that never had a message nobody may think that they are missing.
            ranges = [(index.first_sequence, index.next_sequence - 1) for index in empty]
            gone = encode_ranges(pair for pair in ranges if pair[0] <= pair[1])
            self._journal.write([(DELETED, gone)], makes_room=True)
            self._journal.write_queue()
        except DiskFullError:
            return
        self._journal.sync()
        if empty[-1] is self._index.segments[-1]:
            try:
                # The segment before this one needs no footer: it would be as long as its index.
                self._segments.begin_segment()
            except NoRoomError:
                empty.pop()
        # Entries that are applied again must find the segments as they were.
        self._durability.secure_upkeep()
        for index in empty:
            self._index.remove_segment(index)
            self._segments.remove(index)
            yield REMOVAL_COST
        self._folder.sync()

    def _find(self, count_max: int | None) -> list[SegmentIndex]:
        """The first so many emptied segments."""
        *others, last = self._index.segments
        empty = [index for index in others if index.live == 0]
        if not self._index.messages and self._segments.last.size >= EMPTIED_BYTES_MIN:
            # No message is left at all: the log goes on in a segment behind it, and its file can
            # go.
            empty.append(last)
        return empty[:count_max]
