"""Everything a server keeps on disk: a folder that is its own, and the logs of its streams in it.

    <folder>/lock                 who has it
            /store.hw             identity, the machine's boot id, whether it was closed in order
            /ahead-…              the write-ahead file (`headwater.store.disk.wal`)
            /catalogue.hw         the names of the streams (`headwater.store.recovery.catalogue`)
            /reserve.hw           room for what makes room on a full disk (`store.disk.room`)
            /streams/<name>/…     a log each (`headwater.store.log.file_log`)

What an ack of a stream may mean is decided by its sync mode: INTERVAL, where the operating system
has the message and the disk will; ALWAYS, where the disk has it, by way of the write-ahead file;
ASYNC, where this process has it and writes it soon (`flush`), bounded in bytes and time. A
server calls `begin_commit` at the end of a turn, `sync_ahead` off its loop, and `finish_commit`
when that returned; the logs' `synced_sequence` then covers the turn. Likewise `begin_sync`,
`run_syncs` off the loop and `finish_sync` for the streams' own files, and `begin_trim` and
`finish_trim` around `run_syncs` when the write-ahead file is full.

A stream that fails is offline and does not keep the others from anything. A disk without room is
no failure: messages are refused for as long as there is none. When the write-ahead file meets the
end of the disk, a commit syncs the files of the streams themselves, in which the messages are.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.disk.encoding import KEY_FILE, EncodedFiles, Encoding
from headwater.store.disk.filesystem import FileSystem, NoRoomError, read_file, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    IDENTITY_BYTES,
    FormatError,
    NewerFormatError,
    StreamFile,
)
from headwater.store.disk.layout import (
    JOURNAL_FILE,
    LOCK_FILE,
    LONG_NAME_MARK,
    NAME_FILE,
    REMOVED_FILE,
    STREAM_FILE,
    STREAMS_FOLDER,
    folder_name,
    name_of_folder,
)
from headwater.store.disk.room import NO_SPACE, Room
from headwater.store.disk.segment import segment_name
from headwater.store.disk.set_aside import SET_ASIDE, set_aside_file
from headwater.store.disk.store_file import BOOT_ID_BYTES_MAX, BOOT_UNKNOWN, STORE_FILE, StoreFile
from headwater.store.disk.wal import (
    FILE_BYTES_MAX,
    JOURNAL,
    AheadFrames,
    Extent,
    WriteAhead,
    put_together,
    read_ahead,
    remove_ahead,
)
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import DiskFullError, OfflineError, StoreError
from headwater.store.log.segments import SEGMENT_BYTES_MAX
from headwater.store.recovery.catalogue import Catalogue
from headwater.store.recovery.opening import (
    UnreadableError,
    create_log,
    open_log,
    sync_folders_above,
)
from headwater.store.upkeep.log_check import GONE
from headwater.store.upkeep.log_sync import LogSync

# The problem of a stream that is in the catalogue and nowhere else.
LOST_STREAM: Final = "somebody has removed its folder or its stream file"


class SyncMode(Enum):
    """When what a stream wrote is on the disk."""

    INTERVAL = "interval"
    ALWAYS = "always"
    ASYNC = "async"


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
    ) -> None:
        self._files = files
        self._encoding = encoding
        self._folder = folder
        self._entropy = entropy
        self._segment_bytes_max = segment_bytes_max
        self._ahead_bytes_max = ahead_bytes_max
        self._streams = f"{folder}/{STREAMS_FOLDER}"
        self._boot_id = boot_id.encode()[:BOOT_ID_BYTES_MAX]
        # Why nothing at all can be written; empty if it can.
        self._offline = ""
        self.room = Room(files, folder, reserve_bytes)
        self.findings = Findings()
        self.logs: dict[str, FileLog] = {}
        # What the logs were opened through.
        self._stream_files: dict[str, EncodedFiles] = {}
        # Streams that are there and can not be opened, and why not. Their files are not touched.
        self.unreadable: dict[str, str] = {}
        self._always: dict[str, FileLog] = {}
        # Their names, by what the write-ahead file knows them by.
        self._always_names: dict[bytes, str] = {}
        self._async: dict[str, FileLog] = {}
        # Sequence and count of entries by stream that a commit under way makes durable.
        self._committing: dict[str, tuple[int, int]] = {}
        # The syncs by stream of a commit that goes without the write-ahead file; else None.
        self._syncing: dict[str, LogSync] | None = None
        files.make_folder(self._streams)
        # Also where they were there: whoever made them may have been killed before this.
        sync_folders_above(files, self._streams)
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
        found = self._read_store_file()
        identity = self._entropy.random_bytes(IDENTITY_BYTES) if found is None else found.identity
        # Streams without a store file: who knows what happened to them.
        is_new = found is None and not self._files.list_folder(self._streams)
        if found is None and not is_new:
            self.findings.add("missing", f"{self._folder}: no {STORE_FILE} beside the streams")
        self._file = found or StoreFile(identity, b"", clean=is_new)
        self.was_unclean = not self._file.clean
        # The machine stopped without a word since the store was last open.
        same_life = self._boot_id == self._file.boot_id != BOOT_UNKNOWN.encode()
        self.machine_fell = self.was_unclean and not same_life
        self.room.open()
        removed = self._finish_removals()
        ahead_files = self._encoding.files_in(
            self._files, self._folder, "", self._entropy, is_new=True
        )
        frames = read_ahead(
            ahead_files, self._folder, None if found is None else identity, self.findings
        )
        # What an ALWAYS stream has confirmed may be missing.
        self.ahead_lost = frames.is_damaged and self.machine_fell
        # How much of the last segment of each stream is certain to be whole, by its folder.
        self._extents: dict[str, Extent] = {}
        self._replay(frames)
        number = remove_ahead(ahead_files, self._folder, frames)
        self._ahead = WriteAhead(
            ahead_files,
            self._folder,
            identity,
            number,
            self._entropy,
            self._ahead_bytes_max,
            self.room.lend,
        )
        salt = self._entropy.random_bytes(IDENTITY_BYTES)
        # Names are encrypted where messages are.
        self._catalogue = Catalogue(ahead_files, self._folder, identity, salt)
        self._catalogue.compare(self.stream_names(), removed)
        for name in self._catalogue.missing:
            self.findings.add("missing", f"stream {name}: lost, {LOST_STREAM}")

    def _read_store_file(self) -> StoreFile | None:
        path = f"{self._folder}/{STORE_FILE}"
        if not self._files.exists(path):
            return None
        try:
            return StoreFile.decode(read_file(self._files, path), path)
        except NewerFormatError as error:
            raise StoreError(str(error)) from error
        except FormatError as error:
            raise StoreError(
                f"{error}; restore it from a backup, or move it away to open the streams as after "
                "a crash"
            ) from error

    def mark_in_use(self) -> None:
        """From here on the store is not closed in order until `close` says so."""
        try:
            try:
                self._mark(clean=False)
            except NoRoomError:
                self.room.met_end()
                if not self.room.lend():
                    raise
                self._mark(clean=False)
        except OSError as error:
            # What is written now would be taken for complete after a crash.
            self._offline = f"the store file can not be replaced: {error}"
            for log in self.logs.values():
                log.go_offline(self._offline)

    def _mark(self, clean: bool) -> None:
        file = StoreFile(self._file.identity, self._boot_id, clean)
        replace_file(self._files, f"{self._folder}/{STORE_FILE}", file.encode())
        self._file = file

    def _replay(self, found: AheadFrames) -> None:
        """Put back what the write-ahead files have and the streams' own files have not."""
        by_file, extents = found.by_file(), found.extents()
        if not by_file and not extents:
            return
        folders = self._folders_by_identity()
        strangers = {identity for identity, _, _ in by_file} - set(folders)
        if strangers and len(folders) < len(self.stream_names()):
            self.findings.add("unreadable", "write-ahead files may be of a stream that is; kept")
            found.unsound_names = found.names
        self._extents = {
            folders[identity]: extent for identity, extent in extents.items() if identity in folders
        }
        for (identity, kind, segment_first), frames in by_file.items():
            folder = folders.get(identity, "")
            name = JOURNAL_FILE if kind == JOURNAL else segment_name(segment_first)
            if folder and self._files.exists(f"{folder}/{name}"):
                self._put_back(self._files_in(folder), f"{folder}/{name}", frames)

    def _files_in(
        self, folder: str, is_new: bool = False, compresses: bool = False
    ) -> EncodedFiles:
        """The file system of one stream's folder."""
        name = folder.rpartition("/")[2]
        return self._encoding.files_in(self._files, folder, name, self._entropy, is_new, compresses)

    def _folders_by_identity(self) -> dict[bytes, str]:
        found = {}
        for name in self.stream_names():
            folder = self._folder_of(name)
            path = f"{folder}/{STREAM_FILE}"
            try:
                data = read_file(self._files_in(folder), path)
                found[StreamFile.decode(data, path).identity] = folder
            except (OSError, FormatError):
                # Told when the stream is opened.
                continue
        return found

    def _put_back(self, files: FileSystem, path: str, frames: AheadFrames) -> None:
        """Make a file have the bytes of its frames, in order, where they are not there already."""
        file = files.open(path)
        try:
            begin = min(
                (
                    min(frame.offset, file.size)
                    for frame in (*frames.certain, *frames.doubtful)
                    if file.read(frame.offset, len(frame.data)) != frame.data
                ),
                default=-1,
            )
            if begin >= 0:
                before = file.read(begin, file.size - begin)
                after = put_together(before, begin, frames)
                if after != before:
                    file.truncate(begin)
                    file.write(after)
            # Also where all is there: it may be there only until the machine stops.
            if not self.machine_fell:
                # And a sync that failed before this process was started may have left it so that
                # the next one does nothing: the bytes have to be written again for it to count.
                for frame in frames.certain:
                    file.overwrite(frame.offset, frame.data)
            file.sync()
        finally:
            file.close()

    # --- streams -------------------------------------------------------------------------------

    def stream_names(self) -> list[str]:
        """Every stream there is, open or not."""
        return [
            self._name_in(folder)
            for folder in self._files.list_folder(self._streams)
            if self._files.exists(f"{self._streams}/{folder}/{STREAM_FILE}")
        ]

    def _name_in(self, folder: str) -> str:
        """The name of the stream in a folder; that of the folder if it can not be told."""
        if LONG_NAME_MARK not in folder:
            return name_of_folder(folder)
        try:
            return read_file(self._files, f"{self._streams}/{folder}/{NAME_FILE}").decode()
        except (OSError, ValueError):
            return folder

    def _folder_of(self, name: str) -> str:
        return f"{self._streams}/{folder_name(name)}"

    def is_encrypted(self, name: str) -> bool:
        """Whether a stream that is there was made under a key."""
        return self._files.exists(f"{self._folder_of(name)}/{KEY_FILE}")

    def body_of(self, name: str) -> bytes:
        """What the caller keeps in the file of a stream that is not open; empty if unreadable."""
        folder = self._folder_of(name)
        path = f"{folder}/{STREAM_FILE}"
        try:
            return StreamFile.decode(read_file(self._files_in(folder), path), path).body
        except (OSError, OperatingError):
            return b""

    def create_stream(
        self,
        name: str,
        body: bytes = b"",
        first_sequence: int = 1,
        mode: SyncMode = SyncMode.INTERVAL,
        compresses: bool = False,
    ) -> FileLog:
        """A new stream, durable when this returns."""
        self._check_online()
        if self.room.is_full:
            raise DiskFullError(f"can not create the stream {name}: {NO_SPACE}")
        folder = self._folder_of(name)
        if self._files.exists(f"{folder}/{STREAM_FILE}"):
            raise StoreError(f"a stream {name} is there already")
        try:
            self._files.make_folder(folder)
            self._files.sync_folder(self._streams)
            self._clear(folder)
            if LONG_NAME_MARK in folder:
                replace_file(self._files, f"{folder}/{NAME_FILE}", name.encode())
            files = self._files_in(folder, is_new=True, compresses=compresses)
            log = create_log(
                files,
                folder,
                self._entropy,
                body,
                first_sequence,
                self._segment_bytes_max,
            )
        except OSError as error:
            raise StoreError(f"can not create the stream {name}: {error}") from error
        self._catalogue.add(name)
        return self._adopt(name, log, mode, files)

    def _clear(self, folder: str) -> None:
        """Set aside what a creation that was interrupted has left, or whoever was there before."""
        for name in self._files.list_folder(folder):
            if name != SET_ASIDE:
                set_aside_file(self._files, folder, name)

    def open_stream(self, name: str, mode: SyncMode, compresses: bool = False) -> None:
        """Open a stream that is there, or say why it can not be; the others are not concerned.

        Files are what they are; `compresses` is about those to come.
        """
        folder = self._folder_of(name)
        loss_possible = {
            SyncMode.ALWAYS: self.ahead_lost,
            SyncMode.INTERVAL: self.machine_fell,
            SyncMode.ASYNC: self.was_unclean,
        }[mode]
        try:
            files = self._files_in(folder, compresses=compresses)
            log = open_log(
                files,
                folder,
                self._entropy,
                loss_possible,
                self._segment_bytes_max,
                machine_fell=self.machine_fell,
                extent=self._extents.get(folder) if mode is SyncMode.ALWAYS else None,
                # A message that can be read is on the disk where that is what an ack means. In
                # other streams it need not be: two syncs for each of them would be most of what a
                # start takes.
                syncs=mode is SyncMode.ALWAYS,
            )
        except UnreadableError as error:
            self.findings.add("unreadable", str(error))
            self.unreadable[name] = str(error)
            return
        self._adopt(name, log, mode, files)

    def _adopt(self, name: str, log: FileLog, mode: SyncMode, files: EncodedFiles) -> FileLog:
        log.share_room(self.room)
        self.logs[name] = log
        self._stream_files[name] = files
        if mode is SyncMode.ALWAYS:
            log.join_write_ahead(self._ahead)
            self._always[name] = log
            self._always_names[log.identity] = name
        elif mode is SyncMode.ASYNC:
            log.defer_writes()
            self._async[name] = log
        return log

    def compress_stream(self, name: str, compresses: bool) -> None:
        """Whether files that a stream begins from now on are compressed."""
        self._stream_files[name].compress_new_files(compresses)

    def remove_stream(self, name: str) -> None:
        """Delete a stream and all that is in it."""
        log = self.logs.pop(name)
        del self._stream_files[name]
        self._always.pop(name, None)
        self._always_names.pop(log.identity, None)
        self._async.pop(name, None)
        self._committing.pop(name, None)
        log.release()
        if self.room.is_full:
            self.room.lend()
        folder = self._folder_of(name)
        try:
            is_crossed_out = self._cross_out(name)
            # First what makes it a stream, in one step: a crash half way must not leave half a one.
            self._files.rename(f"{folder}/{STREAM_FILE}", f"{folder}/{REMOVED_FILE}")
            self._files.sync_folder(folder)
            self._remove_stream_folder(folder)
            if not is_crossed_out:
                # There should be room for it now; else it is missed at the next start.
                self._cross_out(name)
        except OSError as error:
            raise StoreError(f"can not remove the stream {name}: {error}") from error

    def _cross_out(self, name: str) -> bool:
        """Have nobody miss a stream that goes; False if the disk has no room to say so."""
        try:
            self._catalogue.remove(name)
        except NoRoomError:
            return False
        return True

    def _remove_stream_folder(self, folder: str) -> None:
        for name in self._files.list_folder(folder):
            if name == SET_ASIDE:
                self._remove_folder(f"{folder}/{name}")
            elif name != REMOVED_FILE:
                self._files.remove(f"{folder}/{name}")
        self._files.sync_folder(folder)
        self._files.remove(f"{folder}/{REMOVED_FILE}")
        self._files.remove_folder(folder)
        self._files.sync_folder(self._streams)

    def _finish_removals(self) -> list[str]:
        """Remove what is left of streams that were being removed; their names, if known."""
        removed = []
        for name in self._files.list_folder(self._streams):
            folder = f"{self._streams}/{name}"
            if not self._files.is_folder(folder):
                continue
            there = self._files.list_folder(folder)
            try:
                if not there:
                    self._files.remove_folder(folder)
                elif REMOVED_FILE in there and STREAM_FILE not in there:
                    removed.append(self._name_in(name))
                    self._remove_stream_folder(folder)
            except OSError as error:
                self.findings.add("unremoved", f"{folder}: {error}")
        return removed

    def _remove_folder(self, folder: str) -> None:
        for name in self._files.list_folder(folder):
            path = f"{folder}/{name}"
            if self._files.is_folder(path):
                self._remove_folder(path)
            else:
                self._files.remove(path)
        self._files.remove_folder(folder)

    # --- durability ----------------------------------------------------------------------------

    def begin_commit(self) -> bool:
        """Hand this turn's bytes of ALWAYS streams to the system; whether there are any."""
        names = self._always_names
        touched = [names[each] for each in self._ahead.take_touched() if each in names]
        # A commit that was begun and never finished counts for nothing.
        logs = {name: self._always[name] for name in (*self._committing, *touched)}
        self._committing = {
            name: (log.last_sequence, log.journal.writes)
            for name, log in logs.items()
            if not log.durability.is_synced and not log.offline
        }
        if not self._committing:
            return False
        if self._syncing is None and self._write_ahead():
            return True
        self._ahead.leave_out()
        self._syncing = self._begin_syncs({name: logs[name] for name in self._committing})
        return True

    def _write_ahead(self) -> bool:
        """Whether there was room in the write-ahead file for what is to be committed."""
        try:
            self._ahead.write()
        except NoRoomError:
            self.room.met_end()
            return False
        except OSError as error:
            raise self._ahead_failed(error) from error
        return True

    def sync_ahead(self) -> None:
        """The one sync of a commit. May run on another thread."""
        if self._syncing is not None:
            run_syncs(self._syncing.values())
            return
        try:
            self._ahead.sync()
        except OSError as error:
            raise self._ahead_failed(error) from error

    def _ahead_failed(self, error: OSError) -> OfflineError:
        """What was not confirmed may be lost for good, and later syncs would not tell."""
        reason = f"the write-ahead file failed: {error}"
        self._committing = {}
        for log in [*self._always.values()]:
            log.go_offline(reason)
        return OfflineError(f"{self._folder}: {reason}; restart the server to write again")

    def finish_commit(self) -> None:
        """The sync has returned: what `begin_commit` wrote is on the disk.

        Raises StoreError if it is not, of some streams; those are offline, and others go on.
        """
        if self._syncing is not None:
            done, self._syncing, self._committing = self._syncing, None, {}
            self.finish_sync(done)
            return
        for name, (sequence, journal_writes) in self._committing.items():
            log = self._always.get(name)
            if log is not None:
                log.durability.confirm(sequence, journal_writes)
        self._committing = {}

    def commit(self) -> None:
        """All three steps at once, and a trim if it is time for one."""
        if self.begin_commit():
            self.sync_ahead()
            self.finish_commit()
        if self.is_trim_due:
            self.trim()

    def flush(self) -> None:
        """Write what ASYNC streams have only in memory. One that fails is offline, others go on."""
        problems = []
        for log in self._async.values():
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

    @property
    def is_trim_due(self) -> bool:
        """Whether the write-ahead file has become so large that it should begin anew.

        On a disk without room any size is too large.
        """
        return self._ahead.is_full or (self.room.is_full and self._ahead.has_frames)

    def trim(self) -> None:
        """Sync every stream's own files, after which the write-ahead file begins anew."""
        work = self.begin_trim()
        run_syncs(work.values())
        self.finish_trim(work)

    def begin_trim(self) -> dict[str, LogSync]:
        """Let what follows go to another file; work for `run_syncs`, then for `finish_trim`."""
        try:
            self._ahead.roll()
        except OSError as error:
            raise self._ahead_failed(error) from error
        return self._begin_syncs(self._always)

    def finish_trim(self, done: dict[str, LogSync]) -> None:
        """Remove the files before, if no stream needs them."""
        self.finish_sync(done)
        if any(log.offline for log in self._always.values()):
            # Their only durable copy may be in there.
            return
        try:
            self._ahead.trim()
        except OSError as error:
            # They are kept, and tried again next time.
            raise StoreError(f"can not remove write-ahead files: {error}") from error

    def sync(self) -> None:
        """Return when everything of every stream is on the disk."""
        work = self.begin_sync()
        run_syncs(work.values())
        self.finish_sync(work)

    def begin_sync(self) -> dict[str, LogSync]:
        """Work for `run_syncs`, then for `finish_sync`."""
        return self._begin_syncs(self.logs)

    def _begin_syncs(self, logs: dict[str, FileLog]) -> dict[str, LogSync]:
        work = {}
        for name, log in logs.items():
            if log.is_synced and not log.durability.uses_write_ahead:
                continue
            try:
                work[name] = log.begin_sync()
            except OfflineError:
                # It was, or is from now on, and says so to whoever asks.
                continue
        return work

    def finish_sync(self, done: dict[str, LogSync]) -> None:
        """Take note of what is on the disk; a stream that failed is offline, others go on."""
        problems = []
        for name, work in done.items():
            log = self.logs.get(name)
            if log is not None and not log.offline:
                try:
                    log.finish_sync(work)
                except StoreError as error:
                    problems.append(str(error))
        if problems:
            raise StoreError("; ".join(problems))

    def close(self) -> None:
        """Close every stream in order, and say so for the next start."""
        orderly = not self._offline and not any(log.offline for log in self.logs.values())
        problems = []
        for log in self.logs.values():
            try:
                log.close()
            except StoreError as error:
                problems.append(str(error))
        try:
            if orderly and not problems:
                self._ahead.roll()
                self._ahead.trim()
                self._mark(clean=True)
        except OSError as error:
            problems.append(str(error))
        self._ahead.close()
        self._catalogue.close()
        self._lock.release()
        if problems:
            raise StoreError(f"{self._folder} is not closed in order: {'; '.join(problems)}")

    def abandon(self) -> None:
        """Let everything go as it is."""
        for log in self.logs.values():
            log.release()
        self._ahead.close()
        self._catalogue.close()
        self._lock.release()

    @property
    def lost_streams(self) -> list[str]:
        """Streams that were there and that somebody else has removed."""
        return self._catalogue.missing

    def check_folder(self) -> str:
        """Put back the store's own files that somebody removed; the problems, empty if none."""
        problems = []
        try:
            if not self._lock.is_in_place:
                problems.append(f"{LOCK_FILE} {GONE}, the folder is locked all the same")
                self._lock.put_back()
            if self._files.size_of(f"{self._folder}/{STORE_FILE}") < 0:
                problems.append(f"{STORE_FILE} {GONE}")
                self._mark(clean=False)
        except OSError as error:
            problems.append(f"it cannot be put back: {error}")
        return f"{self._folder}: {', '.join(problems)}" if problems else ""

    @property
    def offline(self) -> str:
        """Why nothing at all can be written; empty if it can."""
        return self._offline

    def _check_online(self) -> None:
        if self._offline:
            raise OfflineError(f"{self._folder} is offline for writes: {self._offline}")


def run_syncs(work: Iterable[LogSync]) -> None:
    """Wait for the disk. May run on another thread; what goes wrong is told when finishing."""
    for each in work:
        each.run()


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
) -> Store:
    """Open the store in a folder, making it if need be, and every stream in it.

    `mode_of` and `compresses_of` are asked about each, by its name and what the caller keeps in its
    file.

    `boot_id` tells one life of the machine from another: where it changed and the store was not
    closed in order, streams that are not synced before each ack may have lost their end.

    `reserve_bytes` is what is kept free for removing messages from a full disk.
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
        )
    except (OSError, NewerFormatError) as error:
        raise StoreError(f"can not open the store in {folder}: {error}") from error
    try:
        for name in store.stream_names():
            mode = (modes or {}).get(name, default_mode)
            body = store.body_of(name)
            if mode_of is not None:
                mode = mode_of(name, body)
            store.open_stream(name, mode, compresses_of is not None and compresses_of(name, body))
    except OperatingError:
        store.abandon()
        raise
    # Only now: a start that is interrupted must leave no doubt that the machine fell before it.
    store.mark_in_use()
    return store
