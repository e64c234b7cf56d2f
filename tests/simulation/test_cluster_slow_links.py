"""Whole servers of a cluster whose links are so slow that one message takes longer than the silence
after which a server counts as lost."""

import asyncio
import json
from typing import Any

import nats
import pytest

from headwater.base.clock import NS_PER_S
from headwater.testing import World, seeds
from headwater.wire.peer_info import Purpose
from tests.simulation.agreement_scenario import NAMES, Agreeing

MESSAGE_BYTES = 1_000_000
LINK_BYTES_PER_S = 400_000
ANSWER_S_MAX = 30
SEEDS = 3


class SlowLinks(Agreeing):
    """One large message after another into a stream of three replicas; a small one beside each."""

    def __init__(self, messages: int) -> None:
        super().__init__()
        self.messages = messages
        self.acks: list[str] = []
        self.sent = 0
        """The bytes that were sent between servers for the messages."""

    async def run(self, world: World) -> None:
        """Streams that have leaders, slow links, messages; then the same leaders still."""
        await self.start_all(world)
        client = world.host("client")
        leader = await client.run(self._create())
        await asyncio.sleep(5)
        before, sent = self._terms(), self._sent()
        for one in NAMES:
            for other in NAMES:
                if one < other:
                    world.network.slow(one, other, bytes_per_s=LINK_BYTES_PER_S)
        await client.run(self._publish(leader))
        await asyncio.sleep(5)
        assert self._terms() == before
        self.sent = self._sent() - sent

    def _sent(self) -> int:
        """The bytes on all connections for consensus."""
        clusters = [server.node.cluster for server in self.servers.values()]
        return sum(
            peer.channels[Purpose.CONSENSUS].written_bytes
            for cluster in clusters
            if cluster is not None
            for peer in cluster.peers.values()
        )

    def _terms(self) -> dict[tuple[str, bytes], int]:
        """The terms of all groups on all servers."""
        terms = {}
        for name, server in self.servers.items():
            driver, jetstream = server.node.consensus, server.node.jetstream
            assert driver is not None
            assert jetstream is not None
            for identity in jetstream.store.groups.identities():
                node = driver.node(identity)
                assert node is not None
                terms[name, identity] = node.term
        return terms

    async def _create(self) -> str:
        """Create the streams. Returns the leader of the one that gets large messages."""
        connection = await nats.connect(f"nats://{NAMES[0]}:4222")
        leaders = []
        for stream in ("LARGE", "SMALL"):
            config = {
                "name": stream,
                "subjects": [stream],
                "num_replicas": len(NAMES),
                "ack_timeout": ANSWER_S_MAX * NS_PER_S,
            }
            reply = await connection.request(
                f"$JS.API.STREAM.CREATE.{stream}", json.dumps(config).encode(), timeout=10
            )
            leaders.append(json.loads(reply.data)["cluster"]["leader"])
        await connection.close()
        return str(leaders[0])

    async def _publish(self, leader: str) -> None:
        connection = await nats.connect(f"nats://{leader}:4222")

        async def ack(stream: str, body: bytes) -> None:
            reply = await connection.request(stream, body, timeout=ANSWER_S_MAX)
            document: dict[str, Any] = json.loads(reply.data)
            assert "error" not in document, document
            self.acks.append(document["stream"])

        await asyncio.gather(
            *(
                ack(stream, body)
                for _ in range(self.messages)
                for stream, body in (("LARGE", bytes(MESSAGE_BYTES)), ("SMALL", b"x"))
            )
        )
        await connection.close()


@pytest.mark.parametrize("messages", [1, 8])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_message_that_takes_long_to_pass_costs_no_election(seed: int, messages: int) -> None:
    story = SlowLinks(messages)
    World(seed, virtual_s_max=300.0).run(story.run)
    # Each message crosses each link once, however long its answer takes.
    bodies = messages * MESSAGE_BYTES * (len(NAMES) - 1)
    assert bodies < story.sent < bodies + MESSAGE_BYTES // 2
    assert sorted(story.acks) == ["LARGE"] * messages + ["SMALL"] * messages
