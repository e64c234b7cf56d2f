"""A start after the server was killed: its cost for each stream, and the work left to do."""

from headwater.runtime.fsync import SyncDriver
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.hand_scheduler import HandScheduler

FOLDER = "/data"


def opened(disk: SimDisk, mode: SyncMode) -> Store:
    entropy = SeededEntropy(labelled_rng(disk.operations, "store"))
    return open_store(disk, FOLDER, entropy, disk.boot_id, default_mode=mode)


def killed(stream_count: int, mode: SyncMode = SyncMode.INTERVAL) -> SimDisk:
    """A disk on which a server was killed before it synced what its streams had taken."""
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk, mode)
    for number in range(stream_count):
        log = store.create_stream(f"s{number}", mode=mode)
        log.append(Batch([b"s"], [b""], [b"message"], [1]))
        log.write_entries([(300, b"entry")])
    disk.kill()
    return disk


def syncs_of_a_start(stream_count: int, mode: SyncMode) -> int:
    disk = killed(stream_count, mode)
    before = disk.operation_counts["sync"]
    opened(disk, mode)
    return disk.operation_counts["sync"] - before


def test_a_start_syncs_no_stream_whose_acks_do_not_speak_of_the_disk() -> None:
    interval = SyncMode.INTERVAL
    assert syncs_of_a_start(40, interval) == syncs_of_a_start(2, interval)


def test_where_an_ack_means_the_disk_has_a_message_the_disk_has_all_that_can_be_read() -> None:
    disk = killed(3, SyncMode.ALWAYS)
    store = opened(disk, SyncMode.ALWAYS)
    disk.power_loss("strict")
    assert [log.messages for log in store.logs.values()] == [1, 1, 1]
    assert [log.messages for log in opened(disk, SyncMode.ALWAYS).logs.values()] == [1, 1, 1]


def test_the_first_sync_after_a_kill_comes_at_once_and_covers_streams_nobody_writes_to() -> None:
    disk = killed(3)
    store = opened(disk, SyncMode.INTERVAL)
    assert not any(log.is_synced for log in store.logs.values())
    scheduler = HandScheduler()
    SyncDriver(store, scheduler, 120.0, _ignore, _ignore, _ignore, _ignore).start()
    assert scheduler.pass_time() == 0
    scheduler.step()
    assert [timer.delay_s for timer in scheduler.timers] == [120.0]
    assert all(log.is_synced for log in store.logs.values())
    disk.power_loss("strict")
    after = opened(disk, SyncMode.INTERVAL)
    assert [log.messages for log in after.logs.values()] == [1, 1, 1]
    assert [[entry.body for entry in log.entries] for log in after.logs.values()] == [
        [b"entry"]
    ] * 3


def test_a_segment_that_is_written_anew_waits_for_entries_of_before_the_kill() -> None:
    """Else a power loss could take a caller's entry about a message, and leave the message gone."""
    disk = SimDisk()
    store = opened(disk, SyncMode.INTERVAL)
    log = store.create_stream("s")
    log.append(Batch([b"s"] * 9, [b""] * 9, [bytes(100)] * 9, [1] * 9))
    log.delete([*range(2, 9)], entries=[(300, b"done with them")])
    disk.kill()
    log = opened(disk, SyncMode.INTERVAL).logs["s"]
    log.skip(100_000, 1)
    (first,) = log.compactions.worthwhile()
    work = log.compactions.begin(first)
    work.run()
    assert log.compactions.finish(work)
    disk.power_loss("strict")
    log = opened(disk, SyncMode.INTERVAL).logs["s"]
    assert [entry.body for entry in log.entries] == [b"done with them"]


def _ignore(*_: object) -> None:
    """Nobody waits for the sync."""
