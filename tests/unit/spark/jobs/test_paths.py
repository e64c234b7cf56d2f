"""A path means the same wherever it is used: a cluster's workers run in folders of their own."""

from pathlib import Path

import pytest

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.replay.job import ReplaySettings
from headwater.spark.jobs.stats.job import StatsSettings
from headwater.spark.jobs.table.job import TableSettings
from headwater.spark.jobs.union import UnionSettings


def test_every_folder_of_every_job_is_seen_from_the_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    login, there, other = Login(), tmp_path / "there", tmp_path / "other"
    assert ArchiveSettings(login, "orders", "there").root == there
    assert TableSettings(login, "users", "there").root == there
    assert ReplaySettings(login, "again", archive="there").archive_root == there
    assert StatsSettings(login, "there", archive="other").root == there
    assert StatsSettings(login, "there", archive="other").archive_root == other
    assert UnionSettings(login, "other", "orders", to="there").root == there
    assert UnionSettings(login, "other", "orders", to="there").archive_root == other


def test_what_is_not_named_is_nowhere() -> None:
    assert ReplaySettings(Login(), "again", stream="orders").archive_root is None
    assert StatsSettings(Login(), "there", stream="orders").archive_root is None
    assert UnionSettings(Login(), "archive", "orders").root is None


def test_a_replay_goes_on_however_its_archive_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The name of a replay is made of what it replays; the same path is the same archive."""
    monkeypatch.chdir(tmp_path)
    relative = ReplaySettings(Login(), "again", archive="there")
    absolute = ReplaySettings(Login(), "again", archive=str(tmp_path / "there"))
    assert relative.run_name() == absolute.run_name()
    monkeypatch.chdir(tmp_path.parent)
    assert relative.run_name() != absolute.run_name()
