"""The health of a server's groups: the meta group, and those of the streams that it holds.

A problem is a text, in nats-server's words, that is empty if all is well. A member is well if it
leads, or if it has applied everything that it knows to be committed. A group without a leader is no
problem of its members: nats-server does not count it as one.
"""

from headwater.raft.node import RaftNode
from headwater.server.monitoring.facts import Facts


def meta_problem(facts: Facts) -> str:
    """The problem of this server with the meta group."""
    streams, consensus = facts.get_cluster_streams(), facts.get_consensus()
    node = None if consensus is None else consensus.meta
    if streams is not None and node is not None:
        if streams.meta.applied_index < streams.meta.replays_to:
            return "JetStream is still recovering meta layer"
        if node.leader:
            return "" if _is_well(node) else "JetStream is not current with the meta leader"
    return "JetStream has not established contact with a meta leader"


def assigned_streams(facts: Facts, account: str) -> list[tuple[str, str]]:
    """Account and name of the streams that this server has to hold, of one account or of all."""
    streams = facts.get_cluster_streams()
    if streams is None:
        return []
    held = streams.meta.assignments.held_by(facts.name)
    return [(each.account, each.name) for each in held if account in ("", each.account)]


def is_assigned_elsewhere(facts: Facts, account: str) -> bool:
    """Whether an account has streams that other servers hold."""
    streams = facts.get_cluster_streams()
    return streams is not None and bool(streams.meta.assignments.streams_of(account))


def group_problem(facts: Facts, account: str, name: str) -> str:
    """The problem of a stream that is assigned to this server, as far as its group is concerned."""
    streams, hosted, consensus = facts.get_cluster_streams(), facts.streams, facts.get_consensus()
    there = None if streams is None else streams.meta.assignments.get(account, name)
    if there is None or hosted is None or consensus is None:
        return ""
    home = hosted.accounts.get(account)
    stream = None if home is None else home.streams.get(name)
    node = consensus.node(there.incarnation)
    if stream is None:
        # While a replica is filled again, no client sees it.
        return "stream catching up" if node is not None else "stream not found"
    if there.config.num_replicas <= 1:
        return ""
    if node is None:
        return "group node missing"
    return "" if _is_well(node) else "group node unhealthy"


def _is_well(node: RaftNode) -> bool:
    if node.leader == node.name:
        return True
    return node.may_vote and 0 < node.log.commit == node.log.applied
