"""The meta group on monitoring pages: its leader, its size, and the other servers.

Until the cluster is born there is no meta group.
"""

from typing import Final

from msgspec import UNSET, UnsetType

from headwater.jetstream.api.cluster_documents import peer_id
from headwater.raft.node import RaftNode
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import View

META_GROUP: Final = "_meta_"


class MetaReplica(View, kw_only=True):
    """Another server of the meta group, as this server sees it."""

    name: str
    current: bool
    offline: bool | UnsetType = UNSET
    active: int
    peer: str


class MetaCluster(View, kw_only=True):
    """The group of all servers that keep streams. Requests wait in no queue of their own."""

    name: str
    leader: str | UnsetType = UNSET
    peer: str | UnsetType = UNSET
    replicas: tuple[MetaReplica, ...] | UnsetType = UNSET
    cluster_size: int
    quorum_needed: int
    pending: int
    pending_requests: int
    pending_infos: int


def meta_cluster(facts: Facts) -> MetaCluster | UnsetType:
    """The meta group; unset on a server on its own, and before the cluster is born."""
    consensus = facts.get_consensus()
    if facts.cluster is None or consensus is None or consensus.meta is None:
        return UNSET
    meta = consensus.meta
    electors = meta.membership.electors()
    others = [name for name in meta.membership.members() if name != facts.name]
    return MetaCluster(
        name=facts.cluster.cluster_name,
        leader=meta.leader or UNSET,
        peer=peer_id(meta.leader) if meta.leader else UNSET,
        replicas=tuple(_meta_replica(consensus, meta, name) for name in others) or UNSET,
        cluster_size=len(electors),
        quorum_needed=len(electors) // 2 + 1,
        pending=meta.log.last_index - meta.log.commit,
        pending_requests=0,
        pending_infos=0,
    )


def meta_summary(facts: Facts) -> MetaCluster | UnsetType:
    """The meta group in STATSZ: a server that does not lead the group lists no other servers, and
    calls the group by its own name."""
    found = meta_cluster(facts)
    if found and found.leader != facts.name:
        found.name, found.replicas = META_GROUP, UNSET
    return found


def _meta_replica(consensus: ConsensusDriver, meta: RaftNode, name: str) -> MetaReplica:
    """A follower is as current as the leader knows; of the others only the leader is known.

    No follower is current while members change: until then decisions need the earlier members.
    """
    progress = meta.progress_of(name)
    is_current = progress.match >= meta.log.commit if progress else name == meta.leader
    is_current = is_current and meta.is_membership_settled
    silence_ns = consensus.silence_ns(name)
    return MetaReplica(
        name=name,
        current=is_current,
        offline=(not consensus.is_alive(name)) or UNSET,
        active=silence_ns,
        peer=peer_id(name),
    )
