"""One seed is one run: in this process, in another, whatever hashes and addresses do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.testing import World
from tests.unit.testing import nats_stand_in
from tests.unit.testing.nats_stand_in import busy_clients_under_faults


def hash_of(seed: int) -> str:
    world = World(seed)
    received = world.run(busy_clients_under_faults)
    assert received > 0
    return world.trace_hash


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_seed_gives_the_same_trace_again(seed: int) -> None:
    assert hash_of(seed) == hash_of(seed)


def test_seeds_give_different_traces() -> None:
    assert len({hash_of(seed) for seed in range(1, 6)}) == 5


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    seed = 3
    hashes = set()
    for hash_seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            [sys.executable, str(Path(nats_stand_in.__file__)), str(seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(result.stdout.strip())
    assert hashes == {hash_of(seed)}
