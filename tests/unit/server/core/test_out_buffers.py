"""The bytes that wait for clients: who is behind with reading them."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.server.configuration.options import Options
from headwater.server.core.out_buffers import UNREAD_PART, OutBuffers
from tests.kit.world import World

MAX_PENDING = 4000

# The peer stops or starts reading, or gets bytes.
STEPS = st.lists(st.one_of(st.booleans(), st.integers(1, MAX_PENDING // 3)), max_size=12)


@given(steps=STEPS, looks=st.booleans())
def test_a_client_is_behind_exactly_while_it_has_not_read_much_of_its_bytes(
    steps: list[bool | int], looks: bool
) -> None:
    peer = World().modern()
    client, connection = peer.client, peer.connection
    buffers = OutBuffers(MAX_PENDING, lambda client: None, lambda: None)
    for step in steps:
        if isinstance(step, bool):
            if step:
                connection.start_reading()
            else:
                connection.stop_reading()
        else:
            client.out.append(bytes(step))
            buffers.touch(client)
            buffers.flush()
        is_behind = connection.buffered_bytes() > MAX_PENDING // UNREAD_PART
        assert is_behind <= bool(buffers.behind)
        if looks:
            assert buffers.is_behind(client) == is_behind


def test_a_client_that_is_gone_is_not_kept() -> None:
    world = World(Options(max_pending=MAX_PENDING))
    peer = world.modern()
    peer.connection.stop_reading()
    buffers = world.node.broker.buffers
    peer.client.out.append(bytes(MAX_PENDING // 2))
    buffers.touch(peer.client)
    buffers.flush()
    assert buffers.behind == {peer.client}
    peer.connection.leave()
    world.settle()
    assert not buffers.behind
