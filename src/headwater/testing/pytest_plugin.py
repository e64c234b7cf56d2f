"""pytest fixtures for programs that talk to a server. Installed with the package; nothing to import.

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
