"""A store read from outside: its streams, and the damage that a server would find. Changes nothing.

A server that opens a store repairs it: it cuts torn ends, sets damaged files aside and puts the
write-ahead file back. The reader only reads, and reports what a server would do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headwater.store.disk.filesystem import read_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    AHEAD_MAGIC,
    HEADER_BYTES,
    FileHeader,
    FormatError,
    StreamFile,
)
from headwater.store.disk.layout import (
    JOURNAL_FILE,
    STREAM_FILE,
    STREAMS_FOLDER,
    name_of_folder,
)
from headwater.store.disk.segment import segment_name
from headwater.store.disk.store_file import BOOT_UNKNOWN, STORE_FILE, StoreFile
from headwater.store.disk.wal import SEGMENT, number_of
from headwater.store.disk.wal_reading import AheadFrames, put_together, take_ahead_file
from headwater.store.groups.opening import FoundGroups
from headwater.store.recovery.stream_inspection import (
    CUTS_OFF,
    SETS_FILE_ASIDE,
    InspectedFiles,
    Problem,
    StreamReader,
    StreamSurvey,
    reason_of,
)

# A server's cure for damage to the files that all streams share.
REFUSES_STORE: Final = (
    "does not start; restore the file from a backup, or move it away to open the streams as after "
    "a crash"
)
KEEPS_AHEAD: Final = (
    "puts back what is sound and sets the file aside; if the machine has stopped since, streams "
    "that were synced for each ack go on behind all sequences that may have been used"
)
BEGINS_STORE: Final = "begins a new one and opens the streams as after a crash"


@dataclass
class StoreSurvey:
    """The whole store."""

    folder: str
    in_use_by: str = ""
    closed_in_order: bool = False
    machine_restarted: bool = False
    ahead_files: int = 0
    ahead_frames: int = 0
    ahead_bytes: int = 0
    groups: int = 0
    streams: list[StreamSurvey] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return sum(stream.messages for stream in self.streams)


class StoreReader:
    """Reads a store from outside."""

    def __init__(
        self, files: InspectedFiles, folder: str, thorough: bool, in_use_by: str, boot_id: str
    ) -> None:
        """`thorough` reads every byte, else footers are believed.

        `in_use_by` is the process that has the store open, empty if none has; `boot_id` stays the
        same until the machine is restarted.
        """
        self.folder = folder
        self.thorough = thorough
        self.files = files
        self.survey = StoreSurvey(folder, in_use_by)
        self._boot_id = boot_id
        self._streams = f"{self.folder}/{STREAMS_FOLDER}"
        # Identities of the streams with frames in the write-ahead files.
        self._ahead_of: set[bytes] = set()

    @property
    def in_use(self) -> bool:
        return bool(self.survey.in_use_by)

    def total_bytes(self) -> int:
        """The bytes of all files of the store."""
        return self.files.disk_bytes(self.folder)

    def stream_folders(self) -> list[str]:
        """The folders of all streams."""
        names = self.files.list_folder(self._streams)
        return [f"{self._streams}/{name}" for name in names]

    def stream_names(self) -> list[str]:
        """The names of all streams, readable or not."""
        return [stream_name(folder) for folder in self.stream_folders()]

    def report(self, problem: Problem) -> None:
        """Keep a finding, its path as seen from the store's folder."""
        problem.file = problem.file.removeprefix(f"{self.folder}/")
        self.survey.problems.append(problem)

    def read(
        self, stream: str | None = None, advance: Callable[[int], None] | None = None
    ) -> StoreSurvey:
        """Read the store, or one stream of it; `advance` is called with the bytes that are read."""
        identity = self._read_store_file()
        frames = self._read_ahead(identity)
        if not self.in_use:
            self._put_back(frames)
        for folder in self.stream_folders():
            name = stream_name(folder)
            if stream is None or name == stream:
                self._read_stream(folder, name, advance)
        return self.survey

    def _read_stream(self, folder: str, name: str, advance: Callable[[int], None] | None) -> None:
        reader = StreamReader(
            self.files, folder, name, self.thorough, self.in_use, self._machine_fell, advance
        )
        stream = reader.read()
        stream.sync = self._sync_state(stream.identity)
        self.survey.streams.append(stream)
        self.survey.notes += stream.notes
        for problem in stream.problems:
            self.report(problem)

    def _sync_state(self, identity: bytes) -> str:
        """The word for the part of a stream that is known to be on the disk."""
        if self.in_use:
            return "in use"
        if self.survey.closed_in_order:
            return "synced"
        return "write-ahead" if identity in self._ahead_of else "unknown"

    def _read_store_file(self) -> bytes:
        """The identity of the store; empty if it is not known."""
        path = f"{self.folder}/{STORE_FILE}"
        try:
            store = StoreFile.decode(read_file(self.files, path), path)
        except FileNotFoundError:
            self.report(Problem("missing", path, "there is no store file", BEGINS_STORE))
            return b""
        except (OSError, FormatError) as error:
            self.report(Problem("unreadable", path, reason_of(error, path), REFUSES_STORE))
            return b""
        self.survey.closed_in_order = store.clean
        is_same_boot = self._boot_id != BOOT_UNKNOWN and store.boot_id == self._boot_id.encode()
        self.survey.machine_restarted = not is_same_boot
        return store.identity

    # --- the write-ahead file ------------------------------------------------------------------

    def _read_ahead(self, identity: bytes) -> AheadFrames:
        found, groups = AheadFrames(), FoundGroups()
        found.take_group_frame = groups.take_frame
        names = [name for name in self.files.list_folder(self.folder) if number_of(name)]
        for name in names:
            try:
                data = read_file(self.files, f"{self.folder}/{name}")
            except FileNotFoundError:
                # The server has just replaced it.
                continue
            self.survey.ahead_files += 1
            self.survey.ahead_bytes += len(data)
            self._read_ahead_file(name, data, name == names[-1], identity, found)
        frames = [frame for frame in (*found.certain, *found.doubtful) if frame.data]
        self.survey.ahead_frames = len(frames)
        self.survey.groups = len(groups.groups)
        self._ahead_of = {frame.identity for frame in frames}
        return found

    def _read_ahead_file(
        self, name: str, data: bytes, is_last: bool, identity: bytes, found: AheadFrames
    ) -> None:
        path = f"{self.folder}/{name}"
        try:
            header = FileHeader.decode(data[:HEADER_BYTES], AHEAD_MAGIC, path)
            if identity and header.identity != identity:
                raise FormatError(f"{path}: belongs to another store")
        except FormatError as error:
            self.report(Problem("unreadable", path, reason_of(error, path), SETS_FILE_ASIDE))
            return
        findings = Findings()
        take_ahead_file(name, data, is_last, found, findings)
        for finding in findings.reported:
            if self.in_use and finding.kind == "torn":
                # The server is writing this end.
                continue
            server = CUTS_OFF if finding.kind == "torn" else KEEPS_AHEAD
            detail = finding.detail.removeprefix(f"{name}: ")
            self.report(Problem(finding.kind, path, detail, server))

    def _put_back(self, found: AheadFrames) -> None:
        """Show the streams' files as they are after a server has put missing frames back."""
        by_identity = {}
        for folder in self.stream_folders():
            path = f"{folder}/{STREAM_FILE}"
            try:
                by_identity[StreamFile.decode(read_file(self.files, path), path).identity] = folder
            except (OSError, FormatError):
                # Reported when the stream is read.
                continue
        for (identity, kind, segment_first), frames in found.by_file().items():
            folder = by_identity.get(identity, "")
            name = segment_name(segment_first) if kind == SEGMENT else JOURNAL_FILE
            if folder and self.files.exists(f"{folder}/{name}"):
                self._put_back_into(f"{folder}/{name}", frames)
        for identity, redo in found.redos().items():
            if identity in by_identity and redo.entries:
                self.survey.notes.append(
                    f"{stream_name(by_identity[identity])}: a server applies {len(redo.entries)} "
                    "entries of the write-ahead file; what is told here is what the files have"
                )

    def _put_back_into(self, path: str, frames: AheadFrames) -> None:
        before = read_file(self.files, path)
        data = put_together(before, 0, frames)
        if data != before:
            self.files.replace_content(path, data)
            self.survey.notes.append(
                f"{path.removeprefix(f'{self.folder}/')}: a server completes this file from the "
                "write-ahead file; what is told here is what it has then"
            )

    @property
    def _machine_fell(self) -> bool:
        return self.survey.machine_restarted and not self.survey.closed_in_order


def stream_name(folder: str) -> str:
    """The name of the stream in a folder; a folder that no server made keeps its own."""
    name = folder.rpartition("/")[2]
    try:
        return name_of_folder(name)
    except ValueError:
        return name
