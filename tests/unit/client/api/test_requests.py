"""Requests of the JetStream API: their subjects, bodies, and the names they are about."""

import json

import pytest

from headwater.client.api.requests import (
    ApiRequest,
    account_info,
    consumer_create,
    consumer_delete,
    consumer_info,
    consumer_pause,
    consumer_step_down,
    message_get,
    message_next,
    meta_step_down,
    prefix_of,
    server_remove,
    stream_create,
    stream_delete,
    stream_info,
    stream_peer_remove,
    stream_purge,
    stream_restore,
    stream_snapshot,
    stream_step_down,
    stream_update,
)

FILTERED = {"name": "C", "filter_subject": "orders.new"}


@pytest.mark.parametrize(
    ("domain", "api_prefix", "prefix"),
    [
        (None, None, "$JS.API"),
        ("hub", None, "$JS.hub.API"),
        (None, "of.another.account", "of.another.account"),
        (None, "of.another.account.", "of.another.account"),
    ],
)
def test_the_api_is_below_its_domain_or_prefix(
    domain: str | None, api_prefix: str | None, prefix: str
) -> None:
    assert prefix_of(domain, api_prefix) == prefix
    assert stream_delete("S").subject(prefix) == f"{prefix}.STREAM.DELETE.S"


@pytest.mark.parametrize(
    ("request_", "operation", "names"),
    [
        (account_info(), "INFO", ("", "")),
        (stream_create({"name": "S"}), "STREAM.CREATE.S", ("S", "")),
        (stream_update({"name": "S"}), "STREAM.UPDATE.S", ("S", "")),
        (stream_info("S"), "STREAM.INFO.S", ("S", "")),
        (stream_delete("S"), "STREAM.DELETE.S", ("S", "")),
        (stream_purge("S", {}), "STREAM.PURGE.S", ("S", "")),
        (message_get("S", {"seq": 1}), "STREAM.MSG.GET.S", ("S", "")),
        (stream_snapshot("S", {}), "STREAM.SNAPSHOT.S", ("S", "")),
        (stream_restore({"name": "S"}, {}), "STREAM.RESTORE.S", ("S", "")),
        (consumer_create("S", {}), "CONSUMER.CREATE.S", ("S", "")),
        (consumer_create("S", FILTERED), "CONSUMER.CREATE.S.C", ("S", "C")),
        (consumer_info("S", "C"), "CONSUMER.INFO.S.C", ("S", "C")),
        (consumer_delete("S", "C"), "CONSUMER.DELETE.S.C", ("S", "C")),
        (consumer_pause("S", "C", None), "CONSUMER.PAUSE.S.C", ("S", "C")),
        (message_next("S", "C"), "CONSUMER.MSG.NEXT.S.C", ("S", "C")),
        (stream_step_down("S"), "STREAM.LEADER.STEPDOWN.S", ("S", "")),
        (stream_peer_remove("S", "s1"), "STREAM.PEER.REMOVE.S", ("S", "")),
        (consumer_step_down("S", "C"), "CONSUMER.LEADER.STEPDOWN.S.C", ("S", "C")),
        (meta_step_down(), "META.LEADER.STEPDOWN", ("", "")),
        (server_remove("s1"), "SERVER.REMOVE", ("", "")),
    ],
)
def test_a_request_names_its_operation_and_what_it_is_about(
    request_: ApiRequest, operation: str, names: tuple[str, str]
) -> None:
    assert request_.operation == operation
    assert (request_.stream, request_.consumer) == names


def test_a_filter_stands_in_the_subject_only_where_it_is_asked_for() -> None:
    request = consumer_create("S", FILTERED, has_filter_in_subject=True)
    assert request.operation == "CONSUMER.CREATE.S.C.orders.new"
    assert (request.stream, request.consumer) == ("S", "C")
    unnamed = consumer_create("S", {"filter_subject": "a"}, has_filter_in_subject=True)
    assert unnamed.operation == "CONSUMER.CREATE.S"


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (stream_create({"name": "S"}), {"name": "S"}),
        (stream_create({"name": "S"}, pedantic=True), {"name": "S", "pedantic": True}),
        (
            consumer_create("S", {"name": "C"}, action="update", pedantic=True),
            {"stream_name": "S", "config": {"name": "C"}, "action": "update", "pedantic": True},
        ),
        (consumer_pause("S", "C", "2026-01-05T09:30:00Z"), {"pause_until": "2026-01-05T09:30:00Z"}),
        (consumer_pause("S", "C", None), {}),
        (stream_step_down("S", "s1"), {"placement": {"preferred": "s1"}}),
        (consumer_step_down("S", "C", "s1"), {"placement": {"preferred": "s1"}}),
        (meta_step_down("s1"), {"placement": {"preferred": "s1"}}),
        (stream_peer_remove("S", "s1"), {"peer": "s1"}),
        (server_remove("s1"), {"peer": "s1"}),
    ],
)
def test_a_body_is_json(request_: ApiRequest, body: dict[str, object]) -> None:
    assert json.loads(request_.payload) == body


def test_a_request_without_a_body_has_no_payload() -> None:
    assert stream_info("S").payload == stream_info("S", {}).payload == b""
    assert stream_step_down("S").payload == meta_step_down().payload == b""


def test_a_number_that_no_server_takes_is_left_to_the_server() -> None:
    request = stream_create({"name": "S", "max_bytes": 2**70})
    assert json.loads(request.payload)["max_bytes"] == 2**70
