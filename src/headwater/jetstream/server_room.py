"""The values of a server that all its accounts and streams read.

A server makes one `ServerRoom` and hands it to each of its accounts; a stream reads it through the
account it lives in. A reload of the configuration writes the fields that may change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.errors import ErrorCode
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.schedules.schedule import ZoneFinder

# More bytes than any disk has.
NO_BYTES_MAX: Final = 1 << 62


@final
class StorageUsage:
    """The bytes that streams of one kind of storage use and reserve."""

    __slots__ = ("bytes_max", "reserved", "used")

    def __init__(self) -> None:
        # The bytes of stored messages, and the sum of the byte limits of streams.
        self.used = 0
        self.reserved = 0
        # The bytes of stored messages beyond which the server refuses more; set for its own total.
        self.bytes_max = NO_BYTES_MAX


@final
class Usage:
    """The bytes that streams use and reserve, by kind of storage."""

    __slots__ = ("file", "memory")

    def __init__(self) -> None:
        self.file = StorageUsage()
        self.memory = StorageUsage()

    def of(self, storage: Storage) -> StorageUsage:
        """The usage of one kind of storage."""
        return self.memory if storage is Storage.MEMORY else self.file

    def used(self, storage: Storage) -> int:
        """The bytes of stored messages."""
        return self.of(storage).used

    def reserved(self, storage: Storage) -> int:
        """The sum of the byte limits of streams."""
        return self.of(storage).reserved


@final
@dataclass(slots=True, kw_only=True)
class ServerRoom:
    """The values and limits that the accounts of one server share."""

    # The largest message that the server accepts, in bytes. A reload may change it.
    max_payload: int
    # Empty if the server is in no domain.
    domain: str
    entropy: Entropy
    find_zone: ZoneFinder
    # Limits the batches of all streams together.
    batch_room: BatchRoom
    # The bytes of all accounts; each account adds its own.
    usage: Usage
    # Raises ApiError if the server has no room left for a kind of storage.
    check_storage: Callable[[Storage], None]
    # Tells by account and subject whether a client is subscribed.
    has_listener: Callable[[str, bytes], bool]


def exceeded(storage: Storage) -> ErrorCode:
    """The error for a stream that server or account have no room for."""
    if storage is Storage.MEMORY:
        return error_codes.MEMORY_RESOURCES_EXCEEDED
    return error_codes.STORAGE_RESOURCES_EXCEEDED
