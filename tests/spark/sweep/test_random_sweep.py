"""The sink writes every message once, whatever a seed strikes, partitions again and rolls back.

Each seed is a few runs of one query, with messages published in between. Before a run the
checkpoint may be replaced by an older copy, the run has a number of partitions of its own, and
something is struck in it, or would be if it came to that point. A checkpoint that is too old is
refused and nothing is written; then the newest one is put back, as the refusal says.

`make sweep SWEEPS=100` runs more seeds, with a longer outage; `SWEEPS=seed:42` runs one.
"""

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from headwater.testing.world import seeds
from tests.kit.stream_servers import KINDS, Message, Server
from tests.spark.sweep.harness import Program, Strike, revived
from tests.spark.sweep.sink_copy import FETCH, MARKERS, PUBLISHER, SOURCE, WINDOW_NS, roll_back

SEEDS: Final = 2
RUNS: Final = 3
REFUSAL: Final = "is not the one that was written before"

POINTS: Final = (
    MARKERS + "Claim.acquire",
    MARKERS + "Claim.finish",
    MARKERS + "commit",
    PUBLISHER + "Publisher.send",
    PUBLISHER + "Publisher.finish",
    SOURCE + "latestOffset",
    SOURCE + "partitions",
    FETCH,
)
# A driver takes long to start, so few seeds kill one.
VICTIMS: Final = {"worker": 6, "task": 3, "run": 6, "server": 3, "outage": 2, "driver": 1}


def random_strike(rng: random.Random) -> Strike:
    (victim,) = rng.choices([*VICTIMS], [*VICTIMS.values()])
    return Strike(
        rng.choice(POINTS),
        rng.choice(("before", "after")),
        rng.randint(1, 6),
        victim,  # type: ignore[arg-type]
    )


class Copy:
    """A query from one stream into another, and the messages it was given to copy."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self._server = server
        self._sent: list[bytes] = []
        self._checkpoint = folder / "checkpoint"
        self._newest = folder / "newest"
        self._source, self._target = f"{name}-FROM", f"{name}-TO"
        server.create_stream(self._source)
        server.create_stream(self._target, "to.>", duplicate_window=WINDOW_NS)

    def publish(self, count: int) -> None:
        """Some more; one message in ten is equal to others."""
        begin = len(self._sent)
        more = [b"%d" % (number if number % 10 else 0) for number in range(begin, begin + count)]
        subject = f"{self._source}.a"
        self._server.publish(Message(subject, payload) for payload in more)
        self._sent += more

    def job(self, cut: int) -> dict[str, str]:
        job = {"job": "sink", "url": self._server.url, "checkpoint": str(self._checkpoint)}
        return job | {"source": self._source, "target": self._target, "cuts": str(cut)}

    def roll_back(self, rng: random.Random) -> None:
        """Replace the checkpoint by an older copy, and keep the newest one."""
        shutil.rmtree(self._newest, ignore_errors=True)
        shutil.copytree(self._checkpoint, self._newest)
        planned = sum(file.name.isdigit() for file in (self._newest / "offsets").iterdir())
        if planned > 1:
            roll_back(self._checkpoint, rng.randint(1, planned - 1))

    def restore(self) -> None:
        shutil.rmtree(self._checkpoint)
        shutil.copytree(self._newest, self._checkpoint)

    def check(self) -> None:
        copied = Counter(each.data for each in self._server.stored(self._target))
        assert copied == Counter(self._sent)

    def delete(self) -> None:
        for stream in (self._source, self._target):
            self._server.delete_stream(stream)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_each_message_is_written_once_whatever_happens(
    seed: int, servers: dict[str, Server], program: Program, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    server = servers[KINDS[seed % len(KINDS)]]
    copy = Copy(server, tmp_path, f"SEED-{seed}")
    try:
        for run in range(RUNS):
            copy.publish(rng.randint(1, 600))
            if run and rng.random() < 0.5:
                copy.roll_back(rng)
            program.order(random_strike(rng))
            with revived(server, program.folder):
                job = copy.job(rng.randint(1, 5))
                if not program.is_through(job, REFUSAL):
                    copy.restore()
                    program.run(job)
        copy.check()
    finally:
        program.withdraw()
        copy.delete()
