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

_numbers: Final = itertools.count()


def check_sink(server: Server, program: Program, strike: Strike, folder: Path) -> None:
    """Copy a stream with one strike, then look at the copy."""
    source, target = "SOURCE", f"TARGET-{next(_numbers)}"
    sent = [(f"s.{number % 7}", b"message %d" % number) for number in range(MESSAGES)]
    if source not in (server.call("STREAM.NAMES", {})["streams"] or ()):
        server.create_stream(source, "s.>")
        server.publish(sent)
    server.create_stream(target, "to.>", duplicate_window=WINDOW_NS)
    program.order(strike)
    job = {"job": "sink", "url": server.url, "source": source, "target": target}
    try:
        with revived(server, program.folder):
            program.run({**job, "checkpoint": str(folder / "checkpoint")})
        assert program.passings >= strike.nth, "it never came to that point"
        assert program.have_met is (strike.victim == "attempt")
        copied = [(each.subject, each.data) for each in server.stored(target)]
    finally:
        program.withdraw()
        server.delete_stream(target)
    assert Counter(copied) == Counter((f"to.{subject}", data) for subject, data in sent)


@pytest.mark.parametrize(
    ("strike", "kind"),
    [(strike, KINDS[at % len(KINDS)]) for at, strike in enumerate(STRIKES)],
    ids=lambda value: str(value),
)
def test_each_message_is_written_once(
    strike: Strike, kind: str, servers: dict[str, Server], program: Program, tmp_path: Path
) -> None:
    check_sink(servers[kind], program, strike, tmp_path)
