"""The sink writes every message once, whatever is killed and wherever.

Each case copies a stream into another through Spark, in a few batches of two partitions, and
strikes once on the way. The duplicate window of the target is far shorter than a replay takes, so
that the server's own memory of message ids does not hide a second write.
"""

import itertools
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.spark.servers import KINDS, Server
from tests.spark.sweep.harness import Program, Strike, revived

MESSAGES: Final = 900
WINDOW_NS: Final = 500_000_000

MARKERS: Final = "headwater.spark.markers:"
PUBLISHER: Final = "headwater.spark.link.publisher:"
SOURCE: Final = "headwater.spark.stream_source:StreamSourceReader."
FETCH: Final = "headwater.spark.link.fetch:read_range"

STRIKES: Final = (
    # kill -9 of the worker that writes a partition
    Strike(MARKERS + "Claim.take", "before", 2, "worker"),
    Strike(MARKERS + "Claim.take", "after", 3, "worker"),
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
    Strike(PUBLISHER + "Publisher.send", "after", 3, "driver"),
    Strike(MARKERS + "Claim.finish", "after", 2, "driver"),
    Strike(MARKERS + "commit", "before", 1, "driver"),
    Strike(MARKERS + "commit", "after", 2, "driver"),
    # kill -9 of the server, which comes back
    Strike(MARKERS + "Claim.take", "before", 3, "server"),
    Strike(PUBLISHER + "Publisher.send", "after", 2, "server"),
    Strike(PUBLISHER + "Publisher.finish", "before", 4, "server"),
    Strike(MARKERS + "Claim.finish", "before", 2, "server"),
    # a task that fails and is tried again
    Strike(PUBLISHER + "Publisher.send", "after", 4, "task"),
    Strike(MARKERS + "Claim.finish", "after", 3, "task"),
)

# The run after the strike has other partitions than the one before.
CUTS: Final = "2,5,3"
CUT_STRIKES: Final = (
    Strike(PUBLISHER + "Publisher.send", "after", 3, "driver"),
    Strike(MARKERS + "Claim.finish", "after", 3, "driver"),
    Strike(MARKERS + "commit", "before", 2, "driver"),
    Strike(MARKERS + "commit", "after", 1, "driver"),
)

_numbers: Final = itertools.count()
SENT: Final = [(f"s.{number % 7}", b"message %d" % number) for number in range(MESSAGES)]


def job_of(server: Server, folder: Path, cuts: str = "") -> dict[str, str]:
    """A copy into a stream that no other case has."""
    source, target = "SOURCE", f"TARGET-{next(_numbers)}"
    if source not in (server.call("STREAM.NAMES", {})["streams"] or ()):
        server.create_stream(source, "s.>")
        server.publish(SENT)
    server.create_stream(target, "to.>", duplicate_window=WINDOW_NS)
    job = {"job": "sink", "url": server.url, "source": source, "target": target}
    return {**job, "checkpoint": str(folder / "checkpoint"), "cuts": cuts}


def check_copy(server: Server, target: str) -> None:
    copied = Counter((each.subject, each.data) for each in server.stored(target))
    assert copied == Counter((f"to.{subject}", data) for subject, data in SENT)


def check_sink(
    server: Server, program: Program, strike: Strike, folder: Path, cuts: str = ""
) -> None:
    """Copy a stream with one strike, then look at the copy."""
    job = job_of(server, folder, cuts)
    program.order(strike)
    try:
        with revived(server, program.folder):
            program.run(job)
        assert program.passings >= strike.nth, "it never came to that point"
        assert program.have_met is (strike.victim == "attempt")
        check_copy(server, job["target"])
    finally:
        program.withdraw()
        server.delete_stream(job["target"])


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first_lost", [1, 3])
def test_batches_that_a_checkpoint_has_forgotten_are_not_written_again(
    kind: str, first_lost: int, servers: dict[str, Server], program: Program, tmp_path: Path
) -> None:
    server = servers[kind]
    job = job_of(server, tmp_path)
    program.run(job)
    for folder in ("offsets", "commits"):
        for file in (tmp_path / "checkpoint" / folder).iterdir():
            if int(file.name.strip(".").partition(".")[0]) >= first_lost:
                file.unlink()
    assert program.run(job) == []
    check_copy(server, job["target"])
    server.delete_stream(job["target"])
