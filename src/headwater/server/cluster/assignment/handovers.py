"""Leaders that step down: a client of the API asks for it, and may name the next one."""

from collections.abc import Iterable
from typing import final

from headwater.jetstream import error_codes
from headwater.jetstream.api.clustering import GroupServer, choose_successor
from headwater.jetstream.config.stream_config import Placement
from headwater.jetstream.errors import ApiError
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver


@final
class Handovers:
    """Hands groups over that this server leads. Both operations raise ApiError."""

    __slots__ = ("_driver", "_meta", "_name")

    def __init__(self, name: str, meta: MetaMachine, driver: ConsensusDriver) -> None:
        self._name = name
        self._meta = meta
        self._driver = driver

    def hand_over_stream(self, account: str, stream: str, placement: Placement | None) -> None:
        """Have another server lead a stream, one that the placement allows."""
        there = self._meta.assignments.get(account, stream)
        node = None if there is None else self._driver.node(there.incarnation)
        if there is not None and node is not None:
            to = choose_successor(placement, self._name, self._servers(node.membership.voters))
            self._check(to, self._driver.transfer(there.incarnation, to))

    def hand_over_meta(self, placement: Placement | None) -> None:
        """Have another server lead the meta group, one that the placement allows."""
        meta = self._driver.meta
        if meta is not None:
            to = choose_successor(placement, self._name, self._servers(meta.membership.voters))
            self._check(to, self._driver.transfer_meta(to))

    def _servers(self, names: Iterable[str]) -> list[GroupServer]:
        known = self._meta.assignments.servers
        found = []
        for name in names:
            described = known.get(name)
            cluster, tags = ("", ()) if described is None else (described.cluster, described.tags)
            found.append(GroupServer(name, cluster, tags, self._driver.is_alive(name)))
        return found

    def _check(self, server: str, is_begun: bool) -> None:
        if not is_begun:
            reason = f"server {server} cannot lead now: it is not connected, or no voter"
            raise ApiError.of(error_codes.RAFT_GENERAL, err=reason)
