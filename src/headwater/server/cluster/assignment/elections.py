"""Announcements of elections: a new leader of a stream, of its consumers, or of the meta group, and
a leader that has resigned because its group has no quorum.

A consumer is led where its stream is, so an election of a stream is one of each of its consumers
that has several replicas. The server that was elected announces it.
"""

from typing import final

from headwater.jetstream.api.cluster_documents import (
    PeerInfo,
    consumer_replicas,
    describe_replica,
)
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.streams.stream import Stream
from headwater.raft.node import RaftNode
from headwater.raft.quorum import has_quorum
from headwater.server.cluster.assignment.group_states import GroupStates
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.core.accounts import Account
from headwater.server.log import Log
from headwater.server.streams.advisories import Advisories


@final
class Elections:
    """Announces the elections of the groups that this server is in."""

    __slots__ = ("_advisories", "_driver", "_groups", "_log", "_meta", "_name")

    def __init__(
        self,
        name: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        groups: GroupStates,
        advisories: Advisories,
        log: Log,
    ) -> None:
        self._name = name
        self._meta = meta
        self._driver = driver
        self._groups = groups
        self._advisories = advisories
        self._log = log

    def meta_led(self) -> None:
        """Announce that this server leads the meta group."""
        node = self._driver.meta
        if node is not None:
            self._advisories.meta_leader_elected(self._replicas(node))

    def stream_led(self, account: Account, stream: Stream) -> None:
        """Announce that this server leads a stream and its consumers."""
        node = self._node_of(account, stream.name)
        if node is None:
            return
        self._log.info(f"JetStream cluster new stream leader for '{account.name} > {stream.name}'")
        replicas = self._replicas(node)
        self._advisories.stream_leader_elected(account, stream.name, replicas)
        for consumer in _replicated(stream):
            self._advisories.consumer_leader_elected(account, consumer, replicas)

    def consumer_led(self, account: Account, consumer: Consumer) -> None:
        """Announce the first leader of a consumer with several replicas."""
        node = self._node_of(account, consumer.stream.name)
        if node is not None and _is_replicated(consumer):
            replicas = self._replicas(node)
            self._advisories.consumer_leader_elected(account, consumer, replicas)

    def stream_left(self, account: Account, stream: Stream) -> None:
        """Announce that a stream has no quorum, if this server has resigned for that reason."""
        node = self._node_of(account, stream.name)
        if node is None or has_quorum(node.membership, self._driver.is_alive):
            return
        self._log.warn(
            f"JetStream cluster stream '{account.name} > {stream.name}' has NO quorum, stalled"
        )
        replicas = self._replicas(node)
        self._advisories.stream_quorum_lost(account, stream.name, replicas)
        for consumer in _replicated(stream):
            self._advisories.consumer_quorum_lost(account, consumer, replicas)

    def server_removed(self, name: str) -> None:
        """Announce that a server was removed, if it is this one."""
        if name == self._name:
            self._log.error("This server was removed from the cluster")
            self._advisories.server_removed()

    def _node_of(self, account: Account, stream: str) -> RaftNode | None:
        there = self._meta.assignments.get(account.name, stream)
        return None if there is None else self._driver.node(there.incarnation)

    def _replicas(self, node: RaftNode) -> tuple[PeerInfo, ...]:
        """All servers of a group, this one too."""
        return tuple(describe_replica(each) for each in self._groups.replicas(node))


def _replicated(stream: Stream) -> list[Consumer]:
    return [each for each in stream.consumers.by_name.values() if _is_replicated(each)]


def _is_replicated(consumer: Consumer) -> bool:
    return consumer_replicas(consumer.stream.config, consumer.config) > 1
