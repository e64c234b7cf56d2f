"""The decisions of the meta leader: from a request to records, or to an error of the API.

A decision looks at the state that follows once all records in flight are applied, and changes
nothing. The caller proposes the records of one decision as one entry, and queues them
(`Assignments.append`). A record carries the request that it answers; the caller has checked the
request and its configuration, and who may send it.

Errors and their order are nats-server's, with two differences, both for the sake of messages. A
server that is removed from a stream while it is online stays in the stream until the others have
caught up. A stream whose last replica was on a server that is removed from the cluster stays
assigned to it, and is not created again without its messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import Assignments, StreamAssignment
from headwater.jetstream.meta.placement import (
    Candidates,
    PlacementRules,
    ServerState,
    place,
    request_for,
)
from headwater.jetstream.meta.records import (
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
from headwater.jetstream.records import StreamCreated
from headwater.jetstream.server_room import exceeded

STREAMS_MAX: Final = 256
"""The number of streams that one entry repairs, evacuates or purges; the next one has the
others."""


class ServerHealth(NamedTuple):
    """The state of a server that its assignments do not tell. Sizes are in bytes."""

    is_online: bool = True
    memory_used: int = 0
    storage_used: int = 0


def candidates_of(
    assignments: Assignments,
    health: Mapping[str, ServerHealth],
    rules: PlacementRules,
    seed: int,
) -> Candidates:
    """The servers of a cluster as placement sees them; those without health were never heard."""
    servers = assignments.foreseen_servers()
    streams = dict.fromkeys(servers, 0)
    ha_assets = dict.fromkeys(servers, 0)
    reserved = {storage: dict.fromkeys(servers, 0) for storage in Storage}
    for stream in assignments.foreseen_streams():
        config, holders = stream.config, stream.servers
        for name in holders:
            if name in servers:
                streams[name] += 1
                ha_assets[name] += len(holders) > 1
                reserved[config.storage][name] += max(config.max_bytes, 0)
    states: list[ServerState] = []
    for name, server in servers.items():
        heard = health.get(name)
        now = heard or ServerHealth(is_online=False)
        states.append(
            ServerState(
                name,
                server.cluster,
                server.tags,
                server.memory_bytes_max,
                server.storage_bytes_max,
                reserved[Storage.MEMORY][name],
                reserved[Storage.FILE][name],
                now.memory_used,
                now.storage_used,
                streams[name],
                ha_assets[name],
                now.is_online,
                heard is not None,
                server.is_jetstream,
            )
        )
    return Candidates(states, rules, seed)


def _after_change(
    candidates: Candidates, there: StreamAssignment, change: ReplicasChanged
) -> Candidates:
    """The servers as the next decision of the same entry has to see them."""
    holders = [server for server in there.servers if server not in change.removed]
    holders += [server for server in change.replicas if server not in holders]
    reserved = max(there.config.max_bytes, 0)
    is_memory = there.config.storage is Storage.MEMORY
    states: list[ServerState] = []
    for state in candidates.servers:
        was, will = state.name in there.servers, state.name in holders
        added = (will - was) * reserved
        was_ha, will_be_ha = was and len(there.servers) > 1, will and len(holders) > 1
        states.append(
            state._replace(
                memory_reserved=state.memory_reserved + added * is_memory,
                storage_reserved=state.storage_reserved + added * (not is_memory),
                streams=state.streams + will - was,
                ha_assets=state.ha_assets + will_be_ha - was_ha,
            )
        )
    return candidates._replace(servers=states)


# --- streams -----------------------------------------------------------------------------------


def decide_create(
    assignments: Assignments,
    created: StreamCreated,
    cluster: str,
    candidates: Candidates,
    answer: AnswerTo | None = None,
) -> list[MetaRecord]:
    """The assignment of a new stream. Raises ApiError: its name is in use, or it has no place.

    `cluster` is that of the client.
    """
    if assignments.foreseen(created.account, created.name) is not None:
        raise ApiError.of(error_codes.STREAM_NAME_EXIST)
    replicas = place(request_for(created.config, cluster), candidates)
    return [_assigned(created, replicas, answer)]


def decide_adopt(
    assignments: Assignments, found: Iterable[StreamCreated], server: str
) -> tuple[list[MetaRecord], list[StreamCreated]]:
    """The assignments of streams that a server brings along, and those whose names are taken.

    A stream that is assigned already, or was unassigned, is in neither.
    """
    records, refused = list[MetaRecord](), list[StreamCreated]()
    taken = {(stream.account, stream.name): stream for stream in assignments.foreseen_streams()}
    adopted: set[tuple[str, str]] = set()
    for created in found:
        key = created.account, created.name
        there = taken.get(key)
        if there is not None and there.incarnation == created.incarnation:
            continue
        if assignments.was_unassigned(created.incarnation):
            continue
        if there is not None or key in adopted:
            refused.append(created)
            continue
        adopted.add(key)
        records.append(_assigned(created, (server,), None))
    return records, refused


def _assigned(
    created: StreamCreated, replicas: tuple[str, ...], answer: AnswerTo | None
) -> StreamAssigned:
    return StreamAssigned(
        created.account,
        created.name,
        created.incarnation,
        created.config,
        created.created_ns,
        replicas,
        answer,
    )


def decide_delete(
    assignments: Assignments,
    account: str,
    name: str,
    answer: AnswerTo | None = None,
    incarnation: bytes | None = None,
) -> list[MetaRecord]:
    """The deletion of a stream, or of the one incarnation of it. Raises ApiError if it is gone."""
    there = _existing(assignments, account, name)
    if incarnation is not None and there.incarnation != incarnation:
        raise ApiError.of(error_codes.STREAM_NOT_FOUND)
    return [StreamUnassigned(account, name, there.incarnation, answer)]


def decide_update(
    assignments: Assignments,
    account: str,
    config: StreamConfig,
    candidates: Candidates,
    answer: AnswerTo | None = None,
    leader: str = "",
) -> list[MetaRecord]:
    """A new configuration, with the servers that it asks for: an update, a scale or a move.

    `leader` is the server that leads the stream, if it is known: a stream that is scaled down stays
    with it. Raises ApiError.
    """
    there = _existing(assignments, account, config.name)
    if not any(candidates.is_online(server) for server in there.servers):
        raise ApiError.of(error_codes.STREAM_OFFLINE)
    is_move = config.placement is not None and config.placement != there.config.placement
    is_scale = config.num_replicas != there.config.num_replicas
    if is_move and is_scale:
        raise ApiError.of(error_codes.STREAM_MOVE_AND_SCALE)
    records: list[MetaRecord] = []
    if is_move:
        _check_no_change(there)
        records += _moved(there, config, candidates)
    else:
        _check_room(there, config, candidates)
    if is_scale:
        if there.change is not None and there.change.is_move:
            raise ApiError.of(error_codes.STREAM_MOVE_IN_PROGRESS)
        records += _scaled(there, config, candidates, leader)
    # Behind the change, which notes the configuration that was there before.
    records.append(StreamUpdated(account, config.name, there.incarnation, config, answer))
    return records


def _existing(assignments: Assignments, account: str, name: str) -> StreamAssignment:
    there = assignments.foreseen(account, name)
    if there is None:
        raise ApiError.of(error_codes.STREAM_NOT_FOUND)
    return there


def _check_no_change(there: StreamAssignment) -> None:
    """Raises ApiError if the servers of a stream are changing."""
    if there.change is not None:
        is_move = there.change.is_move
        raise ApiError.of(
            error_codes.STREAM_MOVE_IN_PROGRESS
            if is_move
            else error_codes.STREAM_RECONFIGURE_IN_PROGRESS
        )


def _added_bytes(there: StreamAssignment, config: StreamConfig) -> int:
    """The bytes that each server of a stream has to reserve for another configuration of it."""
    return max(config.max_bytes, 0) - max(there.config.max_bytes, 0)


def _check_room(there: StreamAssignment, config: StreamConfig, candidates: Candidates) -> None:
    """Raises ApiError if the limit of a stream grows beyond the room of a server that has it.

    The error is that of nats-server, which looks at the room of the deciding server alone.
    """
    added_bytes, storage = _added_bytes(there, config), config.storage
    for server in candidates.servers:
        if server.name in there.target and not server.can_reserve(storage, added_bytes):
            raise ApiError.of(exceeded(storage))


def _cluster_of(there: StreamAssignment, candidates: Candidates) -> str:
    """The cluster of the servers that hold a stream."""
    return next((each.cluster for each in candidates.servers if each.name in there.servers), "")


def _change(
    there: StreamAssignment,
    target: tuple[str, ...],
    cause: ReplicaCause,
    removed: tuple[str, ...] = (),
    answer: AnswerTo | None = None,
) -> ReplicasChanged:
    return ReplicasChanged(
        there.account, there.name, there.incarnation, target, cause, removed, answer
    )


def _moved(
    there: StreamAssignment, config: StreamConfig, candidates: Candidates
) -> list[MetaRecord]:
    request = request_for(config, _cluster_of(there, candidates))._replace(
        holders=there.replicas, bytes_added=_added_bytes(there, config)
    )
    target = place(request, candidates)
    return [] if {*target} == {*there.replicas} else [_change(there, target, ReplicaCause.MOVE)]


def _scaled(
    there: StreamAssignment, config: StreamConfig, candidates: Candidates, leader: str
) -> list[MetaRecord]:
    current = there.target
    if config.num_replicas > len(current):
        request = request_for(config, _cluster_of(there, candidates))
        target = place(request._replace(kept=current), candidates)
    else:
        by_use = sorted(
            current, key=lambda server: (server != leader, not candidates.is_online(server))
        )
        target = tuple(by_use[: config.num_replicas])
    return [] if {*target} == {*current} else [_change(there, target, ReplicaCause.SCALE)]


def decide_move(
    assignments: Assignments,
    account: str,
    name: str,
    candidates: Candidates,
    server: str = "",
    tags: tuple[str, ...] = (),
    answer: AnswerTo | None = None,
) -> list[MetaRecord]:
    """The move of one replica from a server, or from the first one. Raises ApiError.

    The replica goes to a server that has `tags` beside those of the stream.
    """
    there = _existing(assignments, account, name)
    current, replicas = there.target, max(there.config.num_replicas, 1)
    if server:
        if all(each.name != server for each in candidates.servers):
            raise ApiError.of(error_codes.CLUSTER_SERVER_NOT_MEMBER)
        if server not in current:
            raise ApiError.of(error_codes.CLUSTER_PEER_NOT_MEMBER)
        current = (server, *(each for each in current if each != server))
    request = request_for(there.config, _cluster_of(there, candidates))
    request = request._replace(
        replicas=replicas + 1, kept=current, given_up=1, tags=request.tags + tags
    )
    target = place(request, candidates)[-replicas:]
    _check_no_change(there)
    return [
        _change(there, target, ReplicaCause.MOVE),
        # The leader of the stream answers, as if its configuration had changed.
        StreamUpdated(account, name, there.incarnation, there.config, answer),
    ]


def decide_cancel_move(
    assignments: Assignments, account: str, name: str, answer: AnswerTo | None = None
) -> list[MetaRecord]:
    """The way back to the servers before a move or a scale. Raises ApiError if there is none."""
    there = _existing(assignments, account, name)
    origin = None if there.change is None else there.change.origin
    if there.change is None or origin is None:
        raise ApiError.of(error_codes.STREAM_RECONFIGURE_NOT_IN_PROGRESS)
    cause = ReplicaCause.MOVE if there.change.is_move else ReplicaCause.SCALE
    before = origin.config
    config = replace(there.config, num_replicas=before.num_replicas, placement=before.placement)
    return [
        _change(there, origin.replicas, cause),
        StreamUpdated(account, name, there.incarnation, config, answer),
    ]


def decide_peer_remove(
    assignments: Assignments,
    account: str,
    name: str,
    server: str,
    candidates: Candidates,
    answer: AnswerTo | None = None,
) -> list[MetaRecord]:
    """The replacement of a server of a stream by another one. Raises ApiError.

    An online server stays until the others have caught up: evacuation and removal are one.
    """
    there = _existing(assignments, account, name)
    return [_peer_removed(there, server, candidates, answer)]


def _peer_removed(
    there: StreamAssignment, server: str, candidates: Candidates, answer: AnswerTo | None = None
) -> ReplicasChanged:
    if server not in there.servers:
        raise ApiError.of(error_codes.CLUSTER_PEER_NOT_MEMBER)
    retained = tuple(each for each in there.target if each != server)
    is_gone = not candidates.is_online(server)
    if is_gone and {*there.servers} == {server}:
        # The messages are on that server alone.
        raise ApiError.of(error_codes.PEER_REMAP)
    request = request_for(there.config, _cluster_of(there, candidates), len(there.target))
    try:
        target = place(request._replace(kept=retained, ignored=(server,)), candidates)
    except ApiError as error:
        raise ApiError.of(error_codes.PEER_REMAP) from error
    if len(target) < there.config.num_replicas or (target == there.target and not is_gone):
        raise ApiError.of(error_codes.PEER_REMAP)
    removed = (server,) if is_gone else ()
    return _change(there, target, ReplicaCause.REPAIR, removed, answer)


def decide_evacuate(
    assignments: Assignments,
    server: str,
    streams: Iterable[StreamAssignment],
    candidates: Candidates,
) -> list[MetaRecord]:
    """The replacement of a server in some streams, as far as others have room for them."""
    records: list[MetaRecord] = []
    for stream in streams:
        there = assignments.foreseen(stream.account, stream.name)
        if there is None:
            continue
        try:
            change = _peer_removed(there, server, candidates)
        except ApiError:
            # The stream stays where it is.
            continue
        records.append(change)
        candidates = _after_change(candidates, there, change)
    return records


def decide_settle(
    assignments: Assignments,
    account: str,
    name: str,
    incarnation: bytes,
    members: Sequence[str],
) -> list[MetaRecord]:
    """The end of a change, which the leader of a stream reports: its group has these members.

    Returns no record if they are not the servers that the stream is to have.
    """
    there = assignments.foreseen(account, name)
    if there is None or there.incarnation != incarnation or there.change is None:
        return []
    if {*there.target} != {*members}:
        return []
    return [ReplicasSettled(account, name, incarnation, there.target)]


# --- servers -----------------------------------------------------------------------------------


def decide_describe(assignments: Assignments, described: ServerDescribed) -> list[MetaRecord]:
    """The description of a server, if it is news."""
    is_known = assignments.foreseen_servers().get(described.name) == described
    return [] if is_known else [described]


def decide_server_remove(
    assignments: Assignments, server: str, answer: AnswerTo | None = None
) -> list[MetaRecord]:
    """The removal of a server from the cluster. Raises ApiError if it is not a member.

    `decide_repairs` replaces it in its streams afterwards.
    """
    if server not in assignments.foreseen_servers():
        raise ApiError.of(error_codes.CLUSTER_SERVER_NOT_MEMBER)
    return [ServerRemoved(server, answer)]


def decide_repairs(assignments: Assignments, candidates: Candidates) -> list[MetaRecord]:
    """Replacements for removed servers, and replicas that streams lack, as far as there is room.

    Returns no records if nothing can be repaired. The meta leader asks after each removal and each
    new server, and when it begins to lead, until there are none.
    """
    servers = assignments.foreseen_servers()
    records: list[MetaRecord] = []
    for there in assignments.foreseen_streams():
        repaired = _repaired(there, servers, candidates)
        if repaired is not None:
            records.append(repaired)
            candidates = _after_change(candidates, there, repaired)
            if len(records) == STREAMS_MAX:
                break
    return records


def _repaired(
    there: StreamAssignment, servers: Mapping[str, ServerDescribed], candidates: Candidates
) -> ReplicasChanged | None:
    gone = tuple(server for server in there.servers if server not in servers)
    wanted = max(there.config.num_replicas, len(there.target))
    is_short = len(there.target) < wanted
    if not gone and not is_short:
        return None
    retained = tuple(server for server in there.target if server in servers)
    if len(gone) == len(there.servers):
        return None
    target = _widest(there, retained, wanted, candidates)
    if not target:
        # The stream stays with the servers that a move was to leave.
        target = tuple(server for server in there.replicas if server in servers)
    if not target or (not gone and target == there.target):
        return None
    return _change(there, target, ReplicaCause.REPAIR, gone)


def _widest(
    there: StreamAssignment, retained: tuple[str, ...], wanted: int, candidates: Candidates
) -> tuple[str, ...]:
    """The most replicas, up to `wanted`, that the servers have room for."""
    for replicas in range(wanted, len(retained), -1):
        request = request_for(there.config, _cluster_of(there, candidates), replicas)
        try:
            return place(request._replace(kept=retained, holders=there.servers), candidates)
        except ApiError:
            continue
    return retained
