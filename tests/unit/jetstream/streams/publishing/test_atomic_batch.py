"""Atomic batches are stored whole or not at all, whatever ends them."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Discard
from headwater.jetstream.streams.publishing.batch_limits import OPEN_BYTES_MAX, BatchLimits
from tests.kit.stream_driver import Answer, Publish, StreamDriver
from tests.unit.jetstream.conftest import Drive


def member(
    number: object, commit: str | None = None, batch: str = "b", **headers: str
) -> dict[str, str]:
    """The headers of a message of a batch; in names of others `_` stands for `-`."""
    made = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if commit is not None:
        made["Nats-Batch-Commit"] = commit
    return made | {name.replace("_", "-"): value for name, value in headers.items()}


def send(driver: StreamDriver, headers: dict[str, str], subject: str = "S.a") -> Answer:
    return driver.publish_together([Publish(subject, b"x", headers)])[-1]


def test_a_batch_is_stored_at_its_commit(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    assert send(driver, member(1)).text == ""
    assert send(driver, member(2)).text == ""
    assert driver.sequences == []
    assert send(driver, member(3, "1")).text == '{"stream":"S","seq":3,"batch":"b","count":3}'
    assert driver.sequences == [1, 2, 3]


def test_a_commit_may_be_left_out_of_the_batch(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1))
    assert send(driver, member(2, "eob")).document["count"] == 1
    assert driver.sequences == [1]
    assert driver.header(1).endswith("Nats-Batch-Commit: 1\r\n\r\n")


def test_a_batch_is_one_record(drive: Drive) -> None:
    """A failing disk cannot store half of one record."""
    driver = drive(allow_atomic=True, allow_rollup_hdrs=True)
    driver.fill("S.a", "S.b")
    driver.hold()
    messages = [
        Publish("S.a", b"1", member(1, Nats_Rollup="sub")),
        Publish("S.b", b"2", member(2, Nats_Rollup="sub")),
        Publish("S.c", b"3", member(3, "1")),
    ]
    driver.publish_together(messages)
    assert len(driver.stream.look_ahead) == 1
    driver.release()
    assert driver.sequences == [3, 4, 5]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (member(2, "1", Nats_Expected_Stream="OTHER"), 10060),
        (member(2, "1", Nats_Msg_Id="first"), 10201),
        (member(2, "1", Nats_Msg_Id="stored"), 10201),
        (member(2, "1", Nats_Expected_Last_Sequence="2"), 10164),
        (member(2, "1", Nats_Expected_Last_Sequence="0"), 10071),
        (member(2, "1", Nats_Expected_Last_Subject_Sequence="1"), 10164),
        (member(2, "1", Nats_Expected_Last_Msg_Id="x"), 10177),
        (member(2, "1", Nats_Rollup="sub"), 10111),
        (member(2, "1", Nats_TTL="x"), 10166),
    ],
)
def test_one_bad_message_keeps_all_out(drive: Drive, headers: dict[str, str], code: int) -> None:
    driver = drive(allow_atomic=True)
    driver.publish("S.b", Nats_Msg_Id="stored")
    messages = [
        Publish("S.a", b"1", member(1, Nats_Msg_Id="first")),
        Publish("S.a", b"2", headers),
        Publish("S.a", b"3", {"Nats-Msg-Id": "first", "Nats-Expected-Last-Sequence": "1"}),
    ]
    answers = driver.publish_together(messages)
    assert answers[1].error == code
    assert answers[2].document == {"stream": "S", "seq": 2}, "nothing of the batch is known"


def test_a_batch_that_does_not_fit_leaves_the_room_it_would_take(drive: Drive) -> None:
    driver = drive(allow_atomic=True, max_msgs=2, discard=Discard.NEW)
    messages = [Publish("S.a", b"x", member(number)) for number in (1, 2)]
    messages += [Publish("S.a", b"x", member(3, "1")), Publish("S.b", b"x"), Publish("S.b", b"x")]
    answers = driver.publish_together([*messages, Publish("S.b", b"x")])
    assert [answer.error for answer in answers[2:]] == [10077, 0, 0, 10077]


def test_roll_ups_of_a_dropped_batch_remove_nothing(drive: Drive) -> None:
    driver = drive(allow_atomic=True, allow_rollup_hdrs=True)
    driver.fill("S.a", "S.b")
    messages = [
        Publish("S.a", b"", member(1, Nats_Rollup="all")),
        Publish("S.b", b"", member(2, "1", Nats_Rollup="all")),
        Publish("S.b", b"", {"Nats-Expected-Last-Subject-Sequence": "2"}),
    ]
    answers = driver.publish_together(messages)
    assert answers[1].document["error"]["description"] == "batch rollup all invalid"
    assert answers[2].error == 0
    assert driver.sequences == [1, 2, 3]


PLAIN = [
    Publish("S.a", b"1", member(1, Nats_Msg_Id="p")),
    Publish("S.b", b"2", member(2)),
    Publish("S.a", b"3", member(3, "1", Nats_Msg_Id="q")),
]
"""A batch without conditions, which is not checked message by message."""


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Nats-Expected-Last-Sequence": "4"}, 0),
        ({"Nats-Expected-Last-Sequence": "1"}, 10071),
        ({"Nats-Expected-Last-Subject-Sequence": "4"}, 0),
        ({"Nats-Expected-Last-Subject-Sequence": "1"}, 10071),
        ({"Nats-Expected-Last-Msg-Id": "q"}, 0),
        ({"Nats-Expected-Last-Msg-Id": "first"}, 10070),
    ],
)
def test_what_follows_a_plain_batch_in_its_turn_finds_it_stored(
    drive: Drive, headers: dict[str, str], code: int
) -> None:
    driver = drive(allow_atomic=True)
    driver.publish("S.a", Nats_Msg_Id="first")
    answers = driver.publish_together([*PLAIN, Publish("S.a", b"4", headers)])
    assert answers[-2].document == {"stream": "S", "seq": 4, "batch": "b", "count": 3}
    assert answers[-1].error == code


@pytest.mark.parametrize("same_turn", [True, False])
def test_an_id_of_a_plain_batch_is_known_before_and_after(drive: Drive, same_turn: bool) -> None:
    driver = drive(allow_atomic=True)
    turns = [
        [Publish("S.c", b"", {"Nats-Msg-Id": "q"})],
        PLAIN,
        [PLAIN[1]._replace(headers=member(1, "1", Nats_Msg_Id="r"))],
        [Publish("S.c", b"", {"Nats-Msg-Id": "r"})],
    ]
    if same_turn:
        turns = [[message for turn in turns for message in turn]]
    answers = [answer for turn in turns for answer in driver.publish_together(turn)]
    assert answers[3].error == 10201
    assert answers[4].document["seq"] == 2
    assert answers[5].document == {"stream": "S", "seq": 2, "duplicate": True}


def test_a_plain_batch_makes_others_go_as_its_messages_would_alone(drive: Drive) -> None:
    driver = drive(allow_atomic=True, max_msgs=3)
    driver.fill("S.c")
    gone = Publish("S.c", b"", {"Nats-Expected-Last-Subject-Sequence": "0"})
    assert driver.publish_together([*PLAIN, gone])[-1].document == {"stream": "S", "seq": 5}
    assert driver.sequences == [3, 4, 5]


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Nats-Batch-Id": "b"}, 10175),
        (member("x"), 10175),
        (member(2**64), 10175),
        (member(2), 10176),
        (member(1001), 10199),
        (member(1001, "eob"), 10176),
        (member(1, "eob"), 10176),
        (member(1, "yes"), 10200),
        (member(1, batch="i" * 65), 10179),
        (member(1, Nats_Required_Api_Level="99"), 10185),
    ],
)
def test_a_mistake_is_told(drive: Drive, headers: dict[str, str], code: int) -> None:
    driver = drive(allow_atomic=True)
    assert send(driver, headers).error == code
    assert send(driver, member(2)).error == 10176, "the batch is over"


def test_batches_have_to_be_allowed(drive: Drive) -> None:
    assert send(drive(), member(1)).error == 10174


def test_a_gap_ends_the_batch_and_is_told_to_all(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1))
    assert send(driver, member(3)).error == 10176
    assert driver.abandoned == [(b"b", "incomplete")]


def test_a_level_that_is_not_met_is_told_to_all(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1, Nats_Required_Api_Level="1"))
    send(driver, member(2, Nats_Required_Api_Level="99"))
    assert driver.abandoned == [(b"b", "unsupported")]


def test_the_required_level_is_not_stored(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1, "1", Nats_Required_Api_Level="1"))
    assert "Level" not in driver.header(1)


def test_a_message_that_is_too_large_does_not_count(drive: Drive) -> None:
    driver = drive(allow_atomic=True, max_msg_size=100)
    send(driver, member(1))
    large = Publish("S.a", b"x" * 101, member(2))
    assert driver.publish_together([large])[0].error == 10054
    assert send(driver, member(2, "1")).document["count"] == 2


# --- limits ---------------------------------------------------------------------------------------


def test_a_batch_has_a_limit_of_messages(drive: Drive) -> None:
    driver = drive(BatchLimits(messages_max=2), allow_atomic=True)
    for number in (1, 2):
        send(driver, member(number))
    answer = send(driver, member(3))
    assert answer.document["error"]["description"] == "atomic publish batch is too large: 2"
    assert driver.abandoned == [(b"b", "large")]
    for number in (1, 2):
        send(driver, member(number))
    assert send(driver, member(3, "eob")).document["count"] == 2


def test_a_stream_has_a_limit_of_open_batches(drive: Drive) -> None:
    driver = drive(BatchLimits(per_stream_max=1), allow_atomic=True)
    send(driver, member(1))
    assert send(driver, member(1, batch="c")).error == 10210
    send(driver, member(2, "1"))
    assert send(driver, member(1, batch="c")).text == ""


def test_a_server_has_a_limit_of_open_batches(drive: Drive) -> None:
    driver = drive(BatchLimits(total_max=1), allow_atomic=True)
    assert driver.host.server.batch_room.atomic.begin(0), "a batch of another stream"
    assert send(driver, member(1)).error == 10210
    driver.host.server.batch_room.atomic.end()
    send(driver, member(1))
    driver.stream.publishing.drop_batches()
    assert driver.host.server.batch_room.atomic.begin(0), (
        "a stream that ends leaves no batch behind"
    )


def test_a_silent_batch_is_given_up(drive: Drive) -> None:
    driver = drive(BatchLimits(idle_ns_max=5 * NS_PER_S), allow_atomic=True)
    send(driver, member(1, batch="early"))
    driver.advance(3)
    send(driver, member(1, batch="late"))
    send(driver, member(2, batch="early"))
    assert driver.stream.due.next_ns() == driver.now_ns + 5 * NS_PER_S
    driver.advance(4.9)
    assert driver.abandoned == []
    driver.advance(0.1)
    assert driver.abandoned == [(b"late", "timeout"), (b"early", "timeout")]
    assert driver.stream.due.next_ns() == 0
    assert send(driver, member(3, batch="early")).error == 10176


def test_an_open_batch_does_not_outlive_a_restart(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1))
    if driver.is_on_disk:
        driver.restart()
        assert send(driver, member(2, "1")).error == 10176


def test_open_batches_may_hold_so_many_bytes_and_no_more(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    size = len(b"S.a") + len(Publish("S.a", b"", member(1)).header_block) + len(b"x")
    room = driver.host.server.batch_room
    assert room.take_bytes(OPEN_BYTES_MAX - 2 * size)
    assert send(driver, member(1, batch="a")).text == ""
    assert send(driver, member(1, batch="b")).text == ""
    assert send(driver, member(2, batch="a")).error == 10210
    assert driver.abandoned == [(b"a", "large")]
    # The room of the abandoned batch is free again, and so is that of a committed one.
    assert send(driver, member(2, batch="b", commit="eob")).document["count"] == 1
    assert room.take_bytes(2 * size)
    assert not room.take_bytes(1)


def test_batches_of_a_stream_that_ends_hold_nothing(drive: Drive) -> None:
    driver = drive(allow_atomic=True)
    send(driver, member(1))
    driver.stream.publishing.drop_batches()
    assert driver.host.server.batch_room.take_bytes(OPEN_BYTES_MAX)
