"""Every job tells how far it is behind its stream."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.pipeline.jobs import union
from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.progress import Silent
from headwater.spark.jobs.replay import job as replay_job
from headwater.spark.jobs.replay.job import ReplaySettings, replay
from headwater.spark.jobs.stats.job import StatsSettings, stats
from headwater.spark.jobs.union import UnionSettings
from tests.kit.stream_servers import Server

LINE = re.compile(r"lag 0|lag [\d,]+ messages, [\d.,]+ (B|KiB|MiB|GiB), [\d,]+ s")


class Heard(Silent):
    """Keeps the notes of a job, and does something when a stage of it begins."""

    def __init__(self, stage: str = "", action: Callable[[], object] = lambda: None) -> None:
        self.notes: list[str] = []
        self._stage = stage
        self._action = action

    def stage(self, name: str, total: int | None) -> None:
        if name == self._stage:
            self._action()

    def note(self, text: str) -> None:
        assert LINE.fullmatch(text), text
        self.notes.append(text)


def test_the_jobs_tell_their_lag(
    spark: SparkSession, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = Login(server.url)
    server.create_stream("s")
    server.create_stream("again")
    server.publish([("s.a", b"x" * 100)] * 20)
    heard = Heard()
    archive(spark, ArchiveSettings(login, "s", str(tmp_path / "archive")), heard)
    assert heard.notes[-1] == "lag 0"

    monkeypatch.setattr(replay_job, "UNIT_MESSAGES", 8)
    heard = Heard()
    wanted = ReplaySettings(login, "again", stream="s", subject_from="s.>", subject_to="again.>")
    replay(spark, wanted, heard)
    assert [line.split(",")[0] for line in heard.notes] == [
        "lag 12 messages", "lag 4 messages", "lag 0"
    ]  # fmt: skip

    # Messages that come while a report is made are not in it.
    heard = Heard("report", lambda: server.publish([("s.a", b"x")] * 3))
    stats(spark, StatsSettings(login, str(tmp_path / "report"), stream="s"), heard)
    assert heard.notes[-1].startswith("lag 3 messages, ")
    heard = Heard()
    settings = UnionSettings(login, str(tmp_path / "archive"), "s")
    assert union(spark, settings, heard).messages == 23
    assert heard.notes == ["lag 0"]
