"""pytest fixtures for programs that talk to a server. They come with the package.

async def test_orders(headwater_server):
    client = await nats.connect(headwater_server.url)
"""

from collections.abc import Iterator

import pytest

from headwater.server.embedded import EmbeddedServer


@pytest.fixture
def headwater_server() -> Iterator[EmbeddedServer]:
    """A server of this test's own, on a free loopback port."""
    with EmbeddedServer() as server:
        yield server
