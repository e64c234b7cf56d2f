"""Configurations as values: levels, the server's metadata, and their form in JSON."""

import json

import msgspec
import pytest

from headwater.go import json as go_json
from headwater.jetstream.config.stream_config import (
    Discard,
    PersistMode,
    ReadConsistency,
    Retention,
    StreamConfig,
    StreamRequest,
    StreamSource,
    WriteConsistency,
    identical,
    required_level,
    with_required_level,
    with_server_metadata,
)

# The keys that replies may contain without our settings; strict clients know no others.
# fmt: off
ALWAYS = [
    "name", "retention", "max_consumers", "max_msgs", "max_bytes", "max_age",
    "max_msgs_per_subject", "discard", "storage", "num_replicas", "compression", "allow_direct",
    "mirror_direct", "sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "consumer_limits",
    "allow_msg_ttl",
]
ORDER = [
    "name", "description", "subjects", "retention", "max_consumers", "max_msgs", "max_bytes",
    "max_age", "max_msgs_per_subject", "max_msg_size", "discard", "storage", "num_replicas",
    "no_ack", "duplicate_window", "placement", "mirror", "sources", "compression", "first_seq",
    "subject_transform", "republish", "allow_direct", "mirror_direct", "discard_new_per_subject",
    "sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "consumer_limits", "allow_msg_ttl",
    "subject_delete_marker_ttl", "allow_msg_counter", "allow_atomic", "allow_msg_schedules",
    "persist_mode", "allow_batched", "metadata",
]
# fmt: on
OURS = ["read_consistency", "write_consistency", "ack_timeout", "max_staleness"]


def keys(config: StreamConfig) -> list[str]:
    return list(json.loads(go_json.write(config)))


def test_an_empty_configuration_has_the_keys_that_nats_server_always_writes() -> None:
    assert keys(StreamConfig()) == ALWAYS


def test_a_full_configuration_has_all_keys_in_the_order_of_nats_server() -> None:
    everything = """{"name":"a","description":"a","subjects":["a"],"max_msg_size":1,"no_ack":true,
        "duplicate_window":1,"placement":{"cluster":"c"},"mirror":{"name":"m"},
        "sources":[{"name":"s"}],"first_seq":1,"subject_transform":{},"republish":{},
        "discard_new_per_subject":true,"subject_delete_marker_ttl":1,"allow_msg_counter":true,
        "allow_atomic":true,"allow_msg_schedules":true,"persist_mode":"async","allow_batched":true,
        "metadata":{"a":"b"},"read_consistency":"weak","write_consistency":"eventual",
        "ack_timeout":0,"max_staleness":1,"pedantic":true}"""
    request = go_json.read(everything.encode(), StreamRequest, strict=True)
    assert keys(request.over(None)) == [*ORDER, *OURS]
    assert request.pedantic
    assert list(StreamConfig.__struct_fields__) == [*ORDER, *OURS]


def test_parts_leave_out_what_is_empty() -> None:
    body = b"""{"placement":{"cluster":"","tags":["a"]},"subject_transform":{},
        "republish":{"src":""},"consumer_limits":{"max_ack_pending":0},"mirror":{"name":"","external":{},"consumer":{}},
        "sources":[{"subject_transforms":[{}],"opt_start_time":"2024-01-01T00:00:00.50Z"},null]}"""
    config = go_json.read(body, StreamConfig, strict=True)
    shown = json.loads(go_json.write(config))
    assert shown["placement"] == {"tags": ["a"]}
    assert shown["subject_transform"] == {"src": "", "dest": ""}
    assert shown["republish"] == {"dest": ""}
    assert shown["consumer_limits"] == {}
    assert shown["mirror"] == {"name": "", "external": {"api": "", "deliver": ""}, "consumer": {}}
    source = {
        "name": "",
        "opt_start_time": "2024-01-01T00:00:00.5Z",
        "subject_transforms": [{"src": "", "dest": ""}],
    }
    assert shown["sources"] == [source, None]


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (StreamConfig(), 0),
        (StreamConfig(allow_direct=True, compression=StreamConfig().compression), 0),
        (StreamConfig(allow_msg_ttl=True), 1),
        (StreamConfig(subject_delete_marker_ttl=1), 1),
        (StreamConfig(allow_msg_counter=True), 2),
        (StreamConfig(allow_atomic=True, allow_msg_ttl=True), 2),
        (StreamConfig(allow_msg_schedules=True), 2),
        (StreamConfig(persist_mode=PersistMode.ASYNC), 2),
        (StreamConfig(read_consistency=ReadConsistency.WEAK), 3),
        (StreamConfig(read_consistency=ReadConsistency.STRONG, allow_atomic=True), 3),
        (StreamConfig(allow_batched=True), 4),
        (StreamConfig(allow_batched=True, read_consistency=ReadConsistency.WEAK), 4),
        (StreamConfig(write_consistency=WriteConsistency.EVENTUAL), 3),
        (StreamConfig(ack_timeout=0), 3),
        (StreamConfig(max_staleness=1), 3),
    ],
)
def test_the_level_a_stream_requires(config: StreamConfig, level: int) -> None:
    assert required_level(config) == level
    assert with_required_level(config).metadata == {"_nats.req.level": str(level)}


def test_the_servers_metadata_is_kept_apart_from_the_users() -> None:
    sent = {"a": "b", "_nats.ver": "1", "_nats.level": "9", "_nats.req.level": "9", "_nats.x": "y"}
    kept = with_required_level(StreamConfig(metadata=sent))
    assert kept.metadata == {"a": "b", "_nats.x": "y", "_nats.req.level": "0"}
    shown = with_server_metadata(kept, "2.15.1", 5)
    assert shown.metadata == kept.metadata | {"_nats.ver": "2.15.1", "_nats.level": "5"}
    assert kept.metadata == {"a": "b", "_nats.x": "y", "_nats.req.level": "0"}


def test_configurations_are_identical_whatever_the_server_added() -> None:
    plain = StreamConfig(name="a", metadata={"a": "b"})
    assert identical(plain, with_server_metadata(with_required_level(plain), "2.15.1", 5))
    assert not identical(plain, StreamConfig(name="a", metadata={"a": "c"}))
    assert not identical(plain, msgspec.structs.replace(plain, discard=Discard.NEW))


def test_the_request_without_what_is_about_the_request() -> None:
    request = StreamRequest(name="a", pedantic=True, retention=Retention.INTEREST)
    assert request.over(None) == StreamConfig(name="a", retention=Retention.INTEREST)
    assert type(request.over(None)) is StreamConfig


def test_times_are_equal_when_they_are_written_alike() -> None:
    def at(text: str) -> StreamSource:
        body = json.dumps({"opt_start_time": text}).encode()
        return go_json.read(body, StreamSource, strict=True)

    assert at("2024-01-01T00:00:00.10Z") == at("2024-01-01T00:00:00.1+00:00")
    assert at("2024-01-01T00:00:00Z") != at("2024-01-01T02:00:00+02:00")
