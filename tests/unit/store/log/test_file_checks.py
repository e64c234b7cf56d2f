"""A file that somebody removed or cut is reported once; without the log's end it goes offline."""

from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.logs import add_messages, new_log, sequences_in


def checked(log: FileLog) -> str:
    work = log.file_checks.begin()
    work.run()
    return log.file_checks.finish(work)


def test_files_that_the_log_itself_changes_are_no_problem() -> None:
    log = new_log(SimDisk(), messages=30)
    assert checked(log) == ""
    work = log.file_checks.begin()
    work.run()
    add_messages(log, 20)
    log.delete(range(1, 20))
    assert log.file_checks.finish(work) == ""
    assert checked(log) == ""


def test_an_earlier_segment_that_is_gone_is_told_once_and_can_still_be_read() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=30)
    checked(log)
    path = log.segments.in_order()[0].path
    disk.remove(path)
    assert "was removed by somebody else" in checked(log)
    assert checked(log) == ""
    assert log.offline == ""
    assert sequences_in(log) == [*range(1, 31)]
    assert [*log.troubles] == [path.rpartition("/")[2]]


def test_without_the_last_segment_the_log_goes_offline() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=3)
    disk.remove(log.segments.last.path)
    assert "was removed by somebody else" in checked(log)
    assert "restart the server" in log.offline


def test_a_last_message_that_is_damaged_is_not_taken_for_a_file_that_was_cut() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=3)
    disk.flip_bit(log.segments.last.path, log.segments.last.size - 1, 0)
    assert checked(log) == ""
    assert log.offline == ""


def test_without_the_end_of_the_last_segment_the_log_goes_offline() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=3)
    disk.open(log.segments.last.path).truncate(log.segments.last.size - 1)
    assert "was cut short by somebody else" in checked(log)
    assert "restart the server" in log.offline
