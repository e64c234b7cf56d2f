"""The files of an archive that messages are written to."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.spark.jobs.archive.files import parquet_files
from headwater.spark.jobs.archive.files.parquet_files import (
    DATA_SCHEMA,
    DraftNames,
    FileShape,
    PartitionedFiles,
    conformed,
    split_by_values,
)
from headwater.spark.jobs.archive.files.partitioning import Partitioning
from headwater.spark.jobs.archive.log import DataFile, DraftPlace

PLACE = DraftPlace("", ".parquet")
DAY_US = 86_400_000_000
SHAPE = FileShape(file_bytes_max=1 << 20, row_group_rows_max=100)


def batch(subjects: list[str], times_us: list[int] | None = None, first: int = 1) -> pa.RecordBatch:
    count = len(subjects)
    columns = {
        "stream": ["orders"] * count,
        "subject": subjects,
        "sequence": range(first, first + count),
        "timestamp": times_us or [0] * count,
        "headers": [None] * count,
        "data": [b"\xff%d" % (first + each) for each in range(count)],
        "stream_created": [None] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=DATA_SCHEMA)


def split(rows: pa.RecordBatch, *words: str) -> dict[tuple[str | None, ...], list[int]]:
    parts = split_by_values(rows, Partitioning.parse(words))
    return {values: part["sequence"].to_pylist() for values, part in parts}


def write(root: Path, *batches: pa.RecordBatch, shape: FileShape = SHAPE) -> tuple[DataFile, ...]:
    files = PartitionedFiles(
        root, Partitioning.parse(("token:1",)), DraftNames(PLACE, "run", 3, 1), shape
    )
    for each in batches:
        files.append(each)
    return files.close()


def test_rows_go_to_the_day_and_hour_they_have_in_utc() -> None:
    times = [0, DAY_US - 1, DAY_US, DAY_US + 3_600_000_000, -1]
    assert split(batch(["a"] * 5, times), "hour") == {
        ("1970-01-01", "0"): [1],
        ("1970-01-01", "23"): [2],
        ("1970-01-02", "0"): [3],
        ("1970-01-02", "1"): [4],
        ("1969-12-31", "23"): [5],
    }


def test_rows_go_to_the_token_of_their_subject_in_the_order_they_came_in() -> None:
    rows = batch(["o.a.x", "o.b", "o.a", "o", "o.b.y", "o.a"])
    assert split(rows, "token:2") == {("a",): [1, 3, 6], ("b",): [2, 5], (None,): [4]}


def test_without_partitioning_everything_is_one_part() -> None:
    assert split(batch(["a", "b"])) == {(): [1, 2]}
    assert split(batch([]), "date") == {}


def test_combinations_that_do_not_occur_make_no_part() -> None:
    rows = batch(["a.x", "b.y", "a.x"], [0, DAY_US, 0])
    assert split(rows, "token:1", "date", "token:2") == {
        ("a", "1970-01-01", "x"): [1, 3],
        ("b", "1970-01-02", "y"): [2],
    }


def test_a_file_holds_what_was_given_and_knows_its_bounds(tmp_path: Path) -> None:
    first, second = batch(["a", "b", "a"], [5, 6, 4]), batch(["a"], [9], first=7)
    a, b = sorted(write(tmp_path, first, second), key=lambda each: each.path)
    assert (a.values, a.rows, a.sequence_min, a.sequence_max) == (("a",), 3, 1, 7)
    assert (a.timestamp_us_min, a.timestamp_us_max) == (4, 9)
    assert a.size_bytes == (tmp_path / a.path).stat().st_size
    assert b.path.startswith("token_1=b/part-0000000003-00001-0000-run-")
    content = pq.read_table(tmp_path / a.path, partitioning=None)
    assert content.to_pylist() == [
        row for each in (first, second) for row in each.to_pylist() if row["subject"] == "a"
    ]


def test_rows_wait_for_a_full_group(tmp_path: Path) -> None:
    (file,) = write(tmp_path, *(batch(["a"] * 30, first=n * 30 + 1) for n in range(8)))
    metadata = pq.ParquetFile(tmp_path / file.path).metadata
    assert [metadata.row_group(n).num_rows for n in range(3)] == [100, 100, 40]
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_file_that_has_grown_large_is_followed_by_another(tmp_path: Path) -> None:
    shape = FileShape(file_bytes_max=100, row_group_rows_max=100)
    files = write(tmp_path, *(batch(["a"] * 100, first=n * 100 + 1) for n in range(3)), shape=shape)
    assert [each.path.split("-")[3] for each in files] == ["0000", "0001", "0002"]
    assert [each.sequence_min for each in files] == [1, 101, 201]


MANY_VALUES = [batch([f"t{n}" for n in range(20)] * 2, first=m * 40 + 1) for m in range(3)]


def test_more_values_than_files_may_be_open_take_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "OPEN_FILES_MAX", 4)
    shape = FileShape(file_bytes_max=1 << 20, row_group_rows_max=2)
    files = write(tmp_path, *MANY_VALUES, shape=shape)
    assert sum(each.rows for each in files) == 120
    assert len({each.path for each in files}) == len(files) == 3 * 20 - 2 * 4


def test_more_rows_than_may_wait_are_written_in_smaller_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "BUFFERED_BYTES_MAX", 1000)
    files = write(tmp_path, *MANY_VALUES)
    assert [each.rows for each in files] == [6] * 20
    groups = [pq.ParquetFile(tmp_path / each.path).metadata.num_row_groups for each in files]
    assert max(groups) > 1


def test_an_attempt_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    shape = FileShape(file_bytes_max=1, row_group_rows_max=1)
    files = PartitionedFiles(
        tmp_path, Partitioning.parse(("token:1",)), DraftNames(PLACE, "run", 0, 0), shape
    )
    files.append(batch(["a", "b"]))
    assert list(tmp_path.rglob("*.parquet"))
    files.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_other_types_of_the_same_columns_are_converted() -> None:
    rows = batch(["a", "b"])
    other = rows.set_column(1, "subject", rows["subject"].cast(pa.large_string()))
    other = other.set_column(
        3, "timestamp", rows["timestamp"].cast(pa.timestamp("us", "Asia/Tokyo"))
    )
    assert conformed(other).equals(rows)
