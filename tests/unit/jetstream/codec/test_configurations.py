"""Configurations in records."""

import pytest
from hypothesis import given

from headwater.jetstream.codec.configurations import (
    decode_consumer_config,
    decode_stream_config,
    encode_config,
)
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import StreamConfig
from tests.kit.record_values import CONSUMER_CONFIGS, STREAM_CONFIGS


@given(STREAM_CONFIGS)
def test_the_configuration_of_a_stream_comes_back(config: StreamConfig) -> None:
    assert decode_stream_config(encode_config(config)) == config


@given(CONSUMER_CONFIGS)
def test_the_configuration_of_a_consumer_comes_back(config: ConsumerConfig) -> None:
    assert decode_consumer_config(encode_config(config)) == config


BAD = [b"{", b"[]", b"\xff", b'{"name":7}', b"[" * 100_000, b'{"metadata":' * 50_000]


@pytest.mark.parametrize("document", BAD, ids=range(len(BAD)))
def test_any_other_text_is_refused(document: bytes) -> None:
    with pytest.raises(RecordError, match="configuration"):
        decode_stream_config(document)
    with pytest.raises(RecordError, match="configuration"):
        decode_consumer_config(document)
