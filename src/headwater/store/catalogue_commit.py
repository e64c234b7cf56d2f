"""The commits of a catalogue: one write makes the creations and deletions of a turn durable.

    add ─▶ begin: one write of all ─▶ sync, off the loop ─▶ finish ─▶ `synced`, or `take_problem`

A server takes these steps together with those of `headwater.store.group_commit`, so that streams
and their set share a wait for the disk. If a write fails, the file may have the entries all the
same: another file takes its place before anybody is told of the failure.

Deletions on a disk without room count as written: their entries wait until files of streams are
gone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

from headwater.base.invariants import check
from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.room import Room
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.recovery.catalogue import CREATED, DELETED, Catalogue, CatalogueEntry

# Entries of the catalogue for one entry of the log of the set, and its index there.
_Added = tuple[int, Sequence[CatalogueEntry]]


@final
class CatalogueCommit:
    """The entries for the catalogue of a store, and their commits."""

    __slots__ = (
        "_added",
        "_catalogue",
        "_check_online",
        "_failure",
        "_folder",
        "_is_begun",
        "_leave_mark",
        "_problem",
        "_refusal",
        "_room",
        "_takes_waiting",
        "_tell_streams",
        "_writing",
        "finished",
        "synced",
    )

    def __init__(
        self,
        folder: str,
        catalogue: Catalogue,
        room: Room,
        check_online: Callable[[], object],
        leave_mark: Callable[[bytes], object],
        tell_streams: Callable[[], object],
    ) -> None:
        """`check_online` raises StoreError if no stream can be created. `leave_mark` has the mark
        of the store tell nothing of a stream, by its identity, and `tell_streams` has it tell of
        all. `folder` is the store's."""
        self._folder = folder
        self._catalogue = catalogue
        self._room = room
        self._check_online = check_online
        self._leave_mark = leave_mark
        self._tell_streams = tell_streams
        # Entries that are not written, and those of the commit that is under way.
        self._added: list[_Added] = []
        self._writing: list[_Added] = []
        # Whether a commit is under way, with entries or with another file.
        self._is_begun = False
        # The error of a write that has left a doubtful file, and the same while the commit that is
        # under way replaces the file.
        self._failure: StoreError | None = None
        self._refusal: StoreError | None = None
        # The error of the last commit, for those who wait for its entries.
        self._problem: StoreError | None = None
        # Whether the next commit writes entries that wait for others.
        self._takes_waiting = False
        # The index of the last entry that the disk has, or need not have.
        self.synced = 0
        # Called when `synced` has advanced, or there is a problem.
        self.finished: Callable[[], object] = lambda: None

    def add(self, index: int, entries: Sequence[CatalogueEntry]) -> None:
        """Add the entries of one index to the next commit; none if the disk need not have it."""
        if entries or self._added or self._writing or self._failure or self._refusal:
            self._added.append((index, entries))
        else:
            self.synced = index

    def withdraw(self, index: int) -> None:
        """Drop the entries behind an index, none of which is being written."""
        check(not self._writing, "entries that are being written are not withdrawn")
        self._added = [each for each in self._added if each[0] <= index]

    def take_problem(self) -> StoreError | None:
        """The error of the last commit, once: none of its entries is written."""
        problem, self._problem = self._problem, None
        return problem

    # --- commits -------------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether another commit has to follow at once."""
        return self._failure is not None

    def want_waiting(self) -> bool:
        """Have the next commit write what nobody waits for. Returns whether there is anything."""
        self._takes_waiting = self._catalogue.has_waiting or self._catalogue.is_doubtful
        return self._takes_waiting

    def begin(self) -> bool:
        """Write the entries that were added; returns whether they are to be synced.

        `finish` has to follow in either case.
        """
        if not (self._added or self._takes_waiting or self._failure):
            # As in nearly every commit of a server.
            return False
        self._is_begun = True
        self._refusal, self._failure = self._failure, None
        if self._refusal is not None:
            return self._catalogue.begin()
        self._writing, self._added = self._added, []
        entries, takes_waiting = self._entries, self._takes_waiting
        self._takes_waiting = False
        if not entries and not takes_waiting:
            return False
        try:
            if any(entry.kind == CREATED for entry in entries):
                self._check_online()
            elif entries and self._room.is_full:
                # They may make room.
                self._room.release_reserve()
            for entry in entries:
                if entry.kind == DELETED:
                    # A process that is killed may leave the deletion, and the next start no folder.
                    self._leave_mark(entry.identity)
            return self._catalogue.begin(entries)
        except (OSError, StoreError) as error:
            self._fail(error)
            return False

    def sync(self) -> None:
        """Wait for the disk. May run on another thread."""
        self._catalogue.run()

    def finish(self) -> None:
        """Count as durable what `begin` wrote, after `sync` has returned if it was called."""
        if not self._is_begun:
            return
        self._is_begun = False
        refusal, self._refusal = self._refusal, None
        try:
            self._catalogue.finish()
        except OSError as error:
            if refusal is None:
                self._fail(error)
        if refusal is not None:
            self._problem = refusal
        is_news = self._problem is not None or bool(self._writing)
        if self._writing:
            self.synced = self._writing[-1][0]
            self._writing = []
        if is_news:
            self.finished()

    @property
    def _entries(self) -> list[CatalogueEntry]:
        """The entries of the commit that is under way."""
        return [entry for _, entries in self._writing for entry in entries]

    def _fail(self, error: OSError | StoreError) -> None:
        """Have the commit that is under way fail, or count its deletions as written."""
        entries = self._entries
        is_full = isinstance(error, NoRoomError)
        if is_full and not any(entry.kind == CREATED for entry in entries):
            for entry in entries:
                self._catalogue.write_later(entry)
            return
        self._writing = []
        if any(entry.kind == DELETED for entry in entries):
            self._tell_streams()
        if not isinstance(error, StoreError):
            text = f"cannot write the catalogue of {self._folder}: {error}"
            error = DiskFullError(text) if is_full else StoreError(text)
        if self._catalogue.is_doubtful:
            self._failure = error
        else:
            self._problem = error

    def commit(self) -> None:
        """Do all steps of a commit at once; `take_problem` tells what went wrong."""
        if self.begin():
            self.sync()
        self.finish()
        if self.is_wanted:
            self.commit()

    def write(self, entries: Sequence[CatalogueEntry]) -> None:
        """Write entries, all or none; they are on the disk when this returns. Raises StoreError.

        No commit may be under way.
        """
        self.add(self.synced, entries)
        finished, self.finished = self.finished, lambda: None
        try:
            self.commit()
        finally:
            self.finished = finished
        problem = self.take_problem()
        if problem is not None:
            raise problem

    def write_waiting(self) -> None:
        """Write entries that nobody waits for, if there is room and no commit is under way."""
        with suppress(OSError):
            # The next commit begins another file, or fails.
            self._catalogue.write_waiting()
