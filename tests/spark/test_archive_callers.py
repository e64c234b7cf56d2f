"""The archive job may be called on any thread."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from tests.kit.stream_servers import Server

MESSAGES = 30
PER_TRIGGER = 10


def orders(server: Server, to: Path) -> ArchiveSettings:
    server.create_stream("orders")
    server.publish((f"orders.{number}", b"%d" % number) for number in range(MESSAGES))
    return ArchiveSettings(
        Login(server.url), "orders", str(to), max_messages_per_trigger=PER_TRIGGER
    )


def test_a_thread_that_has_never_met_the_session_can_archive(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    """Spark itself looks for registered formats only in the session of the thread."""
    wanted = orders(headwater_server, tmp_path / "archive")
    with ThreadPoolExecutor(max_workers=1) as pool:
        assert pool.submit(SparkSession.getActiveSession).result() is None
        assert pool.submit(archive, spark, wanted).result().messages == MESSAGES
