"""A rewritten journal says the same; entries that were written meanwhile are added to it."""

from headwater.store.log.file_log import FileLog
from headwater.testing.disk import SimDisk
from tests.kit.logs import log_after_kill, new_log, sequences_in

KIND = 300


def bodies_of(log: FileLog) -> list[bytes]:
    return [entry.body for entry in log.entries]


def test_entries_that_the_caller_calls_true_replace_the_others() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=6)
    for body in (b"1", b"2", b"3"):
        log.write_entries([(KIND, body)])
    log.delete([2])
    work = log.journal_rewrites.begin([(KIND, b"3")])
    work.run()
    log.write_entries([(KIND, b"4")])
    log.delete([5])
    assert log.journal_rewrites.is_running
    assert log.journal_rewrites.finish(work)
    again = log_after_kill(disk)
    assert bodies_of(again) == [b"3", b"4"]
    assert sequences_in(again) == [1, 3, 4, 6]


def test_entries_are_kept_if_the_caller_does_not_say_which_are_true() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.write_entries([(KIND, b"1")])
    log.journal_rewrites.rewrite_now(None)
    assert bodies_of(log_after_kill(disk)) == [b"1"]


def test_a_journal_that_was_replaced_meanwhile_is_left_in_place() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=2)
    log.write_entries([(KIND, b"old")])
    work = log.journal_rewrites.begin([])
    work.run()
    log.journal_rewrites.start_over([(KIND, b"new")], log.lost)
    assert not log.journal_rewrites.finish(work)
    assert not log.journal_rewrites.is_running
    assert bodies_of(log_after_kill(disk)) == [b"new"]
