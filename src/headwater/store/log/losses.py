"""Messages of a log that were stored and cannot be read: they are reported.

They leave the index of a log that has no replicas. In a replica they stay until their records have
come from another one (`store.log.damage`).
"""

from typing import final

from headwater.store.disk.findings import Findings
from headwater.store.disk.journal import DELETED, LOST
from headwater.store.errors import DamagedMessageError
from headwater.store.index.log_index import LogIndex
from headwater.store.index.ranges import RangeSet
from headwater.store.log.damage import Damage
from headwater.store.log.durability import Durability
from headwater.store.log.log_journal import LogJournal


@final
class Losses:
    """The unreadable messages of one log, and the findings about its files."""

    __slots__ = ("_durability", "_index", "_journal", "_lost_count", "damage", "findings", "lost")

    def __init__(
        self,
        index: LogIndex,
        journal: LogJournal,
        durability: Durability,
        findings: Findings,
        lost: RangeSet,
    ) -> None:
        """`findings` and `lost` have what was found when the log was opened."""
        self._index = index
        self._journal = journal
        self._durability = durability
        self.findings = findings
        self.lost = lost
        # The number of messages that turned out to be lost since the log was opened.
        self._lost_count = 0
        self.damage = Damage(index)

    @property
    def unreadable_count(self) -> int:
        """The number of messages that are damaged, or turned out to be lost since the log was
        opened."""
        return self._lost_count + self.damage.count

    def lose_message(self, sequence: int) -> None:
        """Take a message that cannot be read out of the index, so that nobody waits for it.

        A replica keeps it. Raises DamagedMessageError then.
        """
        if self._durability.is_replica:
            self.note_damage(sequence)
            raise DamagedMessageError(sequence)
        self.findings.add("damaged", f"message {sequence} fails its checksum")
        self._lost_count += 1
        self._journal_one(LOST, sequence)
        self._index.delete(sequence)
        self.lost.add(sequence, sequence)

    def note_damage(self, sequence: int) -> None:
        """Note a message of a replica that cannot be read, and that other replicas have."""
        if self.damage.note(sequence):
            self.findings.add("damaged", f"message {sequence} fails its checksum")

    def remove_erased(self, sequence: int) -> None:
        """Take a message out of the index that was erased and is not known to be deleted."""
        self._journal_one(DELETED, sequence)
        self._index.delete(sequence)

    def _journal_one(self, kind: int, sequence: int) -> None:
        is_between_entries = self._durability.redo.is_current
        self._journal.write_if_possible(kind, sequence)
        if is_between_entries:
            self._durability.redo.mark_upkeep()
