"""Reads return visible messages, in every form, and nothing older than the reader has seen."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.go.times import format_time
from headwater.jetstream.api.documents import MessageGetRequest
from headwater.jetstream.api.message_get import (
    BAD_REQUEST,
    EMPTY_REQUEST,
    MALFORMED_REQUEST,
    MESSAGES_AT_A_TIME,
    NO_RESULTS,
    NOT_FOUND,
    PATTERNS_AT_A_TIME,
    TOO_MANY_RESULTS,
    awaited_sequence,
    get_direct,
    get_direct_by_subject,
    get_message,
)
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.errors import ApiError
from headwater.store.log.message_log import StoreError
from headwater.wire.headers import value_of
from tests.kit.stream_driver import BEGINNING_NS, Publish, StreamDriver
from tests.unit.jetstream.conftest import Drive

MAX_PENDING = 1 << 26
ALL = [">"]


def direct(driver: StreamDriver, **request: Any) -> list[tuple[bytes, bytes]]:
    body = json.dumps(request).encode()
    return [reply for reply in get_direct(driver.stream, body, MAX_PENDING) if reply is not None]


def sequences(replies: Sequence[tuple[bytes, bytes] | None]) -> list[int]:
    """The sequences of the messages among replies."""
    found = [value_of(reply[0], b"Nats-Sequence") for reply in replies if reply]
    return [int(each) for each in found if each]


def end_of(replies: list[tuple[bytes, bytes]]) -> str:
    return replies[-1][0].decode().removesuffix("\r\n\r\n").replace("\r\n", ", ")


# --- one message ----------------------------------------------------------------------------------


def test_a_reply_says_where_a_message_is_from(drive: Drive) -> None:
    driver = drive()
    driver.publish("S.a", b"text", Own="header")
    ((block, payload),) = direct(driver, seq=1)
    assert payload == b"text"
    assert block.decode() == (
        "NATS/1.0\r\nOwn: header\r\nNats-Stream: S\r\nNats-Subject: S.a\r\nNats-Sequence: 1\r\n"
        f"Nats-Time-Stamp: {format_time(BEGINNING_NS)}\r\n\r\n"
    )


def test_the_ways_to_ask_for_one(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b")
    driver.advance(1)
    driver.fill("S.a", "S.b")
    later = format_time(BEGINNING_NS + NS_PER_S)
    requests: list[tuple[dict[str, Any], int]] = [
        ({"seq": 2}, 2),
        ({"last_by_subj": "S.a"}, 3),
        ({"last_by_subj": "S.*"}, 4),
        ({"next_by_subj": "S.b"}, 2),
        ({"next_by_subj": "S.b", "seq": 3}, 4),
        ({"start_time": later}, 3),
        ({"start_time": later, "next_by_subj": "S.b"}, 4),
    ]
    for request, sequence in requests:
        assert sequences(direct(driver, **request)) == [sequence]


@pytest.mark.parametrize(
    "request_", [{"seq": 9}, {"last_by_subj": "S.x"}, {"next_by_subj": "S.a", "seq": 2}]
)
def test_what_is_not_there_is_not_found(drive: Drive, request_: dict[str, Any]) -> None:
    driver = drive()
    driver.fill("S.a")
    assert direct(driver, **request_) == [(NOT_FOUND, b"")]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", EMPTY_REQUEST),
        (b"{}", EMPTY_REQUEST),
        (b"null", EMPTY_REQUEST),
        (b"{", MALFORMED_REQUEST),
        (b'{"seq":"1"}', MALFORMED_REQUEST),
        (b'{"seq":1,"last_by_subj":"a"}', BAD_REQUEST),
        (b'{"last_by_subj":"a","batch":1}', BAD_REQUEST),
        (b'{"multi_last":["a"],"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}', BAD_REQUEST),
    ],
)
def test_a_request_that_can_not_be_answered(drive: Drive, body: bytes, status: bytes) -> None:
    assert [*get_direct(drive().stream, body, MAX_PENDING)] == [(status, b"")]


def test_a_subject_may_be_in_the_subject_of_the_request(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b")

    def ask(subject: bytes, body: bytes = b"") -> list[tuple[bytes, bytes] | None]:
        return [*get_direct_by_subject(driver.stream, subject, body, MAX_PENDING)]

    assert sequences(ask(b"S.a")) == [1]
    assert sequences(ask(b"S.*")) == [2]
    assert ask(b"S.a", b'{"no_hdr":true}') == [(b"", b"x")]
    assert ask(b"S.a", b'{"seq":1}') == [(BAD_REQUEST, b"")]
    assert ask(b"S.a", b"{") == [(MALFORMED_REQUEST, b"")]
    assert ask(b"S.\xff") == [(NOT_FOUND, b"")], "a subject need not be UTF-8"


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_ends_with_what_is_left(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b", "S.a", "S.a")
    replies = direct(driver, batch=2, next_by_subj="S.a")
    assert sequences(replies) == [1, 3]
    assert end_of(replies) == "NATS/1.0 204 EOB, Nats-Num-Pending: 1, Nats-Last-Sequence: 3"
    assert b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: 1\r\n" in replies[1][0]


def test_a_batch_has_a_limit_of_bytes(drive: Drive) -> None:
    driver = drive()
    driver.publish_together([Publish("S.a", b"x" * 100) for _ in range(4)])
    assert sequences(direct(driver, seq=1, batch=9, max_bytes=150)) == [1, 2]
    assert sequences(direct(driver, seq=1, batch=9, max_bytes=1)) == [1]
    assert sequences(direct(driver, seq=1, batch=9, max_bytes=-1)) == [1]
    assert sequences(direct(driver, seq=2, batch=2, max_bytes=1 << 40)) == [2, 3]


def test_a_batch_counts_what_is_visible(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b")
    driver.hold()
    driver.fill("S.a", "S.a")
    assert end_of(direct(driver, seq=1, batch=1)).endswith("Num-Pending: 1, Nats-Last-Sequence: 1")
    assert sequences(direct(driver, seq=1, batch=9)) == [1, 2]


# --- the last of many subjects --------------------------------------------------------------------


def test_the_last_of_each_subject_in_order(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b", "S.a", "S.c")
    replies = direct(driver, multi_last=["S.a", "S.b"])
    assert sequences(replies) == [2, 3]
    assert end_of(replies).endswith("Nats-Last-Sequence: 3, Nats-UpTo-Sequence: 4")
    assert sequences(direct(driver, multi_last=ALL, up_to_seq=2)) == [1, 2]
    assert sequences(direct(driver, multi_last=ALL, batch=1)) == [2]
    assert sequences(direct(driver, multi_last=ALL, seq=3)) == [3, 4]


def test_bounds_that_leave_nothing(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b", "S.c")
    driver.purge(before=3)
    beginning = format_time(BEGINNING_NS)
    assert direct(driver, multi_last=ALL, up_to_seq=2) == [(NO_RESULTS, b"")]
    assert direct(driver, multi_last=ALL, up_to_time=beginning) == [(NO_RESULTS, b"")]
    assert direct(driver, multi_last=["S.x"]) == [(NO_RESULTS, b"")]
    assert end_of(direct(driver, multi_last=ALL, seq=9)) == (
        "NATS/1.0 204 EOB, Nats-Num-Pending: 0, Nats-Last-Sequence: 0, Nats-UpTo-Sequence: 3"
    )


def test_a_bound_that_is_still_to_come(drive: Drive) -> None:
    """The reply depends on the storage of the stream, as in nats-server."""
    driver = drive()
    driver.fill("S.a")
    replies = direct(driver, multi_last=ALL, up_to_seq=9)
    if driver.config.storage is Storage.FILE:
        assert replies == [(NO_RESULTS, b"")]
    else:
        assert end_of(replies).endswith("Nats-UpTo-Sequence: 9")


def test_there_is_a_limit_of_subjects(drive: Drive) -> None:
    driver = drive()
    driver.fill(*(f"S.{number}" for number in range(1024)))
    assert len(sequences(direct(driver, multi_last=ALL))) == 1024
    driver.fill("S.more")
    assert direct(driver, multi_last=ALL) == [(TOO_MANY_RESULTS, b"")]


def test_the_limit_is_of_all_patterns_together(drive: Drive) -> None:
    driver = drive()
    driver.fill(*(f"S.{number}" for number in range(1025)))
    patterns = [f"*.{number}" for number in range(1024)]
    assert len(sequences(direct(driver, multi_last=[*patterns, "S.1", "S.1?"]))) == 1024
    assert direct(driver, multi_last=[*patterns, "S.1024"]) == [(TOO_MANY_RESULTS, b"")]


def test_many_patterns_leave_others_their_turn(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a", "S.b")
    patterns = [f"*.{number}" for number in range(2 * PATTERNS_AT_A_TIME)]
    body = json.dumps({"multi_last": [*patterns, "S.b"]}).encode()
    replies = [*get_direct(driver.stream, body, MAX_PENDING)]
    assert replies[:2] == [None, None]
    assert len(replies) == 4


@pytest.mark.parametrize("pattern", [">", "S.*", "S.a"])
def test_a_batch_is_of_what_was_visible_and_leaves_out_what_has_gone(
    drive: Drive, pattern: str
) -> None:
    driver = drive()
    count = MESSAGES_AT_A_TIME
    driver.fill(*["S.a"] * (count + 3))
    body = json.dumps({"seq": 1, "next_by_subj": pattern, "batch": 2 * count}).encode()
    replies = get_direct(driver.stream, body, MAX_PENDING)
    first = next(replies)
    driver.delete(count + 2)
    driver.fill("S.a")
    assert sequences([each for each in (first, *replies) if each is not None]) == [
        *range(1, count + 2),
        count + 3,
    ]


@pytest.mark.parametrize("pattern", [">", "S.*", "S.a", "S.b"])
def test_a_batch_is_what_its_messages_are_one_by_one(drive: Drive, pattern: str) -> None:
    driver = drive()
    driver.fill(*["S.a", "S.b", "S.b"] * 200)
    for sequence in (1, 2, 5, *range(250, 280), 599):
        driver.delete(sequence)
    driver.hold()
    driver.fill("S.a", "S.b")
    single: list[int] = []
    while found := sequences(direct(driver, seq=(single or [0])[-1] + 1, next_by_subj=pattern)):
        single += found
    assert sequences(direct(driver, seq=1, next_by_subj=pattern, batch=10_000)) == single
    assert sequences(direct(driver, next_by_subj=pattern, batch=10_000)) == single
    assert (
        sequences(direct(driver, seq=7, next_by_subj=pattern, batch=300))
        == [each for each in single if each >= 7][:300]
    )


def test_the_last_of_each_are_of_one_moment(drive: Drive) -> None:
    driver = drive(max_msgs_per_subject=1)
    driver.fill("S.a", "S.b", "S.c")
    replies = get_direct(driver.stream, b'{"multi_last":[">"]}', MAX_PENDING)
    first = next(replies)
    driver.fill("S.b", "S.d")
    assert sequences([each for each in (first, *replies) if each is not None]) == [1, 2, 3]


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        {"seq": 1},
        {"seq": 1, "no_hdr": True},
        {"seq": 9},
        {"seq": 1, "batch": 3},
        {"multi_last": ALL},
        {"multi_last": ["S.x"]},
        {"seq": 1, "last_by_subj": "S.a"},
        {},
    ],
)
def test_every_reply_to_a_session_read_carries_the_mark_and_nothing_else_changes(
    drive: Drive, request_: dict[str, Any]
) -> None:
    driver = drive()
    driver.publish("S.a", b"x", Nats_Last_Sequence="777")
    driver.fill("S.a")
    replies = direct(driver, **request_, min_last_seq=2)
    for block, _ in replies:
        assert block.count(b"Nats-Session-Sequence: 2\r\n") == 1
    without = direct(driver, **request_)
    assert [payload for _, payload in replies] == [payload for _, payload in without]
    plain = [block.replace(b"Nats-Session-Sequence: 2\r\n", b"") for block, _ in replies]
    assert plain == [block or b"NATS/1.0\r\n\r\n" for block, _ in without]


def test_a_batch_of_a_session_names_the_sequence_before_by_which_clients_see_gaps(
    drive: Drive,
) -> None:
    driver = drive()
    driver.fill("S.a", "S.b", "S.a")
    replies = direct(driver, seq=1, batch=3, next_by_subj="S.a", min_last_seq=3)
    lasts = [value_of(block, b"Nats-Last-Sequence") for block, _ in replies]
    assert lasts == [b"0", b"1", b"3"]


def test_a_mark_that_a_message_was_stored_with_is_not_the_sessions(drive: Drive) -> None:
    driver = drive()
    driver.publish("S.a", b"x", Nats_Session_Sequence="777")
    ((block, _),) = direct(driver, seq=1, min_last_seq=1)
    assert block.count(b"Nats-Session-Sequence: ") == 1
    assert value_of(block, b"Nats-Session-Sequence") == b"1"
    ((block, _),) = direct(driver, seq=1)
    assert value_of(block, b"Nats-Session-Sequence") == b"777"


def test_a_session_read_of_a_message_that_cannot_be_read_carries_the_mark(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive()
    driver.fill("S.a")

    def fail(*_: object) -> None:
        raise StoreError("the disk failed")

    monkeypatch.setattr(type(driver.stream), "message", fail)
    ((block, _),) = direct(driver, seq=1, min_last_seq=1)
    assert block.startswith(b"NATS/1.0 500 ")
    assert value_of(block, b"Nats-Session-Sequence") == b"1"


def test_who_has_seen_more_is_refused(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a")
    expected = b"NATS/1.0 412 Min Last Sequence\r\nNats-Session-Sequence: 1\r\n\r\n"
    assert direct(driver, seq=1, min_last_seq=2) == [(expected, b"")]
    driver.hold()
    driver.fill("S.a")
    assert direct(driver, seq=1, min_last_seq=2) == [(expected, b"")]
    driver.release()
    assert sequences(direct(driver, seq=1, min_last_seq=2)) == [1]


def test_so_he_is_by_the_api(drive: Drive) -> None:
    driver = drive()
    driver.fill("S.a")
    with pytest.raises(ApiError, match="min last sequence"):
        get_message(driver.stream, MessageGetRequest(seq=1, min_last_seq=2))
    assert get_message(driver.stream, MessageGetRequest(seq=1, min_last_seq=1)).seq == 1


@pytest.mark.parametrize(
    ("body", "sequence"),
    [
        (b"", 0),
        (b'{"seq":1}', 0),
        (b'{"min_last_seq":7}', 7),
        (b'{"seq":1,"MIN_LAST_SEQ": 7}', 7),
        (b'{"min_last_seq":"x"}', 0),
    ],
)
def test_what_a_request_waits_for(body: bytes, sequence: int) -> None:
    assert awaited_sequence(body) == sequence
