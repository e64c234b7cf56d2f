"""The state machine of the meta group: the assignments of all streams of the cluster.

The log of the meta group is short and its state is small, so the state is written as a whole to a
file when the log has grown. A start reads the file, and consensus applies the entries behind it.

A record that this program cannot read, for example because a newer one wrote it, ends the part of
this server in the meta group until the next start. Log and file stay as they are, and the streams
of the server go on.

    file    0  magic      8
            8  version    u32
           12  (zero)     4
           16  index      u64  of the last entry whose effects the state has
           24  chunks          each with its size, u32
               checksum   u32
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, Protocol, final

from headwater.base.checksums import crc32
from headwater.base.errors import PeerError
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.meta.assignments import AssignmentChange, Assignments
from headwater.jetstream.meta.codec import (
    decode_entry,
    decode_snapshot,
    encode_entry,
    encode_snapshot,
)
from headwater.jetstream.meta.records import MetaRecord
from headwater.raft.entry import Entry, EntryKind
from headwater.store.disk.filesystem import FileSystem, read_file, replace_file
from headwater.store.errors import StoreError

META_FILE: Final = "meta.hw"

_MAGIC: Final = b"HWMETA\x00\x01"
_VERSION: Final = 1
_HEAD: Final = Struct("<8sI4xQ")
_SIZE: Final = Struct("<I")
_CHECKSUM_BYTES: Final = 4


class MetaConsensus(Protocol):
    """The consensus of the meta group."""

    def propose_meta(self, batch: list[bytes]) -> int | None:
        """Propose entries. Returns the index of the first; None if this server does not lead."""
        ...

    def meta_proposal_wanted(self) -> None:
        """Have `propose_gathered` called at the end of the turn."""
        ...

    def meta_failed(self, reason: str) -> None:
        """Take no part any more in the meta group, until the next start."""
        ...

    def has_whole_meta(self, index: int) -> bool:
        """Whether the entries up to one are all that were committed before the present leader
        came."""
        ...


class AssignmentListener(Protocol):
    """The part of a server that follows the assignments."""

    def record_applied(self, record: MetaRecord, change: AssignmentChange | None) -> None:
        """Follow a record that is applied."""
        ...

    def state_replaced(self) -> None:
        """Follow assignments that came as a whole."""
        ...

    def meta_leader_changed(self, leader: str, is_leading: bool) -> None:
        """Follow another leader of the meta group."""
        ...


@final
class _Snapshot:
    """The assignments of one moment, piece by piece."""

    __slots__ = ("_chunks", "index")

    def __init__(self, chunks: Iterator[bytes], index: int) -> None:
        self._chunks = chunks
        self.index = index

    def next_chunk(self) -> bytes | None:
        """The next piece; None behind the last one."""
        return next(self._chunks, None)

    def close(self) -> None:
        """Cease to read."""


@final
class _Sink:
    """The pieces of a snapshot that arrives."""

    __slots__ = ("chunks", "held")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        # Assignments are few: each snapshot has all of them.
        self.held = b""

    def add(self, chunk: bytes) -> None:
        """Keep the next piece."""
        self.chunks.append(chunk)

    def discard(self) -> None:
        """Drop all pieces."""
        self.chunks.clear()


@final
class MetaMachine:
    """The assignments on this server. Opening raises StoreError for a file that is damaged: it is
    never replaced. `fault` is the reason for which this server is not in the meta group, if any."""

    __slots__ = (
        "_files",
        "_path",
        "_proposing",
        "_sink",
        "applied_index",
        "assignments",
        "consensus",
        "durable_index",
        "elected",
        "fault",
        "is_current",
        "is_leading",
        "leader",
        "left",
        "listener",
        "must_refill",
        "replays_to",
    )

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{META_FILE}"
        self._sink = _Sink()
        # Records that are decided and not proposed yet.
        self._proposing: list[list[MetaRecord]] = []
        self.consensus: MetaConsensus | None = None
        self.listener: AssignmentListener | None = None
        # Called when this server leads the meta group from now on.
        self.elected: Callable[[], object] = lambda: None
        # Called when this server is not in the meta group any more.
        self.left: Callable[[], object] = lambda: None
        self.leader = ""
        self.is_leading = False
        # Whether everything is applied that was committed before the present leader came. A server
        # that starts may know of fewer entries than its disk has effects of.
        self.is_current = False
        self.fault = ""
        self.assignments, self.durable_index = self._read()
        self.applied_index = self.durable_index
        # Entries up to this index were applied by an earlier process: what they led to is here.
        self.replays_to = 0
        self.must_refill = False

    def _read(self) -> tuple[Assignments, int]:
        try:
            if not self._files.exists(self._path):
                return Assignments(), 0
            data = read_file(self._files, self._path)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error
        end = len(data) - _CHECKSUM_BYTES
        if end < _HEAD.size or not data.startswith(_MAGIC):
            raise StoreError(f"{self._path} is not the file of a meta group")
        if crc32(data[:end]) != int.from_bytes(data[end:], "little"):
            raise StoreError(f"{self._path} fails its checksum")
        _, version, index = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise StoreError(f"{self._path}: unknown format version {version}")
        try:
            return decode_snapshot(_split(data[_HEAD.size : end])), index
        except RecordError as error:
            self.fault = f"{self._path} cannot be read: {error}"
            return Assignments(), index

    # --- proposals -----------------------------------------------------------------------------

    def propose(self, records: list[MetaRecord]) -> None:
        """Propose records that this server, as the leader, has decided: all of them or none."""
        if records:
            for record in records:
                self.assignments.append(record)
            self._proposing.append(records)
            if self.consensus is not None:
                self.consensus.meta_proposal_wanted()

    def propose_gathered(self) -> bool:
        """Propose the records of the turn. Returns whether none is left."""
        if not self._proposing or self.consensus is None:
            return True
        batch = [encode_entry(records) for records in self._proposing]
        if self.consensus.propose_meta(batch) is None:
            return False
        self._proposing.clear()
        return True

    # --- the machine of a group ----------------------------------------------------------------

    def apply(self, entries: list[Entry]) -> int:
        """Apply committed entries. Returns the index of the last one."""
        for entry in entries:
            records = self._decode(entry)
            if self.fault:
                break
            self.applied_index = entry.index
            self._apply(records, entry.index <= self.replays_to)
            if entry.index == self.replays_to and self.listener is not None:
                self.listener.state_replaced()
        self._look_for_end()
        return self.applied_index

    def _look_for_end(self) -> None:
        """Have the assignments followed as a whole when they are current."""
        is_known = self.is_current or self.applied_index < self.replays_to
        if is_known or self.fault or self.consensus is None:
            return
        self.is_current = self.consensus.has_whole_meta(self.applied_index)
        if self.is_current and self.listener is not None:
            self.listener.state_replaced()

    def _decode(self, entry: Entry) -> list[MetaRecord]:
        """The records of an entry. Bytes that are no records end the part of this server."""
        try:
            return decode_entry(entry.data) if entry.kind is EntryKind.DATA else []
        except RecordError as error:
            self._leave(f"entry {entry.index} cannot be read: {error}")
            if self.consensus is not None:
                self.consensus.meta_failed(self.fault)
            return []

    def _leave(self, reason: str) -> None:
        """Follow no leader any more, and do not lead."""
        self.fault = reason
        self.role_changed("", False)
        self.left()

    def _apply(self, records: list[MetaRecord], is_replay: bool) -> None:
        for record in records:
            change = self.assignments.apply(record)
            if self.listener is not None and not is_replay:
                self.listener.record_applied(record, change)

    def role_changed(self, leader: str, is_leading: bool) -> None:
        """Follow a leader, or lead."""
        if self.is_leading and not is_leading:
            self._proposing.clear()
            self.assignments.retreat_all()
        self.leader, self.is_leading = leader, is_leading
        self.is_current = False
        if is_leading:
            self.elected()
        if self.listener is not None:
            self.listener.meta_leader_changed(leader, is_leading)
        self._look_for_end()

    def make_durable(self) -> None:
        """Write the whole state to its file. A file that cannot be written leaves the log as it
        is, and so does a state that is not whole."""
        if self.fault:
            return
        try:
            self._write(encode_snapshot(self.assignments), self.applied_index)
        except StoreError:
            return

    def _write(self, chunks: Iterator[bytes], index: int) -> None:
        body = b"".join(_SIZE.pack(len(chunk)) + chunk for chunk in chunks)
        data = _HEAD.pack(_MAGIC, _VERSION, index) + body
        try:
            replace_file(self._files, self._path, data + crc32(data).to_bytes(4, "little"))
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from error
        self.durable_index = index

    def distrust(self) -> None:
        """Go on with the assignments that are known: streams without one are told again."""

    def give_up(self) -> None:
        """Apply nothing until the next snapshot replaces the state and its file."""
        self.applied_index = self.durable_index = 0

    # --- snapshots -----------------------------------------------------------------------------

    def open_snapshot(self, held: bytes) -> _Snapshot:
        """The assignments of this moment."""
        chunks = [*encode_snapshot(self.assignments)]
        return _Snapshot(iter(chunks), self.applied_index)

    def open_sink(self) -> _Sink:
        """Begin to take in the assignments of the leader."""
        self._sink = _Sink()
        return self._sink

    def install(self, index: int) -> None:
        """Put the assignments of the leader in force, durably. Raises StoreError, and then this
        server is not in the meta group any more."""
        chunks, self._sink = self._sink.chunks, _Sink()
        try:
            assignments = decode_snapshot(chunks)
            self._write(iter(chunks), index)
        except (RecordError, PeerError) as error:
            reason = f"the assignments of the leader cannot be read: {error}"
            self._leave(reason)
            raise StoreError(reason) from error
        except StoreError as error:
            self._leave(str(error))
            raise
        self.assignments, self.applied_index = assignments, index
        if self.listener is not None:
            self.listener.state_replaced()
        self._look_for_end()

    def discard_snapshot(self) -> None:
        """Drop assignments that are not needed."""
        self._sink = _Sink()


def forget_assignments(files: FileSystem, folder: str) -> None:
    """Remove the file of a server that gives up its cluster. Raises StoreError."""
    path = f"{folder}/{META_FILE}"
    try:
        if files.exists(path):
            files.remove(path)
            files.sync_folder(folder)
    except OSError as error:
        raise StoreError(f"{path} cannot be removed: {error}") from error


def _split(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        begin = at + _SIZE.size
        if begin > len(data):
            raise RecordError("the file ends within the size of a chunk")
        (size,) = _SIZE.unpack_from(data, at)
        at = begin + size
        if at > len(data):
            raise RecordError("the file ends within a chunk")
        yield data[begin:at]
