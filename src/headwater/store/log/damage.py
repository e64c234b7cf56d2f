"""The messages of a replica that cannot be read here, and that count all the same.

The trouble of one replica is not that of its stream. The message stays in the index, so that
limits, counts and positions are those of the other replicas. It is repaired by the record of one of
them, or removed when the log of the group says that no replica has it. After a restart the first
read finds the damage again.
"""

from collections.abc import Callable
from typing import final

from headwater.store.index.log_index import LogIndex
from headwater.store.index.ranges import RangeSet


@final
class Damage:
    """The damaged messages of one log. `found` is called for each one that was not known."""

    __slots__ = ("_index", "_ranges", "found")

    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self._ranges = RangeSet()
        self.found: Callable[[], object] = _tell_nobody

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._ranges

    @property
    def count(self) -> int:
        """The number of damaged messages, some of which may have been removed since."""
        return self._ranges.count

    def note(self, sequence: int) -> bool:
        """Note a message that cannot be read. Returns whether it was not known."""
        if sequence in self._ranges:
            return False
        self._ranges.add(sequence, sequence)
        self.found()
        return True

    def forget(self, sequence: int) -> None:
        """Note that a message can be read again, or is gone."""
        self._ranges.remove(sequence, sequence)

    def first(self, count_max: int) -> list[int]:
        """The first damaged messages that are in the index; those that are not are forgotten."""
        wanted: list[int] = []
        gone: list[tuple[int, int]] = []
        for first, last in self._ranges:
            behind = first
            while len(wanted) < count_max:
                sequence = self._index.next_message(behind)
                if not behind <= sequence <= last:
                    break
                if sequence > behind:
                    gone.append((behind, sequence - 1))
                wanted.append(sequence)
                behind = sequence + 1
            if len(wanted) == count_max:
                break
            if behind <= last:
                gone.append((behind, last))
        for part in gone:
            self._ranges.remove(*part)
        return wanted

    def unwatch(self) -> None:
        """Tell nobody of damage any more."""
        self.found = _tell_nobody


def _tell_nobody() -> None:
    """Be told of damage in a log that no replica watches."""
