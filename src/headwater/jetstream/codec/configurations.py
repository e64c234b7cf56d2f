"""Configurations in records: the JSON that the file of a stream has, and that clients get.

An unknown key in the configuration of a stream is refused, because a newer version of the program
wrote it. Keys that a consumer's configuration does not have are ignored, as journals always did.
"""

from headwater.base.errors import PeerError
from headwater.go.json import ANY_NUMBER_OF_VALUES, read, read_written, write
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import StreamConfig


def encode_config(config: StreamConfig | ConsumerConfig) -> bytes:
    """A configuration as JSON."""
    return write(config)


def decode_stream_config(document: bytes) -> StreamConfig:
    """The configuration of a stream. Raises RecordError."""
    config = read_written(document, StreamConfig)
    if config is None:
        raise RecordError("the configuration of a stream cannot be read")
    return config


def decode_consumer_config(document: bytes) -> ConsumerConfig:
    """The configuration of a consumer. Raises RecordError."""
    try:
        return read(document, ConsumerConfig, strict=False, values_max=ANY_NUMBER_OF_VALUES)
    except (PeerError, ValueError, TypeError, RecursionError) as error:
        raise RecordError(f"the configuration of a consumer cannot be read: {error}") from error
