"""A message that cannot be read leaves the index once, is reported, and stays lost."""

from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, log_after_kill, new_log, sequences_in


def test_a_damaged_message_is_reported_and_lost_for_every_later_reader() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=4)
    log.sync()
    segment = log.segments.last
    offset = log.index.segments[-1].offsets[1]
    segment.file.overwrite(offset + 60, b"#")
    assert log.get(2) is None
    assert log.get(2) is None
    assert [finding.kind for finding in log.findings.reported] == ["damaged"]
    assert log.unreadable_count == 1
    assert list(log.lost) == [(2, 2)]
    log.sync()
    again = log_after_kill(disk)
    assert sequences_in(again) == [1, 3, 4]
    assert list(again.lost) == [(2, 2)]


def test_an_erased_message_that_nothing_calls_deleted_is_gone_and_not_lost() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=3)
    log.segments.erase([2])
    assert log.get(2) is None
    assert sequences_in(log) == [1, 3]
    assert list(log.lost) == []
    assert disk.exists(FOLDER)


def test_messages_that_are_lost_everywhere_are_lost_here_too() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.skip(3, 2)
    log.note_lost([(3, 3), (5, 5)])
    log.note_lost([])
    assert list(log.lost) == [(3, 3), (5, 5)]
    log.sync()
    again = log_after_kill(disk)
    assert list(again.lost) == [(3, 3), (5, 5)]
    assert (sequences_in(again), again.last_sequence) == ([1, 2], 5)
    assert not again.findings.reported
