"""A server with streams in the simulated world, which comes back as it was configured."""

from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.lifecycle import Server
from headwater.testing import World, simulated_environment

SYNC_INTERVAL_S = 2.0
SYNC_S_MAX = 0.2
"""A slow disk, so that much is under way when it loses power."""


class StoredServer:
    """The server on the host of that name; `running` is the one of its present life."""

    running: Server

    async def start(self, world: World, sync_always: bool) -> None:
        """Begin the first life."""
        world.loop.executor_delay_s_max = SYNC_S_MAX
        host = world.host("server")
        options = Options(
            host="0.0.0.0",
            port=4222,
            ping_interval_s=1.0,
            jetstream=JetStreamOptions(
                enabled=True,
                store_dir="/data",
                sync_always=sync_always,
                sync_interval_s=SYNC_INTERVAL_S,
            ),
        )

        async def boot() -> None:
            environment = simulated_environment(world, host)
            self.running = Server(options, environment, lambda line: None)
            await self.running.start()

        host.boot = boot
        await host.run(boot())
