"""The reasons to refuse a message, and the one that is told if there are several."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.checks import HEADER_BYTES_MAX, expected_number
from tests.kit.stream_driver import Publish
from tests.unit.jetstream.conftest import Drive

EXPECT_SUBJECT = "Nats-Expected-Last-Subject-Sequence"

# A header that is wrong, and the error that is told for it; of two the earlier one is told.
WRONG = [
    ("Nats-Incr", "x", 10171),
    ("Nats-Expected-Stream", "OTHER", 10060),
    ("Nats-TTL", "1h", 10166),
    (EXPECT_SUBJECT, "7", 10071),
    ("Nats-Expected-Last-Sequence", "7", 10071),
    ("Nats-Schedule", "@hourly", 10188),
    ("Nats-Scheduler", "S.s", 10212),
    ("Nats-Stream-Source", "O 1", 10227),
    ("Nats-Expected-Last-Msg-Id", "none", 10070),
    ("Nats-Rollup", "sub", 10111),
]


@pytest.mark.parametrize(("name", "value", "code"), WRONG, ids=[name for name, _, _ in WRONG])
def test_a_wrong_header_is_refused(drive: Drive, name: str, value: str, code: int) -> None:
    driver = drive()
    (answer,) = driver.publish_together([Publish("S.a", b"x", {name: value})])
    assert answer.error == code
    assert driver.sequences == []


def test_of_several_reasons_the_first_is_told(drive: Drive) -> None:
    driver = drive()
    for position in range(len(WRONG)):
        headers = {name: value for name, value, _ in reversed(WRONG[position:])}
        (answer,) = driver.publish_together([Publish("S.a", b"x", headers)])
        assert answer.error == WRONG[position][2]


def test_a_duplicate_is_told_after_expectations_and_before_the_rest(drive: Drive) -> None:
    driver = drive()
    driver.publish("S.a", Nats_Msg_Id="a")
    duplicate = {"Nats_Msg_Id": "a"}
    assert driver.publish("S.a", b"", **duplicate, Nats_Expected_Last_Sequence="9").error == 10071
    assert driver.publish("S.a", b"", **duplicate, Nats_Rollup="x").document["duplicate"] is True


def test_sizes_come_before_every_header(drive: Drive) -> None:
    driver = drive(max_msg_size=100)
    answer = driver.publish("S.a", b"x" * 101, Nats_Expected_Stream="OTHER")
    assert answer.error == 10054
    assert driver.publish("S.a", b"x" * 100).error == 0


def test_a_header_block_has_a_limit(drive: Drive) -> None:
    driver = drive()
    frame = len("NATS/1.0\r\nA: \r\n\r\n")
    assert driver.publish("S.a", A="x" * (HEADER_BYTES_MAX - frame)).error == 0
    assert driver.publish("S.a", A="x" * (HEADER_BYTES_MAX - frame + 1)).error == 10097


def test_a_sealed_stream_takes_nothing(drive: Drive) -> None:
    driver = drive()
    driver.update(sealed=True)
    assert driver.publish("S.a", b"x").error == 10109


def test_server_and_account_may_be_full(drive: Drive) -> None:
    driver = drive()
    driver.host.account_refusal = ApiError.of(error_codes.ACCOUNT_RESOURCES_EXCEEDED)
    assert driver.publish("S.a", b"x").error == 10002
    driver.host.server_refusal = ApiError.of(error_codes.INSUFFICIENT_RESOURCES)
    assert driver.publish("S.a", b"x").error == 10023
    driver.host.server_refusal = driver.host.account_refusal = None
    assert driver.publish("S.a", b"x").document["seq"] == 1


# --- expectations ---------------------------------------------------------------------------------


def test_publishes_of_one_turn_can_build_upon_each_other(drive: Drive) -> None:
    driver = drive()
    messages = [
        Publish("S.a", b"", {"Nats-Expected-Last-Sequence": "0"}),
        Publish("S.a", b"", {EXPECT_SUBJECT: "1"}),
        Publish("S.b", b"", {EXPECT_SUBJECT: "2", f"{EXPECT_SUBJECT}-Subject": "S.*"}),
        Publish("S.b", b"", {EXPECT_SUBJECT: "2"}),
    ]
    answers = driver.publish_together(messages)
    assert [answer.error for answer in answers] == [0, 0, 0, 10071]
    assert answers[-1].document["error"]["description"] == "wrong last sequence: 3"


def test_an_expectation_sees_what_is_not_visible_yet(drive: Drive) -> None:
    driver = drive()
    driver.hold()
    driver.fill("S.a")
    driver.publish_together([Publish("S.a", b"", {EXPECT_SUBJECT: "1"})])
    driver.release()
    assert driver.answers[-1].error == 0


def test_an_expectation_sees_what_a_roll_up_will_remove(drive: Drive) -> None:
    driver = drive(allow_rollup_hdrs=True)
    driver.fill("S.a")
    messages = [
        Publish("S.b", b"", {"Nats-Rollup": "all"}),
        Publish("S.a", b"", {EXPECT_SUBJECT: "0"}),
    ]
    assert [answer.error for answer in driver.publish_together(messages)] == [0, 0]


def test_a_subject_to_expect_of_needs_a_sequence(drive: Drive) -> None:
    answer = drive().publish("S.a", Nats_Expected_Last_Subject_Sequence_Subject="S.b")
    assert answer.error == 10193


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0),
        (b"18446744073709551616", 0),
        (b"1" + b"0" * 5000, 0),
        (b"-1", 2**64 - 1),
        (b"1 ", 2**64 - 1),
        (b"x", 2**64 - 1),
    ],
)
def test_an_expected_sequence_is_a_number_of_64_bits(text: bytes, number: int) -> None:
    assert expected_number(text) == number


# --- ids ------------------------------------------------------------------------------------------


def test_an_id_counts_for_the_window(drive: Drive) -> None:
    driver = drive(duplicate_window=2 * NS_PER_S)
    driver.publish("S.a", b"1", Nats_Msg_Id="a")
    driver.advance(1.9)
    again = driver.publish("S.a", b"2", Nats_Msg_Id="a")
    assert again.text == '{"stream":"S","seq":1,"duplicate": true}'
    driver.advance(0.1)
    assert driver.publish("S.a", b"3", Nats_Msg_Id="a").text == '{"stream":"S","seq":2}'


def test_the_id_of_a_refused_message_is_free(drive: Drive) -> None:
    driver = drive()
    messages = [
        Publish("S.a", b"", {"Nats-Msg-Id": "a", "Nats-Expected-Last-Sequence": "5"}),
        Publish("S.a", b"", {"Nats-Msg-Id": "a"}),
        Publish("S.a", b"", {"Nats-Msg-Id": "a"}),
    ]
    answers = driver.publish_together(messages)
    assert [answer.document["seq"] for answer in answers] == [0, 1, 1]


def test_the_last_id_is_that_of_the_last_message(drive: Drive) -> None:
    driver = drive()
    driver.publish_together([Publish("S.a", b"", {"Nats-Msg-Id": "a"}), Publish("S.a", b"")])
    assert driver.publish("S.a", Nats_Expected_Last_Msg_Id="a").error == 10070


# --- counters -------------------------------------------------------------------------------------


def test_increments_of_one_turn_add_up(drive: Drive) -> None:
    driver = drive(allow_msg_counter=True)
    messages = [Publish("S.a", b"", {"Nats-Incr": value}) for value in ("2", "+3", "-1")]
    answers = driver.publish_together(messages)
    assert [answer.document["val"] for answer in answers] == ["2", "5", "4"]
    assert driver.contents[-1] == (3, "S.a", b'{"val":"4"}')


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({}, b"", 10169),
        ({"Nats-Incr": "1"}, b"x", 10170),
        ({"Nats-Incr": "1.5"}, b"", 10171),
        ({"Nats-Incr": "1", "Nats-Rollup": "sub"}, b"", 10171),
    ],
)
def test_a_counter_takes_increments_only(
    drive: Drive, headers: dict[str, str], body: bytes, code: int
) -> None:
    driver = drive(allow_msg_counter=True)
    assert driver.publish_together([Publish("S.a", body, headers)])[0].error == code


def test_a_sum_has_to_fit(drive: Drive) -> None:
    driver = drive(allow_msg_counter=True, max_msg_size=40)
    assert driver.publish("S.a", Nats_Incr="1" * 10).error == 10054


# --- TTLs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "code"), [("0", 10165), ("x", 10165), ("00", 0), ("never", 0)])
def test_a_ttl_is_a_second_or_more(drive: Drive, value: str, code: int) -> None:
    assert drive(allow_msg_ttl=True).publish("S.a", Nats_TTL=value).error == code


@pytest.mark.parametrize(("value", "code"), [("1", 10166), ("x", 10165), ("00", 0)])
def test_where_there_are_no_ttls_a_sound_one_is_refused(
    drive: Drive, value: str, code: int
) -> None:
    assert drive().publish("S.a", Nats_TTL=value).error == code


def test_a_ttl_that_does_not_fit_is_the_end_of_time(drive: Drive) -> None:
    """nats-server removes such a message at once."""
    driver = drive(allow_msg_ttl=True)
    driver.publish("S.a", Nats_TTL="9223372036854775807")
    driver.advance(10**9)
    assert driver.sequences == [1]


def test_a_ttl_below_that_of_markers_is_raised(drive: Drive) -> None:
    driver = drive(allow_msg_ttl=True, subject_delete_marker_ttl=60 * NS_PER_S)
    driver.publish("S.a", b"x", Nats_TTL="5", Other="y")
    assert driver.header(1) == "NATS/1.0\r\nOther: y\r\nNats-TTL: 60\r\n\r\n"
