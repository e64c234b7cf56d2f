"""Comparison of the replicas of a stream, by the digests that each of them forms.

    follower: digest ─▶ some seconds ─▶ DIGESTS ─▶ leader: equal to its own ─▶ nothing
                                                     └─▶ differs ─▶ log ─▶ verdict
    verdict   most replicas are as the leader        ─▶ REFILL to the one that differs
              most replicas are as one that differs  ─▶ the leader hands over to it
              all have told, and none are most       ─▶ REFILL: clients know the leader's state

A leader that has handed over is compared by the next one, which has it filled again. Nobody is
filled before enough replicas have told: the one that differs may be the only other one there.
"""

from collections.abc import Mapping
from typing import Final, Protocol, final

from headwater.jetstream.streams.digests import Digest
from headwater.raft.node import RaftNode
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.digest_frames import (
    decode_digests,
    decode_order,
    encode_digests,
    encode_order,
)
from headwater.server.cluster.consensus.notices import DIGESTS, REFILL
from headwater.server.log import Log
from headwater.server.streams.replica import StreamReplica

# Digests that are formed within this time travel in one notice.
PAUSE_S: Final = 2.0


class Consensus(Protocol):
    """The consensus of a server, as far as the comparison uses it."""

    def node(self, identity: bytes) -> RaftNode | None:
        """This server's member of a group."""
        ...

    def tell(self, peer: str, kind: bytes, notice: bytes) -> None:
        """Send a notice to a server."""
        ...

    def transfer(self, identity: bytes, to: str) -> bool:
        """Hand a group over to a member."""
        ...

    def refill(self, identity: bytes, reason: str) -> None:
        """Have the state of a group replaced by that of its leader."""
        ...


@final
class _Heard:
    """The digests that the other members of one group have told."""

    __slots__ = ("digests", "filled_behind", "reported")

    def __init__(self) -> None:
        self.digests: dict[str, dict[int, Digest]] = {}
        # The servers that were reported, and are not filled again.
        self.reported: set[str] = set()
        # Digests that begin before these entries are of states that were replaced.
        self.filled_behind: dict[str, int] = {}

    def note(self, peer: str, digests: list[Digest]) -> None:
        """Keep what a server has told last."""
        behind = self.filled_behind.get(peer, 0)
        self.digests[peer] = {each.entry: each for each in digests if each.since >= behind}

    def replaced(self, peer: str, applied: int) -> None:
        """Note that a server is filled with the state behind an entry, or a later one."""
        self.filled_behind[peer] = applied
        self.reported.discard(peer)
        self.digests.pop(peer, None)


def most_common(votes: Mapping[str, Digest], voters: int) -> Digest | None:
    """The digest that a majority of the voters have."""
    values = list(votes.values())
    for each in values:
        if 2 * values.count(each) > voters:
            return each
    return None


@final
class ReplicaComparison:
    """The comparison of all replicas of a server with those of others."""

    __slots__ = (
        "_consensus",
        "_heard",
        "_is_stopped",
        "_log",
        "_name",
        "_replicas",
        "_scheduler",
        "_timer",
        "_untold",
    )

    def __init__(
        self,
        name: str,
        consensus: Consensus,
        replicas: Mapping[bytes, StreamReplica],
        scheduler: Scheduler,
        log: Log,
    ) -> None:
        """`replicas` are those of this server, by incarnation."""
        self._name = name
        self._consensus = consensus
        self._replicas = replicas
        self._scheduler = scheduler
        self._log = log
        self._heard: dict[bytes, _Heard] = {}
        # Groups whose digests are to be told or compared.
        self._untold: dict[bytes, None] = {}
        self._timer: TimerHandle | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Tell and compare nothing any more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- telling -------------------------------------------------------------------------------

    def note(self, replica: StreamReplica) -> None:
        """Tell or compare the digests of a replica: there is a new one, or another leader."""
        digests = replica.stream.digests
        if replica.leader not in ("", self._name):
            # Replicas may be filled again by order of the leader there is.
            self._heard.pop(replica.identity, None)
        if digests is None or not digests.kept or self._is_stopped:
            return
        self._untold[replica.identity] = None
        if self._timer is None:
            self._timer = self._scheduler.call_later(PAUSE_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        untold, self._untold = self._untold, {}
        for identity in untold:
            replica = self._replicas.get(identity)
            if replica is None:
                continue
            kept = self._kept(replica)
            if replica.is_leading:
                self.compare(replica)
            elif kept and replica.leader:
                notice = encode_digests(identity, kept)
                self._consensus.tell(replica.leader, DIGESTS, notice)
        for identity in [each for each in self._heard if each not in self._replicas]:
            del self._heard[identity]

    def _kept(self, replica: StreamReplica) -> list[Digest]:
        digests = replica.stream.digests
        return [] if digests is None else [*digests.kept]

    def told(self, peer: str, body: bytes) -> None:
        """Compare the digests of a follower. Raises PeerError for malformed ones."""
        identity, digests = decode_digests(body)
        replica, node = self._replicas.get(identity), self._consensus.node(identity)
        if replica is None or node is None or not node.membership.is_voter(peer):
            return
        self._heard.setdefault(identity, _Heard()).note(peer, digests)
        if replica.is_leading:
            self.compare(replica)

    # --- the verdict ---------------------------------------------------------------------------

    def compare(self, replica: StreamReplica) -> None:
        """Compare all that is known of the replicas of a stream that this server leads."""
        heard, node = self._heard.get(replica.identity), self._consensus.node(replica.identity)
        if heard is None or node is None or node.membership.is_joint:
            return
        voters = node.membership.voters
        for own in self._kept(replica):
            votes = {self._name: own}
            for peer in voters:
                there = heard.digests.get(peer, {}).get(own.entry)
                if there is not None and own.is_comparable(there):
                    votes[peer] = there
            differing = [peer for peer, there in votes.items() if there != own]
            for peer in differing:
                self._report(replica, heard, peer, own, votes[peer])
            if differing:
                self._judge(replica, heard, own, votes, differing, len(voters))

    def _report(
        self, replica: StreamReplica, heard: _Heard, peer: str, own: Digest, there: Digest
    ) -> None:
        """Log that a replica differs, once until it is filled again."""
        if peer not in heard.reported:
            heard.reported.add(peer)
            self._log.error(
                f"{_named(replica)}: the replica of server {peer!r} differs from that of "
                f"server {self._name!r}, its leader, at entry {own.entry}: "
                + ", ".join(there.differences(own))
            )

    def _judge(
        self,
        replica: StreamReplica,
        heard: _Heard,
        own: Digest,
        votes: dict[str, Digest],
        differing: list[str],
        voters: int,
    ) -> None:
        """Have replicas that differ filled again, or hand over if it is this one."""
        most = most_common(votes, voters)
        if most is not None and most != own:
            self._hand_over(replica, heard, [peer for peer in differing if votes[peer] == most])
        elif most is not None or len(votes) == voters:
            # Those who are left are a majority, so that the stream goes on meanwhile.
            for peer in differing[: max((voters - 1) // 2, 1)]:
                heard.replaced(peer, replica.applied_index)
                order = encode_order(replica.identity, own.entry)
                self._consensus.tell(peer, REFILL, order)

    def _hand_over(self, replica: StreamReplica, heard: _Heard, successors: list[str]) -> None:
        if self._name not in heard.reported:
            heard.reported.add(self._name)
            self._log.error(
                f"{_named(replica)}: most of its replicas differ from that of server "
                f"{self._name!r}, its leader, which hands over to server {successors[0]!r}"
            )
        self._consensus.transfer(replica.identity, successors[0])

    def ordered(self, peer: str, body: bytes) -> None:
        """Give up a replica that differs, as its leader has found. Raises PeerError for a malformed
        order."""
        identity, entry = decode_order(body)
        replica = self._replicas.get(identity)
        if replica is None or replica.is_leading or replica.leader != peer:
            return
        if any(each.entry == entry for each in self._kept(replica)):
            self._consensus.refill(
                identity,
                f"the replica of {_named(replica)} differs from that of its leader {peer!r} at "
                f"entry {entry}",
            )


def _named(replica: StreamReplica) -> str:
    return f"Stream '{replica.account} > {replica.stream.name}'"
