"""An archive of a stream, with one strike on the way."""

from collections import Counter
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headwater.spark.jobs.archive.reader import read_archive
from tests.kit.stream_servers import Server
from tests.spark.sweep.harness import Program, Strike, revived

MESSAGES: Final = 900
SINK: Final = "headwater.spark.jobs.archive.sink:"
FILES: Final = "headwater.spark.jobs.archive.files.parquet_files:"


def check_archive(
    spark: SparkSession,
    server: Server,
    program: Program,
    strike: Strike,
    file_format: str,
    folder: Path,
) -> None:
    """Archive a stream with one strike, then look at the archive."""
    stream = "ARCHIVED"
    sent = [(f"a.{number % 3}", b"message %d" % number) for number in range(MESSAGES)]
    if stream not in (server.call("STREAM.NAMES", {})["streams"] or ()):
        server.create_stream(stream, "a.>")
        server.publish(sent)
    program.order(strike)
    to = str(folder / "archive")
    try:
        with revived(server, program.folder):
            job = {"job": "archive", "url": server.url, "stream": stream}
            program.run({**job, "to": to, "format": file_format})
        assert program.passings >= strike.nth, "it never came to that point"
        assert program.have_met is (strike.victim == "attempt")
    finally:
        program.withdraw()
    rows = read_archive(spark, to).select("sequence", "subject", "data").collect()
    kept = Counter((row.sequence, row.subject, bytes(row.data)) for row in rows)
    assert kept == Counter((at, subject, data) for at, (subject, data) in enumerate(sent, 1))
