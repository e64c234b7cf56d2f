"""A mirror with `max_staleness` does not answer behind a silence until it has caught up.

The link between the servers of an origin and its mirror is cut, and then slow, so that the mirror
takes its time for the messages that were published meanwhile. Nobody reads during the silence.
"""

import asyncio
import contextlib
import json
from dataclasses import replace

import nats
import pytest
from nats.aio.client import Client as NatsClient

from headwater.jetstream.copying.contact import Contact
from headwater.server.configuration.options import Options
from headwater.testing import Cluster, World

NS_PER_S = 1_000_000_000
MAX_STALENESS_S = 6
SILENCE_S = 20.0
BACKLOG = 2000
# Slow enough that the backlog takes several seconds.
BYTES_PER_S = 1_000_000
SIZE = 2000
READ_S = 0.2
FAILURES = (nats.errors.Error, OSError, TimeoutError)


class StaleRead(AssertionError):
    """A mirror has answered without what its origin had at the end of the silence."""


class Reading:
    """One run: the answers of the mirror, by the time after the link was healed."""

    def __init__(self) -> None:
        self.sequences: list[int] = []

    async def run(self, world: World) -> None:
        """The whole story."""
        cluster = Cluster(world, 3, configure=self._configure)
        await cluster.start()
        writer, reader = await cluster.connect(1), await cluster.connect(2)
        await self._create(writer, cluster)
        await self._publish(writer, 5)
        while 5 not in self.sequences:
            await self._read(reader)
        cluster.cut(1, 2)
        await asyncio.sleep(SILENCE_S)
        await self._publish(writer, BACKLOG)
        self.sequences.clear()
        world.network.slow("s1", "s2", bytes_per_s=BYTES_PER_S)
        cluster.heal()
        last = 5 + BACKLOG
        while last not in self.sequences:
            await self._read(reader)
        if {*self.sequences} != {last}:
            raise StaleRead(self.sequences)

    def _configure(self, options: Options) -> Options:
        return replace(options, server_tags=(options.server_name,))

    async def _create(self, client: NatsClient, cluster: Cluster) -> None:
        configs = (
            {"name": "O", "subjects": ["o"], "allow_direct": True},
            {
                "name": "M",
                "mirror": {"name": "O"},
                "mirror_direct": True,
                "max_staleness": MAX_STALENESS_S * NS_PER_S,
            },
        )
        for number, config in enumerate(configs, 1):
            tags = {"tags": [cluster.names[number - 1]]}
            body = json.dumps({**config, "placement": tags}).encode()
            reply = await client.request(f"$JS.API.STREAM.CREATE.{config['name']}", body, timeout=5)
            assert "error" not in json.loads(reply.data), reply.data

    async def _publish(self, client: NatsClient, count: int) -> None:
        for _ in range(count - 1):
            await client.publish("o", b"x" * SIZE)
        await client.request("o", b"x" * SIZE, timeout=5)

    async def _read(self, client: NatsClient) -> None:
        """Ask for the last message, and note its sequence if the mirror answers."""
        with contextlib.suppress(*FAILURES):
            reply = await client.request("$JS.API.DIRECT.GET.O.o", b"", timeout=READ_S)
            headers = reply.headers or {}
            if headers.get("Nats-Stream") == "M":
                self.sequences.append(int(headers["Nats-Sequence"]))
        await asyncio.sleep(READ_S)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mirror_answers_again_once_it_has_caught_up(seed: int) -> None:
    World(seed, virtual_s_max=300.0).run(Reading().run)


def test_a_silence_that_is_not_noted_lets_a_mirror_answer_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hear(self: Contact, now_ns: int) -> None:
        self._heard_ns = now_ns

    monkeypatch.setattr(Contact, "_hear", hear)
    with pytest.raises(StaleRead):
        World(1, virtual_s_max=300.0).run(Reading().run)
