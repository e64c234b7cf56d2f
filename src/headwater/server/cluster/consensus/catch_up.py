"""The snapshots of all groups on this server, between their machines and the links.

A leader whose core asks for a snapshot offers it; a follower opens a sink for it and steps the
message of the snapshot when its pieces have come.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from headwater.raft.messages import InstallSnapshot
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.consensus.frames import (
    Links,
    MalformedFrame,
    decode_frame,
    encode_messages,
)
from headwater.server.cluster.consensus.groups import Groups
from headwater.server.cluster.consensus.machine import (
    GroupMachine,
    SnapshotSink,
    SnapshotSource,
)
from headwater.server.cluster.consensus.transfers import (
    CHUNK,
    GOT,
    OFFER,
    REFUSED,
    WANTED,
    IncomingSnapshots,
    OutgoingSnapshots,
    decode_piece,
    take_piece,
)
from headwater.server.log import Log
from headwater.store.errors import StoreError

OFFER_AGAIN_S: Final = 0.5
"""A snapshot that a follower has not asked for by then is offered to it again."""

_KINDS: Final = (OFFER, WANTED, CHUNK, GOT, REFUSED)


@final
class CatchUp:
    """The snapshots that this server sends and receives."""

    __slots__ = (
        "_groups",
        "_incoming",
        "_links",
        "_log",
        "_machines",
        "_name",
        "_outgoing",
        "_plan_turn",
        "_scheduler",
        "complete",
    )

    def __init__(
        self,
        name: str,
        links: Links,
        groups: Groups,
        machines: Mapping[bytes, GroupMachine],
        scheduler: Scheduler,
        log: Log,
        plan_turn: Callable[[], object],
        outstanding_bytes_max: int,
    ) -> None:
        self._name = name
        self._links = links
        self._groups = groups
        self._machines = machines
        self._scheduler = scheduler
        self._log = log
        self._plan_turn = plan_turn
        self._incoming = IncomingSnapshots(links.send_catch_up, self._open_sink)
        self._outgoing = OutgoingSnapshots(
            links.send_catch_up,
            self._open_source,
            self._arrived,
            self._failed,
            outstanding_bytes_max,
        )
        # Groups whose snapshot has arrived as a whole in this turn.
        self.complete: set[bytes] = set()

    # --- a leader ------------------------------------------------------------------------------

    def send(self, identity: bytes, to: str) -> None:
        """Offer the state of a group to a follower, until it answers."""
        if identity in self._machines and self._outgoing.offer(identity, to):
            self._scheduler.call_later(OFFER_AGAIN_S, lambda: self._offer_again(identity, to))

    def _offer_again(self, identity: bytes, to: str) -> None:
        if (identity, to) in self._outgoing:
            self.send(identity, to)

    def _open_source(self, identity: bytes, held: bytes) -> SnapshotSource | None:
        machine = self._machines.get(identity)
        return None if machine is None else machine.open_snapshot(held)

    def _arrived(self, identity: bytes, peer: str, index: int) -> None:
        """Tell a follower, which has the whole state of a group, the place of the snapshot."""
        node = self._groups.node(identity)
        if node is not None and node.leader == self._name:
            message = InstallSnapshot(self._name, peer, node.term, node.snapshot_at(index))
            for frame in encode_messages([(identity, message)]):
                self._links.send_catch_up(peer, frame)

    def _failed(self, identity: bytes, peer: str, reason: str) -> None:
        self._log.warn(f"Snapshot of group {identity.hex()} for server {peer!r} failed: {reason}")
        self._groups.snapshot_failed(identity, peer)
        self._plan_turn()

    def resume_held(self) -> bool:
        """Go on with transfers that had to wait. Returns whether some have to wait further."""
        return self._outgoing.resume_held()

    def cease_to_send(self, identity: bytes) -> None:
        """Send nothing more of a group that this server does not lead any more."""
        self._outgoing.cancel_where(group=identity)

    # --- a follower ----------------------------------------------------------------------------

    def _open_sink(self, identity: bytes) -> SnapshotSink | None:
        machine, node = self._machines.get(identity), self._groups.node(identity)
        if machine is None or node is None:
            return None
        if node.leader == self._name:
            raise StoreError("this server leads the group, and learns by another message who does")
        return machine.open_sink()

    # --- both ----------------------------------------------------------------------------------

    def received(self, peer: str, payload: bytes, now_ns: int) -> bool:
        """Take a piece of a snapshot, or the message behind its last piece. Returns whether it is
        the message. Raises PeerError."""
        if payload[:1] in _KINDS:
            if payload[:1] == OFFER:
                group = decode_piece(payload)[0].group
                if not self._groups.may_lead(group, peer):
                    # It may not take the place of one that comes from the leader.
                    return False
            take_piece(self._incoming, self._outgoing, peer, payload)
            return False
        for identity, message in decode_frame(payload, peer, self._name):
            if not isinstance(message, InstallSnapshot):
                raise MalformedFrame("a message came on the connection for snapshots")
            if self._incoming.complete(identity, peer):
                self.complete.add(identity)
                self._groups.install_snapshot(identity, message, now_ns)
        return True

    def peer_left(self, peer: str) -> None:
        """Send nothing to a server that is lost, and expect nothing of it."""
        self._incoming.sender_left(peer)
        self._outgoing.cancel_where(to=peer)

    def remove_group(self, identity: bytes) -> None:
        """Neither send nor receive anything of a group."""
        self._incoming.discard(identity)
        self._outgoing.cancel_where(group=identity)
