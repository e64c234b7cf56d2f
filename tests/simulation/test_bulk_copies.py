"""A large origin crosses to a copy on another server in bulk: read by ranges, packed in frames."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.jetstream.consumers.position import Position
from headwater.server.configuration.options import Options
from headwater.store.log.message_log import MessageBatch
from headwater.testing import Cluster, World
from headwater.wire.peer_frames import PeerMessages, encode_messages

MESSAGES = 20_000
# The average number of messages in a range that the origin reads, and in a frame.
TOGETHER = 200


class Counted:
    """The numbers of messages in each range that an origin has read, and in each frame of peers."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ranges: list[int] = []
        self.frames: list[int] = []
        read = Position.read

        def read_counted(self_: Position, count: int, bytes_max: int) -> MessageBatch:
            found = read(self_, count, bytes_max)
            if len(found):
                self.ranges.append(len(found))
            return found

        def encode_counted(account: str, messages: PeerMessages) -> bytes:
            if messages.targets:
                self.frames.append(len(messages))
            return encode_messages(account, messages)

        patch.setattr(Position, "read", read_counted)
        patch.setattr("headwater.server.cluster.peer.encode_messages", encode_counted)


async def copied(world: World, config: dict[str, Any]) -> None:
    """Fill an origin on one server, and have another one copy it."""
    cluster = Cluster(world, 2, configure=_configured)
    await cluster.start()
    client = await cluster.connect(1)

    async def create(name: str, server: str, config: dict[str, Any]) -> None:
        body = {"name": name, "placement": {"tags": [server]}, **config}
        request = json.dumps(body).encode()
        reply = await client.request(f"$JS.API.STREAM.CREATE.{name}", request, timeout=20)
        assert "error" not in json.loads(reply.data), reply.data

    await create("O", "s1", {"subjects": ["o.>"]})
    for number in range(MESSAGES):
        await client.publish(f"o.{number % 2}", b"x" * 100)
    await client.flush()
    await create("C", "s2", config)
    info = {"state": {"messages": 0}}
    while info["state"]["messages"] < MESSAGES // (2 if "filter" in str(config) else 1):
        reply = await client.request("$JS.API.STREAM.INFO.C", timeout=20)
        info = json.loads(reply.data)


def _configured(options: Options) -> Options:
    return replace(options, server_tags=(options.server_name,), ping_interval_s=30.0)


COPIES: dict[str, dict[str, Any]] = {
    "mirror": {"mirror": {"name": "O"}},
    "filtered mirror": {"mirror": {"name": "O", "filter_subject": "o.1"}},
    "source with a transform": {
        "sources": [{"name": "O", "subject_transforms": [{"src": "o.>", "dest": "c.>"}]}]
    },
}


@pytest.mark.parametrize("config", COPIES.values(), ids=COPIES)
def test_many_messages_are_read_and_sent_together(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    World(1, virtual_s_max=300.0).run(lambda world: copied(world, config))
    for sizes in (counted.ranges, counted.frames):
        assert sum(sizes) > MESSAGES // 3
        assert sum(sizes) / len(sizes) > TOGETHER
