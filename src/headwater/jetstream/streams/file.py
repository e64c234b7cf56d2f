"""The stream file: the configuration of a stream and the time of its creation.

While a stream is restored from a backup its file is marked as unfinished: until the mark is removed
the stream does not exist, and its folder may be deleted.
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
    """The content of the file."""

    created_ns: int = 0
    config: StreamConfig = StreamConfig()
    unfinished: Annotated[bool, OMIT_EMPTY] = False
    # The configuration before the last change, for a log whose files are cut back to the state
    # before that change if a crash interrupts it.
    before: Annotated[StreamConfig | None, OMIT_EMPTY] = None
    # The first entry of a replica's group to which the configuration applies; 0 if it applies to
    # all, or the stream is not replicated.
    since_entry: Annotated[int, OMIT_EMPTY] = 0


def encode_body(
    config: StreamConfig,
    created_ns: int,
    unfinished: bool = False,
    before: StreamConfig | None = None,
    since_entry: int = 0,
) -> bytes:
    """The content as bytes; `unfinished` while the stream is being restored."""
    return write(
        StreamBody(
            created_ns=created_ns,
            config=config,
            unfinished=unfinished,
            before=before,
            since_entry=since_entry,
        )
    )


def decode_body(data: bytes, name: str) -> StreamBody:
    """Decode the file of a stream. Raises StoreError."""
    written = read_written(data, StreamBody)
    if written is not None:
        return written
    try:
        return read(data, StreamBody, strict=True, values_max=ANY_NUMBER_OF_VALUES)
    except JsonError as error:
        raise StoreError(f"stream {name}: its configuration cannot be read: {error}") from error
