"""A mirror and an aggregate of a stream under load, while servers are killed and paused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.robustness.cluster_load import STREAM, Document, Load, loaded
from tests.robustness.cluster_processes import ClusterProcesses, cluster_processes

# nats-py leaves the connection open that it gives up because a paused server does not greet it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

REPLICAS: Final = 3
MIRROR, AGGREGATE = "MIRROR", "AGGREGATE"
COPIES: Final[dict[str, Document]] = {
    MIRROR: {"mirror": {"name": STREAM}},
    AGGREGATE: {"sources": [{"name": STREAM}]},
}


@asynccontextmanager
async def copied(tmp_path: Path) -> AsyncIterator[tuple[ClusterProcesses, Load]]:
    """A cluster with clients at work, and copies of their stream."""
    async with (
        cluster_processes(tmp_path, REPLICAS) as cluster,
        loaded(cluster.urls, REPLICAS) as load,
    ):
        for name, config in COPIES.items():
            body = {"name": name, "num_replicas": REPLICAS, "allow_direct": True, **config}
            await load.insist_on(f"STREAM.CREATE.{name}", body)
        await load.is_whole(REPLICAS)
        await load.goes_on()
        yield cluster, load


async def _fail(cluster: ClusterProcesses, load: Load) -> None:
    """A kill and a pause of the leader of the stream, and the comparison of the copies."""
    leader = await load.leader()
    await cluster.kill(leader)
    await load.goes_on()
    await cluster.launch(leader)
    await load.is_whole(REPLICAS)
    leader = await load.leader()
    cluster.pause(leader)
    await load.goes_on()
    cluster.resume(leader)
    await load.goes_on()
    await load.finish(REPLICAS)
    origin = load.history.replicas[0].messages
    last = max(origin)
    bodies = {sequence: stored.body for sequence, stored in origin.items()}
    assert await load.read(MIRROR, last) == bodies
    assert await load.read(AGGREGATE, last) == bodies


def test_copies_are_what_their_origin_says_after_a_kill_and_a_pause(tmp_path: Path) -> None:
    async def story() -> None:
        async with copied(tmp_path) as (cluster, load):
            await _fail(cluster, load)

    asyncio.run(story())
