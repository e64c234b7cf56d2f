"""The bytes of the meta group: records, entries of its log, and the snapshot of its state.

    record     0  kind       u8
               1  version    u8   of the body's layout
               2  body            a msgpack array, to the end

    96 STREAM_ASSIGNED     account, name, incarnation, configuration, created ns, servers, answer
    97 STREAM_UPDATED      account, name, incarnation, configuration, answer
    98 REPLICAS_CHANGED    account, name, incarnation, servers, cause, removed servers, answer
    99 REPLICAS_SETTLED    account, name, incarnation, servers
    100 STREAM_UNASSIGNED  account, name, incarnation, answer
    104 SERVER_DESCRIBED   name, cluster, tags, memory bytes, storage bytes, has JetStream
    105 SERVER_REMOVED     name, answer
    112 ASSIGNMENT         account, name, incarnation, configuration, created ns, servers, change
    113 INCARNATIONS       the unassigned incarnations, the oldest first, as one run of bytes
    114 SNAPSHOT_END       number of streams, of servers and of unassigned incarnations

An entry is a msgpack array of records, and so is each chunk of a snapshot. The last three kinds
stand in snapshots, of which SNAPSHOT_END is the last record. Configurations are the JSON that the
file of a stream has. An answer is null or an array of account, subject, reply subject, client and
request; a change is null or an array of servers, is move, removed servers and origin; an origin is
null or an array of servers and configuration.

No record of a stream has one of these kinds (`headwater.jetstream.codec.record_codec`). A kind or
version that is not listed is refused by its number: a newer program wrote it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from headwater.base.invariants import check
from headwater.jetstream.codec.configurations import decode_stream_config, encode_config
from headwater.jetstream.codec.errors import NewerRecordError, RecordError
from headwater.jetstream.codec.values import check_count, check_type, decode_values, encode_values
from headwater.jetstream.meta.assignments import (
    UNASSIGNED_MAX,
    Assignments,
    Origin,
    ReplicaChange,
    StreamAssignment,
)
from headwater.jetstream.meta.records import (
    CLIENT_BYTES_MAX,
    INCARNATION_BYTES,
    REQUEST_BYTES_MAX,
    SERVERS_MAX,
    SUBJECT_BYTES_MAX,
    TAGS_MAX,
    AnswerTo,
    MetaRecord,
    ReplicaCause,
    ReplicasChanged,
    ReplicasSettled,
    ServerDescribed,
    ServerRemoved,
    StreamAssigned,
    StreamUnassigned,
    StreamUpdated,
)

VERSION: Final = 1
ENVELOPE_BYTES: Final = 2

STREAM_ASSIGNED: Final = 96
STREAM_UPDATED: Final = 97
REPLICAS_CHANGED: Final = 98
REPLICAS_SETTLED: Final = 99
STREAM_UNASSIGNED: Final = 100
SERVER_DESCRIBED: Final = 104
SERVER_REMOVED: Final = 105
ASSIGNMENT: Final = 112
INCARNATIONS: Final = 113
SNAPSHOT_END: Final = 114

CHUNK_BYTES: Final = 1 << 18
"""The size at which a chunk of a snapshot ends; one configuration may be longer."""
_INCARNATIONS_PER_RECORD: Final = 4_096


# --- parts of records --------------------------------------------------------------------------


def _encode_answer(answer: AnswerTo | None) -> list[object] | None:
    if answer is None:
        return None
    return [answer.account, answer.subject, answer.reply_subject, answer.client, answer.request]


def _decode_answer(values: Any) -> AnswerTo | None:
    if values is None:
        return None
    check_type(list, [values])
    check_count(5, values)
    account, *texts = values
    check_type(str, [account])
    check_type(bytes, texts)
    limits = (SUBJECT_BYTES_MAX, SUBJECT_BYTES_MAX, CLIENT_BYTES_MAX, REQUEST_BYTES_MAX)
    if any(len(text) > limit for text, limit in zip(texts, limits, strict=True)):
        raise RecordError("a part of the request is too long")
    return AnswerTo(account, *texts)


def _decode_names(values: Any, count_max: int = SERVERS_MAX) -> tuple[str, ...]:
    check_type(list, [values])
    if len(values) > count_max:
        raise RecordError(f"a record has at most {count_max} names")
    check_type(str, values)
    if len({*values}) != len(values):
        raise RecordError("a name stands twice in a list")
    return (*values,)


def _decode_servers(values: Any) -> tuple[str, ...]:
    servers = _decode_names(values)
    if not servers:
        raise RecordError("no server has the stream")
    return servers


def _check_stream(account: Any, name: Any, incarnation: Any) -> None:
    check_type(str, (account, name))
    check_type(bytes, [incarnation])
    if len(incarnation) != INCARNATION_BYTES:
        raise RecordError(f"an incarnation has {INCARNATION_BYTES} bytes")


def _decode_config(document: Any) -> Any:
    check_type(bytes, [document])
    return decode_stream_config(document)


# --- records -----------------------------------------------------------------------------------


def _assigned_values(record: StreamAssigned) -> list[object]:
    config, answer = encode_config(record.config), _encode_answer(record.answer)
    stream = [record.account, record.name, record.incarnation]
    return [*stream, config, record.created_ns, record.replicas, answer]


def _assigned(values: list[Any]) -> StreamAssigned:
    check_count(7, values)
    account, name, incarnation, config, created_ns, replicas, answer = values
    _check_stream(account, name, incarnation)
    check_type(int, [created_ns])
    return StreamAssigned(
        account,
        name,
        incarnation,
        _decode_config(config),
        created_ns,
        _decode_servers(replicas),
        _decode_answer(answer),
    )


def _updated_values(record: StreamUpdated) -> list[object]:
    config, answer = encode_config(record.config), _encode_answer(record.answer)
    return [record.account, record.name, record.incarnation, config, answer]


def _updated(values: list[Any]) -> StreamUpdated:
    check_count(5, values)
    account, name, incarnation, config, answer = values
    _check_stream(account, name, incarnation)
    config = _decode_config(config)
    return StreamUpdated(account, name, incarnation, config, _decode_answer(answer))


def _changed_values(record: ReplicasChanged) -> list[object]:
    stream = [record.account, record.name, record.incarnation]
    answer = _encode_answer(record.answer)
    return [*stream, record.replicas, int(record.cause), record.removed, answer]


def _changed(values: list[Any]) -> ReplicasChanged:
    check_count(7, values)
    account, name, incarnation, replicas, cause, removed, answer = values
    _check_stream(account, name, incarnation)
    check_type(int, [cause])
    if cause not in {*ReplicaCause}:
        raise RecordError(f"servers change for an unknown cause ({cause})")
    return ReplicasChanged(
        account,
        name,
        incarnation,
        _decode_servers(replicas),
        ReplicaCause(cause),
        _decode_names(removed),
        _decode_answer(answer),
    )


def _settled_values(record: ReplicasSettled) -> list[object]:
    return [record.account, record.name, record.incarnation, record.replicas]


def _settled(values: list[Any]) -> ReplicasSettled:
    check_count(4, values)
    account, name, incarnation, replicas = values
    _check_stream(account, name, incarnation)
    return ReplicasSettled(account, name, incarnation, _decode_servers(replicas))


def _unassigned_values(record: StreamUnassigned) -> list[object]:
    return [record.account, record.name, record.incarnation, _encode_answer(record.answer)]


def _unassigned(values: list[Any]) -> StreamUnassigned:
    check_count(4, values)
    account, name, incarnation, answer = values
    _check_stream(account, name, incarnation)
    return StreamUnassigned(account, name, incarnation, _decode_answer(answer))


def _described_values(record: ServerDescribed) -> list[object]:
    sizes = (record.memory_bytes_max, record.storage_bytes_max)
    return [record.name, record.cluster, record.tags, *sizes, record.is_jetstream]


def _described(values: list[Any]) -> ServerDescribed:
    check_count(6, values)
    name, cluster, tags, memory_bytes_max, storage_bytes_max, is_jetstream = values
    check_type(str, (name, cluster))
    check_type(int, (memory_bytes_max, storage_bytes_max))
    check_type(bool, [is_jetstream])
    return ServerDescribed(
        name,
        cluster,
        _decode_names(tags, TAGS_MAX),
        memory_bytes_max,
        storage_bytes_max,
        is_jetstream,
    )


def _removed_values(record: ServerRemoved) -> list[object]:
    return [record.name, _encode_answer(record.answer)]


def _removed(values: list[Any]) -> ServerRemoved:
    check_count(2, values)
    name, answer = values
    check_type(str, [name])
    return ServerRemoved(name, _decode_answer(answer))


_ENCODERS: Final[dict[type, tuple[int, Callable[[Any], list[object]]]]] = {
    StreamAssigned: (STREAM_ASSIGNED, _assigned_values),
    StreamUpdated: (STREAM_UPDATED, _updated_values),
    ReplicasChanged: (REPLICAS_CHANGED, _changed_values),
    ReplicasSettled: (REPLICAS_SETTLED, _settled_values),
    StreamUnassigned: (STREAM_UNASSIGNED, _unassigned_values),
    ServerDescribed: (SERVER_DESCRIBED, _described_values),
    ServerRemoved: (SERVER_REMOVED, _removed_values),
}

_DECODERS: Final[dict[int, Callable[[list[Any]], MetaRecord]]] = {
    STREAM_ASSIGNED: _assigned,
    STREAM_UPDATED: _updated,
    REPLICAS_CHANGED: _changed,
    REPLICAS_SETTLED: _settled,
    STREAM_UNASSIGNED: _unassigned,
    SERVER_DESCRIBED: _described,
    SERVER_REMOVED: _removed,
}


def _enveloped(kind: int, values: list[object]) -> bytes:
    return bytes((kind, VERSION)) + encode_values(values)


def _opened(data: bytes) -> tuple[int, list[Any]]:
    """The kind and the values of a record. Raises RecordError."""
    if len(data) < ENVELOPE_BYTES:
        raise RecordError(f"{len(data)} bytes are no record")
    kind, version = data[0], data[1]
    if not kind or not version:
        raise RecordError(f"there is no record of kind {kind}, version {version}")
    if version != VERSION:
        raise NewerRecordError(kind, version)
    return kind, decode_values(data[ENVELOPE_BYTES:])


def encode_record(record: MetaRecord) -> bytes:
    """The bytes of a record."""
    kind, values_of = _ENCODERS[type(record)]
    return _enveloped(kind, values_of(record))


def decode_record(data: bytes) -> MetaRecord:
    """The record whose bytes these are. Raises RecordError."""
    kind, values = _opened(data)
    decode = _DECODERS.get(kind)
    if decode is None:
        raise NewerRecordError(kind, VERSION)
    return decode(values)


def encode_entry(records: Sequence[MetaRecord]) -> bytes:
    """The bytes of an entry, whose records are applied together."""
    check(len(records) > 0, "an entry has records")
    return encode_values([encode_record(record) for record in records])


def decode_entry(data: bytes) -> list[MetaRecord]:
    """The records of an entry. Raises RecordError."""
    return [decode_record(part) for part in _parts(data)]


def _parts(data: bytes) -> list[bytes]:
    parts = decode_values(data)
    check_type(bytes, parts)
    return parts


# --- snapshots ---------------------------------------------------------------------------------


def _assignment_values(stream: StreamAssignment) -> list[object]:
    change, moving = stream.change, None
    if change is not None:
        origin = change.origin
        before = None if origin is None else [origin.replicas, encode_config(origin.config)]
        moving = [change.target, change.is_move, change.removed, before]
    config = encode_config(stream.config)
    key = [stream.account, stream.name, stream.incarnation]
    return [*key, config, stream.created_ns, stream.replicas, moving]


def _decode_change(values: Any) -> ReplicaChange | None:
    if values is None:
        return None
    check_type(list, [values])
    check_count(4, values)
    target, is_move, removed, before = values
    check_type(bool, [is_move])
    origin = None
    if before is not None:
        check_type(list, [before])
        check_count(2, before)
        origin = Origin(_decode_servers(before[0]), _decode_config(before[1]))
    return ReplicaChange(_decode_servers(target), is_move, _decode_names(removed), origin)


def _decode_assignment(values: list[Any]) -> StreamAssignment:
    check_count(7, values)
    account, name, incarnation, config, created_ns, replicas, change = values
    _check_stream(account, name, incarnation)
    check_type(int, [created_ns])
    return StreamAssignment(
        account,
        name,
        incarnation,
        _decode_config(config),
        created_ns,
        _decode_servers(replicas),
        _decode_change(change),
    )


def _snapshot_records(assignments: Assignments) -> Iterator[bytes]:
    servers, unassigned = assignments.servers, assignments.unassigned
    for server in servers.values():
        yield encode_record(server)
    for stream in assignments:
        yield _enveloped(ASSIGNMENT, _assignment_values(stream))
    for begin in range(0, len(unassigned), _INCARNATIONS_PER_RECORD):
        run = b"".join(unassigned[begin : begin + _INCARNATIONS_PER_RECORD])
        yield _enveloped(INCARNATIONS, [run])
    yield _enveloped(SNAPSHOT_END, [len(assignments), len(servers), len(unassigned)])


def encode_snapshot(assignments: Assignments) -> Iterator[bytes]:
    """The state of all applied records, in chunks. It must not change meanwhile."""
    chunk, size = list[bytes](), 0
    for record in _snapshot_records(assignments):
        if chunk and size + len(record) > CHUNK_BYTES:
            yield encode_values(chunk)
            chunk, size = [], 0
        chunk.append(record)
        size += len(record)
    yield encode_values(chunk)


def decode_snapshot(chunks: Iterable[bytes]) -> Assignments:
    """The state that the chunks hold. Raises RecordError unless they are whole and in order."""
    streams, servers = list[StreamAssignment](), list[ServerDescribed]()
    unassigned: list[bytes] = []
    end: list[Any] | None = None
    for part in (part for chunk in chunks for part in _parts(chunk)):
        if end is not None:
            raise RecordError("a record stands behind the end of the snapshot")
        kind, values = _opened(part)
        if kind == ASSIGNMENT:
            streams.append(_decode_assignment(values))
        elif kind == SERVER_DESCRIBED:
            servers.append(_described(values))
        elif kind == INCARNATIONS:
            unassigned += _decode_incarnations(values)
        elif kind == SNAPSHOT_END:
            end = values
        else:
            raise NewerRecordError(kind, VERSION)
    assignments = Assignments(streams, servers, unassigned)
    found = [len(assignments), len(assignments.servers), len(assignments.unassigned)]
    if end != found or len(unassigned) > UNASSIGNED_MAX:
        raise RecordError(f"the snapshot is not whole: it has {found} of {end} parts")
    return assignments


def _decode_incarnations(values: list[Any]) -> list[bytes]:
    check_count(1, values)
    check_type(bytes, values)
    (run,) = values
    if not run or len(run) % INCARNATION_BYTES:
        raise RecordError(f"{len(run)} bytes are no incarnations")
    return [run[at : at + INCARNATION_BYTES] for at in range(0, len(run), INCARNATION_BYTES)]
