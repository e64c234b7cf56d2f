"""The JetStream of one account: its streams, its limits and its usage.

Totals follow from the records that streams apply (`update_usage`), and are never summed up, because
every publish is checked against them.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import final

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.errors import ApiError
from headwater.jetstream.server_room import ServerRoom, StorageUsage, Usage
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.streams.view import StreamView

NO_LIMIT = -1


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an account; -1 is no limit."""

    max_memory: int = NO_LIMIT
    max_storage: int = NO_LIMIT
    max_streams: int = NO_LIMIT
    max_consumers: int = NO_LIMIT
    max_ack_pending: int = NO_LIMIT
    memory_max_stream_bytes: int = NO_LIMIT
    storage_max_stream_bytes: int = NO_LIMIT
    max_bytes_required: bool = False
    owns_traffic: bool = False
    """Whether the traffic between the replicas of the account's streams is reported as the
    account's own, and not as that of the system account."""

    def bytes_max(self, storage: Storage) -> int:
        """The limit of bytes of all streams with this kind of storage."""
        return self.max_memory if storage is Storage.MEMORY else self.max_storage


@final
class StreamConfigs(Mapping[str, StreamConfig]):
    """A live view of the configurations of streams."""

    __slots__ = ("_streams",)

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams

    def __getitem__(self, name: str) -> StreamConfig:
        return self._streams[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)


@final
class JetStreamAccount:
    """One account's streams. It is the host of each of them."""

    __slots__ = (
        "_counted",
        "_usage",
        "api_errors",
        "api_total",
        "configs",
        "elsewhere",
        "limits",
        "name",
        "names",
        "server",
        "streams",
        "subjects",
    )

    def __init__(self, name: str, limits: AccountLimits, server: ServerRoom) -> None:
        self.name = name
        self.limits = limits
        self.server = server
        self.streams: dict[str, Stream] = {}
        self.configs = StreamConfigs(self.streams)
        # In order, for paged replies.
        self.names: list[str] = []
        self.subjects = StreamSubjects()
        self._usage = Usage()
        # The bytes that other servers of a cluster use.
        self.elsewhere = Usage()
        # The usage of each stream, as far as it is in the totals: those of the account and of the
        # server, which stand behind it.
        self._counted: dict[str, tuple[StorageUsage, StorageUsage, StorageUsage]] = {}
        self.api_total = 0
        self.api_errors = 0

    # --- streams -------------------------------------------------------------------------------

    def add_stream(self, stream: Stream) -> None:
        """A stream was made, or was brought back."""
        self.streams[stream.name] = stream
        insort(self.names, stream.name)
        self.subjects.add(stream.name, stream.config.subjects)
        storage = stream.config.storage
        totals = self._usage.of(storage), self.server.usage.of(storage)
        self._counted[stream.name] = StorageUsage(), *totals
        self.update_usage(stream)

    def remove_stream(self, stream: Stream) -> None:
        """Remove a deleted stream and its usage."""
        del self.streams[stream.name]
        del self.names[bisect_left(self.names, stream.name)]
        self.subjects.remove(stream.name, stream.config.subjects)
        counted, *totals = self._counted.pop(stream.name)
        for total in totals:
            total.used -= counted.used
            total.reserved -= counted.reserved

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """Update subjects and usage of a stream whose configuration was `old` before."""
        if stream.config.subjects != old.subjects:
            self.subjects.remove(stream.name, old.subjects)
            self.subjects.add(stream.name, stream.config.subjects)
        self.update_usage(stream)

    def update_usage(self, stream: StreamView) -> None:
        """Count the bytes that a stream stores and reserves now."""
        usages = self._counted.get(stream.name)
        if usages is None:
            return
        (counted, own, whole), max_bytes = usages, stream.config.max_bytes
        used = stream.log.index.byte_count - counted.used
        reserved = (max_bytes if max_bytes > 0 else 0) - counted.reserved
        counted.used += used
        own.used += used
        whole.used += used
        if reserved:
            for usage in usages:
                usage.reserved += reserved

    def used_bytes(self, storage: Storage) -> int:
        """The bytes of messages in this kind of storage."""
        return self._usage.used(storage)

    def reserved_bytes(self, storage: Storage) -> int:
        """The sum of the byte limits of streams with this kind of storage."""
        return self._usage.reserved(storage)

    def stream(self, name: str) -> Stream:
        """The stream of that name. Raises ApiError."""
        found = self.streams.get(name)
        if found is None:
            raise ApiError.of(error_codes.STREAM_NOT_FOUND)
        return found

    # --- the host of the streams ---------------------------------------------------------------

    def has_interest(self, subject: bytes) -> bool:
        """Whether a subscription in the account matches a subject."""
        return self.server.has_listener(self.name, subject)

    def has_room(self, storage: Storage, size: int) -> bool:
        """Whether neither the server nor the account refuses `size` more bytes.

        This is `ServerRoom.check_storage` and `check_account_room` in one call: every publish asks.
        """
        own, whole, limits = self._usage, self.server.usage, self.limits
        if storage is Storage.MEMORY:
            if whole.memory.used > whole.memory.bytes_max:
                return False
            limit = limits.max_memory
            return limit < 0 or own.memory.used + self.elsewhere.memory.used + size <= limit
        if whole.file.used > whole.file.bytes_max:
            return False
        limit = limits.max_storage
        return limit < 0 or own.file.used + self.elsewhere.file.used + size <= limit

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account would exceed its limit."""
        limit = self.limits.bytes_max(storage)
        if 0 <= limit < self._usage.used(storage) + self.elsewhere.used(storage) + size:
            raise ApiError.of(error_codes.ACCOUNT_RESOURCES_EXCEEDED)
