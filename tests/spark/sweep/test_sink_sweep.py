"""The sink writes every message once, whatever is killed and wherever.

Each case copies a stream into another through Spark, in a few batches of two partitions, and
strikes once on the way. The duplicate window of the target is far shorter than a replay takes, so
that the server's own memory of message ids does not hide a second write.

Cases that hundreds of seeds choose are in `test_random_sweep`.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.kit.stream_servers import KINDS, Server
from tests.spark.sweep.harness import Program, Strike
from tests.spark.sweep.sink_copy import (
    FETCH,
    MARKERS,
    PUBLISHER,
    SOURCE,
    check_copy,
    check_sink,
    job_of,
    roll_back,
    strike_once,
)

STRIKES: Final = (
    # kill -9 of the worker that writes a partition
    Strike(MARKERS + "Claim.acquire", "before", 2, "worker"),
    Strike(MARKERS + "Claim.acquire", "after", 3, "worker"),
    Strike(PUBLISHER + "Publisher.send", "before", 2, "worker"),
    Strike(PUBLISHER + "Publisher.send", "after", 1, "worker"),
    Strike(PUBLISHER + "Publisher.send", "after", 6, "worker"),
    Strike(PUBLISHER + "Publisher.finish", "before", 3, "worker"),
    Strike(PUBLISHER + "Publisher.finish", "after", 2, "worker"),
    Strike(MARKERS + "Claim.finish", "before", 4, "worker"),
    Strike(MARKERS + "Claim.finish", "after", 1, "worker"),
    Strike(FETCH, "before", 3, "worker"),
    # kill -9 of the process that plans or commits for the driver
    Strike(SOURCE + "latestOffset", "after", 2, "worker"),
    Strike(SOURCE + "partitions", "after", 2, "worker"),
    Strike(MARKERS + "commit", "before", 2, "worker"),
    Strike(MARKERS + "commit", "after", 2, "worker"),
    # kill -9 of the driver, its JVM and all that belongs to it
    Strike(MARKERS + "Claim.finish", "after", 2, "driver"),
    Strike(MARKERS + "commit", "before", 1, "driver"),
    Strike(MARKERS + "commit", "after", 2, "driver"),
    # kill -9 of the server, which comes back
    Strike(MARKERS + "Claim.acquire", "before", 3, "server"),
    Strike(PUBLISHER + "Publisher.send", "after", 2, "server"),
    Strike(PUBLISHER + "Publisher.finish", "before", 4, "server"),
    Strike(MARKERS + "Claim.finish", "before", 2, "server"),
    # the same, but it stays away for some seconds
    Strike(MARKERS + "Claim.acquire", "before", 2, "outage"),
    Strike(PUBLISHER + "Publisher.send", "after", 3, "outage"),
    Strike(MARKERS + "commit", "before", 2, "outage"),
    Strike(SOURCE + "latestOffset", "before", 2, "outage"),
    # a task that fails and is tried again
    Strike(PUBLISHER + "Publisher.send", "after", 4, "task"),
    Strike(MARKERS + "Claim.finish", "after", 3, "task"),
)

# The run after the strike has other partitions than the one before.
CUTS: Final = "2,5,3"
CUT_STRIKES: Final = (
    Strike(PUBLISHER + "Publisher.send", "after", 1, "run"),
    Strike(PUBLISHER + "Publisher.send", "after", 3, "driver"),
    Strike(PUBLISHER + "Publisher.finish", "before", 3, "run"),
    Strike(MARKERS + "Claim.finish", "after", 3, "run"),
    Strike(MARKERS + "commit", "before", 2, "task"),
    Strike(MARKERS + "commit", "after", 1, "task"),
)

# The checkpoint has forgotten the batches from this one on, and something is killed in the replay.
ROLLED_BACK: Final = (
    (1, Strike(MARKERS + "Claim.acquire", "after", 2, "worker")),
    (2, Strike(MARKERS + "commit", "before", 1, "task")),
    (2, Strike(MARKERS + "Claim.acquire", "before", 1, "outage")),
    (1, Strike(MARKERS + "commit", "after", 2, "worker")),
)


@pytest.mark.parametrize(
    ("strike", "kind"),
    [(strike, KINDS[at % len(KINDS)]) for at, strike in enumerate(STRIKES)],
    ids=lambda value: str(value),
)
def test_each_message_is_written_once(
    strike: Strike, kind: str, servers: dict[str, Server], program: Program, tmp_path: Path
) -> None:
    check_sink(servers[kind], program, strike, tmp_path)


@pytest.mark.parametrize(
    ("strike", "kind"),
    [(strike, KINDS[at % len(KINDS)]) for at, strike in enumerate(CUT_STRIKES)],
    ids=lambda value: str(value),
)
def test_each_message_is_written_once_in_whatever_partitions(
    strike: Strike, kind: str, servers: dict[str, Server], program: Program, tmp_path: Path
) -> None:
    check_sink(servers[kind], program, strike, tmp_path, CUTS)


@pytest.mark.parametrize(
    ("first_lost", "strike", "kind"),
    [(*case, KINDS[at % len(KINDS)]) for at, case in enumerate(ROLLED_BACK)],
    ids=str,
)
def test_batches_that_a_checkpoint_has_forgotten_are_not_written_again(
    first_lost: int,
    strike: Strike,
    kind: str,
    servers: dict[str, Server],
    program: Program,
    tmp_path: Path,
) -> None:
    server = servers[kind]
    job = job_of(server, tmp_path, CUTS)
    assert program.run(job) == []
    roll_back(Path(job["checkpoint"]), first_lost)
    strike_once(server, program, strike, job)
    check_copy(server, job["target"])
    server.delete_stream(job["target"])
