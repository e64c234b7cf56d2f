"""Groups of which a majority has forgotten: nobody may vote, so nobody can readmit anybody.

A member that may have forgotten waits for a leader to bring it to the end of the log. If a majority
of the members waits so, there is no leader to be had. Servers tell each other in which groups they
have forgotten. When that has been a majority for a while, in which the other members could have
come back, its members vote with what they have. Committed entries that only the forgotten part held
are lost then, and the loss is reported (CONSISTENCY.md, section 1).
"""

from collections.abc import Callable, Collection
from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.base.errors import PeerError
from headwater.server.cluster.consensus.frames import GROUP_BYTES

WAIT_NS: Final = 10 * NS_PER_S
"""The time that other members have to come back."""


class MalformedDoubts(PeerError):
    """Bytes that are no list of groups."""


def encode_doubts(groups: Collection[bytes]) -> bytes:
    """The groups in which a server has forgotten, as they travel."""
    return b"".join(sorted(groups))


def decode_doubts(data: bytes) -> frozenset[bytes]:
    """The groups of `encode_doubts`. Raises MalformedDoubts."""
    if len(data) % GROUP_BYTES:
        raise MalformedDoubts("a list of groups ends within a group")
    return frozenset(data[at : at + GROUP_BYTES] for at in range(0, len(data), GROUP_BYTES))


@final
class Doubts:
    """The groups in which this server and others have forgotten."""

    __slots__ = ("_name", "_own", "_peers", "_since_ns")

    def __init__(self, name: str) -> None:
        self._name = name
        self._own: frozenset[bytes] = frozenset()
        self._peers: dict[str, frozenset[bytes]] = {}
        # The time since which a majority is known to have forgotten, by group.
        self._since_ns: dict[bytes, int] = {}

    @property
    def own(self) -> frozenset[bytes]:
        """The groups in which this server has forgotten."""
        return self._own

    def note_own(self, groups: Collection[bytes]) -> bool:
        """Note the groups in which this server has forgotten. Returns whether others must know."""
        if self._own == groups:
            return False
        self._own = frozenset(groups)
        return True

    def heard(self, peer: str, groups: frozenset[bytes]) -> None:
        """Note the groups in which a server says that it has forgotten."""
        self._peers[peer] = groups

    def lost(self, peer: str) -> None:
        """Note that a server is not connected any more."""
        self._peers.pop(peer, None)

    def due(
        self, electors_of: Callable[[bytes], tuple[str, ...]], now_ns: int
    ) -> tuple[list[bytes], int | None]:
        """The groups in which this server votes again, and the time of the next ones or None.

        `electors_of` has the voters of a group, or nobody if the group has a leader.
        """
        due: list[bytes] = []
        since_ns: dict[bytes, int] = {}
        for group in sorted(self._own):
            if self._is_majority(group, electors_of(group)):
                since_ns[group] = self._since_ns.get(group, now_ns)
                if now_ns >= since_ns[group] + WAIT_NS:
                    due.append(group)
        self._since_ns = since_ns
        return due, min(since_ns.values()) + WAIT_NS if since_ns else None

    def _is_majority(self, group: bytes, electors: tuple[str, ...]) -> bool:
        forgotten = sum(
            1
            for name in electors
            if name == self._name or group in self._peers.get(name, frozenset())
        )
        return 2 * forgotten > len(electors)
