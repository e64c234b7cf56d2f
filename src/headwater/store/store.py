"""The store of a server: a folder that is its own, and the logs of its streams in it.

    <folder>/lock                 who has it
            /store.hw             identity, starts, the boot id, whether it was closed in order
            /ahead-…              the write-ahead file (`headwater.store.disk.wal`)
            /catalogue.hw         the streams that exist (`headwater.store.recovery.catalogue`)
            /reserve.hw           room for what makes room on a full disk (`store.disk.room`)
            /streams/<name>/…     a log each (`headwater.store.log.file_log`)

The sync mode of a stream decides what an ack means: INTERVAL, where the operating system
has the message and the disk will; ALWAYS, where the disk has it, by way of the write-ahead file;
ASYNC, where this process has it and writes it soon (`flush`), bounded in bytes and time. A
server commits ALWAYS streams once in a turn (`headwater.store.group_commit`), and now and then
syncs the files of all streams: `begin_sync`, `run_syncs` off its loop, `finish_sync`.

A stream that fails is offline and does not keep the others from anything. A disk without room is
no failure: messages are refused until it has room.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.catalogue_commit import CatalogueCommit
from headwater.store.disk.encoding import EncodedFiles, Encoding
from headwater.store.disk.filesystem import FileSystem, NoRoomError, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import IDENTITY_BYTES, NewerFormatError, StreamFile
from headwater.store.disk.layout import LOCK_FILE
from headwater.store.disk.mark import MarkMemory, StoreMark
from headwater.store.disk.room import NO_SPACE, Room
from headwater.store.disk.store_file import BOOT_ID_BYTES_MAX, BOOT_UNKNOWN, STORE_FILE, StoreFile
from headwater.store.disk.wal import FILE_BYTES_MAX, Extent, Redo, WriteAhead
from headwater.store.disk.wal_reading import AheadFrames, next_number, read_ahead, remove_ahead
from headwater.store.group_commit import (
    GroupCommit,
    begin_syncs,
    drop_empty_segments,
    finish_syncs,
    run_syncs,
)
from headwater.store.groups.group_logs import GroupLogs
from headwater.store.groups.opening import FoundFiles, FoundGroups, StartFacts, open_groups
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import DiskFullError, OfflineError, StoreError
from headwater.store.log.segments import SEGMENT_BYTES_MAX
from headwater.store.recovery.catalogue import (
    CREATED,
    DELETED,
    MADE,
    REMOVED,
    Catalogue,
    CatalogueEntry,
    compare,
)
from headwater.store.recovery.last_life import Loss, find_loss, read_store_file
from headwater.store.recovery.opening import (
    UnreadableError,
    create_log,
    open_log,
    sync_folders_above,
)
from headwater.store.recovery.redo import RedoPlan, open_for_redo, plan_redos
from headwater.store.recovery.replay import replay_frames
from headwater.store.recovery.replicas import open_replica
from headwater.store.replicas import Replicas
from headwater.store.stream_folders import StreamFolders
from headwater.store.sync_policies import Ahead, Deferred, StartOfStore, SyncPolicy, Written
from headwater.store.upkeep.folder_check import put_back_own_files
from headwater.store.upkeep.log_sync import LogSync

# The problem of a stream whose folder was made, and is gone without a recorded deletion.
LOST_STREAM: Final = "somebody has removed its folder or its stream file"


class SyncMode(Enum):
    """The moment at which a stream's messages are on the disk."""

    INTERVAL = "interval"
    ALWAYS = "always"
    ASYNC = "async"


# The one place where the mode of a stream decides.
POLICIES: Final[dict[SyncMode, SyncPolicy]] = {
    SyncMode.INTERVAL: Written(),
    SyncMode.ALWAYS: Ahead(),
    SyncMode.ASYNC: Deferred(),
}


@final
class Store:
    """An open store. Use `open_store`."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        entropy: Entropy,
        boot_id: str,
        encoding: Encoding,
        segment_bytes_max: int,
        ahead_bytes_max: int,
        reserve_bytes: int,
        marks: MarkMemory | None = None,
    ) -> None:
        self._files = files
        self.mark = StoreMark(marks, folder)
        # Entries found in write-ahead files, by the folder of their stream, and the modes of the
        # streams to which they are applied again.
        self._plans: dict[str, RedoPlan] = {}
        self._redone: dict[str, SyncMode] = {}
        self._encoding = encoding
        self._folder = folder
        self._entropy = entropy
        self._segment_bytes_max = segment_bytes_max
        self._ahead_bytes_max = ahead_bytes_max
        self._folders = StreamFolders(files, folder, encoding, entropy)
        self._boot_id = boot_id.encode()[:BOOT_ID_BYTES_MAX]
        # The reason why nothing at all can be written; empty if it can.
        self._offline = ""
        self.room = Room(files, folder, reserve_bytes)
        self.findings = Findings()
        self.logs: dict[str, FileLog] = {}
        # The file systems that the logs were opened through.
        self._stream_files: dict[str, EncodedFiles] = {}
        # Streams that are there and cannot be opened, and why not. Their files are not touched.
        self.unreadable: dict[str, str] = {}
        # The streams whose writes are deferred.
        self._deferred: dict[str, FileLog] = {}
        # The stream files as they were found, until all streams are open.
        self._found: dict[str, StreamFile | None] = {}
        files.make_folder(self._folders.path)
        # Also if they were there: the process that made them may have been killed before this.
        sync_folders_above(files, self._folders.path)
        try:
            self._lock = files.lock(f"{folder}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise StoreError(f"{folder} is in use by another server: {error}") from error
        try:
            self._open()
        except (OperatingError, OSError):
            self._lock.release()
            raise

    # --- opening -------------------------------------------------------------------------------

    def _open(self) -> None:
        found = read_store_file(self._files, self._folder)
        identity = self._entropy.random_bytes(IDENTITY_BYTES) if found is None else found.identity
        # Streams without a store file count as those of a store that was not closed.
        is_new = found is None and not self._files.list_folder(self._folders.path)
        if found is None and not is_new:
            self.findings.add("missing", f"{self._folder}: no {STORE_FILE} beside the streams")
        self._file = found or StoreFile(identity, b"", clean=is_new)
        # Recorded by `mark_in_use`: other servers are told it only behind that.
        self.start_number = self._file.start_number + 1
        self._found_mark = self.mark.read(identity, self._boot_id)
        self.was_unclean = not self._file.clean
        # Whether the machine has stopped since the store was last open and not closed.
        same_life = self._boot_id == self._file.boot_id != BOOT_UNKNOWN.encode()
        self.machine_fell = self.was_unclean and not same_life
        self.room.open()
        ahead_files = self._encoding.files_in(
            self._files, self._folder, "", self._entropy, is_new=True
        )
        # Names are encrypted where messages are.
        self.catalogue = Catalogue(ahead_files, self._folder, identity, self._new_salt)
        self.catalogue_commit = CatalogueCommit(
            self._folder,
            self.catalogue,
            self.room,
            self._check_online,
            self.mark.leave,
            self._tell_streams,
        )
        self._follow_catalogue(is_store_known=found is not None)
        groups = FoundGroups()
        frames = read_ahead(
            ahead_files,
            self._folder,
            None if found is None else identity,
            self.findings,
            groups.take_frame,
        )
        self._judge_by_mark(frames)
        # Messages that an ALWAYS stream has confirmed may be missing.
        self.ahead_lost = self.was_put_back or (frames.is_damaged and self.machine_fell)
        # The part of each stream's last segment that is certain to be whole, by its folder.
        self._extents: dict[str, Extent] = {}
        redos = self._replay(frames)
        ahead = WriteAhead(
            ahead_files,
            self._folder,
            identity,
            next_number(frames),
            self._entropy,
            self._ahead_bytes_max,
            self.room.release_reserve,
            self.mark,
        )
        # The logs of consensus groups.
        self.groups = GroupLogs(ahead, self.start_number)
        self.group_commit = GroupCommit(self._folder, ahead, self.room, self.groups)
        self._replicas = Replicas(self.group_commit, self.groups, self._entropy)
        first_needed = None
        if groups.groups:
            facts = StartFacts(
                self.machine_fell, found is not None, self._file.start_number, self.was_put_back
            )
            in_files = FoundFiles(ahead_files, self._folder, frames, self.findings)
            first_needed = open_groups(self.groups, ahead, groups, in_files, facts, redos)
        elif redos:
            self.group_commit.carry_over(redos)
        remove_ahead(ahead_files, self._folder, frames, first_needed)

    def _judge_by_mark(self, frames: AheadFrames) -> None:
        """Find out by the mark whether more is lost than the process that had the store open."""
        known = [file.identity for file in self._found.values() if file is not None]
        known += [each.identity for each in self.catalogue.state.streams.values()]
        loss = find_loss(self._found_mark, self._file, frames, known, self.findings)
        self.was_put_back = loss is Loss.PUT_BACK
        self.was_unclean |= self.was_put_back
        self.machine_fell |= loss is not Loss.NONE
        if loss is Loss.NONE and self._found_mark.file:
            self.mark.forget_file()

    def _new_salt(self) -> bytes:
        return self._entropy.random_bytes(IDENTITY_BYTES)

    def _follow_catalogue(self, is_store_known: bool) -> None:
        """Have the folders of streams follow the catalogue, as far as a crash has kept them from
        it, and report the differences that no crash leaves. Raises NewerFormatError."""
        catalogue, folders = self.catalogue, self._folders
        catalogue.read(self.findings, self.machine_fell, is_store_known)
        for name, identity in folders.finish_removals(self.findings).items():
            recorded = catalogue.state.streams.get(name)
            if recorded is not None and identity in (None, recorded.identity):
                catalogue.write_later(CatalogueEntry(DELETED, name, recorded.identity))
        self._found = folders.read_stream_files()
        identities = {name: file and file.identity for name, file in self._found.items()}
        self.differences = compare(catalogue.state, identities)
        for name in self.differences.unremoved:
            self._finish_deletion(name)
        for name, identity in [*catalogue.state.unremoved]:
            if name not in self._found or identities[name] != identity:
                catalogue.write_later(CatalogueEntry(REMOVED, name, identity))
        for name, recorded in catalogue.state.streams.items():
            if not recorded.is_made and identities.get(name) == recorded.identity:
                catalogue.write_later(CatalogueEntry(MADE, name, recorded.identity))
        self._lost = {name: catalogue.state.streams[name] for name in self.differences.missing}
        for name in self._lost:
            self.findings.add("missing", f"stream {name}: lost, {LOST_STREAM}")

    def _finish_deletion(self, name: str) -> None:
        """Remove the folder of a stream whose deletion a crash has interrupted."""
        try:
            self._folders.remove_folder(name)
        except OSError as error:
            self.findings.add("unremoved", f"{self._folders.folder_of(name)}: {error}")
            self.unreadable[name] = f"it is deleted, and its files cannot be removed: {error}"
        else:
            del self._found[name]

    def renew_catalogue(self) -> None:
        """Replace a catalogue that is not sound, now that all streams are open."""
        with suppress(OSError):
            # The disk has no room, or fails, and the next start reports it once more.
            self.catalogue.renew()

    def mark_in_use(self) -> None:
        """Write in the store file that the store is not closed in order, until `close` does so."""
        try:
            try:
                self._mark(clean=False)
            except NoRoomError:
                self.room.mark_full()
                if not self.room.release_reserve():
                    raise
                self._mark(clean=False)
        except OSError as error:
            # Bytes that are written now would be taken for complete after a crash.
            self._offline = f"the store file cannot be replaced: {error}"
            for log in self.logs.values():
                log.go_offline(self._offline)
        else:
            self.mark.begin(self.identity, self._boot_id, self.start_number)

    def _mark(self, clean: bool) -> None:
        file = StoreFile(self._file.identity, self._boot_id, clean, self.start_number)
        replace_file(self._files, f"{self._folder}/{STORE_FILE}", file.encode())
        self._file = file

    def _replay(self, found: AheadFrames) -> dict[bytes, Redo]:
        """Put back the bytes of the write-ahead files that the streams' own files lack.

        Returns the entries that are still to be applied, by stream.
        """
        by_file, extents, redos = found.by_file(), found.extents(), found.redos()
        if not by_file and not extents and not redos:
            return {}
        folders = {
            file.identity: self._folders.folder_of(name)
            for name, file in self._found.items()
            if file is not None
        }
        waiting = {identity: redo for identity, redo in redos.items() if redo.entries}
        strangers = {*(identity for identity, _, _ in by_file), *waiting} - set(folders)
        if strangers and None in self._found.values():
            self.findings.add("unreadable", "write-ahead files may be of a stream that is; kept")
            found.unsound_names = found.names
        self._extents = {
            folders[identity]: extent for identity, extent in extents.items() if identity in folders
        }
        replay_frames(by_file, self._files, folders, self._folders.files_in, self.machine_fell)
        # An interrupted write is no damage that leaves a doubt: a machine that falls leaves it so.
        is_doubtful = found.lacks_known_bytes or (found.is_damaged and not self.machine_fell)
        self._plans = plan_redos(
            redos, folders, extents, is_doubtful, found.is_damaged, self.machine_fell
        )
        return {
            identity: redo
            for identity, redo in redos.items()
            if identity in folders and (redo.entries or redo.is_replica)
        }

    # --- streams -------------------------------------------------------------------------------

    def stream_names(self) -> list[str]:
        """The names of all streams there are, open or not."""
        return self._folders.names()

    def unopened_streams(self) -> Iterator[tuple[str, bytes]]:
        """Each stream that was found, with the body of its stream file; empty if unreadable."""
        for name, file in self._found.items():
            if name not in self.unreadable:
                yield name, b"" if file is None else file.body
        self._found = {}

    def is_encrypted(self, name: str) -> bool:
        """Whether a stream that is there was made under a key."""
        return self._folders.is_encrypted(name)

    def check_creatable(self, name: str) -> None:
        """Raises StoreError if no stream of that name can be created."""
        self._check_online()
        if self.room.is_full:
            raise DiskFullError(f"cannot create the stream {name}: {NO_SPACE}")
        if self._folders.has_stream(name):
            raise StoreError(f"a stream {name} is there already")

    def _tell_streams(self) -> None:
        """Have the mark tell how far all streams have come, also those whose deletion failed."""
        for log in self.logs.values():
            self.mark.follow(log.identity, log.mark)

    @property
    def lost_streams(self) -> list[str]:
        """The streams whose folder somebody has removed, and that were neither deleted nor created
        again since."""
        recorded = self.catalogue.state.streams
        return [name for name, stream in self._lost.items() if recorded.get(name) is stream]

    def create_stream(
        self,
        name: str,
        body: bytes = b"",
        first_sequence: int = 1,
        mode: SyncMode = SyncMode.INTERVAL,
        compresses: bool = False,
        is_replica: bool = False,
    ) -> FileLog:
        """Create a stream; it is durable when this returns. Raises StoreError."""
        self.check_creatable(name)
        identity = self._entropy.random_bytes(IDENTITY_BYTES)
        try:
            self.catalogue_commit.write([CatalogueEntry(CREATED, name, identity)])
        except StoreError as error:
            raise StoreError(f"cannot create the stream {name}: {error}") from error
        return self.make_stream(name, identity, body, first_sequence, mode, compresses, is_replica)

    def make_stream(
        self,
        name: str,
        identity: bytes,
        body: bytes,
        first_sequence: int,
        mode: SyncMode,
        compresses: bool,
        is_replica: bool = False,
        applied_entry: int = 0,
    ) -> FileLog:
        """Make the folder and the log of a stream, recorded or not. Raises StoreError.

        A replica has the entries of the group with its identity, and no sync mode of its own. Being
        empty, it holds the effects of those up to `applied_entry`.
        """
        self.check_creatable(name)
        try:
            folder = self._folders.make_folder(name)
            files = self._folders.files_in(folder, is_new=True, compresses=compresses)
            log = create_log(
                files,
                folder,
                self._entropy,
                body,
                first_sequence,
                self._segment_bytes_max,
                identity,
            )
        except OSError as error:
            raise StoreError(f"cannot create the stream {name}: {error}") from error
        recorded = self.catalogue.state.streams.get(name)
        if recorded is not None and recorded.identity == identity:
            self.catalogue.write_hint(CatalogueEntry(MADE, name, identity))
        if is_replica:
            self._take_in(name, log, files)
            self._replicas.add(name, log, applied_entry)
            return log
        return self._adopt(name, log, mode, files)

    def open_stream(
        self, name: str, mode: SyncMode, compresses: bool = False, is_copy: bool = False
    ) -> None:
        """Open a stream that is there, or note in `unreadable` why it cannot be opened.

        Files are what they are; `compresses` is about those to come. The sequences of a stream that
        `is_copy` are those of another one: what a crash has cost comes again.
        """
        folder = self._folders.folder_of(name)
        policy = POLICIES[mode]
        start = StartOfStore(self.was_unclean, self.machine_fell, self.ahead_lost)
        plan = self._plans.get(folder)
        replica = self._replicas.plan_for(plan, self._found.get(name), self.machine_fell)
        try:
            files = self._folders.files_in(folder, compresses=compresses)
            if replica is not None:
                log = open_replica(files, folder, self._entropy, replica, self._segment_bytes_max)
                self._take_in(name, log, files)
                self._replicas.add_opened(name, log, replica.redo.point)
                return
            if plan is not None and plan.redo.entries:
                log = open_for_redo(files, folder, self._entropy, plan, self._segment_bytes_max)
                log.is_copy = is_copy
                self._adopt_for_redo(name, log, mode, files, plan.redo)
                return
            log = open_log(
                files,
                folder,
                self._entropy,
                policy.may_have_lost(start),
                self._segment_bytes_max,
                machine_fell=self.machine_fell,
                extent=policy.certain_part(self._extents, folder),
                syncs=policy.syncs_at_start,
                may_jump=not is_copy,
            )
        except UnreadableError as error:
            self.findings.add("unreadable", str(error))
            self.unreadable[name] = str(error)
            if plan is not None and (plan.redo.entries or plan.redo.is_replica):
                self.group_commit.keep_unopened(plan.identity, plan.redo)
            return
        log.is_copy = is_copy
        log.continue_above(self._found_mark.sequence_of(log.identity))
        self._adopt(name, log, mode, files, 0 if plan is None else plan.redo.last_entry)

    def _adopt(
        self, name: str, log: FileLog, mode: SyncMode, files: EncodedFiles, last_entry: int = 0
    ) -> FileLog:
        self._take_in(name, log, files)
        POLICIES[mode].begin(name, log, last_entry, self.group_commit, self._deferred)
        return log

    def _take_in(self, name: str, log: FileLog, files: EncodedFiles) -> None:
        log.share_room(self.room)
        log.mark.note(log.last_sequence)
        self.mark.follow(log.identity, log.mark)
        self.logs[name] = log
        self._stream_files[name] = files

    def _adopt_for_redo(
        self, name: str, log: FileLog, mode: SyncMode, files: EncodedFiles, redo: Redo
    ) -> None:
        """Have a log with entries that are to be applied again, whatever its mode will be."""
        self._take_in(name, log, files)
        # Until the entries are applied, another start must find what is missing.
        log.mark.note(max(log.last_sequence, self._found_mark.sequence_of(log.identity)))
        if log.offline:
            self.group_commit.hold_stream(name, log)
            return
        self._redone[name] = mode
        last = redo.last_entry
        applied = log.entries_to_apply[0][0] - 1 if log.entries_to_apply else last
        self.group_commit.add_stream(name, log, applied, last)

    def secure_redo(self) -> None:
        """Make the redo points of logs that were opened for redo durable, before an entry is
        applied to them: another crash finds the same, also of replicas that must be filled again.
        Raises StoreError."""
        if self._redone or any(log.must_refill for log in self.logs.values()):
            try:
                self.group_commit.secure_frames()
            except OSError as error:
                raise StoreError(f"cannot open the store in {self._folder}: {error}") from error

    def finish_redo(self) -> None:
        """Go on after the caller has applied `entries_to_apply` of every log. Raises StoreError.

        Must be called before anything else is written to the logs. Entries that the caller could
        not apply are kept for the next start.
        """
        for name, mode in self._redone.items():
            log = self.logs.get(name)
            if log is None or log.offline or log.applied_entry < log.durability.added_entry:
                continue
            log.entries_to_apply = []
            if (self.ahead_lost or log.is_end_uncertain) and not log.is_copy:
                log.continue_above_reservation()
            log.continue_above(self._found_mark.sequence_of(log.identity))
            try:
                log.durability.secure_upkeep()
                POLICIES[mode].end_redo(name, log, self.group_commit, self._deferred)
            except OSError as error:
                log.go_offline(f"redo failed: {error}")
        self._redone = {}

    # --- replicas ------------------------------------------------------------------------------

    def join_group(self, name: str, applied_entry: int) -> None:
        """Make a stream replicated: its entries are those of the group with its identity, and its
        files hold the effects of those up to `applied_entry`.

        Must be called before the group is created. A crash leaves the stream as it was, or
        replicated: the redo point in the write-ahead file decides. Raises StoreError.
        """
        log = self.logs[name]
        if self._deferred.pop(name, None) is not None:
            log.defer_writes(is_deferred=False)
        self._replicas.join(name, log, applied_entry)

    def leave_group(self, name: str, mode: SyncMode) -> None:
        """Make a replicated stream one of this server only, as durable as `mode` says, after its
        group is gone, durably. Raises StoreError."""
        log = self.logs[name]
        self._replicas.leave(name, log)
        log.mark.note(log.last_sequence)
        POLICIES[mode].begin(name, log, 0, self.group_commit, self._deferred)

    def begin_refill(self, name: str, first_sequence: int = 1) -> FileLog:
        """Put an empty log in the place of a replica's, to be filled again. Raises StoreError."""
        return self._open_again(name, self._replicas.begin_refill, first_sequence)

    def cut_back(self, name: str) -> FileLog:
        """Open a replica as it was after the last entry that was marked. Raises StoreError."""
        return self._open_again(name, self._replicas.cut_back)

    def _open_again(self, name: str, again: Callable[..., FileLog], *wanted: int) -> FileLog:
        self._check_online()
        files, folder = self._stream_files[name], self._folders.folder_of(name)
        log = again(name, self.logs[name], files, folder, self._segment_bytes_max, *wanted)
        self._take_in(name, log, files)
        return log

    def compress_stream(self, name: str, compresses: bool) -> None:
        """Set whether files that a stream begins from now on are compressed."""
        self._stream_files[name].compress_new_files(compresses)

    def remove_stream(self, name: str) -> None:
        """Remove a stream with all its files, after its deletion is recorded. Raises StoreError."""
        identity = self.logs[name].identity
        recorded = self.catalogue.state.streams.get(name)
        if recorded is not None and recorded.identity == identity:
            self.catalogue_commit.write([CatalogueEntry(DELETED, name, identity)])
        log = self.logs.pop(name)
        self.mark.leave(identity)
        del self._stream_files[name]
        self.group_commit.remove_stream(name, log)
        self._deferred.pop(name, None)
        if log.is_replica:
            with suppress(OSError):
                # Else the redo point would be that of a replica which comes here again.
                log.durability.forget_frames()
        log.release()
        if self.room.is_full:
            self.room.release_reserve()
        try:
            self._folders.remove_folder(name)
            if (name, identity) in self.catalogue.state.unremoved:
                self.catalogue.write_hint(CatalogueEntry(REMOVED, name, identity))
            if self.catalogue.has_waiting_deletions:
                # There should be room for it now; else the next start reports the stream lost.
                self.catalogue.write_waiting()
        except OSError as error:
            raise StoreError(f"cannot remove the stream {name}: {error}") from error

    # --- durability ----------------------------------------------------------------------------

    def commit(self) -> None:
        """Do all steps of a commit at once, and a trim if it is due. Raises StoreError."""
        self.catalogue_commit.commit()
        if self.group_commit.begin():
            self.group_commit.sync()
            self.group_commit.finish()
        if self.group_commit.is_trim_due:
            self.trim()

    def trim(self) -> None:
        """Sync the files of ALWAYS streams, after which the write-ahead file begins again."""
        work = self.group_commit.begin_trim()
        run_syncs(work.values())
        self.group_commit.finish_trim(work)

    def flush(self) -> None:
        """Write the records that ASYNC streams have only in memory.

        A stream that fails is offline, others go on.
        """
        problems = []
        for log in self._deferred.values():
            if log.availability.unreported_problem:
                problems.append(log.availability.unreported_problem)
                log.availability.unreported_problem = ""
            if log.segments.waiting_bytes and not log.offline:
                try:
                    log.flush()
                except StoreError as error:
                    problems.append(str(error))
        if problems:
            raise StoreError("; ".join(problems))

    def sync(self) -> None:
        """Return when everything of every stream is on the disk."""
        self.catalogue_commit.write_waiting()
        work = self.begin_sync()
        run_syncs(work.values())
        self.finish_sync(work)

    def begin_sync(self) -> dict[str, LogSync]:
        """Work for `run_syncs`, then for `finish_sync`."""
        return begin_syncs(self.logs)

    def finish_sync(self, done: dict[str, LogSync]) -> None:
        """Count as durable what the syncs have brought to the disk; a stream that failed is
        offline, others go on. Raises StoreError."""
        finish_syncs(self.logs, done)
        drop_empty_segments(self.logs, done)

    def close(self) -> None:
        """Close every stream in order, and say so for the next start."""
        orderly = not self._offline and not any(
            log.offline and not log.must_refill for log in self.logs.values()
        )
        problems = []
        try:
            if orderly:
                self.catalogue.write_waiting()
        except OSError as error:
            problems.append(str(error))
        for log in self.logs.values():
            try:
                log.close()
            except StoreError as error:
                problems.append(str(error))
        try:
            if orderly and not problems:
                self.group_commit.remove_files()
                self._mark(clean=True)
                self.mark.close()
        except OSError as error:
            problems.append(str(error))
        self.group_commit.close()
        self.catalogue.close()
        self._lock.release()
        if problems:
            raise StoreError(f"{self._folder} is not closed in order: {'; '.join(problems)}")

    def abandon(self) -> None:
        """Release all files as they are."""
        for log in self.logs.values():
            log.release()
        self.group_commit.close()
        self.catalogue.close()
        self._lock.release()

    def check_folder(self) -> str:
        """Put back the store's own files that somebody removed; returns the problems, or
        nothing."""
        return put_back_own_files(
            self._files, self._folder, self._lock, lambda: self._mark(clean=False)
        )

    @property
    def files(self) -> FileSystem:
        """The file system of the store, for files that its server keeps in the folder."""
        return self._files

    @property
    def folder(self) -> str:
        """The folder of the store."""
        return self._folder

    @property
    def identity(self) -> bytes:
        """The identity of the store."""
        return self._file.identity

    @property
    def offline(self) -> str:
        """The reason why nothing at all can be written; empty if it can."""
        return self._offline

    def _check_online(self) -> None:
        if self._offline:
            raise OfflineError(f"{self._folder} is offline for writes: {self._offline}")


def open_store(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    boot_id: str,
    modes: dict[str, SyncMode] | None = None,
    default_mode: SyncMode = SyncMode.INTERVAL,
    encoding: Encoding | None = None,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    mode_of: Callable[[str, bytes], SyncMode] | None = None,
    ahead_bytes_max: int = FILE_BYTES_MAX,
    compresses_of: Callable[[str, bytes], bool] | None = None,
    reserve_bytes: int = 0,
    is_copy_of: Callable[[str, bytes], bool] | None = None,
    marks: MarkMemory | None = None,
) -> Store:
    """Open the store in a folder, making it if need be, and every stream in it.

    `mode_of`, `compresses_of` and `is_copy_of` are asked about each, by its name and its body.

    `boot_id` tells one life of the machine from another: if it changed, and the store was not
    closed, streams that are not synced before each ack may have lost their end. So they may if the
    store is behind its mark in `marks`.

    `reserve_bytes` is what is kept free for removing messages from a full disk. ALWAYS streams are
    durable by the entries that the caller adds (`FileLog.add_entry`). Entries of an earlier process
    to apply again are in `entries_to_apply` of each log; `finish_redo` is called when they are.
    """
    try:
        store = Store(
            files,
            folder,
            entropy,
            boot_id,
            encoding or Encoding(),
            segment_bytes_max,
            ahead_bytes_max,
            reserve_bytes,
            marks,
        )
    except (OSError, NewerFormatError) as error:
        raise StoreError(f"cannot open the store in {folder}: {error}") from error
    try:
        for name, body in store.unopened_streams():
            of_name = (modes or {}).get(name, default_mode)
            mode = of_name if mode_of is None else mode_of(name, body)
            asked = [ask is not None and ask(name, body) for ask in (compresses_of, is_copy_of)]
            store.open_stream(name, mode, *asked)
        store.secure_redo()
        store.renew_catalogue()
    except OperatingError:
        store.abandon()
        raise
    # Only now: a start that is interrupted must leave no doubt that the machine fell before it.
    store.mark_in_use()
    return store
