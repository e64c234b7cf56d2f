"""Simulated servers have shadows, which find a record that is not the whole change."""

from headwater.testing import World
from tests.kit.shadow_faults import FAULT, faults_without_a_field
from tests.simulation.core_scenario import connected
from tests.simulation.stored_server import StoredServer


async def remove_a_message(world: World) -> None:
    """Have a server remove a message."""
    await StoredServer().start(world, sync_always=True)
    client = await connected()
    await client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
    for _ in range(2):
        await client.request("s", b"x")
    await client.request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq":1}')
    await client.close()


def test_a_field_that_is_not_in_the_bytes_of_a_record_is_found() -> None:
    assert FAULT in faults_without_a_field(lambda: World(1).run(remove_a_message))
