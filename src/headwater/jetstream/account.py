"""The JetStream of one account: its streams, what it may use, and what it has used.

Totals are kept while streams change and never added up, because every publish is held against
them: whoever lets a stream work calls `settle` afterwards.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Protocol, final

import msgspec

from headwater.base.entropy import Entropy
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.schedules.schedule import ZoneFinder
from headwater.jetstream.streams.stream import Stream

NO_LIMIT = -1


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What an account may use; -1 is no limit."""

    max_memory: int = NO_LIMIT
    max_storage: int = NO_LIMIT
    max_streams: int = NO_LIMIT
    max_consumers: int = NO_LIMIT
    max_ack_pending: int = NO_LIMIT
    memory_max_stream_bytes: int = NO_LIMIT
    storage_max_stream_bytes: int = NO_LIMIT
    max_bytes_required: bool = False

    def bytes_max(self, storage: Storage) -> int:
        """What streams of this kind of storage may hold together."""
        return self.max_memory if storage is Storage.MEMORY else self.max_storage


@final
class Usage:
    """Bytes by kind of storage: what streams hold, and what they have set aside."""

    __slots__ = ("_file_reserved", "_file_used", "_memory_reserved", "_memory_used")

    def __init__(self) -> None:
        self._file_used = 0
        self._file_reserved = 0
        self._memory_used = 0
        self._memory_reserved = 0

    def used(self, storage: Storage) -> int:
        """What messages count."""
        return self._memory_used if storage is Storage.MEMORY else self._file_used

    def reserved(self, storage: Storage) -> int:
        """What the limits of streams add up to."""
        return self._memory_reserved if storage is Storage.MEMORY else self._file_reserved

    def add(self, storage: Storage, used: int, reserved: int) -> None:
        """So much more, or less."""
        if storage is Storage.MEMORY:
            self._memory_used += used
            self._memory_reserved += reserved
        else:
            self._file_used += used
            self._file_reserved += reserved


class ServerRoom(Protocol):
    """What all accounts of a server share."""

    @property
    def max_payload(self) -> int: ...

    @property
    def domain(self) -> str: ...

    @property
    def entropy(self) -> Entropy: ...

    @property
    def find_zone(self) -> ZoneFinder: ...

    @property
    def batch_room(self) -> BatchRoom: ...

    @property
    def usage(self) -> Usage:
        """What all accounts use together; each adds its own."""
        ...

    def has_listener(self, account_name: str, subject: bytes) -> bool:
        """Whether anybody in an account listens to a subject."""
        ...

    def check_server_room(self, storage: Storage) -> None:
        """Raises ApiError if the server has no room left for this kind of storage."""
        ...


@final
class StreamConfigs(Mapping[str, StreamConfig]):
    """The configurations of streams, as they are at any moment."""

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
        "_room",
        "_usage",
        "api_errors",
        "api_total",
        "configs",
        "limits",
        "name",
        "names",
        "streams",
        "subjects",
    )

    def __init__(self, name: str, limits: AccountLimits, room: ServerRoom) -> None:
        self.name = name
        self.limits = limits
        self._room = room
        self.streams: dict[str, Stream] = {}
        self.configs = StreamConfigs(self.streams)
        # In order, for those who ask for pages of them.
        self.names: list[str] = []
        self.subjects = StreamSubjects()
        self._usage = Usage()
        # Used and reserved bytes of each stream, as far as they are in the totals.
        self._counted: dict[str, tuple[int, int]] = {}
        self.api_total = 0
        self.api_errors = 0

    # --- streams -------------------------------------------------------------------------------

    def add(self, stream: Stream) -> None:
        """A stream was made, or was brought back."""
        self.streams[stream.name] = stream
        insort(self.names, stream.name)
        self.subjects.add(stream.name, stream.config.subjects)
        self._counted[stream.name] = (0, 0)
        self.settle(stream)

    def remove(self, stream: Stream) -> None:
        """A stream is gone with all it held."""
        del self.streams[stream.name]
        del self.names[bisect_left(self.names, stream.name)]
        self.subjects.remove(stream.name, stream.config.subjects)
        used, reserved = self._counted.pop(stream.name)
        self._count(stream.config.storage, -used, -reserved)

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """A stream has another configuration than `old` now."""
        if stream.config.subjects != old.subjects:
            self.subjects.remove(stream.name, old.subjects)
            self.subjects.add(stream.name, stream.config.subjects)
        self.settle(stream)

    def settle(self, stream: Stream) -> None:
        """Count what a stream holds and sets aside by now."""
        counted = self._counted.get(stream.name)
        now = (stream.log.byte_count, max(stream.config.max_bytes, 0))
        if counted is not None and counted != now:
            self._counted[stream.name] = now
            self._count(stream.config.storage, now[0] - counted[0], now[1] - counted[1])

    def _count(self, storage: Storage, used: int, reserved: int) -> None:
        self._usage.add(storage, used, reserved)
        self._room.usage.add(storage, used, reserved)

    def used_bytes(self, storage: Storage) -> int:
        """What the messages of this kind of storage count."""
        return self._usage.used(storage)

    def reserved_bytes(self, storage: Storage) -> int:
        """What streams have set aside by their limits."""
        return self._usage.reserved(storage)

    def stream(self, name: str) -> Stream:
        """The stream of that name. Raises ApiError."""
        found = self.streams.get(name)
        if found is None:
            raise ApiError.of(error_codes.STREAM_NOT_FOUND)
        return found

    # --- what streams ask their host -----------------------------------------------------------

    @property
    def max_payload(self) -> int:
        """What the server takes in one message."""
        return self._room.max_payload

    @property
    def domain(self) -> str:
        """The domain of the server, empty if it has none."""
        return self._room.domain

    @property
    def entropy(self) -> Entropy:
        """Dice, for subjects that are drawn."""
        return self._room.entropy

    @property
    def find_zone(self) -> ZoneFinder:
        """What the machine knows of time zones."""
        return self._room.find_zone

    @property
    def batch_room(self) -> BatchRoom:
        """The room for batches, which all accounts share."""
        return self._room.batch_room

    def has_interest(self, subject: bytes) -> bool:
        """Whether anybody in the account listens to a subject."""
        return self._room.has_listener(self.name, subject)

    def check_server_room(self, storage: Storage) -> None:
        """Raises ApiError if the server is full."""
        self._room.check_server_room(storage)

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account would use more than it may."""
        limit = self.limits.bytes_max(storage)
        if 0 <= limit < self._usage.used(storage) + size:
            raise ApiError.of(error_codes.ACCOUNT_RESOURCES_EXCEEDED)
