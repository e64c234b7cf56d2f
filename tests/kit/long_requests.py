"""Requests that take several turns, and the clients that wait for them."""

import json
import re
from typing import Any

from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer


def finish(world: StoredWorld) -> None:
    """Let everything come to its end, also what the disk is waited for."""
    for _ in range(3):
        world.settle()
        world.scheduler.finish_offloaded()
    world.advance(0.1)


def pass_turns(world: StoredWorld, count: int = 3) -> None:
    """Let some turns pass: fewer than a request in small slices needs."""
    for _ in range(count):
        world.scheduler.run_turn()


def pushed(peer: Peer, subject: str, body: object = None) -> None:
    payload = b"" if body is None else json.dumps(body).encode()
    peer.push(b"PUB %b inbox %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))


def replies(peer: Peer) -> list[Any]:
    """The documents that a peer got at its inbox."""
    frames = re.findall(rb"inbox 9 [\d ]+\r\n(?:NATS[^{]*)?(\{.*?\})\r\n", peer.take())
    return [json.loads(each) for each in frames]


def asker(world: StoredWorld) -> Peer:
    peer = world.modern()
    peer.send(b"SUB inbox 9\r\n")
    peer.take()
    return peer


def sync(world: StoredWorld) -> None:
    """Let the disk do what is waited for, and nobody else anything."""
    work, world.scheduler.offloaded = world.scheduler.offloaded, []
    for call in work:
        call()


def is_held(world: StoredWorld) -> bool:
    """Whether a change of the stream S takes long, and is not over."""
    jetstream = world.node.jetstream
    assert jetstream is not None
    return jetstream.runners.is_held("$G", "S")
