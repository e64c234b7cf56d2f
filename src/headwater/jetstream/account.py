"""The JetStream of one account: its streams, its limits and its usage.

Totals are updated while streams change and never summed up, because every publish is checked
against them: after a stream has worked, its runner calls `update_usage`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import final

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.errors import ApiError
from headwater.jetstream.server_room import ServerRoom, Usage
from headwater.jetstream.streams.stream import Stream

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
        # Used and reserved bytes of each stream, as far as they are in the totals.
        self._counted: dict[str, tuple[int, int]] = {}
        self.api_total = 0
        self.api_errors = 0

    # --- streams -------------------------------------------------------------------------------

    def add_stream(self, stream: Stream) -> None:
        """A stream was made, or was brought back."""
        self.streams[stream.name] = stream
        insort(self.names, stream.name)
        self.subjects.add(stream.name, stream.config.subjects)
        self._counted[stream.name] = (0, 0)
        self.update_usage(stream)

    def remove_stream(self, stream: Stream) -> None:
        """Remove a deleted stream and its usage."""
        del self.streams[stream.name]
        del self.names[bisect_left(self.names, stream.name)]
        self.subjects.remove(stream.name, stream.config.subjects)
        used, reserved = self._counted.pop(stream.name)
        self._usage.add(stream.config.storage, -used, -reserved)
        self.server.usage.add(stream.config.storage, -used, -reserved)

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """Update subjects and usage of a stream whose configuration was `old` before."""
        if stream.config.subjects != old.subjects:
            self.subjects.remove(stream.name, old.subjects)
            self.subjects.add(stream.name, stream.config.subjects)
        self.update_usage(stream)

    def update_usage(self, stream: Stream) -> None:
        """Count the bytes that a stream stores and reserves now."""
        counted = self._counted.get(stream.name)
        max_bytes = stream.config.max_bytes
        now = (stream.log.index.byte_count, max_bytes if max_bytes > 0 else 0)
        if counted is not None and counted != now:
            self._counted[stream.name] = now
            used, reserved = now[0] - counted[0], now[1] - counted[1]
            self._usage.add(stream.config.storage, used, reserved)
            self.server.usage.add(stream.config.storage, used, reserved)

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
        own, whole = self._usage, self.server.usage
        if storage is Storage.MEMORY:
            limit, used = self.limits.max_memory, own.memory_used
            is_full = whole.memory_used > whole.memory_bytes_max
        else:
            limit, used = self.limits.max_storage, own.file_used
            is_full = whole.file_used > whole.file_bytes_max
        return not (is_full or 0 <= limit < used + size)

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account would exceed its limit."""
        limit = self.limits.bytes_max(storage)
        if 0 <= limit < self._usage.used(storage) + size:
            raise ApiError.of(error_codes.ACCOUNT_RESOURCES_EXCEEDED)
