"""Elections of a server on its own."""

from headwater.server.streams.election_listener import NoElections
from tests.kit.consumer_world import ConsumerWorld


def test_a_server_on_its_own_announces_no_election() -> None:
    world = ConsumerWorld().with_stream()
    host = world.node.jetstream
    assert host is not None
    assert isinstance(host.runners.elections, NoElections)
