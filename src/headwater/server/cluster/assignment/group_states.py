"""The groups of streams as replies describe them: leader, replicas, and how far each of them is."""

from collections.abc import Callable, Mapping
from typing import final

from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.cluster_documents import (
    GroupState,
    ReplicaState,
)
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.raft.node import RaftNode
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver


@final
class GroupStates:
    """The groups of the streams that this server holds.

    `leader_of` tells the leader of a stream, `led_since` the time since which this server leads
    the group of an incarnation, and `system_account` the name of the account of the traffic between
    servers.
    """

    __slots__ = (
        "_accounts",
        "_cluster",
        "_driver",
        "_leader_of",
        "_led_since",
        "_meta",
        "_system_account",
    )

    def __init__(
        self,
        cluster: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        leader_of: Callable[[StreamAssignment], str],
        led_since: Callable[[bytes], int],
        accounts: Mapping[str, JetStreamAccount],
        system_account: Callable[[], str],
    ) -> None:
        self._accounts = accounts
        self._system_account = system_account
        self._cluster = cluster
        self._meta = meta
        self._driver = driver
        self._leader_of = leader_of
        self._led_since = led_since

    def find(self, account: str, stream: str) -> GroupState | None:
        """The group of a stream; None if no assignment mentions the stream."""
        there = self._meta.assignments.get(account, stream)
        if there is None:
            return None
        leader, node = self._leader_of(there), self._driver.node(there.incarnation)
        replicas = () if node is None else self.replicas(node, leader)
        since_ns = self._led_since(there.incarnation)
        home = self._accounts.get(account)
        is_own = home is not None and home.limits.owns_traffic
        return GroupState(
            self._cluster,
            leader,
            there.incarnation,
            since_ns,
            replicas,
            account if is_own else self._system_account(),
            not is_own,
        )

    def find_here(self, account: str, stream: str) -> GroupState | None:
        """The group of a stream as this server sees it: its replicas are all other servers, and
        this one too while the group has no leader."""
        found = self.find(account, stream)
        node = None if found is None else self._driver.node(found.incarnation)
        if found is None or node is None:
            return found
        replicas = self.replicas(node, node.name if found.leader else "")
        return found._replace(replicas=replicas)

    def replicas(self, node: RaftNode, without: str = "") -> tuple[ReplicaState, ...]:
        """The members of a group but one, in the order of their names."""
        members = sorted(node.membership.members())
        return tuple(self._replica(node, each) for each in members if each != without)

    def _replica(self, node: RaftNode, server: str) -> ReplicaState:
        progress = node.progress_of(server)
        lag = 0 if progress is None else max(node.log.commit - progress.match, 0)
        return ReplicaState(
            server,
            self._driver.is_alive(server),
            self._driver.silence_ns(server),
            lag,
            progress is not None or server in (node.name, node.leader),
        )

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._cluster
