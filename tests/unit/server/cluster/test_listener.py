"""A server without replicated streams hears its peers, and drops what they tell it."""

from headwater.wire.peer_frames import CLIENT_BYTES_MAX
from tests.kit.cluster_world import ClusterWorld


def test_a_server_that_agrees_on_nothing_drops_payloads_and_stays_connected() -> None:
    world = ClusterWorld()
    world.start_all(2)
    two = world.cluster_of("s2")
    two.send_consensus("s1", b"vote")
    two.send_catch_up("s1", b"segment")
    assert two.forward("s1", "$G", b"$JS.API.INFO", None, -1, b"", b"")
    world.settle()
    assert world.is_whole()
    world.cut("s1", "s2")
    world.heal("s1", "s2")
    world.advance(5)
    assert world.is_whole()


class Requests:
    """A listener that answers every request with the place that it came from."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        self._node = world.nodes[name]
        self.heard: list[tuple[object, ...]] = []

    def forwarded(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> None:
        self.heard.append((peer, account, subject, reply, header_size, payload, client))
        home = self._node.accounts.get(account)
        if home is not None and reply is not None:
            self._node.broker.send(home, reply, None, b"for " + peer.encode())


class TestForwardedRequests:
    def test_are_heard_as_they_were_sent(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        requests = world.cluster_of("s1").request_listener = Requests(world, "s1")
        asked = ("$G", b"$JS.API.INFO", b"r", 2, b"\r\nbody", b'{"id":7}')
        assert world.cluster_of("s2").forward("s1", *asked)
        world.settle()
        assert requests.heard == [("s2", *asked)]

    def test_are_answered_to_a_client_that_subscribed_in_the_same_turn(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        world.cluster_of("s1").request_listener = Requests(world, "s1")
        client = world.client("s2")
        client.push(b"SUB r 1\r\n")
        assert world.cluster_of("s2").forward("s1", "$G", b"q", b"r", -1, b"", b"")
        world.settle()
        assert client.take() == b"MSG r 1 6\r\nfor s2\r\n"

    def test_come_behind_the_messages_that_were_published_before(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        requests = world.cluster_of("s1").request_listener = Requests(world, "s1")
        listener = world.client("s1")
        listener.send(b"SUB a 1\r\n")
        world.client("s2").push(b"PUB a r 1\r\nx\r\n")
        listener.take()
        world.cluster_of("s2").forward("s1", "$G", b"q", b"a", -1, b"", b"")
        world.settle()
        assert requests.heard
        assert listener.take() == b"MSG a 1 r 1\r\nx\r\nMSG a 1 6\r\nfor s2\r\n"

    def test_need_a_link(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        world.cut("s1", "s2")
        assert not world.cluster_of("s2").forward("s1", "$G", b"q", None, -1, b"", b"")
        assert not world.cluster_of("s2").forward("nobody", "$G", b"q", None, -1, b"", b"")

    def test_go_without_a_description_of_the_client_that_is_too_long(self) -> None:
        world = ClusterWorld()
        world.start_all(2)
        requests = world.cluster_of("s1").request_listener = Requests(world, "s1")
        long = b"x" * (CLIENT_BYTES_MAX + 1)
        world.cluster_of("s2").forward("s1", "$G", b"q", None, -1, b"", long)
        world.settle()
        assert requests.heard == [("s2", "$G", b"q", None, -1, b"", b"")]
        assert world.is_whole()
