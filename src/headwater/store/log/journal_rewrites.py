"""Rewrites of a log's journal: a successor that says the same in fewer entries takes its place.

`begin` on the log's thread returns work, `JournalRewriting.run` may run on any, and `finish` swaps
the successor in on the log's thread. The log is used meanwhile: `finish` adds the entries that were
written since. A successor that cannot be written leaves the log as it was.
"""

from typing import final

from headwater.base.invariants import check
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.format import JOURNAL_MAGIC, FileHeader
from headwater.store.disk.journal import DELETED, LOST, Journal, encode_ranges, size_of_entries
from headwater.store.disk.layout import JOURNAL_FILE, JOURNAL_NEW_FILE
from headwater.store.errors import StoreError
from headwater.store.index.log_index import LogIndex
from headwater.store.index.ranges import RangeSet
from headwater.store.log.availability import Availability
from headwater.store.log.checkpoints import Checkpoints
from headwater.store.log.durability import Durability
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.log_journal import LogJournal
from headwater.store.upkeep.journal_rewriting import JournalRewriting


@final
class JournalRewrites:
    """The rewrites of one log's journal, one at a time."""

    __slots__ = (
        "_availability",
        "_checkpoints",
        "_durability",
        "_folder",
        "_index",
        "_journal",
        "_running",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        journal: LogJournal,
        durability: Durability,
        checkpoints: Checkpoints,
    ) -> None:
        self._folder = folder
        self._availability = availability
        self._index = index
        self._journal = journal
        self._durability = durability
        self._checkpoints = checkpoints
        self._running: JournalRewriting | None = None

    @property
    def is_running(self) -> bool:
        """Whether a rewrite was begun and is not over."""
        return self._running is not None

    def begin(self, caller_entries: list[tuple[int, bytes]] | None) -> JournalRewriting:
        """Work for `JournalRewriting.run`, and then for `finish` or `abandon`.

        `caller_entries` take the place of all that callers have written so far; None keeps it.
        """
        self._availability.check_online()
        check(not self.is_running, "the rewriting before this one is not over")
        self._journal.write_queue()
        path = self._folder.path_of(JOURNAL_FILE)
        header = FileHeader(JOURNAL_MAGIC, self._folder.identity, 0, self._folder.new_salt())
        try:
            self._running = JournalRewriting(
                self._folder.files,
                path,
                self._folder.path_of(JOURNAL_NEW_FILE),
                header,
                self._journal.file,
                self._index.last_sequence,
                caller_entries,
                self._journal.caller_bytes,
            )
        except OSError as error:
            raise StoreError(f"{path} is not rewritten: {error}") from error
        return self._running

    def abandon(self, work: JournalRewriting) -> None:
        """Give up a rewrite that could not be run, or is not wanted any more."""
        check(self._running is work, "only the rewriting that was begun can be over")
        self._running = None
        work.discard()

    def finish(self, done: JournalRewriting) -> bool:
        """Swap the successor in; False if the journal was replaced meanwhile.

        Raises StoreError if it could not be written; the log goes on with the one before.
        """
        journal, durability, availability = self._journal, self._durability, self._availability
        # Amid an entry the successor would hold a part of it, which is then not cut off.
        is_amid_entry = durability.has_entries and not durability.redo.may_begin_upkeep()
        if availability.offline or not done.is_of(journal.file) or is_amid_entry:
            self.abandon(done)
            availability.check_online()
            return False
        try:
            # Entries on the disk may not speak of messages that are not.
            if durability.synced_sequence < min(done.last_sequence, self._index.last_sequence):
                durability.sync()
            journal.write_queue()
            done.catch_up()
        except StoreError:
            self.abandon(done)
            raise
        except OSError as error:
            self.abandon(done)
            raise StoreError(f"{self._folder.path}: no new journal is written: {error}") from error
        self._running = None
        try:
            durability.secure_applied()
            successor = done.put_in_place()
            self._folder.sync()
        except NoRoomError as error:
            # Before the successor took the place of the journal.
            done.discard()
            raise availability.failed("rewriting the journal", error) from error
        except OSError as error:
            raise availability.failed("rewriting the journal", error) from error
        self._replace_journal(successor)
        journal.caller_bytes -= done.caller_bytes_covered
        if done.caller_entries is None:
            journal.caller_bytes_rewritten += done.caller_bytes_covered
        else:
            journal.caller_bytes_rewritten = size_of_entries(done.caller_entries)
        return True

    def rewrite_now(self, caller_entries: list[tuple[int, bytes]] | None) -> None:
        """Do all steps at once. Raises StoreError."""
        work = self.begin(caller_entries)
        try:
            work.run()
        except StoreError:
            self.abandon(work)
            raise
        self.finish(work)

    def start_over(self, entries: list[tuple[int, bytes]], lost: RangeSet) -> None:
        """Replace a damaged journal by one with what the index says, `lost`, and the callers'
        `entries`. Raises StoreError."""
        # Entries of now, on the disk, may not speak of messages that are not.
        self._durability.sync()
        first_sequence = self._index.first_sequence
        deleted = RangeSet([(1, first_sequence - 1)] if first_sequence > 1 else [])
        for first, last in self._index.gaps():
            for part in lost.outside(first, last):
                deleted.add(*part)
        own = [(DELETED, encode_ranges(deleted)), (LOST, encode_ranges(lost))]
        try:
            successor = self._write_successor([*own, *entries])
        except OSError as error:
            raise self._availability.broken("rewriting the journal", error) from error
        self._replace_journal(successor)
        self._journal.caller_bytes = 0
        self._journal.caller_bytes_rewritten = size_of_entries(entries)

    def _write_successor(self, entries: list[tuple[int, bytes]]) -> Journal:
        """Put a journal with these entries in place, durably."""
        folder = self._folder
        self._durability.secure_applied()
        # The checkpoint may know entries of the damaged journal that are not known here.
        self._checkpoints.discard()
        temporary = folder.path_of(JOURNAL_NEW_FILE)
        if folder.files.exists(temporary):
            folder.files.remove(temporary)
        successor = Journal.create(folder.files, temporary, folder.identity, folder.new_salt())
        successor.write_apart(self._index.last_sequence, entries)
        successor.sync()
        folder.files.rename(temporary, folder.path_of(JOURNAL_FILE))
        folder.sync()
        return successor

    def _replace_journal(self, successor: Journal) -> None:
        self._journal.replace_file(successor)
        try:
            self._durability.secure_upkeep()
        except OSError as error:
            raise self._availability.broken("rewriting the journal", error) from error
