"""A copy of a stream by the sink, with one strike on the way."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Final

from tests.kit.stream_servers import Server
from tests.spark.sweep.harness import Program, Strike, revived

MESSAGES: Final = 600
WINDOW_NS: Final = 500_000_000
MARKERS: Final = "headwater.spark.write.markers:"
PUBLISHER: Final = "headwater.client.link.publisher:"
SOURCE: Final = "headwater.spark.read.stream_source:StreamSourceReader."
FETCH: Final = "headwater.client.link.reads.fetch:read_range"
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


def roll_back(checkpoint: Path, first_lost: int) -> None:
    """Make the checkpoint a copy that was made before this batch was planned."""
    for folder in ("offsets", "commits"):
        for file in (checkpoint / folder).iterdir():
            if int(file.name.strip(".").partition(".")[0]) >= first_lost:
                file.unlink()


def strike_once(server: Server, program: Program, strike: Strike, job: dict[str, str]) -> None:
    """Run the job to its end, with one strike on the way."""
    program.order(strike)
    try:
        with revived(server, program.folder):
            program.run(job)
        assert program.passings >= strike.nth, "it never came to that point"
        assert program.have_met is (strike.victim == "attempt")
    finally:
        program.withdraw()


def check_sink(
    server: Server, program: Program, strike: Strike, folder: Path, cuts: str = ""
) -> None:
    """Copy a stream with one strike, then look at the copy."""
    job = job_of(server, folder, cuts)
    try:
        strike_once(server, program, strike, job)
        check_copy(server, job["target"])
    finally:
        server.delete_stream(job["target"])
