"""Compacted segments give the same answers from fewer bytes, whatever happens meanwhile."""

from random import Random

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.upkeep.compaction import Compaction
from headwater.testing.disk import PowerLost, SimDisk
from headwater.testing.entropy import SeededEntropy

FOLDER = "/store/stream"
SEGMENT_BYTES = 2_000


def filled(disk: SimDisk, count: int = 60) -> FileLog:
    """A log of several sealed segments; message n has subject `s.<n % 5>`."""
    disk.make_folder("/store")
    disk.sync_folder("/")
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)), segment_bytes_max=SEGMENT_BYTES)
    for number in range(1, count + 1):
        payload = b"payload %d " % number * 5
        log.append(Batch([b"s.%d" % (number % 5)], [b""], [payload], [number]))
    return log


def contents(log: FileLog) -> dict[int, bytes]:
    batch = log.read(0, 10_000, 1 << 30)
    return dict(zip(batch.sequences, batch.payloads, strict=True))


def compact_all(log: FileLog) -> int:
    done = 0
    for first in log.compactions.worthwhile():
        work = log.compactions.begin(first)
        work.run()
        done += log.compactions.finish(work)
    return done


def reopened(disk: SimDisk) -> FileLog:
    return open_log(disk, FOLDER, SeededEntropy(Random(2)), segment_bytes_max=SEGMENT_BYTES)


def bytes_on_disk(disk: SimDisk) -> int:
    total = 0
    for name in disk.list_folder(FOLDER):
        if name.startswith("segment-"):
            file = disk.open(f"{FOLDER}/{name}")
            total += file.size
            file.close()
    return total


def test_only_segments_that_are_mostly_deleted_are_worth_it() -> None:
    log = filled(SimDisk())
    assert log.compactions.worthwhile() == []
    log.delete([s for s in range(1, 41) if s % 4])
    assert log.compactions.worthwhile()


def test_the_same_messages_from_fewer_bytes_also_after_reopening() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete([s for s in range(1, 50) if s % 4])
    before, state, size = contents(log), [*log.index.gaps()], bytes_on_disk(disk)
    assert compact_all(log) > 0
    assert contents(log) == before
    assert [*log.index.gaps()] == state
    assert bytes_on_disk(disk) < size
    assert log.compactions.worthwhile() == []
    log.close()
    again = reopened(disk)
    assert contents(again) == before
    assert again.findings.reported == []


def test_what_is_deleted_meanwhile_stays_deleted() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete([s for s in range(1, 21) if s % 4])
    work = log.compactions.begin(log.compactions.worthwhile()[0])
    work.run()
    log.delete([4])
    log.append(Batch([b"s.new"], [b""], [b"while it ran"], [100]))
    assert log.compactions.finish(work)
    expected = contents(log)
    assert 4 not in expected
    assert expected[61] == b"while it ran"
    log.close()
    assert contents(reopened(disk)) == expected


def test_a_segment_that_is_gone_meanwhile_is_left_alone() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete([s for s in range(1, 11) if s % 4])
    work = log.compactions.begin(1)
    work.run()
    log.delete(range(1, log.index.segments[1].first_sequence))
    assert not log.compactions.finish(work)
    assert not any(name.endswith(".new") for name in disk.list_folder(FOLDER))
    assert 1 not in contents(log)


def test_subjects_and_expiries_survive() -> None:
    disk = SimDisk()
    log = create_log(disk, FOLDER, SeededEntropy(Random(1)), segment_bytes_max=SEGMENT_BYTES)
    for number in range(1, 41):
        log.append(Batch([b"s.%d" % number], [b"h"], [b"x" * 60], [number], [number * 1000]))
    log.delete([s for s in range(1, 31) if s % 4])
    assert compact_all(log)
    log.close()
    again = reopened(disk)
    assert again.subject_extent(b"s.4") == (4, 4, 1)
    assert again.subject_extent(b"s.5") == (0, 0, 0)
    assert again.due_by_expiry(8_000) == [4, 8]


@pytest.mark.parametrize("mode", ["strict", "random"])
def test_power_may_fail_at_any_point(mode: str) -> None:
    def prepared(disk: SimDisk) -> FileLog:
        log = filled(disk, 30)
        log.delete([s for s in range(1, 21) if s % 4])
        log.sync()
        return log

    whole = SimDisk()
    log = prepared(whole)
    expected = contents(log)
    start = whole.operations
    compact_all(log)
    for number in range(start, whole.operations):
        disk = SimDisk(seed=number)
        log = prepared(disk)
        disk.crash_at(number)
        with pytest.raises(PowerLost):
            compact_all(log)
        disk.power_loss(mode)  # type: ignore[arg-type]
        again = reopened(disk)
        assert contents(again) == expected
        assert not again.lost


# --- changes during a compaction ----------------------------------------------------------------


def begun(log: FileLog) -> Compaction:
    """A compaction of the first segment, run and not finished."""
    log.delete([s for s in range(1, 11) if s % 4])
    work = log.compactions.begin(1)
    work.run()
    return work


def leftovers(disk: SimDisk) -> list[str]:
    return [name for name in disk.list_folder(FOLDER) if name.endswith(SUCCESSOR_SUFFIX)]


def test_what_is_erased_meanwhile_is_nowhere_afterwards() -> None:
    disk = SimDisk()
    log = filled(disk)
    work = begun(log)
    log.delete([4], erase=True)
    assert b"payload 4 " in b"".join(disk.dump().values()), "it is in the successor"
    assert not log.compactions.finish(work)
    assert b"payload 4 " not in b"".join(disk.dump().values())
    assert 4 not in contents(log)
    # The next compaction succeeds.
    work = log.compactions.begin(1)
    work.run()
    assert log.compactions.finish(work)
    assert b"payload 4 " not in b"".join(disk.dump().values())


def test_a_successor_that_nobody_swapped_in_goes_when_the_log_is_opened() -> None:
    disk = SimDisk()
    log = filled(disk)
    begun(log)
    expected = contents(log)
    log.delete([4], erase=True)
    del expected[4]
    log.sync()
    disk.kill()
    assert leftovers(disk)
    again = reopened(disk)
    assert leftovers(disk) == []
    assert contents(again) == expected
    assert again.findings.reported == []


def test_one_compaction_at_a_time() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete([s for s in range(1, 50) if s % 4])
    first, second = log.compactions.worthwhile()[:2]
    work = log.compactions.begin(first)
    with pytest.raises(InvariantViolation, match="not over"):
        log.compactions.begin(second)
    work.run()
    log.compactions.abandon(work)
    assert leftovers(disk) == []
    work = log.compactions.begin(second)
    work.run()
    assert log.compactions.finish(work)


def test_damage_that_compaction_meets_is_lost_and_said_to_be() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete([s for s in range(1, 31) if s % 4])
    log.sync()
    disk.kill()
    log = reopened(disk)
    offset = log.index.segments[0].offsets[3]
    (path, *_) = [name for name in disk.files() if "/segment-" in name]
    disk.flip_bit(path, offset + 60, 1)
    assert compact_all(log)
    assert list(log.lost) == [(4, 4)]
    assert 4 not in contents(log)
    log.close()
    assert list(reopened(disk).lost) == [(4, 4)]
