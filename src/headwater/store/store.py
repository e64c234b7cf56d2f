"""Everything a server keeps on disk: a folder that is its own, and the logs of its streams in it.

    <folder>/lock                 who has it
            /store.hw             identity, the machine's boot id, whether it was closed in order
            /ahead-…              the write-ahead file (`headwater.store.wal`)
            /streams/<name>/…     a log each (`headwater.store.log`)

What an ack of a stream may mean is decided by its sync mode: INTERVAL, where the operating system
has the message and the disk will; ALWAYS, where the disk has it, by way of the write-ahead file;
ASYNC, where this process has it and writes it soon (`flush`), bounded in bytes and time. A
server calls `begin_commit` at the end of a turn, `sync_ahead` off its loop, and `finish_commit`
when that returned; the logs' `synced_sequence` then covers the turn.
"""

from enum import Enum
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.encoding import Encoding
from headwater.store.filesystem import FileSystem, read_file, replace_file
from headwater.store.format import IDENTITY_BYTES, VERSION, FormatError, StreamFile
from headwater.store.log import JOURNAL_FILE, SEGMENT_BYTES_MAX, STREAM_FILE, FileLog
from headwater.store.message_log import OfflineError, StoreError
from headwater.store.opening import create_log, open_log
from headwater.store.recovery import Findings
from headwater.store.segment import segment_name, sequence_of
from headwater.store.wal import (
    FORGET,
    JOURNAL,
    Frame,
    WriteAhead,
    read_ahead,
    remove_ahead,
)

STORE_FILE: Final = "store.hw"
LOCK_FILE: Final = "lock"
STREAMS_FOLDER: Final = "streams"
# A machine that does not say: it may have been restarted any time.
BOOT_UNKNOWN: Final = "unknown"
STORE_MAGIC: Final = b"HWSTORE!"

_STORE: Final = Struct("<8sHB5x16s36s")

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class SyncMode(Enum):
    """When what a stream wrote is on the disk."""

    INTERVAL = "interval"
    ALWAYS = "always"
    ASYNC = "async"


def folder_name(name: str) -> str:
    """A file system's idea of any name: what is not plain is written as %XX."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in name.encode())


def name_of_folder(folder: str) -> str:
    """The name a folder was made for."""
    parts = folder.split("%")
    data = parts[0].encode() + b"".join(
        bytes.fromhex(part[:2]) + part[2:].encode() for part in parts[1:]
    )
    return data.decode()


@final
class StoreFile:
    """The store file, taken apart."""

    __slots__ = ("boot_id", "clean", "identity")

    def __init__(self, identity: bytes, boot_id: bytes, clean: bool) -> None:
        self.identity = identity
        self.boot_id = boot_id
        self.clean = clean

    def encode(self) -> bytes:
        data = _STORE.pack(STORE_MAGIC, VERSION, self.clean, self.identity, self.boot_id)
        return data + crc32(data).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, name: str) -> "StoreFile":
        if len(data) != _STORE.size + 4 or not data.startswith(STORE_MAGIC):
            raise FormatError(f"{name}: not a store file")
        if crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise FormatError(f"{name}: fails its checksum")
        _, version, clean, identity, boot_id = _STORE.unpack_from(data)
        if version > VERSION:
            raise FormatError(f"{name}: format version {version} is newer than this program's")
        return cls(identity, boot_id.rstrip(b"\0"), bool(clean))


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
    ) -> None:
        self._files = files
        self._encoding = encoding
        self._folder = folder
        self._entropy = entropy
        self._segment_bytes_max = segment_bytes_max
        self._streams = f"{folder}/{STREAMS_FOLDER}"
        self.findings = Findings()
        files.make_folder(self._streams)
        files.sync_folder(folder)
        if parent := folder.rpartition("/")[0]:
            files.sync_folder(parent)
        try:
            self._lock = files.lock(f"{folder}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise StoreError(f"{folder} is in use by another server: {error}") from error
        self._file = self._read_store_file(boot_id)
        # The machine stopped without a word since the store was last open.
        same_life = boot_id != BOOT_UNKNOWN and self._file.boot_id == boot_id.encode()
        self.was_unclean = not self._file.clean
        self.machine_fell = self.was_unclean and not same_life
        self.logs: dict[str, FileLog] = {}
        self._always: dict[str, FileLog] = {}
        self._async: dict[str, FileLog] = {}
        self._committing: dict[str, int] = {}
        try:
            self._ahead_files = encoding.files_in(files, folder, "", entropy, is_new=True)
            self._replay_ahead()
        except OperatingError:
            self._lock.release()
            raise
        number = remove_ahead(files, folder)
        self._ahead = WriteAhead(self._ahead_files, folder, self._file.identity, number)
        self._boot_id = boot_id.encode()

    # --- opening -------------------------------------------------------------------------------

    def _read_store_file(self, boot_id: str) -> StoreFile:
        path = f"{self._folder}/{STORE_FILE}"
        if not self._files.exists(path):
            identity = self._entropy.random_bytes(IDENTITY_BYTES)
            # Streams without a store file: who knows what happened to them.
            is_new = not self._files.list_folder(self._streams)
            return StoreFile(identity, boot_id.encode() if is_new else b"", clean=is_new)
        try:
            return StoreFile.decode(read_file(self._files, path), path)
        except FormatError as error:
            self._lock.release()
            raise StoreError(
                f"{error}; restore it from a backup, or move it away to open the streams as after "
                "a crash"
            ) from error

    def mark_in_use(self) -> None:
        """From here on the store is not closed in order until `close` says so."""
        self._mark(clean=False, boot_id=self._boot_id)

    def _mark(self, clean: bool, boot_id: bytes) -> None:
        self._file.clean = clean
        self._file.boot_id = boot_id
        replace_file(self._files, f"{self._folder}/{STORE_FILE}", self._file.encode())

    def _replay_ahead(self) -> None:
        """Put back what the write-ahead file has and the streams' own files have not."""
        frames = [*read_ahead(self._ahead_files, self._folder, self._file.identity, self.findings)]
        if not frames:
            return
        folders = self._folders_by_identity()
        forgotten = {frame.identity: at for at, frame in enumerate(frames) if frame.kind == FORGET}
        by_file: dict[tuple[str, str], list[Frame]] = {}
        for at, frame in enumerate(frames):
            folder = folders.get(frame.identity)
            if folder is None or frame.kind == FORGET or at < forgotten.get(frame.identity, -1):
                continue
            name = JOURNAL_FILE if frame.kind == JOURNAL else segment_name(frame.file)
            by_file.setdefault((folder, name), []).append(frame)
        for (folder, name), wanted in by_file.items():
            if self._files.exists(f"{folder}/{name}"):
                self._put_back(self._files_in(folder), f"{folder}/{name}", wanted)

    def _files_in(self, folder: str, is_new: bool = False) -> FileSystem:
        """The file system of one stream's folder."""
        name = folder.rpartition("/")[2]
        return self._encoding.files_in(self._files, folder, name, self._entropy, is_new)

    def _folders_by_identity(self) -> dict[bytes, str]:
        found = {}
        for name in self._files.list_folder(self._streams):
            folder = f"{self._streams}/{name}"
            path = f"{folder}/{STREAM_FILE}"
            try:
                data = read_file(self._files_in(folder), path)
                found[StreamFile.decode(data, path).identity] = folder
            except (OSError, FormatError) as error:
                self.findings.add("unreadable", str(error))
        return found

    def _put_back(self, files: FileSystem, path: str, frames: list[Frame]) -> None:
        """Make a file have the bytes of its frames, in order, where they are not there already."""
        file = files.open(path)
        try:
            for frame in frames:
                if file.size < frame.offset:
                    self.findings.add("missing", f"{path}: nothing before byte {frame.offset}")
                    break
                if file.read(frame.offset, len(frame.data)) != frame.data:
                    file.truncate(frame.offset)
                    file.write(frame.data)
            end = frames[-1].offset + len(frames[-1].data)
            if self.machine_fell and file.size > end and self._is_last_segment(path):
                # Never confirmed, and torn in any way.
                file.truncate(end)
            # Also where all is there: it may be there only until the machine stops.
            file.sync()
        finally:
            file.close()

    def _is_last_segment(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        segments = [name for name in self._files.list_folder(folder) if sequence_of(name)]
        return bool(segments) and segments[-1] == name

    # --- streams -------------------------------------------------------------------------------

    def stream_names(self) -> list[str]:
        """Every stream there is, open or not."""
        return [
            name_of_folder(name)
            for name in self._files.list_folder(self._streams)
            if self._files.exists(f"{self._streams}/{name}/{STREAM_FILE}")
        ]

    def create_stream(
        self,
        name: str,
        body: bytes = b"",
        first_sequence: int = 1,
        mode: SyncMode = SyncMode.INTERVAL,
    ) -> FileLog:
        """A new stream, durable when this returns."""
        folder = f"{self._streams}/{folder_name(name)}"
        if self._files.exists(f"{folder}/{STREAM_FILE}"):
            raise StoreError(f"a stream {name} is there already")
        self._files.make_folder(folder)
        self._files.sync_folder(self._streams)
        files = self._files_in(folder, is_new=True)
        log = create_log(
            files, folder, self._entropy, body, first_sequence, self._segment_bytes_max
        )
        return self._adopt(name, log, mode)

    def open_stream(self, name: str, mode: SyncMode, loss_possible: bool) -> FileLog:
        """A stream that is there; `loss_possible` if its mode allows loss and the machine fell."""
        folder = f"{self._streams}/{folder_name(name)}"
        files = self._files_in(folder)
        log = open_log(
            files,
            folder,
            self._entropy,
            loss_possible,
            self._segment_bytes_max,
            machine_fell=self.machine_fell,
        )
        return self._adopt(name, log, mode)

    def _adopt(self, name: str, log: FileLog, mode: SyncMode) -> FileLog:
        self.logs[name] = log
        if mode is SyncMode.ALWAYS:
            log.write_ahead = self._ahead
            self._always[name] = log
        elif mode is SyncMode.ASYNC:
            log.deferred = True
            self._async[name] = log
        return log

    def remove_stream(self, name: str) -> None:
        """Delete a stream and all that is in it."""
        log = self.logs.pop(name)
        self._always.pop(name, None)
        self._async.pop(name, None)
        self._committing.pop(name, None)
        log.close()
        folder = f"{self._streams}/{folder_name(name)}"
        # First what makes it a stream: a crash half way must not leave half a stream.
        self._files.remove(f"{folder}/{STREAM_FILE}")
        self._files.sync_folder(folder)
        self._remove_folder(folder)
        self._files.sync_folder(self._streams)

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
        self._committing = {
            name: log.last_sequence
            for name, log in self._always.items()
            if not log.offline
            and (log.synced_sequence < log.last_sequence or log.has_unsynced_entries)
        }
        for name in self._committing:
            self._always[name].has_unsynced_entries = False
        if not self._committing:
            return False
        try:
            self._ahead.write()
        except OSError as error:
            raise self._ahead_failed(error) from error
        return True

    def sync_ahead(self) -> None:
        """The one sync of a commit. May run on another thread, while nothing else is called."""
        try:
            self._ahead.sync()
        except OSError as error:
            raise self._ahead_failed(error) from error

    def _ahead_failed(self, error: OSError) -> OfflineError:
        """What was not confirmed may be lost for good, and later syncs would not tell."""
        reason = f"the write-ahead file failed: {error}"
        self._committing = {}
        for log in self._always.values():
            log.go_offline(reason)
        return OfflineError(f"{self._folder}: {reason}; restart the server to write again")

    def finish_commit(self) -> None:
        """The sync has returned: what `begin_commit` wrote is on the disk."""
        for name, sequence in self._committing.items():
            log = self._always.get(name)
            if log is not None:
                log.confirm(sequence)
        self._committing = {}
        if self._ahead.is_full:
            self.trim()

    def commit(self) -> None:
        """All three steps at once."""
        if self.begin_commit():
            self.sync_ahead()
            self.finish_commit()

    def flush(self) -> None:
        """Write what ASYNC streams have only in memory. One that fails is offline, others go on."""
        problems = []
        for log in self._async.values():
            if log.waiting_bytes and not log.offline:
                try:
                    log.flush()
                except StoreError as error:
                    problems.append(str(error))
        if problems:
            raise StoreError("; ".join(problems))

    def trim(self) -> None:
        """Sync every stream's own files, after which the write-ahead file begins anew."""
        try:
            self._ahead.roll()
        except OSError as error:
            raise self._ahead_failed(error) from error
        for log in self._always.values():
            if not log.offline:
                log.sync()
        if not any(log.offline for log in self._always.values()):
            # An offline stream's only durable copy may be in there.
            self._ahead.trim()

    def sync(self) -> None:
        """Return when everything of every stream is on the disk. May run on another thread."""
        for log in [*self.logs.values()]:
            if not log.offline:
                log.sync()

    def close(self) -> None:
        """Close every stream in order, and say so for the next start."""
        orderly = not any(log.offline for log in self.logs.values())
        for log in self.logs.values():
            log.close()
        self._ahead.close()
        if orderly:
            remove_ahead(self._files, self._folder)
            self._mark(clean=True, boot_id=self._file.boot_id)
        self._lock.release()


def open_store(
    files: FileSystem,
    folder: str,
    entropy: Entropy,
    boot_id: str,
    modes: dict[str, SyncMode] | None = None,
    default_mode: SyncMode = SyncMode.INTERVAL,
    encoding: Encoding | None = None,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
) -> Store:
    """Open the store in a folder, making it if need be, and every stream in it.

    `boot_id` tells one life of the machine from another: where it changed and the store was not
    closed in order, streams that are not synced before each ack may have lost their end.
    """
    store = Store(files, folder, entropy, boot_id, encoding or Encoding(), segment_bytes_max)
    for name in store.stream_names():
        mode = (modes or {}).get(name, default_mode)
        loss_possible = {
            SyncMode.ALWAYS: False,
            SyncMode.INTERVAL: store.machine_fell,
            SyncMode.ASYNC: store.was_unclean,
        }[mode]
        store.open_stream(name, mode, loss_possible)
    # Only now: a start that is interrupted must leave no doubt that the machine fell before it.
    store.mark_in_use()
    return store
