"""Messages of a log that were stored and cannot be read: they leave the index and are reported."""

from typing import final

from headwater.store.disk.findings import Findings
from headwater.store.disk.journal import DELETED, LOST
from headwater.store.index.log_index import LogIndex
from headwater.store.index.ranges import RangeSet
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.redo_points import RedoPoints


@final
class Losses:
    """The unreadable messages of one log, and the findings about its files."""

    __slots__ = ("_index", "_journal", "_redo", "findings", "lost", "unreadable_count")

    def __init__(
        self,
        index: LogIndex,
        journal: LogJournal,
        redo: RedoPoints,
        findings: Findings,
        lost: RangeSet,
    ) -> None:
        """`findings` and `lost` have what was found when the log was opened."""
        self._index = index
        self._journal = journal
        self._redo = redo
        self.findings = findings
        self.lost = lost
        # The number of messages that turned out to be unreadable since the log was opened.
        self.unreadable_count = 0

    def lose_message(self, sequence: int) -> None:
        """Take a message that cannot be read out of the index, so that nobody waits for it."""
        self.findings.add("damaged", f"message {sequence} fails its checksum")
        self.unreadable_count += 1
        self._journal_one(LOST, sequence)
        self._index.delete(sequence)
        self.lost.add(sequence, sequence)

    def remove_erased(self, sequence: int) -> None:
        """Take a message out of the index that was erased and is not known to be deleted."""
        self._journal_one(DELETED, sequence)
        self._index.delete(sequence)

    def _journal_one(self, kind: int, sequence: int) -> None:
        is_between_entries = self._redo.is_current
        self._journal.write_if_possible(kind, sequence)
        if is_between_entries:
            self._redo.mark_upkeep()
