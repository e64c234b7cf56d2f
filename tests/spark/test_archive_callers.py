"""What the archive job owes to whoever calls it: any thread will do, and the lag is told."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.spark.jobs.archive import ArchiveSettings, archive
from headwater.spark.link.login import Login
from tests.spark.servers import Server

MESSAGES = 30
PER_TRIGGER = 10


class Heard:
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def stage(self, name: str, total: int | None) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


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


def test_the_lag_is_told_and_is_0_at_the_end(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    heard = Heard()
    archive(spark, orders(server, tmp_path / "archive"), heard)
    assert heard.notes[-1] == "lag 0"
