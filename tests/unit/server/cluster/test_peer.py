"""The messages that wait for a peer until the end of a turn."""

from headwater.server.cluster.channel import Channel
from headwater.server.cluster.handshake import Credentials, Handshake
from headwater.server.cluster.peer import FRAME_PAYLOAD_BYTES_MAX, Peer, opaque
from headwater.server.core.own_subscriptions import ServerConnection
from headwater.wire.peer_frames import Kind, PeerDecoder, decode_messages
from headwater.wire.peer_info import PeerInfo, Purpose


def peer() -> tuple[Peer, Channel]:
    info = PeerInfo(server_id="N", server_name="s")
    other = Peer(info)
    channel = Channel(1, ServerConnection(), Handshake(info, Credentials()), None)
    other.channels[Purpose.MESSAGES] = channel
    return other, channel


def accounts_in(channel: Channel) -> list[tuple[str, int]]:
    decoder = PeerDecoder()
    decoder.feed(b"".join(channel.out))
    found = [decode_messages(body) for _, body in decoder.frames()]
    return [(account, len(messages)) for account, messages in found]


def test_messages_of_one_account_share_a_frame() -> None:
    other, channel = peer()
    for account in ("A", "A", "B", "A"):
        other.gathered(account).add(b"a", None, -1, b"x")
    other.close_frame()
    other.close_frame()
    assert accounts_in(channel) == [("A", 2), ("B", 1), ("A", 1)]
    assert (channel.out_msgs, channel.out_bytes) == (4, 4)


def test_a_frame_is_closed_when_it_is_large() -> None:
    other, channel = peer()
    for _ in range(3):
        other.gathered("A").add(b"a", None, -1, bytes(FRAME_PAYLOAD_BYTES_MAX + 1))
    other.close_frame()
    assert accounts_in(channel) == [("A", 1)] * 3


def test_messages_for_a_peer_that_is_gone_are_dropped() -> None:
    other, channel = peer()
    other.gathered("A").add(b"a", None, -1, b"x")
    other.forget_messages()
    other.close_frame()
    assert channel.out == []


def test_opaque_payloads_have_a_kind_for_each_channel() -> None:
    decoder = PeerDecoder()
    decoder.feed(opaque(Purpose.CONSENSUS, b"x") + opaque(Purpose.MESSAGES, b"y"))
    assert decoder.frames() == [(Kind.CONSENSUS, b"x"), (Kind.CATCH_UP, b"y")]
