"""A copy behind a slow link goes on all the time, and is complete as soon as the link allows."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest

from headwater.base.entropy import Entropy
from headwater.jetstream.consumers.push import FlowWindow
from headwater.jetstream.copying.patience import Patience
from headwater.server.cluster.channel import Channel
from headwater.server.cluster.cluster import Cluster as RouteCluster
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.configuration.options import Options
from headwater.testing import Cluster, World
from headwater.testing.loop import Runaway
from headwater.wire.peer_info import Purpose

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

POLL_S = 0.5
BYTES_PER_S = 40_000.0


@dataclass
class SlowLink:
    """One run: an origin on one server, and a copy of it behind a slow link."""

    messages: int
    size: int
    config: dict[str, Any]
    # The virtual seconds until the copy was complete, and its last sequence at each look.
    copied_s: float = 0.0

    async def run(self, world: World) -> None:
        """The whole story."""
        self.progress: list[int] = []
        cluster = Cluster(world, 2, configure=_configured)
        self.cluster = cluster
        await cluster.start()
        client = await cluster.connect(1)
        await self._create(client, "O", "s1", {"subjects": ["o.>"]})
        for number in range(self.messages):
            await client.publish(f"o.{number % 2}", b"x" * self.size)
        await client.flush()
        world.network.slow("s1", "s2", bytes_per_s=BYTES_PER_S)
        await self._create(client, "C", "s2", self.config)
        begin_s = world.loop.now_s()
        while not self.progress or self.progress[-1] < self.messages:
            await asyncio.sleep(POLL_S)
            self.progress.append(self._last("C"))
        self.copied_s = world.loop.now_s() - begin_s
        await client.close()

    async def _create(self, client: Any, name: str, server: str, config: dict[str, Any]) -> None:
        body = {"name": name, "placement": {"tags": [server]}, **config}
        request = json.dumps(body).encode()
        reply = await client.request(f"$JS.API.STREAM.CREATE.{name}", request, timeout=20)
        assert "error" not in json.loads(reply.data), reply.data

    def _last(self, name: str) -> int:
        return max((each.last_sequence for each in self.cluster.replicas(name)), default=0)


def _configured(options: Options) -> Options:
    # The servers ping as often as they do by default: a ping waits behind messages.
    return replace(options, server_tags=(options.server_name,), ping_interval_s=30.0)


COPIES: dict[str, dict[str, Any]] = {
    "mirror": {"mirror": {"name": "O"}},
    "source": {"sources": [{"name": "O"}]},
}
SMALL, LARGE = (1_000, 1_000), (5, 300_000)
# A copy learns within this time that its origin is not silent while a large message passes.
LEARNING_S = {SMALL: 3.0, LARGE: 35.0}
SIZES = {"small messages": SMALL, "large messages": LARGE}
# A copy that has not ended by then goes round in circles.
STUCK_S = 100.0


def copied(sizes: tuple[int, int], config: dict[str, Any]) -> SlowLink:
    """The run of a copy."""
    story = SlowLink(*sizes, config)
    World(1, virtual_s_max=STUCK_S).run(story.run)
    return story


@pytest.mark.parametrize("config", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_copy_behind_a_slow_link_is_complete_when_the_link_allows(
    sizes: tuple[int, int], config: dict[str, Any]
) -> None:
    story = copied(sizes, config)
    assert story.progress == sorted(story.progress)
    messages, size = sizes
    assert story.copied_s < 1.15 * messages * size / BYTES_PER_S + LEARNING_S[sizes]


# --- each defence switched off -----------------------------------------------------------------


def _windows_are_those_of_clients(patch: pytest.MonkeyPatch) -> None:
    begin = FlowWindow.__init__

    def begin_large(self: FlowWindow, prefix: bytes, entropy: Entropy, is_of_copy: bool) -> None:
        begin(self, prefix, entropy)

    patch.setattr(FlowWindow, "__init__", begin_large)


def _patience_is_not_learned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Patience, "not_heard", lambda self: None)


def _only_consensus_is_heard(patch: pytest.MonkeyPatch) -> None:
    receive, hear = RouteCluster.receive, ConsensusDriver.peer_heard
    purposes: list[Purpose] = []

    def receive_noted(self: RouteCluster, channel: Channel, data: bytes) -> None:
        purposes.append(channel.purpose)
        receive(self, channel, data)
        purposes.pop()

    def hear_some(self: ConsensusDriver, peer: str) -> None:
        if purposes[-1] is Purpose.CONSENSUS:
            hear(self, peer)

    patch.setattr(RouteCluster, "receive", receive_noted)
    patch.setattr(ConsensusDriver, "peer_heard", hear_some)


DEFENCES: dict[str, tuple[Plant, tuple[int, int]]] = {
    "bytes of messages are heard": (_only_consensus_is_heard, SMALL),
    "windows of copies": (_windows_are_those_of_clients, SMALL),
    "patience": (_patience_is_not_learned, LARGE),
}


@pytest.mark.parametrize(("plant", "sizes"), DEFENCES.values(), ids=DEFENCES)
def test_without_a_defence_a_copy_behind_a_slow_link_is_late_or_never_ends(
    plant: Plant, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    messages, size = sizes
    try:
        story = copied(sizes, COPIES["mirror"])
    except Runaway:
        return
    assert story.copied_s > 1.15 * messages * size / BYTES_PER_S + LEARNING_S[sizes]
