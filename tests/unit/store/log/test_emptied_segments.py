"""Files of segments in which no message is left are removed, some of them in a turn."""

from headwater.store.log.emptied_segments import REMOVED_AT_ONCE_MAX
from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, add_messages, log_after_kill, new_log, sequences_in

MESSAGES = 250


def segments_on(disk: SimDisk) -> int:
    return sum("segment" in name for name in disk.list_folder(FOLDER))


def test_a_turn_removes_some_files_and_the_next_ones_remove_the_others() -> None:
    disk = SimDisk()
    log = new_log(disk, MESSAGES)
    log.queue_journal()
    files = segments_on(disk)
    assert files > 2 * REMOVED_AT_ONCE_MAX
    log.delete(range(1, MESSAGES))
    log.write_journal()
    assert segments_on(disk) == files - REMOVED_AT_ONCE_MAX
    for _ in range(files // REMOVED_AT_ONCE_MAX):
        log.drop_empty_segments()
    assert segments_on(disk) == 1
    assert not log.emptied.are_possible
    assert sequences_in(log) == [MESSAGES]


def test_a_crash_between_two_turns_loses_no_message_and_brings_none_back() -> None:
    disk = SimDisk()
    log = new_log(disk, MESSAGES)
    log.queue_journal()
    log.delete(range(1, MESSAGES))
    log.write_journal()
    for death in (disk.kill, lambda: disk.power_loss("strict")):
        death()
        log = log_after_kill(disk)
        assert sequences_in(log) == [MESSAGES]
        assert not log.lost
        assert not log.findings.reported
        log.drop_empty_segments()
    add_messages(log, 1)
    assert sequences_in(log) == [MESSAGES, MESSAGES + 1]
