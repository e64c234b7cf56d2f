"""The JSON in backups, read without trust."""

from typing import Final, TypeVar

import msgspec

from headwater.go.json import JsonError, read_one
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.config.consumer_config import ConsumerConfig

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound=ConsumerConfig)

# What JSON that is none, or none of the kind, can make of whoever reads it.
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def decode_document(data: bytes, kind: type[T], what: str) -> T:
    """A document with at least these keys. Raises BackupError, which says what it is."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _UNREADABLE as error:
        raise BackupError(f"{what}: {error}") from error


def decode_config(data: bytes, kind: type[ConfigT], what: str) -> ConfigT:
    """A configuration, as the API reads it. Raises BackupError, which says what it is."""
    try:
        return read_one(data, kind)
    except (JsonError, RecursionError) as error:
        raise BackupError(f"{what}: {error}") from error
