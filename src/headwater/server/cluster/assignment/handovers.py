"""Leaders that step down: a client of the API asks for it, and may name the next one."""

from collections.abc import Callable
from typing import final

from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Placement
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.placement import Candidates, choose_leader
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver


@final
class Handovers:
    """Hands groups over that this server leads. Both operations raise ApiError."""

    __slots__ = ("_candidates", "_driver", "_meta", "_name")

    def __init__(
        self,
        name: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        candidates: Callable[[], Candidates],
    ) -> None:
        self._name = name
        self._candidates = candidates
        self._meta = meta
        self._driver = driver

    def hand_over_stream(self, account: str, stream: str, placement: Placement | None) -> None:
        """Have another server lead a stream, one that the placement allows."""
        there = self._meta.assignments.get(account, stream)
        node = None if there is None else self._driver.node(there.incarnation)
        if there is not None and node is not None:
            to = self._choose(placement, node.membership.voters)
            self._check(to, self._driver.transfer(there.incarnation, to))

    def hand_over_meta(self, placement: Placement | None) -> None:
        """Have another server lead the meta group, one that the placement allows."""
        meta = self._driver.meta
        if meta is not None:
            to = self._choose(placement, meta.membership.voters)
            self._check(to, self._driver.transfer_meta(to))

    def _choose(self, placement: Placement | None, members: tuple[str, ...]) -> str:
        """The member that a placement names; no name lets the group choose."""
        servers = self._candidates()
        there = [each for each in servers.servers if each.name in members]
        return choose_leader(placement, self._name, servers._replace(servers=there)) or ""

    def _check(self, server: str, is_begun: bool) -> None:
        if not is_begun:
            reason = "no other voter is connected"
            if server:
                reason = f"server {server} cannot lead now: it is not connected, or no voter"
            raise ApiError.of(error_codes.RAFT_GENERAL, err=reason)
