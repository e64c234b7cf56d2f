"""The settings that the archive job and the union read refuse before any Spark starts."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.settings import ArchiveResult, ArchiveSettings
from headwater.spark.jobs.union import UnionSettings
from headwater.spark.options import OptionError


def settings(**changes: Any) -> ArchiveSettings:
    return ArchiveSettings(**{"login": Login(), "stream": "orders", "to": "archive", **changes})


def test_the_defaults_pass() -> None:
    settings().check()
    UnionSettings(Login(), "archive", "orders").check()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("stream", "or.ders"),
        ("subjects", ("a..b",)),
        ("to", ""),
        ("to", "s3://bucket/orders"),
        ("checkpoint", "hdfs://host/orders"),
        ("format", "iceberg"),
        ("partition_by", ("week",)),
        ("max_messages_per_trigger", 0),
        ("every_s", -1.0),
        ("every_s", 86_401.0),
        ("min_partitions", 0),
        ("compact_every", -1),
        ("file_mb", 0),
        ("row_group_rows", 0),
        ("replaced_age_s", -1.0),
        ("orphan_age_s", -1.0),
    ],
)
def test_a_bad_value_is_refused_in_one_line_that_names_the_option(
    option: str, value: object
) -> None:
    with pytest.raises(OptionError) as error:
        settings(**{option: value}).check()
    said = str(error.value).lower().replace("_", "")
    assert said.startswith(f"option {option.replace('_', '')}")
    assert "\n" not in said


def test_a_batch_of_a_run_that_follows_has_room_for_all_seconds_since_the_last() -> None:
    assert settings().messages_per_batch_max == 500_000
    assert settings(follow=True).messages_per_batch_max == 5_000_000
    assert settings(follow=True, every_s=0.0).messages_per_batch_max == 500_000
    own = settings(follow=True, max_messages_per_trigger=7)
    assert own.source_options()["maxMessagesPerTrigger"] == "7"


@pytest.mark.parametrize(
    ("option", "value"), [("archive", ""), ("stream", ""), ("subjects", ("",)), ("format", "orc")]
)
def test_the_union_read_names_its_options_too(option: str, value: object) -> None:
    given: dict[str, Any] = {"archive": "archive", "stream": "orders", option: value}
    with pytest.raises(OptionError, match=f"^option {option}"):
        UnionSettings(Login(), **given).check()


def test_the_order_of_subjects_does_not_make_another_archive() -> None:
    one, other = settings(subjects=("b.>", "a.>")), settings(subjects=("a.>", "b.>"))
    assert one.manifest == other.manifest


def test_the_checkpoint_is_inside_the_archive_unless_it_is_named() -> None:
    inside = settings(to="orders").checkpoint_directory
    assert inside.is_relative_to(Path("orders").absolute())
    assert settings(checkpoint="notes").checkpoint_directory == Path("notes").absolute()


def test_a_result_tells_the_rate() -> None:
    figures = {"batches": 2, "messages": 500, "next_sequence": 501, "files": 1, "bytes": 9}
    result = ArchiveResult(
        "orders", "to", "delta", **figures, files_merged=0, files_removed=0, seconds=2.0
    )
    assert result.messages_per_second == 250.0


@pytest.mark.parametrize(
    "module", ["archive.job", "union", "progress", "archive.files.partitioning"]
)
def test_the_settings_load_without_spark_and_arrow(module: str) -> None:
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'deltalake', 'pandas')))\n"
        f"import headwater.spark.jobs.{module}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
