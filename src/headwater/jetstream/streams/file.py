"""What a stream keeps in its stream file: its configuration and when it was made.

While a stream is being filled from a backup its file says so: until it says otherwise there is no
stream, and what there is may be removed.
"""

from typing import Annotated

import msgspec

from headwater.go.json import (
    ANY_NUMBER_OF_VALUES,
    OMIT_EMPTY,
    JsonError,
    read,
    read_written,
    write,
)
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.store.log.message_log import StoreError


class StreamBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The file as it is written."""

    created_ns: int = 0
    config: StreamConfig = StreamConfig()
    unfinished: Annotated[bool, OMIT_EMPTY] = False


def encode_body(config: StreamConfig, created_ns: int, unfinished: bool = False) -> bytes:
    """The bytes to keep; `unfinished` as long as there is no stream yet."""
    return write(StreamBody(created_ns=created_ns, config=config, unfinished=unfinished))


def decode_body(data: bytes, name: str) -> StreamBody:
    """The content of the file of a stream, or of one that is `unfinished`. Raises StoreError."""
    written = read_written(data, StreamBody)
    if written is not None:
        return written
    try:
        return read(data, StreamBody, strict=True, values_max=ANY_NUMBER_OF_VALUES)
    except JsonError as error:
        raise StoreError(f"stream {name}: its configuration can not be read: {error}") from error
