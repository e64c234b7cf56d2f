"""After a crash an atomic batch is there as a whole, or not at all."""

from random import Random

import pytest

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.streams.file import StreamBody
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.recovery import config_of, unfinished_batch
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch
from headwater.store.store import open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.stream_driver import Publish, StreamDriver, Surrounding
from tests.unit.jetstream.conftest import Drive


def block(**headers: object) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()


def member(number: int, batch: str = "b", **headers: object) -> bytes:
    return block(Nats_Batch_Id=batch, Nats_Batch_Sequence=number, **headers)


LAST = member(2, Nats_Batch_Commit=1)
PLAIN = b""


def log_of(*headers: bytes, moments_ns: list[int] | None = None) -> MemoryLog:
    log = MemoryLog()
    count = len(headers)
    moments_ns = moments_ns or [7] * count
    log.append(Batch([b"S"] * count, [*headers], [b"x"] * count, moments_ns))
    return log


@pytest.mark.parametrize(
    ("headers", "unfinished"),
    [
        ([PLAIN, PLAIN], []),
        ([PLAIN, member(1)], [2]),
        ([PLAIN, member(1), member(2)], [2, 3]),
        ([member(1), LAST], []),
        ([member(1), LAST, member(1, "c")], [3]),
        ([member(1), PLAIN], []),
        # Messages whose numbers do not lead back to the first one are of no batch.
        ([PLAIN, member(2)], []),
        ([member(1), member(3)], []),
        ([member(1, "a"), member(2, "b")], []),
        ([block(Nats_Batch_Id="b")], []),
        ([block(Nats_Batch_Id="b", Nats_Batch_Sequence="9" * 5000)], []),
        # The copy of a schedule that came in a batch.
        ([member(1, Nats_Scheduler="S.s", Nats_Schedule_Next="purge")], []),
    ],
)
def test_the_beginning_of_a_batch_at_the_end_of_a_log(
    headers: list[bytes], unfinished: list[int]
) -> None:
    assert sorted(unfinished_batch(log_of(*headers))) == unfinished


def test_a_batch_is_stored_at_one_moment() -> None:
    log = log_of(member(1), member(2), moments_ns=[7, 8])
    assert unfinished_batch(log) == []


def test_what_was_deleted_at_the_end_was_there() -> None:
    """A batch whose last message was deleted was whole."""
    log = log_of(member(1), LAST)
    log.delete([2])
    assert unfinished_batch(log) == []


def test_what_is_lost_at_the_end_may_have_been_the_rest() -> None:
    log = log_of(member(1), member(2))
    log.skip(100, 7)
    log.lost.add(3, 102)
    assert sorted(unfinished_batch(log)) == [1, 2]


def test_an_empty_log_has_none() -> None:
    assert unfinished_batch(MemoryLog()) == []


def test_half_a_batch_that_nobody_was_told_of_leaves_no_trace() -> None:
    driver = StreamDriver(Storage.FILE, allow_atomic=True)
    driver.fill("S.a")
    headers, times = [member(1), member(2)], [driver.now_ns] * 2
    driver.stream.log.append(Batch([b"S.a"] * 2, headers, [b"x"] * 2, times))
    driver.kill()
    for _ in range(2):
        assert (driver.sequences, driver.stream.visible_sequence) == ([1], 1)
        driver.kill()
    driver.fill("S.a")
    driver.kill()
    assert driver.sequences == [1, 2]


def test_half_a_batch_is_deleted_where_its_rest_may_have_been_told() -> None:
    driver = StreamDriver(Storage.FILE, allow_atomic=True)
    driver.fill("S.a")
    driver.stream.log.append(Batch([b"S.a"], [member(1)], [b"x"], [driver.now_ns]))
    driver.disk.power_loss("kind")
    driver.reopen()
    assert driver.sequences == [1]
    assert driver.stream.visible_sequence > 2, "no sequence is given out twice"


def test_also_where_batches_are_not_allowed_any_more() -> None:
    driver = StreamDriver(Storage.FILE)
    driver.stream.log.append(Batch([b"S.a"], [member(1)], [b"x"], [driver.now_ns]))
    driver.kill()
    assert driver.sequences == []


def test_what_was_cut_is_gone_for_good_before_anything_follows() -> None:
    """In the middle of a log nobody looks for half a batch."""
    driver = StreamDriver(Storage.FILE, allow_atomic=True)
    driver.stream.log.append(Batch([b"S.a"], [member(1)], [b"x"], [driver.now_ns]))
    driver.kill()
    [segment] = [path for path in driver.disk.files() if "segment" in path]
    assert driver.disk.is_synced(segment)


def test_a_whole_batch_outlives_a_restart(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    headers = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}
    last = {**headers, "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    driver.publish_together([Publish("S.a", b"1", headers), Publish("S.b", b"2", last)])
    driver.delete(2)
    if driver.is_on_disk:
        driver.restart()
    assert driver.sequences == [1]


# --- replicas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("applied", "found"),
    [(3, "before"), (4, "after"), (0, "after")],
)
def test_a_replica_has_the_configuration_of_the_entry_that_its_files_hold(
    applied: int, found: str
) -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    store = open_store(disk, "/data", SeededEntropy(Random(1)), "boot")
    log = store.create_stream("S", is_replica=True)
    log.applied_entry = applied
    body = StreamBody(
        config=StreamConfig(name="S", description="after"),
        before=StreamConfig(name="S", description="before"),
        since_entry=4,
    )
    assert config_of(body, log).description == found


def test_a_replica_keeps_half_a_batch_and_missed_times() -> None:
    """Its group decides: the entries that follow may say otherwise."""
    disk = SimDisk()
    disk.make_folder("/data")
    log = open_store(disk, "/data", SeededEntropy(Random(1)), "boot").create_stream(
        "S", is_replica=True
    )
    every = block(Nats_Schedule="@every 1s", Nats_Schedule_Target="S.t")
    log.append(Batch([b"S.s", b"S"], [every, member(1)], [b"x", b"y"], [7, 7]))
    config = StreamConfig(name="S", subjects=("S", "S.>"), allow_msg_schedules=True)
    stream = Stream(config, log, 0, Surrounding(BatchLimits()))
    stream.recover(10**15)
    assert log.messages == 2
    assert [due_ns for _, _, due_ns in stream.scheduling.entries()] == [10**9]


@pytest.mark.parametrize(
    ("passed", "unfinished"),
    [
        ({2: member(2)}, [1, 2]),
        ({2: member(2), 3: member(3)}, [1, 2, 3]),
        ({2: LAST}, []),
        ({2: member(2), 4: member(3, "c")}, []),
        ({2: member(3)}, []),
        ({2: PLAIN}, []),
    ],
)
def test_messages_of_a_batch_that_were_not_stored_count(
    passed: dict[int, bytes], unfinished: list[int]
) -> None:
    log = log_of(member(1))
    log.skip(max(passed) - 1, 7)
    log.passed = {sequence: (header, 7) for sequence, header in passed.items()}
    assert sorted(unfinished_batch(log)) == unfinished
