"""A server that stops while the disk is slow."""

import pytest

from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.lifecycle import Server
from headwater.testing import World, seeds, simulated_environment
from tests.simulation.core_scenario import connected

OPTIONS = Options(
    host="0.0.0.0",
    port=4222,
    jetstream=JetStreamOptions(enabled=True, store_dir="/data", sync_always=True),
)
SLOWEST_SYNC_S = 0.5


@pytest.mark.parametrize("seed", seeds(10))
def test_files_are_closed_when_nothing_is_under_way_in_them(seed: int) -> None:
    async def main(world: World) -> None:
        world.loop.executor_delay_s_max = SLOWEST_SYNC_S
        host = world.host("server")
        server = Server(OPTIONS, simulated_environment(world, host), lambda line: None)
        await host.run(server.start())
        client = await connected()
        await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
        await client.publish("s", b"x")
        await client.flush()
        jetstream = server.node.jetstream
        assert jetstream is not None
        assert jetstream.is_busy
        await host.run(server.stop())
        assert not jetstream.is_busy
        await client.close()

    World(seed).run(main)
