"""The batches that may follow the committed ones."""

import pytest

from headwater.spark.jobs.archive.log import ArchiveError, BatchCommit, Reached, Record


def commit(batch: int, started: int | None, reached: int, created: str = "c1") -> BatchCommit:
    start = None if started is None else Reached(created, started)
    return BatchCommit("query", batch, start, Reached(created, reached), ())


def test_the_first_batch_of_an_empty_archive_is_new() -> None:
    assert not Record(None, None).holds(commit(0, None, 101))


def test_a_batch_that_starts_where_the_record_ends_is_new() -> None:
    assert not Record(3, 401).holds(commit(4, 401, 501))


def test_batch_zero_is_recognised_when_it_comes_again() -> None:
    assert Record(0, 101).holds(commit(0, None, 101))


def test_a_batch_before_the_last_is_recognised() -> None:
    assert Record(3, 401).holds(commit(2, 201, 301))


def test_a_new_query_goes_on_where_the_record_ends() -> None:
    assert not Record(None, 401).holds(commit(0, None, 501))


@pytest.mark.parametrize(
    ("record", "offered"),
    [
        (Record(3, 401), commit(4, 301, 501)),  # overlaps
        (Record(3, 401), commit(4, 501, 601)),  # leaves a gap
        (Record(None, 401), commit(7, 301, 501)),  # another query's checkpoint
        (Record(3, 401), commit(3, 301, 391)),  # the same number, another batch
        (Record(3, 401), commit(2, 201, 411)),  # an old checkpoint, planned again
    ],
)
def test_a_batch_that_does_not_join_is_refused(record: Record, offered: BatchCommit) -> None:
    with pytest.raises(ArchiveError, match=r"^option checkpoint: the archive goes on at .* 401"):
        record.holds(offered)


def test_a_stream_that_was_made_anew_starts_at_its_own_first_sequence() -> None:
    start, end = Reached("c1", 401), Reached("c2", 11)
    assert not Record(3, None).holds(BatchCommit("query", 4, start, end, ()))
