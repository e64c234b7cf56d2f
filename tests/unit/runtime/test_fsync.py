"""Group commit: one sync at a time, everything written meanwhile shares the next."""

import errno
from random import Random

from headwater.runtime.fsync import SyncDriver
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.hand_scheduler import HandScheduler

AHEAD_BYTES_MAX = 5_000


class SyncWorld:
    """A store of three streams, and the driver of its syncs."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        entropy = SeededEntropy(Random(1))
        self.store: Store = open_store(
            self.disk,
            "/store",
            entropy,
            "boot",
            ahead_bytes_max=AHEAD_BYTES_MAX,
        )
        self.logs = [
            self.store.create_stream(f"s{number}", mode=SyncMode.ALWAYS) for number in range(3)
        ]
        self.settle_catalogue()
        self.scheduler = HandScheduler(several_at_once=True)
        self.commits = 0
        self.problems: list[str] = []
        self.refusals = 0
        self.driver = SyncDriver(
            self.store,
            self.scheduler,
            120.0,
            lambda: self.driver.commit(),
            self._committed,
            self.problems.append,
            self._no_room,
        )

    def settle_catalogue(self) -> None:
        """Have nothing wait that the catalogue would write with the next interval."""
        self.store.catalogue_commit.write_waiting()

    def _no_room(self, is_final: bool) -> None:
        self.refusals += 1

    def _committed(self) -> None:
        self.commits += 1

    def add_entry(self, stream: int, data: bytes = b"entry") -> None:
        """Add an entry that has no effect on the log."""
        log = self.logs[stream]
        log.add_entry(log.durability.added_entry + 1, log.last_sequence, data)

    def write(self, stream: int) -> None:
        self.add_entry(stream)
        self.driver.commit()

    @property
    def synced_entries(self) -> list[int]:
        return [log.synced_entry for log in self.logs]


def test_nothing_is_confirmed_before_the_sync_returned() -> None:
    world = SyncWorld()
    world.write(0)
    assert world.logs[0].synced_entry == 0
    world.scheduler.step()
    assert world.logs[0].synced_entry == 1
    assert world.commits == 1


def test_what_is_written_meanwhile_shares_the_next_sync() -> None:
    world = SyncWorld()
    world.write(0)
    for stream in (0, 1, 2, 1, 2):
        world.write(stream)
    assert len(world.scheduler.work) == 1
    world.scheduler.step()
    assert world.synced_entries == [1, 0, 0]
    assert len(world.scheduler.work) == 1
    world.scheduler.step()
    assert world.synced_entries == [2, 2, 2]
    assert world.scheduler.work == []
    assert world.commits == 2


def test_a_failed_sync_confirms_nothing_and_takes_the_streams_offline() -> None:
    world = SyncWorld()
    world.write(0)
    world.disk.fail("sync", "*ahead*", code=errno.EIO)
    world.scheduler.step()
    assert world.logs[0].synced_entry == 0
    assert world.commits == 0
    assert "write-ahead" in world.problems[0]
    assert all("write-ahead" in log.offline for log in world.logs)


def test_the_interval_syncs_everything_and_begins_anew() -> None:
    world = SyncWorld()
    plain = world.store.create_stream("plain")
    world.settle_catalogue()
    plain.append(Batch([b"s"], [b""], [b"x"], [1]))
    world.driver.start()
    world.scheduler.timers.pop(0).call()
    world.scheduler.step()
    assert plain.synced_sequence == 1
    assert len(world.scheduler.timers) == 1
    world.driver.stop()


# --- beside the loop ----------------------------------------------------------------------------


def batch(payload: bytes = b"x", count: int = 1) -> Batch:
    return Batch([b"s"] * count, [b""] * count, [payload] * count, [1] * count)


def fill(world: SyncWorld) -> None:
    """Commit until the write-ahead file is full and a trim is begun; all entries are applied."""
    while not world.scheduler.work:
        world.add_entry(0, bytes(2000))
        world.driver.commit()
        for log in world.logs:
            log.applied_entry = log.durability.added_entry
        world.scheduler.step()


def ahead_files(world: SyncWorld) -> list[str]:
    return [path for path in world.disk.files() if "/ahead" in path]


def test_commits_go_on_while_the_write_ahead_file_is_trimmed() -> None:
    world = SyncWorld()
    fill(world)
    before = world.commits
    trim = world.scheduler.work.pop()
    world.write(1)
    world.scheduler.step()
    assert world.commits == before + 1
    assert world.logs[1].synced_entry == 1
    assert len(ahead_files(world)) == 2
    world.scheduler.work.append(trim)
    world.scheduler.step()
    assert len(ahead_files(world)) == 1
    world.disk.power_loss("strict")
    store = open_store(world.disk, "/store", SeededEntropy(Random(2)), "boot 2")
    assert store.logs["s0"].entries_to_apply == []
    assert store.logs["s1"].entries_to_apply == [(1, 0, b"entry")]


def test_a_trim_that_fails_does_not_withhold_what_is_on_the_disk() -> None:
    world = SyncWorld()
    world.disk.fail("sync", "*/s1/segment*")
    world.add_entry(1)
    world.logs[1].append(batch())
    fill(world)
    commits = world.commits
    assert world.logs[1].synced_entry == 1
    world.scheduler.step()
    assert ["/s1: sync failed" in problem for problem in world.problems] == [True]
    assert world.logs[1].offline
    assert not world.logs[0].offline
    world.write(0)
    world.scheduler.step()
    assert world.commits > commits
    assert world.logs[0].synced_entry == world.logs[0].durability.added_entry


def begin_interval(world: SyncWorld) -> None:
    world.driver.start()
    world.scheduler.timers.pop(0).call()


def test_what_is_appended_to_an_async_stream_during_a_sync_is_kept() -> None:
    world = SyncWorld()
    loose = world.store.create_stream("loose", mode=SyncMode.ASYNC)
    world.settle_catalogue()
    loose.append(batch(b"before"))
    begin_interval(world)
    loose.append(batch(b"meanwhile"))
    world.scheduler.step()
    assert loose.synced_sequence == 1
    assert loose.last_sequence == 2
    loose.flush()
    assert [loose.get(at).payload for at in (1, 2)] == [b"before", b"meanwhile"]  # type: ignore[union-attr]


def test_entries_that_are_journalled_during_a_sync_are_not_covered_by_it() -> None:
    world = SyncWorld()
    plain = world.store.create_stream("plain")
    plain.write_entries([(300, b"before")])
    begin_interval(world)
    plain.write_entries([(300, b"meanwhile")])
    world.scheduler.step()
    assert not plain.is_synced
    world.store.sync()
    assert plain.is_synced


def test_files_that_go_during_a_sync_do_no_harm() -> None:
    world = SyncWorld()
    plain = world.store.create_stream("plain")
    plain.append(batch(bytes(1 << 20), 3))
    begin_interval(world)
    # Its only segment is removed, and the journal has a successor.
    plain.delete([1, 2, 3])
    plain.journal_rewrites.start_over([], plain.lost)
    world.scheduler.step()
    assert plain.offline == ""
    assert world.problems == []
    plain.append(batch())


def test_a_commit_that_is_wanted_and_has_no_entries_is_told_all_the_same() -> None:
    world = SyncWorld()
    begin_interval(world)
    world.scheduler.step()
    world.driver.commit()
    assert world.commits == 0, "as ever, after who wants it has said so"
    world.scheduler.step()
    assert world.commits == 1


def test_entries_without_room_are_committed_when_a_trim_has_made_some() -> None:
    world = SyncWorld()
    log = world.logs[0]
    log.add_entry(1, 0, bytes(3000))
    world.driver.commit()
    world.scheduler.step()
    log.applied_entry = 1
    world.disk.capacity_bytes = world.disk.used_bytes
    log.add_entry(2, 0, bytes(1000))
    world.driver.commit()
    world.scheduler.step()
    assert log.synced_entry == 1
    assert log.is_full
    while log.synced_entry < 2:
        assert world.scheduler.work, "a trim, and a commit after it"
        world.scheduler.step()
    assert world.problems == []
    assert len(ahead_files(world)) == 1
    world.disk.kill()
    store = open_store(world.disk, "/store", SeededEntropy(Random(2)), "boot")
    assert [entry[:2] for entry in store.logs["s0"].entries_to_apply] == [(2, 0)]
