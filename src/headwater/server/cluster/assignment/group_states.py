"""The groups of streams as replies describe them: leader, replicas, and how far each of them is."""

from collections.abc import Callable
from typing import final

from headwater.jetstream.api.cluster_documents import GroupState, ReplicaState
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.raft.node import RaftNode
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver


@final
class GroupStates:
    """The groups of the streams that this server holds.

    `leader_of` tells the leader of a stream, `led_since` the time since which this server leads
    the group of an incarnation.
    """

    __slots__ = ("_cluster", "_driver", "_leader_of", "_led_since", "_meta")

    def __init__(
        self,
        cluster: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        leader_of: Callable[[StreamAssignment], str],
        led_since: Callable[[bytes], int],
    ) -> None:
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
        replicas: tuple[ReplicaState, ...] = ()
        if node is not None:
            members = node.membership.members()
            replicas = tuple(self._replica(node, each) for each in members if each != leader)
        since_ns = self._led_since(there.incarnation)
        return GroupState(self._cluster, leader, there.incarnation, since_ns, replicas)

    def _replica(self, node: RaftNode, server: str) -> ReplicaState:
        progress = node.progress_of(server)
        lag = 0 if progress is None else max(node.log.commit - progress.match, 0)
        return ReplicaState(
            server, self._driver.is_alive(server), self._driver.silence_ns(server), lag
        )
