"""Another server of the cluster: its channels, its interest, and the messages that wait for it.

    Peer ── Channel for messages ──▶ one write per turn
      └──── Channel for consensus ─▶ one write per turn

Must not know: other peers, and how a message is routed.
"""

from typing import Final, final

from headwater.server.cluster.channel import Channel
from headwater.wire.peer_frames import Kind, PeerMessages, encode_messages, frame
from headwater.wire.peer_info import Member, PeerInfo, Purpose

# A frame of messages is closed at this size, so that the other end need not hold more at a time.
FRAME_PAYLOAD_BYTES_MAX: Final = 1024 * 1024


@final
class PeerSubscription:
    """The interest of a peer in one pattern, as a member of an index of peers."""

    __slots__ = ("peer", "queue", "weight")

    def __init__(self, peer: "Peer", queue: bytes, weight: int) -> None:
        self.peer = peer
        self.queue = queue
        self.weight = weight


@final
class Peer:
    """One other server, from its first open channel on until its last one ends."""

    __slots__ = (
        "_account",
        "_messages",
        "announced",
        "channels",
        "echoed_mark",
        "homeless",
        "info",
        "is_welcome",
        "line",
        "members",
        "subscriptions",
    )

    def __init__(self, info: PeerInfo) -> None:
        self.info = info
        self.channels: dict[Purpose, Channel] = {}
        # Clients and other servers are told of the peer.
        self.is_welcome = True
        # The interest of the peer by account, pattern and queue group, as the peer told it: that in
        # accounts of this server, and that in others; and the part of the former that the
        # permissions of this server let through.
        self.announced: dict[tuple[str, bytes, bytes], int] = {}
        self.homeless: dict[tuple[str, bytes, bytes], int] = {}
        self.subscriptions: dict[tuple[str, bytes, bytes], PeerSubscription] = {}
        # The last mark of this server that the peer has echoed: all that it sends from then on, it
        # sends after this server was elected to what it led at the mark.
        self.echoed_mark = 0
        # The servers that the peer has links to.
        self.members: dict[str, Member] = {}
        # Messages of a peer do not overtake each other.
        self.line = b"peer " + info.server_id.encode()
        self._account = ""
        self._messages = PeerMessages()

    @property
    def server_id(self) -> str:
        """The id of the other server."""
        return self.info.server_id

    @property
    def name(self) -> str:
        """The name of the other server."""
        return self.info.server_name

    @property
    def messages_channel(self) -> Channel | None:
        """The channel for messages, while it is open."""
        return self.channels.get(Purpose.MESSAGES)

    @property
    def is_congested(self) -> bool:
        """Whether the peer does not read messages as fast as they come."""
        channel = self.channels.get(Purpose.MESSAGES)
        return channel is not None and channel.is_congested

    @property
    def unread_bytes(self) -> int:
        """Bytes of messages for the peer that the operating system has not taken yet."""
        channel = self.channels.get(Purpose.MESSAGES)
        return 0 if channel is None else channel.connection.buffered_bytes()

    def gathered(self, account: str) -> PeerMessages:
        """The messages of an account that wait for the end of the turn, for more of them."""
        messages = self._messages
        if account != self._account or messages.size > FRAME_PAYLOAD_BYTES_MAX:
            self.close_frame()
            self._account = account
            messages = self._messages
        return messages

    def close_frame(self) -> None:
        """Put the messages that wait into a frame."""
        messages = self._messages
        if not messages.subjects:
            return
        self._messages = PeerMessages()
        channel = self.channels.get(Purpose.MESSAGES)
        if channel is not None:
            channel.out_msgs += len(messages)
            channel.out_bytes += messages.size
            channel.out.append(encode_messages(self._account, messages))

    def forget_messages(self) -> None:
        """Drop the messages that wait: the channel for them has ended."""
        self._messages = PeerMessages()


def opaque(purpose: Purpose, payload: bytes) -> bytes:
    """The frame of a payload that only its sender and its receiver understand."""
    return frame(Kind.CONSENSUS if purpose is Purpose.CONSENSUS else Kind.CATCH_UP, payload)
