"""Groups in which those who remember are no quorum: nobody is elected, so nobody is readmitted.

A member that may have forgotten waits for a leader to bring it to the end of the log. The members
that remember elect that leader, if they are a quorum. If they are not, because half of the members
or more have forgotten, there is no leader to be had. Servers tell each other in which groups they
have forgotten. When those who remember have been no quorum for a while, in which other members
could have come back, the members that have forgotten vote with what they have. The loss that is
possible then is reported (docs/consistency.md).

Why this is no looser than it has to be:

- While those who remember are a quorum, no member that has forgotten votes. Each committed entry is
  on a majority, and so is each vote that was ever counted: every quorum of those who remember has a
  member with the entry, and one with the vote.
- If they are no quorum, they alone elect nobody, now or later: each further election counts a vote
  of a member that has forgotten. Waiting longer saves no entry, unless a member that is away brings
  back what it remembers, and so does not count as one that has forgotten.
- Of an even number, exactly half may have forgotten. A majority is one more than that, so at least
  one member that remembers has each committed entry, and each election needs the vote of one that
  remembers, which goes to no shorter log than its own. Of two members the other one has everything:
  nothing is lost. Of four or more, the one that votes may be another than the one with the entry.
- A member that has forgotten votes again only while enough members are connected to elect a leader.
  Alone it would gain nothing, and count as one that remembers when the others come back: if one of
  them has forgotten by then, those two would take themselves for a quorum that remembers.
- A member that votes again is told to have forgotten until the group has a leader: the others must
  not take it for one that remembers, while they wait, and then wait for a leader for good.
- A leader that runs ahead stays in office without a quorum. Members that have forgotten confirm to
  it again by the rule by which they would vote for it.
- A joint membership decides by two majorities. Either half stops the group if those of it who
  remember are no quorum, so each half is counted by itself, and a member votes again for a half
  that it is in itself. The leader readmits the others.
"""

from collections.abc import Callable, Collection
from typing import final

from headwater.base.errors import PeerError
from headwater.raft import quorum
from headwater.raft.membership import Membership
from headwater.server.cluster.consensus.frames import GROUP_BYTES


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

    __slots__ = ("_name", "_own", "_peers", "_since_ns", "_wait_ns")

    def __init__(self, name: str, wait_ns: int) -> None:
        """`wait_ns` is the time that other members have to come back."""
        self._name = name
        self._wait_ns = wait_ns
        self._own: frozenset[bytes] = frozenset()
        self._peers: dict[str, frozenset[bytes]] = {}
        # The time since which those who remember are known to be no quorum, by group.
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
        self,
        membership_of: Callable[[bytes], Membership],
        is_present: Callable[[str], bool],
        now_ns: int,
    ) -> tuple[list[bytes], int | None]:
        """The groups in which this server votes again, and the time of the next ones or None.

        `membership_of` has the members of a group, or nobody if the group has a leader.
        `is_present` tells whether a server is this one, or is connected.
        """
        due: list[bytes] = []
        since_ns: dict[bytes, int] = {}
        for group in sorted(self._own):
            membership = membership_of(group)
            is_stopped = self._is_stopped(group, membership)
            if is_stopped and quorum.has_quorum(membership, is_present):
                since_ns[group] = self._since_ns.get(group, now_ns)
                if now_ns >= since_ns[group] + self._wait_ns:
                    due.append(group)
        self._since_ns = since_ns
        return due, min(since_ns.values()) + self._wait_ns if since_ns else None

    def _is_stopped(self, group: bytes, membership: Membership) -> bool:
        """Whether a group elects nobody without the vote of this server."""

        def has_forgotten(name: str) -> bool:
            return name == self._name or group in self._peers.get(name, frozenset())

        return quorum.needs_forgetful(membership, self._name, has_forgotten)
