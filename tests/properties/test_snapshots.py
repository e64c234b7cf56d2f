"""A stream that is made of a snapshot is the one that the snapshot was read from (`snapshot_walk`).

More seeds: SNAPSHOT_SEEDS=5000 pytest tests/properties/test_snapshots.py
"""

import os
import random
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import pytest

from headwater.base.sliced import Work
from headwater.jetstream.consumers import images
from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.consumers.images import ConsumerImage, encode_image
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.snapshots import blocks
from headwater.jetstream.snapshots.blocks import SnapshotEnd
from headwater.jetstream.snapshots.chunks import Block, ChunkWriter
from tests.properties.retreat_walk import STEPS
from tests.properties.snapshot_walk import SnapshotWalk

SEEDS: Final = int(os.environ.get("SNAPSHOT_SEEDS", "100"))
LENGTH_BEFORE: Final = 30
LENGTH_BEHIND: Final = 25
# A defect shows within this number of walks.
PLANTED_SEEDS: Final = 200


def walk_by(seed: int) -> list[tuple[object, object]]:
    rng = random.Random(seed)
    walk = SnapshotWalk(rng.choice)
    for step in rng.choices(STEPS, k=rng.randrange(LENGTH_BEFORE)):
        walk.take_step(step)
    for step in rng.choices(STEPS, k=LENGTH_BEFORE):
        walk.read(rng.randrange(6))
        walk.take_step(step)
    walk.finish()
    for step in rng.choices(STEPS, k=LENGTH_BEHIND):
        walk.take_step(step)
    return walk.probe()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_snapshot_makes_the_same_stream(seed: int) -> None:
    assert walk_by(seed) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_a_stream_of_a_snapshot_is_the_same_after_a_restart(seed: int) -> None:
    rng = random.Random(seed)
    walk = SnapshotWalk(rng.choice)
    for step in rng.choices(STEPS, k=LENGTH_BEFORE):
        walk.take_step(step)
    for step in rng.choices(STEPS, k=LENGTH_BEHIND):
        walk.read(rng.randrange(20))
        walk.take_step(step)
    walk.restart()


# --- planted defects ------------------------------------------------------------------------------


def leaves_out(kind: int) -> Callable[[ChunkWriter, Block], list[bytes]]:
    """A reader that does not send the blocks of one kind."""

    def cut(chunks: ChunkWriter, block: Block) -> list[bytes]:
        empty = Block(blocks.IDS, b"")
        return CUT(chunks, empty if block.kind == kind else block)

    return cut


def ends_with(**changes: Any) -> Callable[[SnapshotEnd], Block]:
    """An end with other values."""
    return lambda end: ENCODE_END(end._replace(**changes))


def forgets_activity(consumer: Consumer, image: ConsumerImage) -> Work[None]:
    yield from RESTORING(consumer, image._replace(times_ns=(0, 0)))


def counts_no_needs(consumers: Consumers) -> Work[list[int]]:
    yield 0
    return []


def includes_uncommitted(consumers: Consumers) -> tuple[int, list[bytes]]:
    return 0, [*map(encode_image, consumers)]


CUT: Final = ChunkWriter.cut
ENCODE_END: Final = blocks.encode_end
RESTORING: Final = images.restoring

PLANTED: Final[dict[str, tuple[object, str, object]]] = {
    "removals after messages were sent": (ChunkWriter, "cut", leaves_out(blocks.PRESENT)),
    "ids": (ChunkWriter, "cut", leaves_out(blocks.IDS)),
    "expiries in memory": (ChunkWriter, "cut", leaves_out(blocks.EXPIRIES)),
    "schedules": (ChunkWriter, "cut", leaves_out(blocks.SCHEDULES)),
    "a consumer": (ChunkWriter, "cut", leaves_out(blocks.CONSUMER)),
    "the last id": (blocks, "encode_end", ends_with(last_id=b"")),
    "the time of the last sequence": (blocks, "encode_end", ends_with(last_ns=0)),
    "the last activity of a consumer": (images, "restoring", forgets_activity),
    "the need of messages": (Consumers, "_counting_needs", counts_no_needs),
    "records in flight": (Consumers, "encode_images", includes_uncommitted),
}


def fails(seed: int) -> bool:
    try:
        return walk_by(seed) != []
    except Exception:
        return True


@pytest.mark.parametrize("name", PLANTED)
def test_a_thing_that_a_snapshot_lacks_is_found(name: str) -> None:
    owner, method, defect = PLANTED[name]
    with patch.object(owner, method, defect):
        assert any(map(fails, range(PLANTED_SEEDS)))
