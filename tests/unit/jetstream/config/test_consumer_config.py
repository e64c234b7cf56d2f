"""A consumer's configuration is read and written as Go does it."""

import json

import pytest

from headwater.go import json as go_json
from headwater.go.json import Time
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerAction,
    ConsumerConfig,
    ConsumerRequest,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
    required_level,
    with_required_level,
    with_server_metadata,
)
from headwater.jetstream.config.stream_config import REQUIRED_LEVEL_KEY
from headwater.jetstream.errors import ApiError
from headwater.jetstream.request_bodies import read_request
from tests.kit.api_world import settings

# Every key once, in the order of nats-server's structure, with a value that is not left out.
FULL = {
    "durable_name": "D",
    "name": "D",
    "description": "d",
    "deliver_policy": "by_start_time",
    "opt_start_seq": 1,
    "opt_start_time": "2026-01-02T03:04:05.6+02:00",
    "ack_policy": "explicit",
    "ack_wait": 1,
    "max_deliver": 2,
    "backoff": [1, 2],
    "filter_subject": "a",
    "filter_subjects": ["b"],
    "replay_policy": "original",
    "rate_limit_bps": 3,
    "sample_freq": "4%",
    "max_waiting": 5,
    "max_ack_pending": 6,
    "flow_control": True,
    "headers_only": True,
    "max_batch": 7,
    "max_expires": 8,
    "max_bytes": 9,
    "deliver_subject": "e",
    "deliver_group": "f",
    "idle_heartbeat": 10,
    "inactive_threshold": 11,
    "num_replicas": 1,
    "mem_storage": True,
    "direct": True,
    "sourcing": True,
    "metadata": {"k": "v"},
    "pause_until": "2056-01-02T03:04:05Z",
    "priority_groups": ["g"],
    "priority_policy": "overflow",
    "priority_timeout": 12,
}


def config_of(**settings: object) -> ConsumerConfig:
    body = json.dumps({"stream_name": "S", "config": settings}).encode()
    return go_json.read(body, ConsumerRequest, strict=True).config


def test_every_key_is_read_and_written_in_order() -> None:
    assert list(settings(config_of(**FULL)).items()) == list(FULL.items())
    assert len(FULL) == len(ConsumerConfig.__struct_fields__)


def test_what_is_written_of_nothing() -> None:
    assert settings(ConsumerConfig()) == {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "num_replicas": 0,
    }


@pytest.mark.parametrize(
    ("key", "choice"),
    [
        ("deliver_policy", DeliverPolicy),
        ("ack_policy", AckPolicy),
        ("replay_policy", ReplayPolicy),
        ("priority_policy", PriorityPolicy),
    ],
)
def test_every_word_of_a_choice(key: str, choice: type[DeliverPolicy]) -> None:
    for member in choice:
        assert getattr(config_of(**{key: member.value}), key) is member


@pytest.mark.parametrize("action", ConsumerAction)
def test_actions(action: ConsumerAction) -> None:
    body = json.dumps({"action": action.value}).encode()
    assert go_json.read(body, ConsumerRequest, strict=True).action is action


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ('{"action": "Create"}', 'unknown consumer action: "Create"'),
        ('{"config": {"ack_policy": "Explicit"}}', 'can not unmarshal "\\"Explicit\\""'),
        ('{"config": {"priority_policy": 7}}', "unknown priority policy: 7"),
    ],
)
def test_words_that_are_none(literal: str, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_request(literal.encode(), ConsumerRequest, strict=True)
    assert refused.value.description == f"invalid JSON: {text}"


@pytest.mark.parametrize(
    ("asked", "filters"),
    [
        ({}, ()),
        ({"filter_subject": "a.>"}, ("a.>",)),
        ({"filter_subjects": ["a", "b"]}, ("a", "b")),
        ({"filter_subjects": []}, ()),
        ({"filter_subject": "\u00e9"}, ("\u00e9",)),
    ],
)
def test_filters(asked: dict[str, object], filters: tuple[str, ...]) -> None:
    config = config_of(**asked)
    assert config.filters == filters
    assert config.patterns == tuple(each.encode() for each in filters)


def test_kinds_of_consumers() -> None:
    assert config_of().is_pull
    assert not config_of(deliver_subject="d").is_pull
    assert config_of(durable_name="D").is_durable
    assert not config_of(name="D").is_durable


def test_until_when_it_is_paused() -> None:
    assert config_of().pause_until_ns is None
    assert config_of(pause_until="0001-01-01T00:00:00Z").pause_until_ns is None
    assert config_of(pause_until="1970-01-01T01:00:01+01:00").pause_until_ns == 1_000_000_000


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        ({}, 0),
        ({"pause_until": "0001-01-01T00:00:00Z"}, 0),
        ({"pause_until": "2006-01-01T00:00:00Z"}, 1),
        ({"priority_policy": "overflow"}, 1),
        ({"priority_groups": ["a"]}, 1),
        ({"priority_timeout": 1}, 1),
        ({"ack_policy": "flow_control", "priority_timeout": 1}, 4),
    ],
)
def test_the_level_it_requires(asked: dict[str, object], level: int) -> None:
    assert required_level(config_of(**asked)) == level


def test_what_the_server_adds_to_the_metadata() -> None:
    said = {"a": "b", "_nats.ver": "x", "_nats.level": "y", REQUIRED_LEVEL_KEY: "z"}
    kept = with_required_level(config_of(metadata=said))
    assert kept.metadata == {"a": "b", REQUIRED_LEVEL_KEY: "0"}
    shown = with_server_metadata(kept, "1.2.3", 5)
    assert shown.metadata == {**kept.metadata, "_nats.ver": "1.2.3", "_nats.level": "5"}
    assert with_required_level(shown) == kept


def test_the_clock_of_a_start_is_kept() -> None:
    start = config_of(opt_start_time="2026-01-02T03:04:05.600+02:00").opt_start_time
    assert start == Time(0, "2026-01-02T03:04:05.6+02:00")
