"""The parts of the consumer commands that need no server: settings, reports, deliveries."""

from datetime import UTC, datetime
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.cli.api.advice import ADVICE, advice_on
from headwater.cli.consumers.delivery import delivery_of, is_status
from headwater.cli.consumers.render import (
    delivery_text,
    info_text,
    report_fields,
    report_table,
    unprocessed_percent,
)
from headwater.cli.consumers.settings import (
    SETTINGS,
    completed,
    listed,
    sendable,
    with_implied,
)
from headwater.cli.shell.exits import CommandFailed
from headwater.cli.shell.units import api_time, parse_time, time_of_ns
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ErrorCode

NOW = datetime(2026, 1, 2, tzinfo=UTC)


# --- settings -----------------------------------------------------------------------------------


def test_every_setting_has_its_own_key_flag_and_parameter() -> None:
    for attribute in ("key", "flag", "parameter"):
        values = [getattr(setting, attribute) for setting in SETTINGS]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("api_form", "list_form"),
    [
        ({}, {}),
        ({"filter_subject": "a"}, {"filter_subjects": ["a"]}),
        ({"filter_subjects": ["a", "b"]}, {"filter_subjects": ["a", "b"]}),
    ],
)
def test_filters_are_a_list_here_and_what_the_api_wants_there(
    api_form: dict[str, Any], list_form: dict[str, Any]
) -> None:
    assert listed(api_form) == list_form
    assert sendable(list_form) == api_form


def test_one_filter_is_the_same_in_either_field() -> None:
    old = listed({"filter_subject": "a"})
    assert SETTINGS.differences(old, listed({"filter_subjects": ["a"]})) == {}
    assert sendable(listed({"filter_subjects": ["a"]})) == {"filter_subject": "a"}
    assert sendable({"filter_subjects": [], "max_deliver": 5}) == {"max_deliver": 5}


@pytest.mark.parametrize(
    ("config", "name", "is_ephemeral", "names"),
    [
        ({}, "N", False, {"name": "N", "durable_name": "N"}),
        ({}, "N", True, {"name": "N"}),
        ({}, None, True, {}),
        ({}, None, False, {}),
        ({"durable_name": "D"}, None, False, {"name": "D", "durable_name": "D"}),
        ({"durable_name": "D"}, "N", False, {"name": "N", "durable_name": "N"}),
        ({"durable_name": "D", "name": "D"}, None, True, {"name": "D"}),
        ({"name": "E"}, None, False, {"name": "E"}),
        ({"name": "E"}, "N", False, {"name": "N"}),
    ],
)
def test_a_name_makes_a_consumer_durable_unless_it_is_to_be_ephemeral(
    config: dict[str, Any], name: str | None, is_ephemeral: bool, names: dict[str, str]
) -> None:
    done = completed(config, name, is_ephemeral)
    assert done == {"ack_policy": "explicit", **names}


def test_what_a_configuration_says_of_acknowledgements_stays() -> None:
    assert completed({"ack_policy": "none"}, "N", False)["ack_policy"] == "none"


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({"opt_start_seq": 5}, "by_start_sequence"),
        ({"opt_start_time": "2026-01-01T00:00:00Z"}, "by_start_time"),
        ({"opt_start_seq": 5, "deliver_policy": "all"}, "all"),
        ({}, None),
    ],
)
def test_a_place_to_begin_is_a_policy(given: dict[str, Any], policy: str | None) -> None:
    assert with_implied(given).get("deliver_policy") == policy


def test_a_default_is_no_difference_from_what_is_not_set() -> None:
    server = {
        "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant",
        "ack_wait": 30 * 10**9, "max_deliver": -1, "max_ack_pending": 1000, "max_waiting": 512,
        "num_replicas": 0, "metadata": {"_nats.ver": "2.15.1"},
    }  # fmt: skip
    assert SETTINGS.differences(server, {}) == {}
    assert SETTINGS.differences(server, {"max_ack_pending": -1}) == {"max_ack_pending": (1000, -1)}
    assert SETTINGS.value_text("max_ack_pending", -1) == "unlimited"
    assert SETTINGS.value_text("backoff", [10**9, 60 * 10**9]) == "1s, 1m"
    assert SETTINGS.value_text("opt_start_time", "2026-01-01T00:00:00Z") == (
        "2026-01-01 00:00:00.000 UTC"
    )


# --- texts of errors ----------------------------------------------------------------------------


def test_advice_is_on_errors_that_there_are_and_names_what_they_are_about() -> None:
    values = vars(error_codes).values()
    known = {value.err_code for value in values if isinstance(value, ErrorCode)}
    assert set(ADVICE) <= known
    text = advice_on(10148, "S", "C")
    assert text == "Change it with: headwater consumer edit S C"
    assert advice_on(1, "S", "C") == ""


# --- times --------------------------------------------------------------------------------------


def test_times_are_written_as_the_api_writes_them() -> None:
    assert time_of_ns(1_767_312_245_000_000_007) == "2026-01-02T00:04:05.000000007Z"
    assert api_time(datetime(2026, 1, 2, 0, 4, 5, 6, UTC)) == "2026-01-02T00:04:05.000006Z"
    assert parse_time(api_time(NOW)) == NOW


# --- deliveries ---------------------------------------------------------------------------------


def message(reply: str, headers: dict[str, str] | None = None) -> Msg:
    """A message as the client library hands it over."""
    return Msg(Client(), "orders.new", reply, b"two pizzas", headers)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.S.C.3.17.20.1767312245000000007.4",
        "$JS.ACK.hub.hash.S.C.3.17.20.1767312245000000007.4",
        "$JS.ACK._.hash.S.C.3.17.20.1767312245000000007.4.token",
    ],
)
def test_a_reply_subject_tells_about_the_delivery(reply: str) -> None:
    delivery = delivery_of(message(reply))
    assert (delivery.stream, delivery.consumer) == ("S", "C")
    assert (delivery.deliveries, delivery.stream_sequence, delivery.consumer_sequence) == (
        3,
        17,
        20,
    )
    assert (delivery.stored_at_ns, delivery.pending) == (1_767_312_245_000_000_007, 4)


@pytest.mark.parametrize("reply", ["", "elsewhere", "$JS.ACK.S.C", "_INBOX.a.b.c.d.e.f.g.h.i.j"])
def test_a_message_of_somebody_else_is_no_delivery(reply: str) -> None:
    with pytest.raises(CommandFailed, match="did not come from a consumer"):
        delivery_of(message(reply))


def test_a_status_is_told_from_a_message_that_has_the_same_header() -> None:
    headers = {"Status": "404"}
    assert is_status(message("", headers))
    assert is_status(message("$JS.FC.S.C.abcd", {"Status": "100"}))
    assert not is_status(message("$JS.ACK.S.C.1.1.1.1.0", headers))
    assert not is_status(message(""))


def test_what_would_steer_a_terminal_is_escaped() -> None:
    msg = message("$JS.ACK.S.C.1.1.1.1767312245000000007.0", {"A\x1b[2J": "b\x1b[2J"})
    shown = delivery_text(1, delivery_of(msg), NOW).plain
    assert "\x1b" not in shown
    assert "two pizzas" in shown


# --- reports ------------------------------------------------------------------------------------


def info(name: str, stream: str = "S", **fields: Any) -> dict[str, Any]:
    """A consumer's information."""
    place = {"consumer_seq": 0, "stream_seq": 0}
    return {
        "stream_name": stream, "name": name, "created": "2026-01-01T00:00:00Z",
        "config": {"durable_name": name, "ack_policy": "explicit"}, "delivered": place,
        "ack_floor": place, "num_ack_pending": 0, "num_redelivered": 0, "num_waiting": 0,
        "num_pending": 0, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pending", "ack_pending", "messages", "percent"),
    [(0, 0, 0, 0.0), (0, 0, 10, 0.0), (5, 0, 10, 50.0), (5, 1, 10, 60.0), (9, 9, 10, 100.0)],
)
def test_unprocessed_is_what_is_not_delivered_and_not_acknowledged(
    pending: int, ack_pending: int, messages: int, percent: float
) -> None:
    consumer = info("C", num_pending=pending, num_ack_pending=ack_pending)
    assert unprocessed_percent(consumer, messages) == percent


def test_the_last_delivery_is_sorted_as_a_time() -> None:
    times = {
        "LATER": "2026-01-01T00:00:00.12Z",
        "SOONER": "2026-01-01T00:00:00.119999999Z",
        "NEVER": None,
    }
    consumers = [
        info(name, delivered={"consumer_seq": 1, "stream_seq": 1, "last_active": time})
        for name, time in times.items()
    ]
    rows = report_fields(consumers, {"S": 1}, "last_delivery", is_reversed=False)
    assert [row["name"] for row in rows] == ["LATER", "SOONER", "NEVER"]


def test_a_report_of_several_streams_adds_up_under_the_first_column() -> None:
    consumers = [info("A", "S1", num_pending=3), info("B", "S2", num_pending=4)]
    rows = report_fields(consumers, {"S1": 6, "S2": 4}, "unprocessed", is_reversed=False)
    header, first, second, totals = (
        report_table(rows, NOW, with_stream=True).text(None).plain.split("\n")
    )
    assert header.split()[:2] == ["stream", "name"]
    assert (first.split()[:2], second.split()[:2]) == (["S2", "B"], ["S1", "A"])
    assert ("100.0%" in first, "50.0%" in second) == (True, True)
    assert totals.split() == ["2", "consumers", "7", "0", "0", "0"]


def test_a_clustered_consumer_says_who_keeps_it() -> None:
    cluster = {"name": "C1", "leader": "n1", "replicas": [{"name": "n2", "current": True}]}
    shown = info_text(info("C", cluster=cluster), NOW).plain
    assert "\nCluster\n  Name:     C1\n  Leader:   n1\n  Replica:  n2, current" in shown
