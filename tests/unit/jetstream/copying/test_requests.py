"""The requests for a consumer of an origin, and their answers."""

import json

import pytest

from headwater.go.json import Time
from headwater.jetstream.copying.requests import creation_of, read_answer, reset_of, start_of
from headwater.jetstream.streams.origin_positions import NOWHERE, Position
from tests.kit.copied_messages import origin_of


def test_the_consumer_needs_no_acks_and_has_flow_control() -> None:
    origin = origin_of(True)
    ask = creation_of(origin, NOWHERE, start_of(origin, 0), "inbox")
    config = json.loads(ask.body)["config"]
    assert ask.subject == b"$JS.API.CONSUMER.CREATE.O"
    assert (config["ack_policy"], config["flow_control"], config["direct"]) == ("none", True, True)
    assert (config["deliver_subject"], config["deliver_policy"]) == ("inbox", "all")
    assert config["metadata"] == {"_nats.mirror.stream": "S", "_nats.mirror.acc": "$G"}
    assert b"Nats-Required-Api-Level: 4" in ask.header


def test_a_single_filter_stands_in_the_subject() -> None:
    origin = origin_of(False, filter_subject="a.*")
    ask = creation_of(origin, NOWHERE, start_of(origin, 0), "inbox")
    assert ask.subject.endswith(f".{origin.consumer_name}.a.*".encode())


def test_a_source_names_the_stream_that_it_knows() -> None:
    origin = origin_of(False)
    ask = creation_of(origin, Position(7, b"id"), start_of(origin, 7), "inbox")
    assert b"Nats-Stream-Identity: id" in ask.header
    assert json.loads(ask.body)["config"]["opt_start_seq"] == 8


@pytest.mark.parametrize(
    ("settings", "sequence", "start"),
    [
        ({}, 0, {}),
        ({}, 4, {"opt_start_seq": 5}),
        ({"opt_start_seq": 9}, 0, {"opt_start_seq": 9}),
        ({"opt_start_seq": 9}, 4, {"opt_start_seq": 5}),
        ({"opt_start_time": Time(5, "1970-01-01T00:00:00.000000005Z")}, 0, {"opt_start_time": 5}),
    ],
)
def test_a_start_counts_until_something_is_copied(
    settings: dict[str, object], sequence: int, start: dict[str, int]
) -> None:
    config = start_of(origin_of(True, **settings), sequence)
    time_ns = 0 if config.opt_start_time is None else config.opt_start_time.unix_ns
    assert config.opt_start_seq == start.get("opt_start_seq", 0)
    assert time_ns == start.get("opt_start_time", 0)


def test_a_consumer_that_is_there_begins_again() -> None:
    ask = reset_of(origin_of(True), "C", "deliver")
    assert (ask.subject, ask.body) == (b"$JS.API.CONSUMER.RESET.O.C", b"")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"name": 7}', b"[" * 10_000])
def test_an_answer_of_another_kind_is_none(body: bytes) -> None:
    assert read_answer(body) is None
