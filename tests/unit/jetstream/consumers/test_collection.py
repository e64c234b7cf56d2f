"""The consumers of a stream: found by subject, written down, brought back."""

import pytest

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers import codec, collection
from headwater.jetstream.consumers.effects import REMOVED_REASON, Terminated
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerCreated,
    ConsumerDeleted,
    Delivered,
    Dropped,
    Forgotten,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import ConsumerEvent, ConsumerServed
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import DiskFullError, StoreError
from headwater.testing.disk import Mode
from tests.kit.consumer_driver import DELIVER, ConsumerDriver, sequences
from tests.unit.jetstream.consumers.conftest import Consume

# --- by name and by subject -----------------------------------------------------------------------


def test_a_consumer_is_found_by_its_name() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create()
    assert driver.stream.consumers.find("C").name == "C"
    with pytest.raises(ApiError, match="consumer not found"):
        driver.stream.consumers.find("D")


def test_the_servers_own_are_not_shown() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create("b")
    driver.create("a")
    own = {"durable_name": "", "direct": True, "deliver_subject": DELIVER}
    driver.create("own", ack_policy=AckPolicy.NONE, **own)
    assert [each.name for each in driver.stream.consumers.shown] == ["a", "b"]
    assert [each.name for each in driver.stream.consumers.direct] == ["own"]
    assert len(driver.stream.consumers) == 3


def test_so_many_are_about_a_subject() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    consumers = driver.stream.consumers
    driver.create("all")
    driver.create("a", filter_subject="S.a")
    driver.create("both", filter_subjects=("S.a", "S.b"))
    assert [consumers.interested(each) for each in (b"S.a", b"S.b", b"S.c")] == [3, 2, 1]
    driver.change("a", filter_subject="S.b")
    assert [consumers.interested(each) for each in (b"S.a", b"S.b", b"S.c")] == [2, 3, 1]
    driver.drop("both")
    driver.drop("all")
    assert [consumers.interested(each) for each in (b"S.a", b"S.b", b"S.c")] == [0, 1, 0]


def waiting(driver: ConsumerDriver, *subjects: bytes) -> list[str]:
    return [consumer.name for consumer in driver.stream.consumers.waiting_for(subjects)]


def test_only_who_waits_waits_and_each_once() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create("b", filter_subjects=("S.a", "S.b"))
    driver.create("a", filter_subject="S.a")
    driver.create("push", deliver_subject=DELIVER)
    assert waiting(driver, b"S.a", b"S.b") == []
    driver.pull(1, name="b")
    driver.pull(1, name="a")
    driver.listen("push")
    assert waiting(driver, b"S.a", b"S.b") == ["a", "b", "push"]
    assert waiting(driver, b"S.b") == ["b", "push"]
    driver.leave("push")
    driver.fill("S.a")
    assert waiting(driver, b"S.a", b"S.b") == []


def test_who_goes_or_changes_waits_for_other_things() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create("a", filter_subject="S.a")
    driver.pull(1, name="a")
    driver.change("a", filter_subject="S.b")
    assert waiting(driver, b"S.a") == []
    assert waiting(driver, b"S.b") == ["a"]
    driver.drop("a")
    assert waiting(driver, b"S.b") == []


def test_a_record_that_says_it_twice_counts_once() -> None:
    driver = ConsumerDriver(Storage.MEMORY, retention=Retention.INTEREST)
    driver.create()
    driver.create("D")
    driver.fill("S.a")
    driver.pull(1)
    driver.record(Acked("C", [1, 1], driver.now_ns))
    assert driver.sequences == [1]


def test_who_has_room_again_is_told_once() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create()
    driver.create("idle")
    driver.fill("S.a", "S.a")
    driver.pull(2)
    driver.stream.removals.remove([1])
    consumers = driver.stream.consumers
    event = Terminated(1, 1, 1, REMOVED_REASON)
    assert consumers.take_news() == [ConsumerEvent("C", event), ConsumerServed("C")]
    assert consumers.take_news() == []


# --- the journal ----------------------------------------------------------------------------------


def kinds(driver: ConsumerDriver) -> list[int]:
    return [kind for kind, _ in driver.stream.consumers.take_unwritten()]


def test_records_wait_for_the_next_write() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.stream.consumers.flush()
    driver.ack(*driver.pull(2))
    assert driver.stream.consumers.has_unwritten
    assert kinds(driver) == [codec.DELIVERED, codec.ACKED]


def test_a_removal_and_its_consequences_for_consumers_are_queued_together() -> None:
    driver = ConsumerDriver(Storage.FILE)
    driver.create()
    driver.fill("S.a", "S.a", "S.a")
    driver.stream.consumers.flush()
    driver.pull(2)
    before = driver.disk.operations
    driver.stream.removals.remove([1])
    assert driver.pending() == [2]
    assert kinds(driver) == []
    driver.stream.log.write_journal()
    assert driver.disk.operations == before + 1
    state = driver.stream.consumers.dump()
    driver.kill()
    assert driver.stream.consumers.dump() == state


def test_consumers_in_memory_write_nothing() -> None:
    driver = ConsumerDriver(Storage.MEMORY)
    driver.create(mem_storage=True)
    driver.fill("S.a", "S.a")
    driver.ack(*driver.pull(1))
    driver.drop()
    assert kinds(driver) == []


def test_consumers_in_memory_are_not_kept(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.create("M", mem_storage=True)
    driver.fill("S.a", "S.a")
    driver.pull(1, name="M")
    if driver.is_on_disk:
        driver.restart()
        assert [*driver.stream.consumers.by_name] == ["C"]


def test_a_snapshot_says_each_thing_once(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.create("M", mem_storage=True)
    driver.fill(*["S.a"] * 9)
    driver.ack(*driver.pull(5))
    found = [kind for kind, _ in driver.stream.consumers.snapshot()]
    assert found == [codec.CREATED, codec.STATE]


def test_what_waits_is_not_said_twice_when_the_journal_is_written_anew(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill("S.a", "S.a")
    driver.ack(*driver.pull(2), payload=b"-NAK")
    driver.pull(2)
    if driver.is_on_disk:
        assert driver.stream.consumers.has_unwritten
        driver.rewrite_journal()
        driver.restart()
        assert driver.consumer().state.redelivered == {1: 1, 2: 1}
        assert driver.figures()[0] == (4, 2)


def test_entries_behind_a_new_journal_go_on_from_it(consume: Consume) -> None:
    driver = consume()
    driver.create()
    driver.fill(*["S.a"] * 6)
    got = driver.pull(3)
    if driver.is_on_disk:
        driver.rewrite_journal()
    driver.ack(got[1])
    driver.change(max_deliver=7)
    driver.pull(1)
    if driver.is_on_disk:
        driver.restart()
    assert driver.pending() == [1, 3, 4]
    assert driver.consumer().config.max_deliver == 7


def test_on_a_full_disk_a_bounded_number_of_entries_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "UNWRITTEN_MAX", 10)
    driver = ConsumerDriver(Storage.FILE)
    driver.create(ack_wait=1)
    driver.create("gone")
    driver.fill(*["S.a"] * 3)
    consumers, log = driver.stream.consumers, driver.stream.log
    consumers.flush()
    assert isinstance(log, FileLog)
    log.availability.room.mark_full()
    driver.record(ConsumerDeleted("gone"))
    for _ in range(40):
        got = driver.pull(3)
        driver.ack(*got, payload=b"-NAK")
        with pytest.raises(DiskFullError):
            consumers.flush()
    assert log.availability.room.look_for_room()
    waiting = consumers.take_unwritten()
    assert len(waiting) < 20
    log.write_entries(waiting)
    before = consumers.dump()
    driver.restart()
    assert driver.stream.consumers.dump() == before


# --- coming back ----------------------------------------------------------------------------------


def written(driver: ConsumerDriver, *entries: tuple[int, bytes]) -> ConsumerDriver:
    """The stream after a kill, with these entries at the end of its journal."""
    driver.stream.consumers.flush()
    driver.stream.log.write_entries(entries)
    driver.stream.log.write_journal()
    driver.kill()
    return driver


@pytest.fixture
def driver() -> ConsumerDriver:
    """A stream on disk whose consumer has delivered 1 to 3 of 5 messages."""
    made = ConsumerDriver(Storage.FILE)
    made.create()
    made.fill(*["S.a"] * 5)
    made.pull(3)
    return made


def test_what_can_not_be_read_costs_the_entry_and_is_reported(driver: ConsumerDriver) -> None:
    written(
        driver,
        (codec.ACKED, b"\xff"),
        (codec.STATE, b""),
        codec.encode(Acked("C", [1], 5)),
        (codec.CONFIGURED, b"\x93\xa1C\xc4\x01{\x00"),
    )
    assert len(driver.stream.consumers.findings) == 3
    assert driver.pending() == [2, 3]


def test_entries_of_nobody_are_passed_over(driver: ConsumerDriver) -> None:
    state = driver.consumer().state
    written(driver, codec.encode(Acked("X", [1], 5)), codec.encode_state("X", state))
    assert driver.pending() == [1, 2, 3]
    assert not driver.stream.consumers.findings


def test_who_was_made_again_is_another(driver: ConsumerDriver) -> None:
    """A consumer starts over also if the deletion of the first one cannot be read."""
    config = driver.consumer().config
    written(driver, codec.encode(ConsumerCreated("C", config, driver.now_ns, 1)))
    assert driver.figures() == ((0, 0), (0, 0))
    assert sequences(driver.pull(9)) == [1, 2, 3, 4, 5]


def test_what_followed_from_messages_that_went_is_told_by_the_journal(
    driver: ConsumerDriver,
) -> None:
    written(
        driver,
        codec.encode(Dropped("C", [2])),
        codec.encode(Forgotten("C", 2, 5)),
        codec.encode(Delivered("C", (), [4], 5)),
    )
    assert driver.pending() == [3, 4]
    assert driver.figures() == ((4, 4), (1, 1))


def test_pending_messages_that_are_not_there_are_settled(driver: ConsumerDriver) -> None:
    """The process is killed between a deletion and its effects on consumers."""
    driver.stream.consumers.flush()
    driver.delete(1)
    driver.kill()
    assert driver.pending() == [2, 3]
    assert driver.figures() == ((3, 3), (1, 1))


def test_deadlines_come_back(driver: ConsumerDriver) -> None:
    driver.advance(20)
    driver.restart()
    driver.pull(9, expires=100)
    assert sequences(driver.take()) == [4, 5]
    driver.advance(9.9)
    assert not driver.take()
    driver.advance(0.1)
    assert [(each.sequence, each.deliveries) for each in driver.take()] == [(1, 2), (2, 2), (3, 2)]


def test_what_was_not_written_is_delivered_again(driver: ConsumerDriver) -> None:
    driver.stream.consumers.flush()
    driver.pull(2)
    driver.kill()
    assert driver.figures() == ((3, 3), (0, 0))
    again = driver.pull(9)
    assert [(each.sequence, each.deliveries) for each in again] == [(4, 1), (5, 1)]


def test_an_offline_log_takes_nothing(driver: ConsumerDriver) -> None:
    driver.pull(1)
    driver.stream.log.close()
    with pytest.raises(StoreError):
        driver.stream.consumers.flush()


POWER_LOSSES: list[tuple[Mode, int]] = [
    ("strict", 0),
    ("kind", 0),
    *(("random", seed) for seed in range(12)),
]


@pytest.mark.parametrize(("mode", "seed"), POWER_LOSSES)
def test_after_a_power_loss_everything_new_is_delivered(mode: Mode, seed: int) -> None:
    """A consumer does not take messages for delivered that the stream has lost."""
    driver = ConsumerDriver(Storage.FILE)
    driver.create()
    driver.fill("S.a")
    log = driver.stream.log
    assert isinstance(log, FileLog)
    log.sync()
    driver.fill(*["S.a"] * 5)
    driver.ack(*driver.pull(4))
    driver.stream.consumers.flush()
    driver.disk = driver.disk.clone(seed)
    driver.disk.power_loss(mode)
    driver.reopen()
    last = driver.stream.visible_sequence
    assert driver.figures()[0][1] <= last
    driver.pull(100)
    old = driver.take()
    assert [*driver.sequences][4:] == [each.sequence for each in old if each.sequence > 4]
    driver.leave_shadow()
    driver.fill("S.a", "S.a", "S.a")
    assert sequences(driver.take()) == [last + 1, last + 2, last + 3]
