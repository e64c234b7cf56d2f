"""A stream over time: messages expire, markers are written, schedules fire."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.go.times import format_time
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.schedules import due
from headwater.jetstream.streams.schedules.due import IDS_FORGOTTEN_AFTER_NS, REFUSED_COPY_RETRY_NS
from headwater.jetstream.streams.schedules.scheduling import GRACE_NS
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.stream_driver import BEGINNING_NS, Publish, StreamDriver
from tests.unit.jetstream.conftest import Drive

GRACE_S = GRACE_NS / NS_PER_S


def at(seconds: float) -> str:
    """The schedule of a time after the beginning."""
    return f"@at {format_time(BEGINNING_NS + round(seconds * NS_PER_S))}"


def schedule(driver: StreamDriver, pattern: str, subject: str = "S.s", **headers: str) -> int:
    """Store a schedule; returns the error."""
    named = {"Nats_Schedule": pattern, "Nats_Schedule_Target": "S.t", **headers}
    return driver.publish(subject, b"text", **named).error


# --- age ------------------------------------------------------------------------------------------


def test_messages_go_at_their_age(drive: Drive) -> None:
    driver = drive(max_age=10 * NS_PER_S)
    driver.fill("S.a")
    driver.advance(4)
    driver.fill("S.b")
    assert driver.stream.due.next_ns() == BEGINNING_NS + 10 * NS_PER_S
    driver.advance(5.9)
    assert driver.sequences == [1, 2]
    driver.advance(0.1)
    assert driver.sequences == [2]
    driver.advance(4)
    assert driver.sequences == []
    assert driver.stream.due.next_ns() == 0


def test_what_nobody_has_seen_does_not_go(drive: Drive) -> None:
    driver = drive(max_age=NS_PER_S)
    driver.hold()
    driver.fill("S.a")
    driver.now_ns += 2 * NS_PER_S
    assert driver.stream.decide_due(driver.now_ns).records == []


def test_a_shorter_age_holds_at_once(drive: Drive) -> None:
    driver = drive(allow_msg_ttl=True, max_age=100 * NS_PER_S)
    driver.fill("S.a")
    driver.advance(10)
    driver.update(max_age=5 * NS_PER_S)
    driver.advance(0)
    assert driver.sequences == []


def test_a_message_that_never_goes_is_looked_at_once(drive: Drive) -> None:
    """The message would otherwise be due again and again."""
    driver = drive(allow_msg_ttl=True, max_age=10 * NS_PER_S)
    driver.publish("S.a", Nats_TTL="never")
    driver.advance(5)
    driver.fill("S.b")
    driver.advance(5)
    assert driver.sequences == [1, 2]
    assert driver.stream.due.next_ns() == driver.now_ns + 5 * NS_PER_S
    driver.advance(5)
    assert driver.sequences == [1]
    assert driver.stream.due.next_ns() == 0


@pytest.mark.parametrize("headers", [{}, {"Nats_TTL": "never"}, {"Nats_TTL": "10s"}])
@pytest.mark.parametrize("allow_msg_ttl", [False, True])
def test_so_many_messages_are_looked_at_in_one_turn_and_no_more(
    drive: Drive,
    monkeypatch: pytest.MonkeyPatch,
    allow_msg_ttl: bool,
    headers: dict[str, str],
) -> None:
    monkeypatch.setattr(due, "GONE_AT_ONCE_MAX", 2)
    if not allow_msg_ttl:
        headers = {}
    driver = drive(allow_msg_ttl=allow_msg_ttl, max_age=10 * NS_PER_S)
    for _ in range(5):
        driver.publish("S.a", b"", **headers)
    left = []
    driver.now_ns += 10 * NS_PER_S
    while driver.stream.due.next_ns():
        driver.run_due()
        left.append(len(driver.sequences))
    assert left[:3] == ([5, 5, 5] if headers == {"Nats_TTL": "never"} else [3, 1, 0])


def test_an_age_cuts_a_longer_ttl(drive: Drive) -> None:
    driver = drive(allow_msg_ttl=True, max_age=10 * NS_PER_S)
    driver.publish("S.a", Nats_TTL="1h")
    driver.advance(10)
    assert driver.sequences == []


# --- markers --------------------------------------------------------------------------------------


def test_a_marker_stays_where_a_subject_lost_its_last_message(drive: Drive) -> None:
    driver = drive(
        allow_msg_ttl=True, max_age=10 * NS_PER_S, subject_delete_marker_ttl=60 * NS_PER_S
    )
    driver.fill("S.a", "S.a", "S.b")
    driver.advance(10)
    assert [(sequence, subject) for sequence, subject, _ in driver.contents] == [
        (4, "S.a"),
        (5, "S.b"),
    ]
    assert driver.header(4) == (
        "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m0s\r\nNats-Rollup: sub\r\n\r\n"
    )
    driver.advance(10)
    assert driver.sequences == [], "the stream's own age counts, and a marker leaves none"


@pytest.mark.parametrize(("operation", "marks"), [("PURGE", False), ("DEL", True)])
def test_the_end_of_a_key_leaves_no_marker(drive: Drive, operation: str, marks: bool) -> None:
    driver = drive(allow_msg_ttl=True, subject_delete_marker_ttl=NS_PER_S)
    driver.publish("S.a", KV_Operation=operation, Nats_TTL="5")
    driver.advance(5)
    assert driver.sequences == ([2] if marks else [])


def test_a_counter_that_goes_leaves_no_marker(drive: Drive) -> None:
    driver = drive(allow_msg_counter=True)
    driver.update(max_age=NS_PER_S, subject_delete_marker_ttl=NS_PER_S)
    driver.publish("S.a", Nats_Incr="5")
    driver.advance(1)
    assert driver.sequences == []
    assert driver.publish("S.a", Nats_Incr="1").document["val"] == "1"


# --- schedules ------------------------------------------------------------------------------------


def test_a_schedule_publishes_once_and_is_gone(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    assert schedule(driver, at(10), Other="kept") == 0
    assert driver.stream.due.next_ns() == BEGINNING_NS + 10 * NS_PER_S
    driver.advance(9.9)
    assert driver.sequences == [1]
    driver.advance(0.1)
    assert driver.contents == [(2, "S.t", b"text")]
    assert driver.header(2) == (
        "NATS/1.0\r\nOther: kept\r\nNats-Scheduler: S.s\r\nNats-Schedule-Next: purge\r\n\r\n"
    )
    assert driver.stream.due.next_ns() == 0


def test_a_schedule_of_the_past_leaves_time_to_take_it_back(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(-1000))
    driver.advance(GRACE_S - 0.01)
    driver.delete(1)
    driver.advance(1)
    assert driver.sequences == []
    assert driver.stream.due.next_ns() == 0


def test_a_schedule_repeats(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, "@every 10s")
    driver.advance(10)
    assert driver.sequences == [1, 2]
    following = format_time(BEGINNING_NS + 20 * NS_PER_S)
    assert f"Nats-Schedule-Next: {following}\r\n" in driver.header(2)
    driver.advance(35)
    assert driver.sequences == [1, 2, 3], "what was missed is not made up for"
    assert driver.stream.due.next_ns() == BEGINNING_NS + 55 * NS_PER_S


def test_a_schedule_waits_for_its_copy(drive: Drive) -> None:
    """Until the copy is durable the schedule is not due again."""
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(1))
    driver.hold()
    driver.advance(1)
    driver.advance(1)
    driver.release()
    assert driver.sequences == [2]


def test_schedules_of_one_moment_publish_in_order(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    for name in "abc":
        schedule(driver, at(5), f"S.{name}")
    driver.advance(6)
    copies = [driver.header(sequence) for sequence in driver.sequences]
    assert [header.split("Nats-Scheduler: ")[1][:3] for header in copies] == ["S.a", "S.b", "S.c"]


@pytest.mark.parametrize("how", ["message", "purge", "limit", "roll-up", "end"])
def test_a_schedule_that_is_gone_publishes_nothing(drive: Drive, how: str) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(5))
    if how == "message":
        driver.fill("S.s")
    elif how == "purge":
        driver.purge(b"S.*")
    elif how == "limit":
        driver.update(max_msgs=1)
        driver.fill("S.other")
    elif how == "roll-up":
        driver.publish("S.other", Nats_Rollup="all")
    else:
        driver.publish("S.t", Nats_Schedule_Next="purge", Nats_Scheduler="S.s")
    before = driver.stream.log.last_sequence
    driver.advance(10)
    assert driver.stream.log.last_sequence == before
    assert driver.stream.due.next_ns() == 0


def test_a_later_schedule_replaces_the_one_before_it(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(5))
    schedule(driver, at(8))
    driver.advance(6)
    assert driver.sequences == [2]
    driver.advance(2)
    assert driver.sequences == [3]


def test_a_copy_that_has_no_room_is_tried_again(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(5))
    driver.host.server_refusal = ApiError.of(error_codes.INSUFFICIENT_RESOURCES)
    driver.advance(5)
    assert driver.sequences == [1]
    assert driver.stream.due.next_ns() == driver.now_ns + REFUSED_COPY_RETRY_NS
    driver.host.server_refusal = None
    driver.advance(REFUSED_COPY_RETRY_NS / NS_PER_S)
    assert driver.sequences == [2]


def test_a_sealed_stream_publishes_nothing(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(5))
    driver.update(sealed=True)
    driver.advance(5)
    assert driver.sequences == [1]


def test_a_copy_takes_the_content_of_its_source(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    driver.publish("S.x", b"source", From="source", Nats_Msg_Id="a")
    schedule(driver, at(5), Nats_Schedule_Source="S.x")
    driver.advance(5)
    assert driver.contents[-1] == (3, "S.t", b"source")
    assert "From: source" in driver.header(3)
    assert "Msg-Id" not in driver.header(3)


def test_schedules_outlive_a_restart(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    schedule(driver, at(5), "S.a")
    schedule(driver, "@every 10s", "S.b")
    driver.advance(4)
    if driver.is_on_disk:
        driver.restart()
    driver.advance(26)
    assert driver.sequences[-2:] == [3, 4], "each once, however late"
    assert driver.stream.due.next_ns() == driver.now_ns + 10 * NS_PER_S


def test_a_copy_may_ask_for_what_a_client_may_not(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True, allow_msg_ttl=True)
    headers = {"Nats_Schedule_TTL": "5", "Nats_Schedule_Rollup": "sub"}
    schedule(driver, at(5), **headers)
    driver.fill("S.t")
    driver.advance(5)
    assert driver.sequences == [3]
    driver.advance(5)
    assert driver.sequences == []


def test_the_scheduler_of_an_end_may_be_of_the_same_turn(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    messages = [
        Publish("S.s", b"", {"Nats-Schedule": at(5), "Nats-Schedule-Target": "S.t"}),
        Publish("S.t", b"", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.s"}),
        Publish("S.p", b""),
        Publish("S.t", b"", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.p"}),
    ]
    answers = driver.publish_together(messages)
    assert [answer.error for answer in answers] == [0, 0, 0, 10212]
    assert driver.sequences == [2, 3]


# --- ids ------------------------------------------------------------------------------------------


def test_ids_are_forgotten_also_where_no_others_come(drive: Drive) -> None:
    driver = drive(duplicate_window=NS_PER_S)
    driver.publish("S.a", b"x", Nats_Msg_Id="one")
    assert driver.stream.due.next_ns() == BEGINNING_NS + NS_PER_S + IDS_FORGOTTEN_AFTER_NS
    driver.advance(1 + IDS_FORGOTTEN_AFTER_NS / NS_PER_S)
    assert len(driver.stream.dedupe) == 0
    assert driver.stream.due.next_ns() == 0


def test_ids_of_a_replicated_stream_end_by_the_times_of_its_messages(drive: Drive) -> None:
    driver = drive(duplicate_window=NS_PER_S, num_replicas=3)
    driver.publish("S.a", b"x", Nats_Msg_Id="one")
    driver.advance(1 + IDS_FORGOTTEN_AFTER_NS / NS_PER_S)
    assert driver.stream.due.next_ns() == 0
    assert len(driver.stream.dedupe) == 1
    driver.publish("S.a", b"x")
    driver.run_due()
    assert len(driver.stream.dedupe) == 0
    assert driver.stream.due.next_ns() == 0


def test_a_schedule_whose_copy_is_forgotten_is_due_again(drive: Drive) -> None:
    driver = drive(allow_msg_schedules=True)
    assert schedule(driver, at(1)) == 0
    driver.now_ns += 2 * NS_PER_S
    driver.hold()
    driver.run_due()
    assert driver.stream.due.next_ns() == 0, "the copy is in flight"
    driver.retreat(1)
    assert 0 < driver.stream.due.next_ns() <= driver.now_ns
    driver.run_due()
    driver.release()
    assert [subject for _, subject, _ in driver.contents] == ["S.t"]
    driver.check()


def test_a_schedule_is_due_again_also_if_its_forgotten_copy_was_not_to_be_stored() -> None:
    driver = ConsumerDriver(Storage.MEMORY, retention=Retention.INTEREST, allow_msg_schedules=True)
    driver.create(filter_subjects=("S.s",))
    assert schedule(driver, at(1)) == 0
    driver.now_ns += 2 * NS_PER_S
    driver.hold()
    driver.run_due()
    assert driver.stream.due.next_ns() == 0, "the copy is in flight"
    StreamDriver.retreat(driver, 1)
    assert 0 < driver.stream.due.next_ns() <= driver.now_ns
