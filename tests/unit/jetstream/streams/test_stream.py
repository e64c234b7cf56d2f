"""A stream stores messages, shows them when they may be seen, and removes those over its limits."""

from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_config import (
    Discard,
    Republish,
    Retention,
    SubjectTransformConfig,
)
from headwater.jetstream.streams.stream import Stream
from headwater.store.disk.format import SUBJECT_BYTES_MAX
from tests.kit.stream_driver import Publish
from tests.unit.jetstream.conftest import Drive


def seen(stream: Stream) -> dict[str, int]:
    """The number of visible messages on each subject."""
    total, parts = at_once(stream.counting_subjects(b">", 0, 100))
    counts = {name: count for part in parts for name, count in part.items()}
    assert total == len(counts)
    return counts


# --- the watermark --------------------------------------------------------------------------------


def test_nothing_is_visible_or_answered_before_it_is_applied(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a")
    driver.hold()
    driver.publish_together([Publish("S.b", b"x")])
    stream = driver.stream
    assert (stream.visible_sequence, stream.look_ahead.next_sequence) == (1, 3)
    assert stream.log.last_sequence == 1, "the log has nothing that is not committed"
    assert stream.message(2) is None
    assert stream.last_message(b"S.>") == stream.message(1)
    assert stream.count_from(b">", 1) == 1
    assert stream.count_from(b"S.b", 1) == 0
    assert (stream.state().messages, stream.state().num_subjects) == (1, 1)
    answered = len(driver.answers)
    driver.release()
    assert len(driver.answers) == answered + 1
    assert stream.count_from(b">", 1) == 2
    assert stream.state().messages == 2


def test_limits_count_what_is_visible(drive: Drive) -> None:
    """A message that is in the log and not visible yet pushes nothing out."""
    driver = drive(max_msgs=2)
    driver.fill("S.a", "S.b")
    driver.hold()
    driver.fill("S.c", "S.d")
    assert driver.sequences == [1, 2]
    driver.release()
    assert driver.sequences == [3, 4]


def test_what_a_request_removes_is_there_until_its_turn_comes(drive: Drive) -> None:
    """Limits find the same messages in a stream whose disk is behind as in any other."""
    driver = drive(max_msgs=5)
    driver.fill(*["S.a"] * 5)
    driver.hold()
    driver.fill("S.a")
    driver.delete(3)
    assert driver.sequences == [1, 2, 3, 4, 5]
    driver.release()
    assert driver.sequences == [2, 4, 5, 6]


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, [4, 5]),
        ({"before": 3}, [3, 4, 5]),
        ({"before": 100}, None),
        ({"keep": 1}, [3, 4, 5]),
        ({"pattern": b"S.a"}, [3, 4, 5]),
        ({"pattern": b"S.a", "keep": 1}, [2, 3, 4, 5]),
    ],
    ids=str,
)
def test_a_purge_spares_what_was_published_after_it(
    drive: Drive, asked: dict[str, Any], left: list[int] | None
) -> None:
    driver = drive()
    driver.fill("S.a")
    driver.hold()
    driver.fill("S.a", "S.b")
    driver.purge(**asked)
    if left is not None:
        driver.fill("S.a", "S.b")
    state = driver.stream.state()
    assert (state.messages, state.last_seq, state.num_subjects) == (1, 1, 1)
    driver.release()
    assert driver.sequences == (left or [])
    assert driver.stream.state().last_seq == (5 if left else 99)


def test_other_settings_hold_from_their_turn_on(drive: Drive) -> None:
    driver = drive(allow_rollup_hdrs=True)
    driver.fill("S.a", "S.a")
    driver.hold()
    driver.publish_together([Publish("S.a", b"x", {"Nats-Rollup": "sub"})])
    driver.update(allow_rollup_hdrs=False)
    driver.release()
    assert driver.sequences == [3]


def test_subjects_are_counted_by_what_is_visible(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a")
    driver.hold()
    driver.fill("S.a", "S.b")
    assert seen(driver.stream) == {"S.a": 1}
    driver.release()
    assert seen(driver.stream) == {"S.a": 2, "S.b": 1}


# --- limits ---------------------------------------------------------------------------------------


def test_the_oldest_go_beyond_a_number_of_messages(drive: Drive) -> None:
    driver = drive(max_msgs=2)
    driver.fill("S.a", "S.b", "S.c")
    assert driver.sequences == [2, 3]


def test_the_oldest_go_beyond_a_number_of_bytes(drive: Drive) -> None:
    driver = drive(max_bytes=300)
    for _ in range(3):
        driver.publish("S.a", b"x" * 100)
    assert driver.sequences == [2, 3]


def test_a_message_larger_than_all_bytes_empties_the_stream(drive: Drive) -> None:
    driver = drive(max_bytes=100)
    driver.fill("S.a")
    assert driver.publish("S.a", b"x" * 200).document["seq"] == 2
    assert driver.sequences == []
    assert driver.stream.state().first_seq == 3


def test_each_subject_keeps_its_last_messages(drive: Drive) -> None:
    driver = drive(max_msgs_per_subject=2)
    driver.fill("S.a", "S.a", "S.b", "S.a", "S.a")
    assert driver.sequences == [3, 4, 5]


def test_a_large_message_pushes_the_first_out_before_a_small_one_replaces_it(
    drive: Drive,
) -> None:
    """The large message pushes the first out also if both come in one turn."""
    driver = drive(max_bytes=400, max_msgs_per_subject=1)
    messages = [Publish("S.a", b"x" * 100), Publish("S.b", b"x" * 300), Publish("S.b", b"x")]
    driver.publish_together(messages)
    assert driver.sequences == [3]


def test_lower_limits_hold_at_once(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.a", "S.b", "S.b", "S.b")
    driver.update(max_msgs_per_subject=2)
    assert driver.sequences == [1, 2, 4, 5]
    driver.update(max_msgs=1)
    assert driver.sequences == [5]


def test_a_full_stream_that_discards_new_refuses(drive: Drive) -> None:
    driver = drive(max_msgs=2, discard=Discard.NEW)
    driver.fill("S.a", "S.b", "S.c")
    answer = driver.publish("S.d")
    assert (answer.error, answer.document["error"]["description"]) == (
        10077,
        "maximum messages exceeded",
    )
    assert driver.sequences == [1, 2]


def test_a_full_subject_makes_room_for_itself(drive: Drive) -> None:
    driver = drive(max_msgs=2, max_msgs_per_subject=1, discard=Discard.NEW)
    driver.fill("S.a", "S.b", "S.a")
    assert driver.sequences == [2, 3]
    assert driver.publish("S.c").error == 10077


def test_room_that_will_be_there_counts(drive: Drive) -> None:
    """Of two publishes in one turn, the first makes room for the second."""
    driver = drive(max_msgs=3, max_msgs_per_subject=1, discard=Discard.NEW, allow_rollup_hdrs=True)
    driver.fill("S.a", "S.b", "S.c")
    driver.hold()
    driver.publish_together([Publish("S.a", b"x", {"Nats-Rollup": "all"}), Publish("S.d", b"x")])
    driver.publish_together([Publish("S.e", b"x"), Publish("S.f", b"x")])
    driver.release()
    assert [answer.error for answer in driver.answers[-4:]] == [0, 0, 0, 10077]


def test_a_full_subject_refuses_new_ones_if_it_is_told_to(drive: Drive) -> None:
    driver = drive(
        max_msgs_per_subject=1,
        discard=Discard.NEW,
        discard_new_per_subject=True,
        allow_rollup_hdrs=True,
    )
    driver.fill("S.a")
    description = driver.publish("S.a").document["error"]["description"]
    assert description == "maximum messages per subject exceeded"
    assert driver.publish("S.a", Nats_Rollup="sub").error == 0
    assert driver.sequences == [2]


# --- roll-ups -------------------------------------------------------------------------------------


def test_a_roll_up_takes_the_place_of_its_subject(drive: Drive) -> None:
    driver = drive(allow_rollup_hdrs=True)
    driver.fill("S.a", "S.b", "S.a")
    driver.publish("S.a", b"sum", Nats_Rollup="sub")
    assert driver.contents == [(2, "S.b", b"x"), (4, "S.a", b"sum")]


def test_roll_ups_between_others_in_one_turn(drive: Drive) -> None:
    driver = drive(allow_rollup_hdrs=True)
    rolled = {"Nats-Rollup": "all"}
    messages = [Publish("S.a"), Publish("S.b", b"", rolled), Publish("S.c"), Publish("S.a")]
    driver.publish_together([*messages, Publish("S.c", b"", {"Nats-Rollup": "sub"})])
    assert driver.sequences == [2, 4, 5]


@pytest.mark.parametrize("config", [{}, {"allow_rollup_hdrs": True, "deny_purge": True}])
def test_a_roll_up_needs_to_be_allowed(drive: Drive, config: dict[str, bool]) -> None:
    driver = drive()
    driver.update(**config)
    answer = driver.publish("S.a", Nats_Rollup="sub")
    assert answer.document["error"]["description"] == "rollup not permitted"


# --- interest -------------------------------------------------------------------------------------


def test_what_nobody_waits_for_takes_a_sequence_and_is_not_kept(drive: Drive) -> None:
    driver = drive(retention=Retention.INTEREST)
    assert driver.publish("S.a", b"x", Nats_Msg_Id="a").document["seq"] == 1
    assert driver.publish("S.a", b"x", Nats_Msg_Id="a").document == {
        "stream": "S",
        "seq": 1,
        "duplicate": True,
    }
    assert driver.sequences == []
    assert driver.stream.state().last_seq == 1


# --- subjects -------------------------------------------------------------------------------------


def test_a_transform_gives_the_stored_subject(drive: Drive) -> None:
    driver = drive(subject_transform=SubjectTransformConfig(src="S.*", dest="T.{{wildcard(1)}}"))
    driver.fill("S.a")
    assert driver.contents == [(1, "T.a", b"x")]
    assert driver.publish("S.a", Nats_Expected_Last_Subject_Sequence="1").error == 0


def test_a_drawn_subject_is_the_same_on_the_replica(drive: Drive) -> None:
    """The random number is drawn once: the record has the subject that it led to."""
    transform = SubjectTransformConfig(src="S.*", dest="T.{{random(1000000)}}")
    driver = drive(subject_transform=transform)
    for _ in range(5):
        driver.fill("S.a")
    driver.check()
    assert len({subject for _, subject, _ in driver.contents}) > 1


def test_stored_messages_are_sent_on_before_the_ack(drive: Drive) -> None:
    driver = drive(republish=Republish(src="S.>", dest="R.>"))
    driver.publish("S.a", b"one", Own="header")
    driver.publish_together([Publish("S.a", b"two"), Publish("S.a", b"three")])
    subjects, headers, bodies = zip(*driver.republished, strict=True)
    assert subjects == (b"R.a",) * 3
    assert bodies == (b"one", b"two", b"three")
    assert headers[0].startswith(b"NATS/1.0\r\nOwn: header\r\nNats-Stream: S\r\n")
    lasts = [header.split(b"Nats-Last-Sequence: ")[1].split(b"\r")[0] for header in headers]
    assert lasts == [b"0", b"1", b"2"]


# --- removals by request --------------------------------------------------------------------------


def test_a_purge_keeps_what_it_is_told_to(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b", "S.a", "S.b", "S.a")
    driver.purge(b"S.a", keep=1)
    assert driver.sequences == [2, 4, 5]
    driver.purge(before=5)
    assert driver.sequences == [5]


def test_a_purge_behind_the_end_gives_out_sequences(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a")
    driver.purge(before=10)
    assert driver.publish("S.a").document["seq"] == 10


def test_ids_are_known_after_a_purge(drive: Drive) -> None:
    driver = drive()
    driver.publish("S.a", Nats_Msg_Id="a")
    driver.purge()
    assert driver.publish("S.a", Nats_Msg_Id="a").document["duplicate"] is True


# --- coming back ----------------------------------------------------------------------------------


def test_ids_outlive_a_restart_within_the_window(drive: Drive) -> None:
    driver = drive(duplicate_window=10 * NS_PER_S)
    driver.publish("S.a", Nats_Msg_Id="old")
    driver.advance(6)
    driver.publish("S.a", Nats_Msg_Id="new")
    if driver.is_on_disk:
        driver.restart()
    driver.advance(5)
    assert "duplicate" not in driver.publish("S.a", Nats_Msg_Id="old").document
    assert driver.publish("S.a", Nats_Msg_Id="new").document["seq"] == 2
    assert driver.publish("S.a", Nats_Expected_Last_Msg_Id="old").error == 0


def test_expiries_outlive_a_restart(drive: Drive) -> None:
    driver = drive(allow_msg_ttl=True)
    driver.publish("S.a", Nats_TTL="5")
    driver.fill("S.b")
    if driver.is_on_disk:
        driver.restart()
    driver.advance(4.9)
    assert driver.sequences == [1, 2]
    driver.advance(0.1)
    assert driver.sequences == [2]


# --- subjects that are too long -------------------------------------------------------------------


def test_a_subject_that_becomes_too_long_is_refused(drive: Drive) -> None:
    dest = "T.{{wildcard(1)}}.{{wildcard(1)}}.{{wildcard(1)}}"
    driver = drive(
        subject_transform=SubjectTransformConfig(src="S.*", dest=dest), allow_atomic=True
    )
    fits = "b" * ((SUBJECT_BYTES_MAX - len("T...")) // 3)
    names = ["a", fits, fits + "b", "d"]
    answers = driver.publish_together([Publish(f"S.{name}", b"x") for name in names])
    assert [answer.error for answer in answers] == [0, 0, 10077, 0]
    assert "subject too long" in answers[2].text
    headers = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    [answer] = driver.publish_together([Publish(f"S.{fits}b", b"x", headers)])
    assert answer.error == 10077
    assert driver.sequences == [1, 2, 3]


def test_so_is_one_that_came_so(drive: Drive) -> None:
    """The limit of control lines may be above the length of subjects that clients accept."""
    driver = drive()
    fits = "S." + "b" * (SUBJECT_BYTES_MAX - len("S."))
    answers = driver.publish_together([Publish(name) for name in ("S.a", fits, fits + "b")])
    assert [answer.error for answer in answers] == [0, 0, 10077]
