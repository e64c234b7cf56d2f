"""The settings that two runs into one archive must agree on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.spark.jobs.archive.manifest import (
    Manifest,
    own_directory,
    read_manifest,
    settle_manifest,
)
from headwater.spark.options import OptionError

ORDERS = Manifest("orders", "delta", ("date",), ("orders.>",))


def test_the_first_run_decides_and_the_next_one_agrees(tmp_path: Path) -> None:
    settle_manifest(tmp_path / "new", ORDERS)
    settle_manifest(tmp_path / "new", ORDERS)
    assert read_manifest(tmp_path / "new", "archive") == ORDERS


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("stream", "bills", "orders, not with bills"),
        ("format", "parquet", "delta, not with parquet"),
        ("partition_by", ("date", "hour"), "date, not with date,hour"),
        ("subjects", (), "orders.>, not with none"),
    ],
)
def test_another_archive_in_the_same_place_is_refused(
    tmp_path: Path, option: str, value: Any, shown: str
) -> None:
    settle_manifest(tmp_path, ORDERS)
    with pytest.raises(OptionError, match=f"^option {option}: .* was made with {shown}") as error:
        settle_manifest(tmp_path, replace(ORDERS, **{option: value}))
    assert "\n" not in str(error.value)


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(OptionError, match=r"^option to: .* is not empty and not an archive"):
        settle_manifest(tmp_path, ORDERS)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"^option to: .* is not a directory"):
        settle_manifest(tmp_path / "file", ORDERS)


def test_what_a_run_left_that_died_before_it_decided_is_no_obstacle(tmp_path: Path) -> None:
    own_directory(tmp_path).mkdir()
    (own_directory(tmp_path) / "run.lock").touch()
    settle_manifest(tmp_path, ORDERS)
    assert read_manifest(tmp_path, "archive") == ORDERS


def test_reading_what_is_no_archive_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^option archive: .* is not an archive"):
        read_manifest(tmp_path, "archive")


def test_a_layout_of_the_future_is_not_guessed_at(tmp_path: Path) -> None:
    settle_manifest(tmp_path, ORDERS)
    path = own_directory(tmp_path) / "archive.json"
    path.write_text(path.read_text().replace('"layout_version": 1', '"layout_version": 2'))
    with pytest.raises(OptionError, match="has layout version 2, this program knows 1"):
        read_manifest(tmp_path, "archive")
