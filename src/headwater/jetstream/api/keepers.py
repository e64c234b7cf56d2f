"""The parts of a server that the API hands its requests to once they are checked.

The API validates a request and writes the reply. Logs, timers, subscriptions and connections belong
to these keepers. An operation that may take long is a `Work`: it is done in slices, and the stream
is held in between, so that no client sees half of it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.cluster_documents import GroupState
from headwater.jetstream.api.documents import StreamSourceInfo, StreamState
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.config.stream_checks.checks import Surroundings
from headwater.jetstream.config.stream_config import Placement, Storage, StreamConfig
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import StreamSetRecord
from headwater.jetstream.streams.stream import Stream


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server that its replies depend on."""

    server_name: str
    server_version: str
    # Whether unknown fields of a request are refused.
    strict: bool
    # The longest time that written bytes wait for a sync: `always`, or a duration.
    sync_interval: str = ""
    # The longest duplicate window of a stream; zero is no limit.
    duplicate_window_max_ns: int = 0
    # The most messages a consumer may have unacknowledged; zero is no limit.
    max_ack_pending: int = 0
    # The most messages one pull may ask for; zero is no limit.
    max_request_batch: int = 0
    # The most consumers of a stream, where neither stream nor account says; -1 is no limit.
    default_max_consumers: int = -1


class StorageKeeper(Protocol):
    """Knows how much of the machine streams may use."""

    def bytes_max(self, storage: Storage) -> int:
        """The bytes that all accounts together may store."""
        ...

    def check_reservation(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        old: StreamConfig | None,
        coming: ComingStreams,
    ) -> None:
        """Raises ApiError if server or account cannot set aside what a stream asks for, beside
        the streams that run and those to come."""
        ...


class StreamKeeper(Protocol):
    """Decides which streams are created and deleted."""

    @property
    def coming(self) -> ComingStreams:
        """The streams whose creation is in flight."""
        ...

    def decide_creation(
        self, account: JetStreamAccount, config: StreamConfig
    ) -> Proposal[StreamSetRecord]:
        """The creation of a stream. Raises ApiError and StoreError."""
        ...

    def decide_deletion(
        self, account: JetStreamAccount, streams: Sequence[Stream]
    ) -> Proposal[StreamSetRecord]:
        """The deletion of streams. Raises ApiError."""
        ...


class BackupKeeper(Protocol):
    """Sends and receives backups of streams. Its operations raise ApiError."""

    def begin_snapshot(
        self,
        account: JetStreamAccount,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        client: ClientDocument | None,
    ) -> None:
        """Send a stream, in the `state` it has, after the reply."""
        ...

    def begin_restore(
        self, account: JetStreamAccount, config: StreamConfig, client: ClientDocument | None
    ) -> str:
        """Wait for the chunks of a backup. Returns the subject that they are sent to."""
        ...


def find_no_group(account: str, stream: str) -> GroupState | None:
    """Find no group: the server is in no cluster."""
    return None


def hand_nothing_over(account: str, stream: str, placement: Placement | None) -> None:
    """Hand nothing over: the server is in no cluster, and leads all of its streams."""


class AccountTotals(NamedTuple):
    """The usage of an account and the bytes that its streams reserve, as INFO shows them."""

    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    streams: int
    consumers: int


def count_here(account: JetStreamAccount) -> AccountTotals:
    """The totals of an account on a server that is in no cluster."""
    return AccountTotals(
        memory=account.used_bytes(Storage.MEMORY),
        storage=account.used_bytes(Storage.FILE),
        reserved_memory=account.reserved_bytes(Storage.MEMORY),
        reserved_storage=account.reserved_bytes(Storage.FILE),
        streams=len(account.streams),
        consumers=sum(len(stream.consumers) for stream in account.streams.values()),
    )


def find_no_surroundings(account: JetStreamAccount, settings: ApiSettings) -> Surroundings | None:
    """Find no other surroundings: all streams of an account are here."""
    return None


FindSurroundings = Callable[[JetStreamAccount, ApiSettings], Surroundings | None]


class CopyInfo(NamedTuple):
    """The documents about the origins of a stream."""

    mirror: StreamSourceInfo | None
    sources: list[StreamSourceInfo]


def find_no_copies(account: str, stream: str) -> CopyInfo | None:
    """Find no origins: the stream copies none."""
    return None


def find_no_sync_interval(server: str) -> str:
    """Find no sync interval: there are no other servers."""
    return ""


class Keepers(NamedTuple):
    """The keepers of one server, and its clock."""

    storage: StorageKeeper
    streams: StreamKeeper
    backups: BackupKeeper
    # A random name for a consumer whose request has none.
    generate_name: Callable[[], str]
    now_ns: Callable[[], int]
    # The group of a stream, by account and name; None on a server that is in no cluster.
    find_group: Callable[[str, str], GroupState | None] = find_no_group
    # Has another server lead a stream, by account, name and placement. Raises ApiError.
    hand_over: Callable[[str, str, Placement | None], object] = hand_nothing_over
    # The streams and limits of an account in the whole cluster; None for those of this server.
    find_surroundings: FindSurroundings = find_no_surroundings
    # The totals of an account; in a cluster those of all servers.
    count_totals: Callable[[JetStreamAccount], AccountTotals] = count_here
    # The state of the origins of a stream that is led here, by account and name.
    find_copies: Callable[[str, str], CopyInfo | None] = find_no_copies
    # The sync interval of another server of the cluster; empty if it is not known.
    find_sync_interval: Callable[[str], str] = find_no_sync_interval
