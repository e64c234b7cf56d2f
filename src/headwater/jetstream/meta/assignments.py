"""The assignments of a cluster as a state machine: the servers, and the servers of each stream.

    request ─▶ decisions ─▶ records ─▶ [meta group] ─▶ apply ─▶ each server follows

Every server has a copy, and only `apply` changes it: two copies that apply the same records are
equal (`dump`). `apply` accepts any record in any state; a record that does not match the state
changes nothing.

A stream is known by its account, its name and its incarnation. A record names an incarnation, so
neither a late record nor a record that is applied twice touches a stream that was created again
under its name. The incarnations that were unassigned last are remembered: a server that was away
deletes its replicas of those, and keeps all others that no assignment names.

The meta leader decides by the state that follows once its records in flight are applied
(`foreseen`); all others look at the state alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, final

from msgspec import Struct
from msgspec.structs import replace

from headwater.go.json import write
from headwater.jetstream.config.stream_config import StreamConfig, origin_read_by
from headwater.jetstream.meta.records import (
    MetaRecord,
    ReplicaCause,
    ReplicasChanged,
    ReplicasSettled,
    ServerDescribed,
    ServerRemoved,
    StreamAssigned,
    StreamMetaRecord,
    StreamUpdated,
)

UNASSIGNED_MAX: Final = 1 << 16
"""The number of unassigned incarnations that are remembered, 1 MiB in all.

A server that was away while more streams were deleted keeps the oldest of them and reports them.
"""

Key = tuple[str, str]


@final
class Origin(Struct, frozen=True):
    """The servers and the configuration of a stream before a change that can be cancelled."""

    replicas: tuple[str, ...]
    config: StreamConfig


@final
class ReplicaChange(Struct, frozen=True):
    """A change of the servers of a stream that is under way."""

    target: tuple[str, ...]
    is_move: bool
    # Servers that have left the stream without waiting for the others: they do not come back.
    removed: tuple[str, ...] = ()
    # None for a change that cannot be cancelled.
    origin: Origin | None = None


@final
class StreamAssignment(Struct, frozen=True):
    """A stream, and the servers that hold it."""

    account: str
    name: str
    incarnation: bytes
    config: StreamConfig
    created_ns: int
    # The servers that hold the stream. During a change, those that it adds may be missing, and
    # those that it drops are included.
    replicas: tuple[str, ...]
    change: ReplicaChange | None = None

    @property
    def target(self) -> tuple[str, ...]:
        """The servers that hold the stream once no change is under way."""
        return self.replicas if self.change is None else self.change.target

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that must have the stream now: those of both sides of a change."""
        return tuple(dict.fromkeys((*self.replicas, *self.target)))


class AssignmentChange(NamedTuple):
    """The assignment of a stream before and after a record; None for a stream that is not there."""

    before: StreamAssignment | None
    after: StreamAssignment | None


class DumpedAssignment(NamedTuple):
    """One stream in the canonical dump."""

    account: str
    name: str
    incarnation: str
    created_ns: int
    config: str
    replicas: tuple[str, ...]
    change: str


class DumpedAssignments(NamedTuple):
    """The whole state in one order."""

    streams: list[DumpedAssignment]
    servers: list[ServerDescribed]
    unassigned: list[str]


def _changed(there: StreamAssignment, record: ReplicasChanged) -> StreamAssignment:
    # Servers that an earlier change was to add may be members of the group of the stream already.
    left = tuple(server for server in there.servers if server not in record.removed)
    if not left:
        # Nobody else has the messages.
        return there
    under_way = there.change
    if under_way is None and {*left} == {*record.replicas}:
        return replace(there, replicas=record.replicas)
    is_move, origin, removed = record.cause is ReplicaCause.MOVE, None, record.removed
    if under_way is not None:
        is_move, origin = is_move or under_way.is_move, under_way.origin
        removed = tuple(dict.fromkeys((*under_way.removed, *removed)))
    if origin is None and record.cause is not ReplicaCause.REPAIR:
        origin = Origin(there.replicas, there.config)
    target = tuple(dict.fromkeys(record.replicas))
    gone = tuple(server for server in removed if server not in target)
    return replace(there, replicas=left, change=ReplicaChange(target, is_move, gone, origin))


def _settled(there: StreamAssignment, record: ReplicasSettled) -> StreamAssignment:
    change = there.change
    if change is None or {*change.target} != {*record.replicas}:
        return there
    return replace(there, replicas=change.target, change=None)


def _assigned(record: StreamAssigned) -> StreamAssignment:
    return StreamAssignment(
        record.account,
        record.name,
        record.incarnation,
        record.config,
        record.created_ns,
        record.replicas,
    )


def _after(there: StreamAssignment | None, record: StreamMetaRecord) -> StreamAssignment | None:
    """The stream of a name behind a record of that name."""
    if isinstance(record, StreamAssigned):
        return _assigned(record) if there is None else there
    if there is None or there.incarnation != record.incarnation:
        return there
    if isinstance(record, StreamUpdated):
        return replace(there, config=record.config)
    if isinstance(record, ReplicasChanged):
        return _changed(there, record)
    if isinstance(record, ReplicasSettled):
        return _settled(there, record)
    return None


def _identity(record: MetaRecord) -> tuple[object, ...]:
    """The part of a record that its bytes keep to the letter, unlike an empty list of tags."""
    if isinstance(record, ServerDescribed | ServerRemoved):
        return type(record), record.name
    return type(record), record.account, record.name, record.incarnation


@final
class Assignments:
    """The servers and streams of a cluster, and the records that are in flight."""

    __slots__ = ("_in_flight", "_mirrors", "_servers", "_streams", "_unassigned")

    def __init__(
        self,
        streams: Iterable[StreamAssignment] = (),
        servers: Iterable[ServerDescribed] = (),
        unassigned: Iterable[bytes] = (),
    ) -> None:
        """`unassigned` are incarnations, the oldest first."""
        self._streams = {(stream.account, stream.name): stream for stream in streams}
        self._servers = {server.name: server for server in servers}
        # Incarnations in the order of their deletion.
        self._unassigned = dict.fromkeys(unassigned)
        # The names of the mirrors that answer direct reads of a stream, by that stream.
        self._mirrors: dict[Key, dict[str, None]] = {}
        for stream in self:
            self._index(None, stream)
        # Records that are proposed and not applied, in order.
        self._in_flight: deque[MetaRecord] = deque()

    # --- the state -----------------------------------------------------------------------------

    def get(self, account: str, name: str) -> StreamAssignment | None:
        """The stream of that name; None if there is none."""
        return self._streams.get((account, name))

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[StreamAssignment]:
        return iter(self._streams.values())

    def streams_of(self, account: str) -> list[StreamAssignment]:
        """The streams of an account, ordered by name."""
        found = [stream for stream in self if stream.account == account]
        return sorted(found, key=lambda stream: stream.name)

    def mirrors_of(self, account: str, origin: str) -> list[StreamAssignment]:
        """The mirrors that may answer direct reads of a stream, which need not be there."""
        names = self._mirrors.get((account, origin), ())
        return [self._streams[account, name] for name in names]

    def _index(self, before: StreamAssignment | None, after: StreamAssignment | None) -> None:
        """Note which origin a stream answers for behind a change of it."""
        old = "" if before is None else origin_read_by(before.config)
        new = "" if after is None else origin_read_by(after.config)
        if old == new:
            return
        if before is not None and old:
            names = self._mirrors[before.account, old]
            del names[before.name]
            if not names:
                del self._mirrors[before.account, old]
        if after is not None and new:
            self._mirrors.setdefault((after.account, new), {})[after.name] = None

    def held_by(self, server: str) -> list[StreamAssignment]:
        """The streams that a server must have now."""
        return [stream for stream in self if server in stream.servers]

    @property
    def servers(self) -> dict[str, ServerDescribed]:
        """The servers by name."""
        return dict(self._servers)

    @property
    def unassigned(self) -> list[bytes]:
        """The incarnations that were unassigned last, the oldest first."""
        return [*self._unassigned]

    def was_unassigned(self, incarnation: bytes) -> bool:
        """Whether a stream of that incarnation is known to be deleted."""
        return incarnation in self._unassigned

    def dump(self) -> DumpedAssignments:
        """The whole state in one order, whatever the order of the records was."""
        return DumpedAssignments(
            [
                DumpedAssignment(
                    stream.account,
                    stream.name,
                    stream.incarnation.hex(),
                    stream.created_ns,
                    write(stream.config).decode(),
                    stream.replicas,
                    repr(stream.change),
                )
                for _, stream in sorted(self._streams.items(), key=lambda item: item[0])
            ],
            [server for _, server in sorted(self._servers.items(), key=lambda item: item[0])],
            [incarnation.hex() for incarnation in self._unassigned],
        )

    # --- records -------------------------------------------------------------------------------

    def append(self, record: MetaRecord) -> None:
        """Queue a record that is proposed, so that later decisions take it into account."""
        self._in_flight.append(record)

    def retreat(self, records: Sequence[MetaRecord]) -> None:
        """Forget the newest records that were queued, because they will never be applied."""
        for _ in records:
            self._in_flight.pop()

    def retreat_all(self) -> None:
        """Forget all records in flight: another server leads the meta group."""
        self._in_flight.clear()

    @property
    def has_in_flight(self) -> bool:
        """Whether records are proposed and not applied."""
        return bool(self._in_flight)

    def apply(self, record: MetaRecord) -> AssignmentChange | None:
        """Change the state as a record says. Returns the change of a stream, if there is one."""
        if self._in_flight and _identity(self._in_flight[0]) == _identity(record):
            self._in_flight.popleft()
        if isinstance(record, ServerDescribed):
            self._servers[record.name] = record
            return None
        if isinstance(record, ServerRemoved):
            self._servers.pop(record.name, None)
            return None
        return self._apply_to_stream(record)

    def _apply_to_stream(self, record: StreamMetaRecord) -> AssignmentChange | None:
        if isinstance(record, StreamAssigned) and record.incarnation in self._unassigned:
            return None
        key = record.account, record.name
        before = self._streams.get(key)
        after = _after(before, record)
        if after is not None:
            self._streams[key] = after
        elif before is not None:
            del self._streams[key]
            self._remember(before.incarnation)
        self._index(before, after)
        return None if before is after else AssignmentChange(before, after)

    def _remember(self, incarnation: bytes) -> None:
        self._unassigned[incarnation] = None
        if len(self._unassigned) > UNASSIGNED_MAX:
            del self._unassigned[next(iter(self._unassigned))]

    # --- the state to come ---------------------------------------------------------------------

    def foreseen(self, account: str, name: str) -> StreamAssignment | None:
        """The stream that will have a name when all records in flight are applied."""
        stream = self._streams.get((account, name))
        for record in self._in_flight:
            if isinstance(record, ServerDescribed | ServerRemoved):
                continue
            if record.account == account and record.name == name:
                stream = _after(stream, record)
        return stream

    def foreseen_streams(self) -> list[StreamAssignment]:
        """All streams that will be there when all records in flight are applied."""
        if not self._in_flight:
            return [*self]
        streams = dict[Key, StreamAssignment | None](self._streams)
        for record in self._in_flight:
            if not isinstance(record, ServerDescribed | ServerRemoved):
                key = record.account, record.name
                streams[key] = _after(streams.get(key), record)
        return [stream for stream in streams.values() if stream is not None]

    def foreseen_servers(self) -> dict[str, ServerDescribed]:
        """The servers that will be there when all records in flight are applied."""
        servers = dict(self._servers)
        for record in self._in_flight:
            if isinstance(record, ServerDescribed):
                servers[record.name] = record
            elif isinstance(record, ServerRemoved):
                servers.pop(record.name, None)
        return servers
