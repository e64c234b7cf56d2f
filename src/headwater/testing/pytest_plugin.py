"""pytest fixtures for programs that talk to a server. They come with the package.

async def test_orders(headwater_jetstream):
    client = await nats.connect(headwater_jetstream.url)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
"""

from collections.abc import Iterator

import pytest

from headwater.server.embedded import EmbeddedServer


@pytest.fixture
def headwater_server() -> Iterator[EmbeddedServer]:
    """A server for this test alone, on a free loopback port."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def headwater_jetstream() -> Iterator[EmbeddedServer]:
    """A server with streams, for this test alone, on a free loopback port."""
    with EmbeddedServer(jetstream=True) as server:
        yield server
