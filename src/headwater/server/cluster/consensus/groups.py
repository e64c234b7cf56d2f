"""All groups of a server: their messages, timers and writes, gathered over a turn.

The server has one heartbeat per pair of servers (`liveness`), one frame per peer and turn, and one
write per turn, however many groups there are. A group in which nothing happens costs nothing: its
member has no timer, and no turn looks at it.

The driver tells `Groups` of connections, frames, time and finished writes, and takes the work of a
turn with `take`:

    portion.disconnected     close these connections first: their servers were silent
    portion.roles            tell the state machines who leads
    portion.frames           send at once
    portion.snapshots        send the state of these groups, and behind it the message
    portion.committed        apply
    portion.writes           write in one piece, and sync it if `must_sync`
    groups.written(portion)  returns the frames that rest on the write; send them then

The state of a snapshot travels apart from the consensus connection, and so does its message: the
driver gives it to `install_snapshot` when the state has arrived.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import final

from headwater.base.invariants import check
from headwater.raft.entry import Entry
from headwater.raft.membership import UNKNOWN, Membership
from headwater.raft.messages import Digest, InstallSnapshot, Message
from headwater.raft.node import RaftNode
from headwater.raft.ready import Ready
from headwater.server.cluster.consensus.frames import (
    HEARTBEAT,
    MalformedFrame,
    decode_frame,
    encode_messages,
)
from headwater.server.cluster.consensus.liveness import Liveness, LivenessSettings
from headwater.server.cluster.consensus.senders import Senders

Frames = dict[str, list[bytes]]
"""Frames by the name of the server that they are for."""


@final
class Member:
    """This server's member of one group."""

    __slots__ = ("deadline_ns", "identity", "node", "role")

    def __init__(self, identity: bytes, node: RaftNode) -> None:
        self.identity = identity
        self.node = node
        # The leader, and the term in which this server leads and may serve, else 0; as they were
        # told last.
        self.role = "", 0
        # The time for which the member is in the heap of timers.
        self.deadline_ns: int | None = None


@dataclass(slots=True)
class Portion:
    """The work of one turn. The docstring of the module has the order in which it is done."""

    disconnected: list[str] = field(default_factory=list)
    roles: list[tuple[bytes, str, bool]] = field(default_factory=list)
    """Groups with another leader: its name, and whether this server leads and may serve."""
    frames: Frames = field(default_factory=dict)
    snapshots: list[tuple[bytes, InstallSnapshot]] = field(default_factory=list)
    committed: list[tuple[bytes, list[Entry]]] = field(default_factory=list)
    writes: list[tuple[bytes, Ready]] = field(default_factory=list)
    must_sync: bool = False
    replies: dict[str, list[tuple[bytes, Message]]] = field(default_factory=dict)
    """Messages that rest on the writes; `Groups.written` makes frames of them."""
    taken: list[tuple[Member, Ready]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.taken or self.frames or self.disconnected or self.roles)


@final
class Groups:
    """The members of all groups on one server."""

    __slots__ = (
        "_changed",
        "_disconnected",
        "_heap",
        "_is_retiring",
        "_liveness",
        "_members",
        "_memory_number",
        "_name",
        "_unwritten",
        "_voting_blindly",
        "contradicted",
        "forgotten",
        "lost_members",
        "meta",
        "senders",
        "unknown_messages",
    )

    def __init__(self, name: str, settings: LivenessSettings) -> None:
        fault = settings.fault()
        check(not fault, fault)
        self._name = name
        self._liveness = Liveness(settings)
        self._members: dict[bytes, Member] = {}
        # Members that may have work, in the order in which something happened to them.
        self._changed: dict[bytes, Member] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._disconnected: list[str] = []
        self._is_retiring = False
        # Portions that were taken before this server forgot make no promises any more.
        self._memory_number = 0
        self._unwritten: list[tuple[Portion, int]] = []
        self._voting_blindly: set[bytes] = set()
        self.forgotten: set[bytes] = set()
        """The groups in which this server neither votes nor confirms."""
        self.contradicted: dict[bytes, None] = {}
        """The groups whose leader lacks entries that are committed here."""
        self.meta: bytes | None = None
        """The group of all servers, once it is known."""
        self.lost_members: Callable[[bytes], Membership] = lambda _: UNKNOWN
        """Called for the members of a group of which this server has no entry."""
        self.senders = Senders()
        self.unknown_messages = 0
        """Messages for groups that this server has no member of, and of servers that are in none of
        theirs, for monitoring."""

    # --- groups ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._members)

    def node(self, identity: bytes) -> RaftNode | None:
        """The member of a group, to look at."""
        member = self._members.get(identity)
        return member.node if member else None

    def add(self, identity: bytes, node: RaftNode, now_ns: int) -> None:
        """Begin to take part in a group."""
        check(identity not in self._members, "a server is in a group once")
        member = Member(identity, node)
        self._members[identity] = member
        for peer in self._liveness.alive:
            self._meet(member, peer, now_ns)
        if self._is_retiring:
            node.retire(now_ns)
        self._changed[identity] = member

    def remove(self, identity: bytes, now_ns: int) -> None:
        """Cease to take part in a group. A leader resigns first: its server is heard further on."""
        member = self._members[identity]
        member.node.resign(now_ns)
        self._changed[identity] = member
        member.deadline_ns = None
        self.forgotten.discard(identity)
        del self._members[identity]

    def propose(self, identity: bytes, batch: list[bytes], now_ns: int) -> int | None:
        """Propose entries to a group that this server leads; see `RaftNode.propose`."""
        member = self._members[identity]
        self._changed[identity] = member
        return member.node.propose(batch, now_ns)

    def withdraw(self, identity: bytes, first: int, now_ns: int) -> bool:
        """Withdraw the entries of a group from an index on, if this server is in the group; see
        `RaftNode.withdraw`. Returns whether it did."""
        member = self._members.get(identity)
        if member is None:
            return False
        self._changed[identity] = member
        return member.node.withdraw(first, now_ns) is not None

    def propose_membership(self, identity: bytes, target: Membership, now_ns: int) -> int | None:
        """Propose other members to a group that this server leads."""
        member = self._members[identity]
        self._changed[identity] = member
        return member.node.propose_membership(target, now_ns)

    def membership_without_leader(self, identity: bytes) -> Membership:
        """The members that elect the leader of a group that has none; nobody for others.

        A member that has lost its log with its members takes them from elsewhere, if it can. The
        leader of a group that runs ahead may be in office without a quorum, and commit nothing: the
        members may have to confirm again what it sends, as they would vote for it.
        """
        node = self.node(identity)
        if node is None or node.may_vote or (node.leader and not node.runs_ahead):
            return UNKNOWN
        return self.lost_members(identity) if node.membership == UNKNOWN else node.membership

    def transfer_leadership(self, identity: bytes, to: str, now_ns: int) -> bool:
        """Begin to hand a group over. Returns whether that is possible now."""
        member = self._members[identity]
        self._changed[identity] = member
        return member.node.transfer_leadership(to, now_ns)

    def grant_leases(self, identity: bytes, lease_ns: int) -> None:
        """Have later entries of a group grant a lease; see `RaftNode.grant_leases`."""
        member = self._members.get(identity)
        if member is not None:
            member.node.grant_leases(lease_ns)

    def renew(self, identity: bytes, now_ns: int) -> None:
        """Renew the lease of a group that this server leads, if no entry does."""
        member = self._members.get(identity)
        if member is not None and member.node.renew(now_ns):
            self._changed[identity] = member

    def begin_read_round(self, identity: bytes) -> int | None:
        """Ask the quorum of a group whether this server leads it; see `RaftNode`."""
        member = self._members.get(identity)
        if member is None:
            return None
        self._changed[identity] = member
        return member.node.begin_read_round()

    def snapshot_failed(self, identity: bytes, peer: str) -> None:
        """Have a snapshot offered again that did not reach a follower."""
        member = self._members.get(identity)
        if member is not None:
            member.node.snapshot_failed(peer)
            self._changed[identity] = member

    def resume_voting(self, identity: bytes, now_ns: int) -> None:
        """Vote in a group with what this server has; see `RaftNode.resume_voting`."""
        member = self._members[identity]
        member.node.resume_voting(now_ns)
        self._changed[identity] = member
        self._voting_blindly.add(identity)

    @property
    def doubtful(self) -> set[bytes]:
        """The groups in which this server has forgotten, and those in which it votes again and is
        none that remembers: there is no leader yet, or it has not even the members, and cannot
        lead. Others that wait would take it for one that remembers, and wait for good."""
        self._voting_blindly = {
            identity
            for identity in self._voting_blindly
            if (node := self.node(identity)) is not None
            and (node.membership == UNKNOWN or not node.leader)
        }
        return self.forgotten | self._voting_blindly

    def step_down(self, now_ns: int) -> None:
        """Hand over all groups that this server leads, and lead them no more: it stops now."""
        for identity, member in self._members.items():
            if member.node.leader == self._name:
                member.node.step_down(now_ns)
                self._changed[identity] = member

    def resign_from(self, identity: bytes, now_ns: int) -> None:
        """Cease to lead a group, so that its members elect a leader again."""
        member = self._members.get(identity)
        if member is not None:
            member.node.resign(now_ns)
            self._changed[identity] = member

    def resign(self, now_ns: int) -> None:
        """Cease to lead any group, because the disk of this server has failed."""
        for identity, member in self._members.items():
            if member.node.leader == self._name:
                member.node.resign(now_ns)
                self._changed[identity] = member

    def retire(self, now_ns: int) -> None:
        """Hand every group over, and stand for election in none: this server is about to stop."""
        self._is_retiring = True
        for identity, member in self._members.items():
            member.node.retire(now_ns)
            self._changed[identity] = member

    def applied_to(self, identity: bytes, index: int) -> None:
        """Note that a group's state machine has applied all entries up to an index."""
        member = self._members.get(identity)
        if member is not None:
            node = member.node
            node.applied_to(index)
            if _served_term(node) != member.role[1]:
                self._changed[identity] = member

    def forget(self, now_ns: int) -> None:
        """Neither vote nor confirm in any group until its leader readmits this server.

        For a server that learns from another that its disk was rolled back.
        """
        self._memory_number += 1
        for identity, member in self._members.items():
            member.node.forget(now_ns)
            self._changed[identity] = member

    # --- servers --------------------------------------------------------------------------------

    def silence_ns(self, peer: str, now_ns: int) -> int:
        """The time since the last bytes of a server; 0 for one that is not alive."""
        return self._liveness.silence_ns(peer, now_ns)

    def connected(self, peer: str, now_ns: int) -> None:
        """Note a connection to a server, the first or a renewed one.

        Both ends send term and leader of all common groups over it, so that no silent group keeps a
        leader that has ceased to lead.
        """
        check(peer != self._name, "a server has no connection to itself")
        self._liveness.connected(peer, now_ns)
        for member in self._members.values():
            self._meet(member, peer, now_ns)

    def _meet(self, member: Member, peer: str, now_ns: int) -> None:
        node = member.node
        node.peer_alive(peer, now_ns)
        members = node.membership.members()
        # A member that has been told nothing does not know the others yet.
        if peer in members or not members:
            node.greet(peer)
            self._changed[member.identity] = member

    def disconnected(self, peer: str, now_ns: int) -> None:
        """Note that a connection was reset. The server is lost unless it is renewed soon."""
        self._liveness.disconnected(peer, now_ns)
        self.senders.lost(peer)

    def unreachable(self, peer: str, now_ns: int) -> None:
        """Note that a server refuses connections: it is lost at once, if it was alive."""
        if not self._liveness.is_connected(peer) and self._liveness.remove(peer):
            self._lose(peer, now_ns)

    def _lose(self, peer: str, now_ns: int) -> None:
        for identity, member in self._members.items():
            member.node.peer_lost(peer, now_ns)
            if member.node.deadline_ns is not None:
                self._changed[identity] = member

    def heard(self, peer: str, now_ns: int) -> None:
        """Note bytes of a server, which count for its liveness if it is connected."""
        if self._liveness.is_connected(peer):
            self._liveness.heard(peer, now_ns)

    def receive(self, peer: str, frame: bytes, now_ns: int) -> None:
        """Step the messages of a frame from a connected server. Raises PeerError.

        Messages before the one that is malformed are stepped. The driver closes the connection.
        """
        if not self._liveness.is_connected(peer):
            # The frame was read from a connection that is given up.
            return
        self._liveness.heard(peer, now_ns)
        for identity, message in decode_frame(frame, peer, self._name):
            if isinstance(message, InstallSnapshot):
                raise MalformedFrame("a snapshot came without its state")
            self._step(identity, message, now_ns)

    def install_snapshot(self, identity: bytes, message: InstallSnapshot, now_ns: int) -> None:
        """Step the message of a snapshot whose state has arrived."""
        if self._liveness.is_alive(message.sender):
            self._step(identity, message, now_ns)

    def _step(self, identity: bytes, message: Message, now_ns: int) -> None:
        member = self._members.get(identity)
        if member is None or not self.senders.accepts(member.node, self._meta_node, message):
            self.unknown_messages += 1
            return
        self._changed[identity] = member
        member.node.step(message, now_ns)
        if member.node.is_contradicted:
            self.contradicted[identity] = None

    @property
    def _meta_node(self) -> RaftNode | None:
        return None if self.meta is None else self.node(self.meta)

    def may_lead(self, identity: bytes, server: str) -> bool:
        """Whether another server may be the leader of a group that this one is in."""
        node = self.node(identity)
        return node is not None and self.senders.may_lead(node, self._meta_node, server)

    # --- time -----------------------------------------------------------------------------------

    @property
    def deadline_ns(self) -> int | None:
        """The time of the next tick that has something to do, or None."""
        heap = self._heap
        while heap and not self._is_due(*heap[0]):
            heappop(heap)
        deadline_ns = self._liveness.deadline_ns
        if heap and (deadline_ns is None or heap[0][0] < deadline_ns):
            return heap[0][0]
        return deadline_ns

    def _is_due(self, deadline_ns: int, identity: bytes) -> bool:
        member = self._members.get(identity)
        return member is not None and member.deadline_ns == deadline_ns

    def tick(self, now_ns: int) -> None:
        """Do the work that is due."""
        for peer in self._liveness.lost(now_ns):
            self._disconnected.append(peer)
            self._lose(peer, now_ns)
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            deadline_ns, identity = heappop(heap)
            if self._is_due(deadline_ns, identity):
                member = self._members[identity]
                member.deadline_ns = None
                member.node.tick(now_ns)
                self._changed[identity] = member

    def _plan(self, member: Member) -> None:
        """Keep the time of a member's next tick in the heap."""
        deadline_ns = member.node.deadline_ns
        if deadline_ns != member.deadline_ns:
            member.deadline_ns = deadline_ns
            if deadline_ns is not None:
                heappush(self._heap, (deadline_ns, member.identity))

    # --- work -----------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `take` has members to ask."""
        return bool(self._changed or self._disconnected)

    def take(self, now_ns: int) -> Portion | None:
        """The work of all groups in which something happened, or None.

        A member may have more work than one portion holds; `has_work` stays true then.
        """
        portion = Portion(disconnected=self._disconnected)
        self._disconnected = []
        messages: dict[str, list[tuple[bytes, Message]]] = {}
        changed, self._changed = self._changed, {}
        for identity, member in changed.items():
            ready = member.node.ready(now_ns)
            if ready is not None:
                self._add(portion, messages, member, ready)
            if self._members.get(identity) is member:
                if member.node.has_more:
                    self._changed[identity] = member
                _note_role(portion, member)
                self._plan(member)
                if member.node.may_vote:
                    self.forgotten.discard(identity)
                else:
                    self.forgotten.add(identity)
        portion.frames = self._frames(messages, now_ns)
        for peer in self._liveness.due(now_ns):
            portion.frames[peer] = [HEARTBEAT]
            self._liveness.sent(peer, now_ns)
        if not portion:
            return None
        self._unwritten.append((portion, self._memory_number))
        return portion

    def _add(
        self,
        portion: Portion,
        messages: dict[str, list[tuple[bytes, Message]]],
        member: Member,
        ready: Ready,
    ) -> None:
        identity = member.identity
        portion.taken.append((member, ready))
        for message in ready.messages:
            if isinstance(message, InstallSnapshot):
                portion.snapshots.append((identity, message))
            else:
                messages.setdefault(message.to, []).append((identity, message))
        for reply in ready.replies:
            portion.replies.setdefault(reply.to, []).append((identity, reply))
        if ready.committed:
            portion.committed.append((identity, ready.committed))
        if ready.has_write:
            portion.writes.append((identity, ready))
            portion.must_sync = portion.must_sync or ready.must_sync

    def written(self, portion: Portion, now_ns: int) -> Frames:
        """Note that the writes of a portion are done. Returns the frames that rest on them."""
        check(bool(self._unwritten), "a portion is written once")
        first, memory_number = self._unwritten.pop(0)
        check(first is portion, "portions are written in the order in which they were taken")
        for member, ready in portion.taken:
            if member.node.written(ready, now_ns) and (
                self._members.get(member.identity) is member
            ):
                self._changed[member.identity] = member
        replies = portion.replies
        if memory_number != self._memory_number:
            replies = {peer: _without_promises(sent) for peer, sent in replies.items()}
        return self._frames(replies, now_ns)

    def _frames(self, messages: dict[str, list[tuple[bytes, Message]]], now_ns: int) -> Frames:
        """Frames for the servers that are connected; messages to others are lost."""
        frames: Frames = {}
        for peer, addressed in messages.items():
            if addressed and self._liveness.is_connected(peer):
                frames[peer] = [*encode_messages(addressed)]
                self._liveness.sent(peer, now_ns)
        return frames


def _served_term(node: RaftNode) -> int:
    """The term in which this server leads and may serve, or 0."""
    return node.term if node.is_ready else 0


def _note_role(portion: Portion, member: Member) -> None:
    """Tell of a leader that has changed, and of each term in which this server serves."""
    node = member.node
    role = node.leader, _served_term(node)
    before, member.role = member.role, role
    if before != role:
        if before[1] and role[1]:
            portion.roles.append((member.identity, "", False))
        portion.roles.append((member.identity, role[0], role[1] > 0))


def _without_promises(replies: list[tuple[bytes, Message]]) -> list[tuple[bytes, Message]]:
    """The replies of a member that has forgotten: it says where it is, and promises nothing."""
    return [(identity, reply) for identity, reply in replies if isinstance(reply, Digest)]
