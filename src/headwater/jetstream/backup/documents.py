"""JSON documents in backups, decoded without trust."""

from typing import Final, TypeVar

import msgspec

from headwater.go.json import JsonError, read_one
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.config.consumer_config import ConsumerConfig

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound=ConsumerConfig)

# The errors that a decoder raises for malformed JSON, or for JSON of another kind.
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def decode_document(data: bytes, kind: type[T], what: str) -> T:
    """Decode a document with at least these keys. Raises BackupError; `what` begins its text."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _UNREADABLE as error:
        raise BackupError(f"{what}: {error}") from error


def decode_config(data: bytes, kind: type[ConfigT], what: str) -> ConfigT:
    """Decode a configuration as the API does. Raises BackupError; `what` begins its text."""
    try:
        return read_one(data, kind)
    except (JsonError, RecursionError) as error:
        raise BackupError(f"{what}: {error}") from error
