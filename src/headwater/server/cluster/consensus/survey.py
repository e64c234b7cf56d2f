"""The cluster of a stopped server, read from its store: for the orders of an operator.

Changes nothing. The members of a group are those of the last membership entry in its log, or those
of its snapshot mark.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import final

from headwater.base.errors import PeerError
from headwater.raft.entry import EntryKind
from headwater.raft.membership import UNKNOWN, Membership, decode
from headwater.server.cluster.consensus.birth import BirthRecord
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.server.cluster.consensus.peers import PeerMemory
from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import FormatError
from headwater.store.disk.store_file import STORE_FILE, StoreFile
from headwater.store.disk.wal import GROUP_CUT, GROUP_END, GROUP_ENTRY, GROUP_SNAPSHOT, Frame
from headwater.store.disk.wal_reading import read_ahead
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupMode, GroupState, decode_entry, decode_snapshot
from headwater.store.groups.opening import FoundGroups
from headwater.store.groups.written_group import WrittenGroup


@dataclass(frozen=True, slots=True)
class SurveyedGroup:
    """The log of one group, as a start would find it."""

    state: GroupState
    mode: GroupMode
    last_index: int
    last_term: int
    membership: Membership
    may_have_forgotten: bool


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """The cluster of a server, as its store has it."""

    store: bytes
    start_number: int
    birth: BirthRecord
    order: Order
    peers: PeerMemory
    groups: dict[bytes, SurveyedGroup]

    @property
    def meta(self) -> SurveyedGroup | None:
        """The meta group; None if the server is in no cluster, or has no log of the group."""
        birth = self.birth.birth
        is_born = birth is not None and self.birth.is_chosen
        return self.groups.get(birth.identity) if birth is not None and is_born else None

    @property
    def others(self) -> tuple[str, ...]:
        """The members of the meta group other than this server, as far as that can be told."""
        meta, birth = self.meta, self.birth.birth
        if meta is None or birth is None:
            return ()
        members = meta.membership.members()
        own = {name for name, store in birth.members if store == self.store}
        unknown = {name for name in members if self.peers.get(name) is None}
        if not own and len(unknown) == 1:
            own = unknown
        return tuple(name for name in members if name not in own)


def read_cluster(files: FileSystem, folder: str, ahead_files: FileSystem) -> ClusterSurvey:
    """Read the cluster of the server whose store is in a folder. Raises StoreError or OSError.

    Write-ahead files are read through `ahead_files`, which decrypts them.
    """
    path = f"{folder}/{STORE_FILE}"
    try:
        store = StoreFile.decode(read_file(files, path), path)
        finder = _Memberships()
        read_ahead(ahead_files, folder, store.identity, Findings(), finder.take_frame)
    except FormatError as error:
        raise StoreError(str(error)) from error
    file = ClusterFile(files, folder)
    return ClusterSurvey(
        store.identity, store.start_number, file.birth, file.order, file.peers, finder.groups()
    )


@final
class _Memberships:
    """The groups in write-ahead files, with the memberships among their entries."""

    __slots__ = ("_by_index", "_found")

    def __init__(self) -> None:
        self._found = FoundGroups()
        # The encoded memberships of each group by the indexes of their entries, in order.
        self._by_index: dict[bytes, list[tuple[int, bytes]]] = {}

    def take_frame(self, number: int, start: int, frame: Frame) -> None:
        """Take in a frame that was found behind all before it."""
        self._found.take_frame(number, start, frame)
        found = self._by_index.setdefault(frame.identity, [])
        try:
            if frame.kind == GROUP_ENTRY:
                entry = decode_entry(frame.file, frame.offset, frame.data)
                _cut(found, entry.index)
                if entry.kind == EntryKind.MEMBERSHIP:
                    found.append((entry.index, entry.data))
            elif frame.kind == GROUP_CUT:
                _cut(found, frame.file)
            elif frame.kind == GROUP_SNAPSHOT and decode_snapshot(0, 0, frame.data)[1]:
                found.clear()
            elif frame.kind == GROUP_END:
                del self._by_index[frame.identity]
        except FormatError:
            # The group has a gap there, behind which nothing counts.
            return

    def groups(self) -> dict[bytes, SurveyedGroup]:
        """The groups that a start would find."""
        return {
            identity: self._surveyed(identity, group)
            for identity, group in self._found.groups.items()
            if group.is_begun
        }

    def _surveyed(self, identity: bytes, group: WrittenGroup) -> SurveyedGroup:
        group.settle()
        mark, last_index = group.snapshot, group.entries.last_index
        data = mark.membership
        for index, each in self._by_index[identity]:
            if mark.index < index <= last_index:
                data = each
        written = group.written
        return SurveyedGroup(
            written.state,
            written.mode,
            last_index,
            group.entries.last_term,
            _decoded(data),
            written.is_doubtful,
        )


def _cut(found: list[tuple[int, bytes]], index: int) -> None:
    del found[bisect_left(found, (index, b"")) :]


def _decoded(data: bytes) -> Membership:
    try:
        return decode(data) if data else UNKNOWN
    except PeerError:
        return UNKNOWN
