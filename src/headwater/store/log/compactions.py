"""Compactions of a log: a sealed segment is rewritten without the messages deleted from it.

`begin` on the log's thread returns work, `Compaction.run` may run on any, and `finish` swaps the
successor in on the log's thread. The log is used meanwhile; a successor that no longer fits its
segment is given up. A successor that cannot be written leaves the log as it was.
"""

from typing import final

from headwater.base.invariants import check
from headwater.store.disk.disposal import Dispose, close_at_once
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.segment import SegmentFile
from headwater.store.errors import StoreError
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.checkpoints import Checkpoints
from headwater.store.log.durability import Durability
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.losses import Losses
from headwater.store.log.segments import LogSegments
from headwater.store.upkeep.compaction import Compaction, is_worthwhile


@final
class Compactions:
    """The compactions of one log, one at a time."""

    __slots__ = (
        "_availability",
        "_checkpoints",
        "_durability",
        "_folder",
        "_index",
        "_losses",
        "_running",
        "_segments",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        segments: LogSegments,
        durability: Durability,
        checkpoints: Checkpoints,
        losses: Losses,
    ) -> None:
        self._folder = folder
        self._availability = availability
        self._index = index
        self._segments = segments
        self._durability = durability
        self._checkpoints = checkpoints
        self._losses = losses
        self._running: Compaction | None = None

    @property
    def is_running(self) -> bool:
        """Whether a compaction was begun, so that another thread may look at the subjects."""
        return self._running is not None

    def worthwhile(self) -> list[int]:
        """Sealed segments that are mostly deleted messages, by their first sequence."""
        by_first = self._segments.by_first
        return [
            index.first_sequence
            for number, index in enumerate(self._index.segments[:-1])
            if by_first[index.first_sequence].sealed and is_worthwhile(index, number == 0)
        ]

    def begin(self, first_sequence: int) -> Compaction:
        """Work for `Compaction.run`, and then for `finish` or `abandon`.

        One at a time: successors of one segment have one name.
        """
        self._availability.check_online()
        check(self._running is None, "the compaction before this one is not over")
        index = self._index.segment_of(first_sequence)
        segment = self._segments.by_first[index.first_sequence]
        check(segment.sealed, "only a sealed segment can be rewritten")
        try:
            names = self._index.subjects.names
            self._running = Compaction(self._folder.files, segment, index, names)
        except OSError as error:
            raise StoreError(f"{segment.path} is not compacted: {error}") from error
        return self._running

    def abandon(self, work: Compaction) -> None:
        """Give up a compaction that could not be run, or is not wanted any more."""
        check(self._running is work, "only the compaction that was begun can be over")
        self._running = None
        work.discard()

    def finish(self, done: Compaction, dispose: Dispose = close_at_once) -> bool:
        """Swap the successor in; False if its segment was changed meanwhile, or is gone."""
        by_first = self._segments.by_first
        old = by_first.get(done.segment_first)
        is_fitting = old is not None and done.is_of(old) and not self._is_redone(done)
        if self._availability.offline or old is None or not is_fitting:
            self.abandon(done)
            self._availability.check_online()
            return False
        index = self._index.segment_of(done.segment_first)
        damaged = [sequence for sequence in done.damaged if index.has(sequence)]
        if damaged and self._durability.is_replica:
            # The successor has no place for them. The segment waits until they are repaired.
            for sequence in damaged:
                self._losses.note_damage(sequence)
            self.abandon(done)
            return False
        self._running = None
        try:
            for sequence in damaged:
                self._losses.lose_message(sequence)
            self._durability.secure_caller_entries()
            self._durability.secure_applied()
            self._checkpoints.discard(dispose)
            done.put_in_place()
            self._folder.sync()
            segment = SegmentFile.open(self._folder.files, old.path, self._folder.identity)
        except NoRoomError as error:
            # Before the successor took the place of anything.
            done.discard()
            raise self._availability.failed("compaction", error) from error
        except OSError as error:
            raise self._availability.failed("compaction", error) from error
        segment.sealed = True
        dispose(old.close)
        by_first[done.segment_first] = segment
        done.hand_over(index)
        return True

    def _is_redone(self, done: Compaction) -> bool:
        """Whether an entry that is being applied has begun or filled the segment: after a crash it
        is cut back, and applied again. Messages that are deleted by entries which may be taken back
        stay too."""
        if not self._durability.has_entries:
            return False
        if not self._durability.redo.may_begin_upkeep():
            return True
        return done.segment_first >= self._durability.redo.applied.segment_first
