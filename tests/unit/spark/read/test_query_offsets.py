"""Offsets of a batch as Spark has written them: when two batches are the same by them."""

from pathlib import Path

import pytest

from headwater.spark.read.query_offsets import offsets_digest

PLANNED = '{"batchWatermarkMs":0,"batchTimestampMs":%d}'
OURS = '{"stream":"S","created":"2026","next":%d,"ranges":[[1,5,5]],"lost":0}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    return tmp_path


def put(checkpoint: Path, batch: int, *sources: str, planned_ms: int = 0) -> str:
    lines = ["v1", PLANNED % planned_ms, *sources]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    return offsets_digest(str(checkpoint), batch)


def test_equal_offsets_have_equal_digests_whenever_they_were_planned(checkpoint: Path) -> None:
    first = put(checkpoint, 0, OURS % 6, planned_ms=1)
    assert len(first) == 24
    assert put(checkpoint, 0, OURS % 6, planned_ms=2) == first
    assert put(checkpoint, 0, OURS % 7) != first
    assert put(checkpoint, 0, OURS % 6, OURS % 6) != first


def test_several_streams_in_one_source_tell_the_rows_too(checkpoint: Path) -> None:
    both = f'{{"streams":{{"S":{OURS % 6},"T":{OURS % 9}}},"lost":0}}'
    assert len(put(checkpoint, 0, both)) == 24
    assert put(checkpoint, 1, both) != put(checkpoint, 2, both.replace("9", "10", 1))
    assert put(checkpoint, 3, f'{{"streams":{{"S":{OURS % 6},"T":{{}}}},"lost":0}}') == ""


def test_a_checkpoint_is_found_by_its_path_and_by_its_uri(tmp_path: Path) -> None:
    spaced = tmp_path / "with blank"
    (spaced / "offsets").mkdir(parents=True)
    first = put(spaced, 0, OURS % 6)
    assert offsets_digest(spaced.as_uri(), 0) == first != ""


@pytest.mark.parametrize(
    "sources", [(), ('{"logOffset":1}',), (OURS % 6, '{"logOffset":1}'), ("-",), ("7",)]
)
def test_offsets_that_do_not_tell_the_rows_have_no_digest(
    checkpoint: Path, sources: tuple[str, ...]
) -> None:
    assert put(checkpoint, 0, *sources) == ""


def test_what_cannot_be_read_has_no_digest(checkpoint: Path) -> None:
    assert offsets_digest(None, 0) == ""
    assert offsets_digest(str(checkpoint), 7) == ""
    assert offsets_digest("s3a://bucket/checkpoint", 0) == ""
