"""Writes that fail: reads go on, and nothing acked is lost. If a write found no room and nothing
is left of it, it can be tried again; else the log goes offline and says why.

Every operation on the disk of a workload fails in turn, with no room or an error of the disk, with
none or some of its bytes written. The log's answers afterwards are those from before the failed
call, or those that the call was to bring about; never something in between.
"""

import errno
from collections.abc import Callable

import pytest

from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, DiskFullError, OfflineError, StoreError
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk, crash_points
from headwater.testing.disk_faults import CHANGING, Operation
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.store_twin import Twin, file_size, same_messages, same_state

FOLDER = "streams/orders"
SEGMENT_BYTES_MAX = 400

Step = Callable[[FileLog], object]


def batch(first: int, count: int, size: int = 30) -> Batch:
    numbers = range(first, first + count)
    return Batch(
        [b"s.%d" % (number % 3) for number in numbers],
        [b""] * count,
        [b"message %d " % number + bytes(size) for number in numbers],
        [number * 10 for number in numbers],
        [10**6 if number % 4 == 0 else 0 for number in numbers],
    )


def entropy() -> SeededEntropy:
    return SeededEntropy(labelled_rng(1, "log"))


def create(disk: SimDisk) -> FileLog:
    return create_log(disk, FOLDER, entropy(), segment_bytes_max=SEGMENT_BYTES_MAX)


def reopened(disk: SimDisk) -> FileLog:
    return open_log(disk, FOLDER, entropy(), segment_bytes_max=SEGMENT_BYTES_MAX)


# The steps on the log, each with the one for its twin once the log's has succeeded.
STEPS: list[tuple[Step, Callable[[Twin], object]]] = [
    (lambda log: log.append(batch(1, 3)), lambda twin: twin.append(batch(1, 3))),
    (lambda log: log.append(batch(4, 4)), lambda twin: twin.append(batch(4, 4))),
    (lambda log: log.sync(), lambda twin: None),
    (lambda log: log.skip(2, 95), lambda twin: twin.skip(2)),
    (lambda log: log.append(batch(10, 5)), lambda twin: twin.append(batch(10, 5))),
    (lambda log: log.delete([2, 5]), lambda twin: twin.delete([2, 5])),
    (lambda log: log.delete([6], erase=True), lambda twin: twin.delete([6])),
    (lambda log: log.write_entries([(300, b"entry")]), lambda twin: None),
    (lambda log: log.checkpoints.write_now(), lambda twin: None),
    (lambda log: log.append(batch(15, 9)), lambda twin: twin.append(batch(15, 9))),
    (lambda log: log.append(batch(24, 1)), lambda twin: twin.append(batch(24, 1))),
    (lambda log: log.delete([1, 3, 4, 7]), lambda twin: twin.delete([1, 3, 4, 7])),
    (
        lambda log: log.journal_rewrites.start_over([(300, b"kept")], log.lost),
        lambda twin: None,
    ),
    (lambda log: log.set_body(b"body"), lambda twin: None),
    (lambda log: log.append(batch(25, 6)), lambda twin: twin.append(batch(25, 6))),
    (lambda log: log.purge(b"s.1"), lambda twin: twin.purge(b"s.1", 0, 0)),
    (lambda log: log.close(), lambda twin: None),
]


def workload(disk: SimDisk) -> None:
    log = create(disk)
    for step, _ in STEPS:
        step(log)


CREATED = SimDisk()
create(CREATED)
OPERATIONS = [
    (operation, CREATED.operation_counts[operation])
    for operation in CHANGING
    # A log cuts a file only where a write has failed, or where it is opened after a crash.
    if operation not in ("make_folder", "remove_folder", "truncate")
]


def is_same(log: FileLog, twin: Twin) -> bool:
    try:
        same_state(log, twin, file_size)
        same_messages(log, twin)
    except AssertionError:
        return False
    return True


def test_the_workload_does_all_that_can_fail() -> None:
    disk = SimDisk()
    workload(disk)
    assert len(crash_points(workload)) > 80
    for operation, before in OPERATIONS:
        assert disk.operation_counts[operation] > before, operation


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kept_size", [0, None])
@pytest.mark.parametrize(("operation", "before"), OPERATIONS)
def test_every_operation_fails_in_turn(
    operation: Operation, before: int, code: int, kept_size: int | None
) -> None:
    reference = SimDisk()
    workload(reference)
    for skipped in range(before, reference.operation_counts[operation]):
        disk = SimDisk(seed=skipped)
        fault = disk.fail(operation, code=code, skip=skipped, kept_size=kept_size)
        log = create(disk)
        was, twin, failure, done_count = run_until_failure(log)
        assert fault.strikes == 1, "the fault was not met"
        if isinstance(failure, DiskFullError):
            assert code == errno.ENOSPC
            assert operation in ("write", "create")
            check_goes_on(log, was, failure, done_count)
            was = twin = finished()
        elif failure is None:
            assert (code, operation) == (errno.ENOSPC, "write"), "nobody was told"
        else:
            check_offline(log, failure, was, twin)
        # The disk is whole again, and the server is started again.
        disk.heal()
        disk.kill()
        log = reopened(disk)
        assert log.offline == ""
        assert is_same(log, was) or is_same(log, twin)
        assert list(log.lost) == []
        first = log.append(batch(log.last_sequence + 1, 2))
        disk.kill()
        again = reopened(disk)
        assert again.last_sequence == first + 1
        assert again.messages == log.messages


def run_until_failure(log: FileLog) -> tuple[Twin, Twin, StoreError | None, int]:
    """The log before the step that failed, and after it, if it had not; and how many did not."""
    was, twin = Twin(), Twin()
    for done_count, (step, to_twin) in enumerate(STEPS):
        to_twin(twin)
        try:
            step(log)
        except StoreError as error:
            return was, twin, error, done_count
        to_twin(was)
    return was, twin, None, len(STEPS)


def finished() -> Twin:
    """The log after all steps."""
    twin = Twin()
    for _, to_twin in STEPS:
        to_twin(twin)
    return twin


def check_goes_on(log: FileLog, was: Twin, failure: DiskFullError, done_count: int) -> None:
    """Nothing has changed; the step that failed can be taken again, and all that follow."""
    assert FOLDER in str(failure)
    assert "no space left" in str(failure).lower()
    assert is_same(log, was), "something is left of it"
    assert log.offline == ""
    assert log.is_full
    with pytest.raises(DiskFullError, match="no space left"):
        log.append(batch(log.last_sequence + 1, 1))
    assert log.availability.room.look_for_room()
    for step, _ in STEPS[done_count:]:
        step(log)


def check_offline(log: FileLog, failure: StoreError, was: Twin, twin: Twin) -> None:
    assert isinstance(failure, OfflineError)
    assert FOLDER in str(failure)
    assert "restart the server" in str(failure)
    assert "No space left" in str(failure) or "Input/output error" in str(failure)
    assert log.offline
    if log.offline == "closed":
        return
    assert is_same(log, was) or is_same(log, twin), "something in between"
    before = log.last_sequence
    for step in (
        lambda: log.append(batch(before + 1, 1)),
        lambda: log.skip(1, 0),
        lambda: log.delete([before]),
        lambda: log.write_entries([(300, b"")]),
        lambda: log.sync(),
        lambda: log.checkpoints.write_now(),
        lambda: log.journal_rewrites.start_over([], log.lost),
        lambda: log.set_body(b""),
    ):
        with pytest.raises(StoreError, match="offline for writes"):
            step()
    assert log.last_sequence == before


def test_a_disk_that_fills_up_batch_by_batch() -> None:
    disk = SimDisk(capacity_bytes=10_000)
    log = create(disk)
    twin = Twin()

    def fill() -> None:
        while True:
            following = batch(twin.last + 1, 5)
            log.append(following)
            twin.append(following)

    with pytest.raises(DiskFullError, match="No space left"):
        fill()
    assert is_same(log, twin)
    disk.kill()
    log = reopened(disk)
    assert is_same(log, twin), "what was refused is not there after a restart"
    with pytest.raises(DiskFullError, match="No space left"):
        fill()
    disk.capacity_bytes = None
    assert log.availability.room.look_for_room()
    following = batch(twin.last + 1, 5)
    log.append(following)
    twin.append(following)
    assert is_same(log, twin)
    disk.kill()
    assert is_same(reopened(disk), twin)


def test_a_log_on_a_full_disk_can_be_opened_and_read() -> None:
    disk = SimDisk()
    log = create(disk)
    log.append(batch(1, 9))
    log.close()
    disk.capacity_bytes = disk.used_bytes
    log = reopened(disk)
    assert log.messages == 9
    assert log.offline == ""
    with pytest.raises(DiskFullError, match="No space left"):
        log.append(batch(10, 9))
    assert log.messages == 9


def test_a_failed_sync_is_not_tried_again() -> None:
    disk = SimDisk()
    log = create(disk)
    log.append(batch(1, 3))
    log.sync()
    log.append(batch(4, 3))
    disk.fail("sync", "*segment*")
    with pytest.raises(OfflineError):
        log.sync()
    with pytest.raises(OfflineError):
        log.sync()
    assert log.synced_sequence == 3
    assert log.messages == 6
    disk.power_loss("strict")
    log = open_log(disk, FOLDER, entropy(), loss_possible=True)
    assert log.messages == 3
    assert log.last_sequence >= 6
