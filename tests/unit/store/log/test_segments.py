"""Segments are rolled when they are full; deferred records wait for a flush and are read before."""

import pytest

from headwater.store.errors import OfflineError
from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, SEGMENT_BYTES_MAX, add_messages, new_log, sequences_in


def test_no_segment_but_for_its_footer_is_longer_than_the_limit() -> None:
    log = new_log(SimDisk(), messages=40)
    segments = log.segments.in_order()
    assert len(segments) > 2
    assert [segment.sealed for segment in segments] == [True] * (len(segments) - 1) + [False]
    assert log.segments.last is segments[-1]
    ends = [index.offsets[-1] for index in log.index.segments]
    assert all(end < SEGMENT_BYTES_MAX for end in ends)


def test_deferred_records_are_written_together_and_counted_until_then() -> None:
    disk = SimDisk()
    log = new_log(disk)
    log.defer_writes()
    before = disk.operation_counts["write"]
    add_messages(log, 3)
    assert log.segments.waiting_bytes > 0
    log.flush()
    assert log.segments.waiting_bytes == 0
    # The reservation's file is one write, the three messages another.
    assert disk.operation_counts["write"] == before + 2


def test_a_reader_sees_deferred_records() -> None:
    log = new_log(SimDisk())
    log.defer_writes()
    add_messages(log, 3)
    assert sequences_in(log) == [1, 2, 3]


def test_deferred_records_that_cannot_be_written_are_gone_and_the_next_writer_is_told() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.defer_writes()
    add_messages(log, 3)
    disk.fail("write", f"{FOLDER}/segment-*")
    assert sequences_in(log) == [1, 2], "the reader is not told"
    assert "flush failed" in log.availability.unreported_problem
    with pytest.raises(OfflineError):
        add_messages(log, 1)
    assert log.last_sequence == 2
