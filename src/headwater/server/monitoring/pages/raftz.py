"""/raftz: the consensus groups of a server, by account and name.

The meta group is in the system account. A consumer is in the log of its stream, so its group shows
the state of the stream's group. Queues between threads are always empty: there are none.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType

from headwater.go.durations import format_duration
from headwater.go.times import ZERO_TIME_TEXT
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.cluster_documents import (
    consumer_group_name,
    consumer_replicas,
    peer_id,
    stream_group_name,
)
from headwater.raft.node import RaftNode
from headwater.raft.role import RoleName
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import View, timestamp
from headwater.server.monitoring.pages.meta_group import META_GROUP
from headwater.server.streams.facts import StreamFacts

_STATES: Final = {
    RoleName.FOLLOWER: "FOLLOWER",
    RoleName.PRE_CANDIDATE: "CANDIDATE",
    RoleName.CANDIDATE: "CANDIDATE",
    RoleName.LEADER: "LEADER",
}


class RaftzOptions(View, kw_only=True):
    """The account of the groups, the system account if it is empty, and the name of one group."""

    account: str = ""
    group: str = ""


class LogState(View, kw_only=True, omit_defaults=False):
    """The entries of a group's log. Their times are not kept."""

    messages: int
    bytes: int
    first_seq: int
    first_ts: str = ZERO_TIME_TEXT
    last_seq: int
    last_ts: str = ZERO_TIME_TEXT
    consumer_count: int = 0


class GroupPeer(View, kw_only=True):
    """Another server of a group. Only the leader knows how far it is."""

    name: str
    known: bool
    last_replicated_index: int = 0
    last_seen: str = ""


class RaftGroup(View, kw_only=True, omit_defaults=False):
    """This server's member of a group."""

    id: str
    state: str
    size: int
    quorum_needed: int
    observer: bool | UnsetType = UNSET
    committed: int
    applied: int
    leader: str | UnsetType = UNSET
    leader_since: str | UnsetType = UNSET
    ever_had_leader: bool
    term: int
    voted_for: str | UnsetType = UNSET
    pterm: int
    pindex: int
    system_account: bool
    traffic_account: str
    ipq_proposal_len: int = 0
    ipq_entry_len: int = 0
    ipq_resp_len: int = 0
    ipq_apply_len: int = 0
    wal: LogState
    peers: dict[str, GroupPeer]


class _Found(NamedTuple):
    """A group of this server. `led_since_ns` is 0 if the server does not lead it."""

    name: str
    identity: bytes
    node: RaftNode
    led_since_ns: int
    traffic_account: str
    is_system_traffic: bool = True


Raftz = dict[str, dict[str, RaftGroup]]


def raftz(facts: Facts, options: RaftzOptions) -> Raftz | None:
    """The groups of an account; None if no account is named and there is no system account."""
    system = facts.accounts.system
    if not options.account and system is None:
        return None
    wanted = options.account or ("" if system is None else system.name)
    consensus, streams = facts.get_consensus(), facts.streams
    if consensus is None or streams is None:
        return {}
    groups = {
        found.name: _described(consensus, streams, found)
        for found in _groups(facts, consensus, wanted)
        if options.group in ("", found.name)
    }
    return {wanted: groups} if groups else {}


def _groups(facts: Facts, consensus: ConsensusDriver, account: str) -> Iterator[_Found]:
    system, birth, meta = facts.accounts.system, consensus.birth, consensus.meta
    if system is not None and system.name == account and birth is not None and meta is not None:
        yield _Found(META_GROUP, birth.identity, meta, 0, system.name)
    streams = facts.streams
    home = None if streams is None else streams.accounts.get(account)
    if home is not None:
        yield from _stream_groups(facts, consensus, home)


def _stream_groups(
    facts: Facts, consensus: ConsensusDriver, account: JetStreamAccount
) -> Iterator[_Found]:
    for stream in account.streams.values():
        group = facts.find_group(account.name, stream.name)
        node = None if group is None else consensus.node(group.incarnation)
        if group is None or node is None:
            continue
        config, identity, since_ns = stream.config, group.incarnation, group.leader_since_ns
        traffic = group.traffic_account, group.is_system_traffic
        yield _Found(stream_group_name(identity, config), identity, node, since_ns, *traffic)
        for consumer in stream.consumers.by_name.values():
            if consumer_replicas(config, consumer.config) > 1:
                name = consumer_group_name(identity, config, consumer.name, consumer.config)
                yield _Found(name, identity, node, since_ns, *traffic)


def _described(consensus: ConsensusDriver, streams: StreamFacts, found: _Found) -> RaftGroup:
    node, log = found.node, found.node.log
    electors, members = node.membership.electors(), node.membership.members()
    return RaftGroup(
        id=peer_id(node.name),
        state=_STATES[node.role],
        size=len(members),
        quorum_needed=len(electors) // 2 + 1,
        observer=(node.name not in electors) or UNSET,
        committed=log.commit,
        applied=log.applied,
        leader=peer_id(node.leader) if node.leader else UNSET,
        leader_since=timestamp(found.led_since_ns) if found.led_since_ns else UNSET,
        ever_had_leader=bool(node.leader) or log.last_term > 0,
        term=node.term,
        voted_for=peer_id(node.vote) if node.vote else UNSET,
        pterm=log.last_term,
        pindex=log.last_index,
        system_account=found.is_system_traffic,
        traffic_account=found.traffic_account,
        wal=_log_state(node, streams.group_bytes(found.identity)),
        peers={
            peer_id(name): _peer(consensus, node, name)
            for name in sorted(members)
            if name != node.name
        },
    )


def _log_state(node: RaftNode, written_bytes: int) -> LogState:
    first, last = node.log.snapshot.index + 1, node.log.last_index
    return LogState(messages=last + 1 - first, bytes=written_bytes, first_seq=first, last_seq=last)


def _peer(consensus: ConsensusDriver, node: RaftNode, name: str) -> GroupPeer:
    progress = node.progress_of(name)
    silence_ns = consensus.silence_ns(name)
    return GroupPeer(
        name=name,
        known=name in node.membership.electors(),
        last_replicated_index=0 if progress is None else progress.match,
        last_seen=format_duration(silence_ns) if silence_ns else "",
    )
