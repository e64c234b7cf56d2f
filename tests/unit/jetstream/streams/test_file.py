"""A stream file is read quickly where it is as this server writes it, and with care otherwise."""

import json

import pytest

from headwater.go.json import Time, read, read_written, write
from headwater.jetstream.config.stream_config import (
    ConsumerLimits,
    Discard,
    Placement,
    Republish,
    Retention,
    Storage,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.streams import file as stream_file
from headwater.jetstream.streams.file import StreamBody, decode_body, encode_body
from headwater.store.log.message_log import StoreError

PLAIN = StreamConfig(name="S", subjects=("s.>", "t<&>"))
FULL = StreamConfig(
    name="S",
    description="\u2028 and \U0001f600",
    subjects=("a", "b.*"),
    retention=Retention.WORKQUEUE,
    discard=Discard.NEW,
    storage=Storage.MEMORY,
    max_age=3_600_000_000_000,
    first_seq=(1 << 63) - 1,
    placement=Placement(cluster="c", tags=("x", "y")),
    sources=(
        StreamSource(
            name="O",
            opt_start_time=Time.from_json(b'"2026-01-02T03:04:05.678+02:00"'),
            subject_transforms=(SubjectTransformConfig(src="a", dest="b"),),
        ),
    ),
    republish=Republish(src="a", dest="r.a", headers_only=True),
    consumer_limits=ConsumerLimits(max_ack_pending=5),
    metadata={"key": "value", "<": ">"},
    ack_timeout=7,
)


@pytest.mark.parametrize("config", [PLAIN, FULL])
def test_what_was_written_is_read_quickly_and_is_the_same(
    config: StreamConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode_body(config, 123)
    with_care = read(data, StreamBody, strict=True)

    def careful(*_: object, **__: object) -> StreamBody:
        raise AssertionError("read with care")

    monkeypatch.setattr(stream_file, "read", careful)
    found = decode_body(data, "S")
    assert found == with_care
    assert found.config == config
    assert write(found) == data


@pytest.mark.parametrize("where", [(), ("config",), ("config", "consumer_limits")])
def test_a_key_that_this_version_does_not_know_is_not_passed_over(where: tuple[str, ...]) -> None:
    document = json.loads(encode_body(PLAIN, 123))
    inner = document
    for key in where:
        inner = inner[key]
    inner["later"] = 1
    data = json.dumps(document).encode()
    assert read_written(data, StreamBody) is None
    with pytest.raises(StoreError, match="later"):
        decode_body(data, "S")


def test_another_spelling_is_read_with_care() -> None:
    data = encode_body(PLAIN, 123).replace(b'"name"', b'"NAME"')
    assert read_written(data, StreamBody) is None
    assert decode_body(data, "S").config == PLAIN
