"""Open batches after a refusal: atomic ones are gone, fast ones go on where the log ends."""

from errno import ENOSPC
from typing import Any

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.server.configuration.options import Options
from tests.kit.stored_world import streaming
from tests.kit.stream_driver import Publish, StreamDriver
from tests.kit.stream_world import AHEAD, SEGMENT, STORE_FAILED, StreamWorld
from tests.unit.jetstream.conftest import Drive

START, APPEND, COMMIT, _, PING = range(5)


def fast(number: int, operation: int = APPEND, batch: str = "f", gap: str = "fail") -> Publish:
    """A message of a fast batch, which is answered every third time."""
    reply = f"inbox.{batch}.3.{gap}.{number}.{operation}.$FI".encode()
    return Publish("S.a", b"x", {}, reply)


def atomic(number: int, commit: str = "", batch: str = "b") -> Publish:
    """A message of an atomic batch."""
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if commit:
        headers["Nats-Batch-Commit"] = commit
    return Publish("S.a", b"x", headers)


def texts(driver: StreamDriver, *messages: Publish) -> list[str]:
    return [answer.text for answer in driver.publish_together(messages)]


def driven(drive: Drive, **limits: int) -> StreamDriver:
    return drive(BatchLimits(**limits), allow_batched=True, allow_atomic=True)


# --- fast batches ---------------------------------------------------------------------------------


def test_messages_that_were_refused_are_a_gap_of_their_fast_batch(drive: Drive) -> None:
    driver = driven(drive)
    texts(driver, fast(1, START), fast(2))
    driver.hold()
    texts(driver, fast(3), fast(4))
    driver.retreat(1)
    driver.release()
    gap = '{"type":"gap","last_seq":3,"seq":5}'
    assert texts(driver, fast(5)) == [gap, '{"stream":"S","seq":2,"batch":"f","count":2}']
    assert driver.sequences == [1, 2]


def test_a_fast_batch_goes_on_with_the_first_message_that_was_refused(drive: Drive) -> None:
    driver = driven(drive)
    texts(driver, fast(1, START), fast(2))
    driver.hold()
    texts(driver, fast(3))
    texts(driver, fast(4, COMMIT))
    driver.retreat(2)
    driver.release()
    assert texts(driver, fast(3)) == ['{"type":"ack","seq":3,"msgs":3}'], "nothing was answered yet"
    assert texts(driver, fast(4, COMMIT)) == ['{"stream":"S","seq":4,"batch":"f","count":4}']


def test_a_fast_batch_that_was_refused_from_its_beginning_is_unknown(drive: Drive) -> None:
    driver = driven(drive, per_stream_max=1)
    driver.hold()
    texts(driver, fast(1, START))
    texts(driver, fast(2))
    driver.retreat(2)
    driver.release()
    unknown = error_codes.BATCH_PUBLISH_UNKNOWN_BATCH_ID.err_code
    assert driver.publish_together([fast(2)])[0].error == unknown
    assert texts(driver, fast(1, START, batch="other")) != [], "its place is free again"


def test_a_fast_batch_that_is_open_again_has_its_place_and_its_time_to_live(drive: Drive) -> None:
    driver = driven(drive, per_stream_max=2, idle_ns_max=10 * NS_PER_S)
    texts(driver, fast(1, START))
    driver.now_ns += NS_PER_S
    texts(driver, fast(1, START, batch="later"))
    driver.hold()
    driver.now_ns += NS_PER_S
    texts(driver, fast(2, COMMIT))
    driver.retreat(1)
    driver.release()
    too_many = error_codes.BATCH_PUBLISH_TOO_MANY_INFLIGHT.err_code
    assert driver.publish_together([fast(1, START, batch="third")])[0].error == too_many
    assert driver.stream.due.next_ns() == driver.now_ns + 8 * NS_PER_S
    driver.advance(8)
    assert [*driver.stream.publishing.fast_batches.open] == [b"later"]


def test_a_gap_that_a_refused_ping_has_shown_is_shown_again(drive: Drive) -> None:
    driver = driven(drive)
    texts(driver, fast(1, START, gap="ok"))
    driver.hold()
    driver.fill("S.b")
    texts(driver, fast(4, PING, gap="ok"))
    driver.retreat(2)
    driver.release()
    assert texts(driver, fast(4, PING, gap="ok"))[0] == '{"type":"gap","last_seq":2,"seq":5}'


# --- atomic batches -------------------------------------------------------------------------------


def test_an_atomic_batch_whose_commit_was_refused_is_gone_and_may_begin_again(drive: Drive) -> None:
    driver = driven(drive, per_stream_max=1)
    texts(driver, atomic(1))
    driver.hold()
    texts(driver, atomic(2, "1"))
    driver.retreat(1)
    driver.release()
    assert driver.sequences == []
    incomplete = error_codes.ATOMIC_PUBLISH_INCOMPLETE_BATCH.err_code
    assert driver.publish_together([atomic(2, "1")])[0].error == incomplete
    assert texts(driver, atomic(1), atomic(2, "1"))[-1].count('"count":2') == 1
    assert driver.sequences == [1, 2]


def test_an_atomic_batch_with_a_refused_member_is_gone(drive: Drive) -> None:
    driver = driven(drive, per_stream_max=1)
    texts(driver, atomic(1))
    driver.hold()
    driver.fill("S.b")
    texts(driver, atomic(2))
    driver.retreat(2)
    driver.release()
    incomplete = error_codes.ATOMIC_PUBLISH_INCOMPLETE_BATCH.err_code
    assert driver.publish_together([atomic(3, "1")])[0].error == incomplete
    assert texts(driver, atomic(1, batch="other")) == [""], "its place is free again"


def test_an_atomic_batch_without_a_refused_message_stays_open(drive: Drive) -> None:
    driver = driven(drive)
    texts(driver, atomic(1))
    driver.hold()
    driver.fill("S.b")
    driver.retreat(1)
    driver.release()
    assert texts(driver, atomic(2, "1")) == ['{"stream":"S","seq":2,"batch":"b","count":2}']


# --- a server -------------------------------------------------------------------------------------


def a_world(**config: Any) -> StreamWorld:
    world = StreamWorld(Options(jetstream=streaming()))
    world.create("S", subjects=["s.>"], **config)
    return world


def test_a_full_disk_leaves_no_message_of_a_fast_batch_counted_that_is_not_stored() -> None:
    world = a_world(allow_batched=True)

    def send(number: int, operation: int = APPEND) -> bytes:
        reply = f"inbox.f.100.ok.{number}.{operation}.$FI"
        return world.caller.ask(f"PUB s.a {reply} 1\r\nx\r\n".encode())

    world.caller.send(b"SUB inbox.f.> 8\r\n")
    send(1, START)
    faults = world.disk.fail("write", SEGMENT, code=ENOSPC, times=None)
    send(2)
    send(3)
    world.disk.heal(faults)
    world.advance(5)
    answer = send(4, COMMIT)
    assert b'{"type":"gap","last_seq":2,"seq":4}' in answer
    assert world.state()["last_seq"] == 2


def test_a_batch_that_was_abandoned_is_told_also_if_its_turn_is_refused() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"], allow_atomic=True)
    watcher = world.modern()
    watcher.send(b"SUB $JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S 1\r\n")
    first = "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n"
    world.caller.send(f"HPUB s.a {len(first)} {len(first)}\r\n{first}\r\n".encode())
    world.disk.fail("write", AHEAD, code=ENOSPC, times=None)
    watcher.take()
    stored = world.push("s.a")
    wrong = world.push("s.a", Nats_Batch_Id="b", Nats_Batch_Sequence="7")
    world.settle()
    world.sync()
    assert world.errors(stored, wrong) == [STORE_FAILED, STORE_FAILED]
    assert watcher.take().count(b'"incomplete"') == 1
