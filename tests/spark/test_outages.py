"""A server that is away for longer than a moment holds a query up, and does not end it."""

import socket
import time
from os import environ
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.archive.reader import read_archive
from tests.kit.stream_servers import HOST, Server

ATTEMPTS: Final = 7
"""More than the six that ended every query when patience was a count; together some seconds."""
OUTAGE_S: Final = float(environ.get("OUTAGE_S", "0"))
"""An outage lasts at least so long: `make test-outages` takes half a minute."""
WAIT_S_MAX: Final = 60


def outage(server: Server) -> None:
    """Kill the server, turn so many connections away, and start it again."""
    server.kill()
    ends_s = time.monotonic() + OUTAGE_S
    with socket.create_server((HOST, server.port)) as door:
        door.settimeout(WAIT_S_MAX)
        turned_away = 0
        while turned_away < ATTEMPTS or time.monotonic() < ends_s:
            door.accept()[0].close()
            turned_away += 1
    server.start()


def fill(server: Server, first: int, last: int) -> None:
    server.publish((f"orders.{n % 3}", b"%d" % n) for n in range(first, last + 1))


def test_a_query_from_a_stream_into_a_stream_outlasts_an_outage(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream("orders")
    server.create_stream("copy", "copy.>")
    fill(server, 1, 300)
    source = (
        spark.readStream.format("headwater")
        .options(url=server.url, stream="orders", maxMessagesPerTrigger="100")
        .load()
        .select(f.concat(f.lit("copy."), "subject").alias("subject"), "data")
    )
    query = (
        source.writeStream.format("headwater")
        .options(url=server.url, stream="copy", checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        outage(server)
        fill(server, 301, 500)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(int(each.data) for each in server.stored("copy")) == [*range(1, 501)]


class Outages:
    """Follows a run: an outage after the first messages, and an interrupt after the rest."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen = 0

    def stage(self, name: str, total: int | None) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def advance(self, count: int) -> None:
        self._seen += count
        if self._seen == 150:
            outage(self._server)
            fill(self._server, 151, 160)
        if self._seen == 160:
            raise KeyboardInterrupt


def test_an_archive_that_follows_outlasts_an_outage(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create_stream("orders")
    fill(server, 1, 150)
    settings = ArchiveSettings(
        Login(server.url), "orders", str(tmp_path / "archive"), follow=True, every_s=0.5
    )
    result = archive(spark, settings, Outages(server))
    assert (result.messages, result.next_sequence) == (160, 161)
    assert read_archive(spark, settings.to).count() == 160


def test_an_outage_that_is_longer_than_the_patience_fails_the_query_in_one_line(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    fill(headwater_server, 1, 10)
    query = (
        spark.readStream.format("headwater")
        .options(url=headwater_server.url, stream="orders", outageTimeout="100ms")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        headwater_server.kill()
        with pytest.raises(StreamingQueryException, match="option url: no server answers at url"):
            query.awaitTermination(WAIT_S_MAX)
    finally:
        query.stop()


def test_a_query_can_be_stopped_in_an_outage(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    query = (
        spark.readStream.format("headwater")
        .options(url=headwater_server.url, stream="orders")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    headwater_server.kill()
    with socket.create_server((HOST, headwater_server.port)) as door:
        door.settimeout(WAIT_S_MAX)
        door.accept()[0].close()
        query.stop()
    assert not query.isActive
