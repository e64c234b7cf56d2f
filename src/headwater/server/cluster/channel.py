"""One connection to another server: its socket, its handshake, and the bytes that wait for it.

A link between two servers has two channels, one for consensus and one for messages and catch-up: a
heartbeat must not wait behind megabytes of payload. The bytes of a turn are gathered in `out` and
written at once at the end of the turn.
"""

from typing import final

from headwater.runtime.environment import TimerHandle
from headwater.server.cluster.handshake import Handshake
from headwater.server.cluster.targets import Target
from headwater.server.core.client import Connection, Liveness, Timers
from headwater.wire.peer_frames import PeerDecoder
from headwater.wire.peer_info import Purpose


@final
class Channel:
    """One connection to another server, from its first byte on."""

    __slots__ = (
        "challenge",
        "close_reason",
        "connection",
        "decoder",
        "handshake",
        "in_bytes",
        "in_msgs",
        "is_congested",
        "is_dirty",
        "liveness",
        "out",
        "out_bytes",
        "out_msgs",
        "peer_id",
        "rid",
        "target",
        "timers",
        "written_bytes",
    )

    def __init__(
        self, rid: int, connection: Connection, handshake: Handshake, target: Target | None
    ) -> None:
        self.rid = rid
        self.connection = connection
        self.handshake = handshake
        # The address that was dialled; None for a connection that was accepted.
        self.target = target
        self.decoder = PeerDecoder()
        self.liveness = Liveness()
        self.timers = Timers()
        # Runs while the peer has to prove that it is there.
        self.challenge: TimerHandle | None = None
        # The server at the other end, once the channel is open.
        self.peer_id = ""
        self.out: list[bytes] = []
        self.written_bytes = 0
        self.is_dirty = False
        # More is queued than the peer reads: publishers to it are held back.
        self.is_congested = False
        self.close_reason = ""
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0

    @property
    def purpose(self) -> Purpose:
        """The traffic that the channel is for."""
        return self.handshake.purpose

    @property
    def label(self) -> str:
        """The channel in the log."""
        return f"{self.connection.peer_host}:{self.connection.peer_port} - rid:{self.rid}"

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Messages and bytes that came, and those that went."""
        return self.in_msgs, self.in_bytes, self.out_msgs, self.out_bytes

    @property
    def taken_bytes(self) -> int:
        """The bytes for the peer that the operating system has taken."""
        return self.written_bytes - self.connection.buffered_bytes()

    def cancel_timers(self) -> None:
        """The channel has ended."""
        self.timers.cancel_all()
        self.cancel_challenge()

    def cancel_challenge(self) -> None:
        """The peer is there."""
        if self.challenge is not None:
            self.challenge.cancel()
            self.challenge = None
