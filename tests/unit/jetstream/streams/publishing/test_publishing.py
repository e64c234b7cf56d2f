"""Decisions about publishes: which of them are answered, and how."""

from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.incoming import Incoming
from tests.kit.stream_driver import REPLY, Publish
from tests.unit.jetstream.conftest import Drive


def test_an_ack_names_stream_and_sequence(drive: Drive) -> None:
    driver = drive()
    assert driver.publish("S.a", b"x").text == '{"stream":"S","seq":1}'
    assert driver.publish("S.a", b"x", Other="y").text == '{"stream":"S","seq":2}'


def test_publishes_of_one_turn_have_consecutive_sequences(drive: Drive) -> None:
    driver = drive()
    answers = driver.publish_together([Publish("S.a", b"1"), Publish("S.b", b"2")])
    assert [answer.document["seq"] for answer in answers] == [1, 2]
    assert driver.contents == [(1, "S.a", b"1"), (2, "S.b", b"2")]


def test_who_does_not_ask_is_not_answered(drive: Drive) -> None:
    driver = drive()
    quiet = [Publish("S.a", b"1", reply=None), Publish("S.a", b"2", {"A": "b"}, reply=None)]
    assert driver.publish_together(quiet) == []
    answers = driver.publish_together([Publish("S.a", b"3", reply=None), Publish("S.a", b"4")])
    assert [answer.document["seq"] for answer in answers] == [4]


def test_a_stream_without_acks_answers_nothing(drive: Drive) -> None:
    driver = drive(no_ack=True)
    refused = Publish("S.a", b"", {"Nats-Expected-Stream": "OTHER"})
    assert driver.publish_together([Publish("S.a", b"x"), refused]) == []
    assert driver.sequences == [1]


def test_a_log_that_takes_nothing_refuses_all(drive: Drive) -> None:
    driver = drive()
    incoming = Incoming()
    incoming.add(b"S.a", REPLY, -1, b"x")
    incoming.add(b"S.a", None, -1, b"x")
    error = ApiError.of(error_codes.STREAM_STORE_FAILED, err="the disk is gone")
    decision = driver.stream.publishing.refuse(incoming, error)
    assert decision.reply_subjects == [REPLY]
    assert b"the disk is gone" in decision.replies[0]
