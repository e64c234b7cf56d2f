"""Group commit: one sync at a time, everything written meanwhile shares the next."""

import errno
from collections.abc import Callable
from random import Random
from typing import Any

from headwater.runtime.fsync import SyncDriver
from headwater.store.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy


class Timer:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandScheduler:
    """Runs offloaded work when told, and timers never by themselves."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []
        self.timers: list[Callable[[], object]] = []

    def call_soon(self, call: Callable[[], object]) -> Timer:
        raise AssertionError("not used")

    def call_later(self, delay_s: float, call: Callable[[], object]) -> Timer:
        self.timers.append(call)
        return Timer()

    def offload(self, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self.work.append((work, done))

    def finish_one(self) -> None:
        work, done = self.work.pop(0)
        done(work())


class World:
    def __init__(self) -> None:
        self.disk = SimDisk()
        entropy = SeededEntropy(Random(1))
        self.store: Store = open_store(self.disk, "/store", entropy, "boot")
        self.logs = [
            self.store.create_stream(f"s{number}", mode=SyncMode.ALWAYS) for number in range(3)
        ]
        self.scheduler = HandScheduler()
        self.commits = 0
        self.problems: list[str] = []
        self.driver = SyncDriver(
            self.store, self.scheduler, 120.0, self._committed, self.problems.append
        )

    def _committed(self) -> None:
        self.commits += 1

    def write(self, stream: int) -> None:
        self.logs[stream].append(Batch([b"s"], [b""], [b"x"], [1]))
        self.driver.commit_wanted()


def test_nothing_is_confirmed_before_the_sync_returned() -> None:
    world = World()
    world.write(0)
    assert world.logs[0].synced_sequence == 0
    world.scheduler.finish_one()
    assert world.logs[0].synced_sequence == 1
    assert world.commits == 1


def test_what_is_written_meanwhile_shares_the_next_sync() -> None:
    world = World()
    world.write(0)
    for stream in (0, 1, 2, 1, 2):
        world.write(stream)
    assert len(world.scheduler.work) == 1
    world.scheduler.finish_one()
    assert [log.synced_sequence for log in world.logs] == [1, 0, 0]
    assert len(world.scheduler.work) == 1
    world.scheduler.finish_one()
    assert [log.synced_sequence for log in world.logs] == [2, 2, 2]
    assert world.scheduler.work == []
    assert world.commits == 2


def test_a_failed_sync_confirms_nothing_and_takes_the_streams_offline() -> None:
    world = World()
    world.write(0)
    world.disk.fail("sync", "*ahead*", code=errno.EIO)
    world.scheduler.finish_one()
    assert world.logs[0].synced_sequence == 0
    assert world.commits == 0
    assert "write-ahead" in world.problems[0]
    assert all("write-ahead" in log.offline for log in world.logs)


def test_the_interval_syncs_everything_and_begins_anew() -> None:
    world = World()
    plain = world.store.create_stream("plain")
    plain.append(Batch([b"s"], [b""], [b"x"], [1]))
    world.driver.start()
    world.scheduler.timers.pop(0)()
    world.scheduler.finish_one()
    assert plain.synced_sequence == 1
    assert len(world.scheduler.timers) == 1
    world.driver.stop()
