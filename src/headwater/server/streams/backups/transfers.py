"""All backups on their way out and in, and what they need of the server around them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import StreamCreateResponse, StreamState
from headwater.jetstream.api.restored_consumers import AdmittedConsumer
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.backups.restores import Restore
from headwater.server.streams.backups.snapshots import Snapshot
from headwater.store.log.message_log import MessageLog

if TYPE_CHECKING:
    from headwater.server.node import Node

# Each holds a window of chunks on its way out, or as much on its way in.
TRANSFERS_MAX: Final = 64


class StagingKeeper(Protocol):
    """Who makes a stream of a log that was filled from a backup."""

    def room_left(self, storage: Storage) -> int:
        """How many bytes more all accounts together may store."""
        ...

    def check_restorable(self, account: JetStreamAccount, config: StreamConfig) -> None:
        """Raises ApiError if no such stream may be made now."""
        ...

    def stage_stream(
        self, account: JetStreamAccount, config: StreamConfig, first_sequence: int
    ) -> MessageLog:
        """A log that is no stream yet, and will be removed at the next start. Raises StoreError."""
        ...

    def staged_written(self, config: StreamConfig) -> None:
        """Something was written to such a log."""
        ...

    def admit_consumers(
        self, account: JetStreamAccount, config: StreamConfig, found: Sequence[BackedUpConsumer]
    ) -> list[AdmittedConsumer]:
        """The consumers of a backup as the stream is to have them. Raises ApiError."""
        ...

    def adopt_stream(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        log: MessageLog,
        created_ns: int,
        consumers: Sequence[AdmittedConsumer],
    ) -> Stream:
        """Make a stream of it. Without a time it was created now. Raises StoreError."""
        ...

    def discard_staged(
        self, account: JetStreamAccount, config: StreamConfig, log: MessageLog
    ) -> None:
        """Remove it. Raises StoreError."""
        ...

    def describe_restored(self, account: JetStreamAccount, stream: Stream) -> StreamCreateResponse:
        """What whoever restored a stream is told of it."""
        ...


@final
class TransferWorld:
    """What a transfer uses of the server."""

    __slots__ = (
        "_node",
        "advisories",
        "broker",
        "clock",
        "domain",
        "entropy",
        "keeper",
        "log",
        "scheduler",
        "subscriptions",
        "warn",
    )

    def __init__(
        self,
        node: "Node",
        keeper: StagingKeeper,
        subscriptions: OwnSubscriptions,
        advisories: Advisories,
    ) -> None:
        environment = node.environment
        self.clock: Clock = environment.clock
        self.entropy: Entropy = environment.entropy
        self.scheduler: Scheduler = environment.scheduler
        self.broker: Broker = node.broker
        self.log: Callable[[str], object] = node.log.info
        self.warn: Callable[[str], object] = node.log.warn
        self.domain = node.options.jetstream.domain
        self.keeper = keeper
        self.subscriptions = subscriptions
        self.advisories = advisories
        self._node = node

    @property
    def max_payload(self) -> int:
        """What the server takes in one message; another value after a reload."""
        return self._node.options.max_payload


@final
class Transfers:
    """The backups that are under way."""

    __slots__ = ("_restores", "_snapshots", "_world")

    def __init__(self, world: TransferWorld) -> None:
        self._world = world
        self._snapshots: dict[Snapshot, None] = {}
        self._restores: dict[Restore, None] = {}

    def begin_snapshot(
        self,
        home: Account,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        client: ClientDocument | None,
    ) -> None:
        """Send a stream, in the `state` it has, once this turn is over. Raises ApiError."""
        self._check_count()
        snapshot = Snapshot(self._world, home, stream, request, state, client, self._snapshots.pop)
        self._snapshots[snapshot] = None

    def begin_restore(
        self,
        home: Account,
        account: JetStreamAccount,
        config: StreamConfig,
        client: ClientDocument | None,
    ) -> str:
        """Wait for a backup; the subject its chunks go to. Raises ApiError."""
        self._check_count()
        if self.is_staged(account.name, config.name):
            raise ApiError.of(error_codes.STREAM_NAME_EXIST_RESTORE_FAILED)
        restore = Restore(self._world, home, account, config, client, self._restores.pop)
        self._restores[restore] = None
        return restore.subject

    def _check_count(self) -> None:
        if len(self._snapshots) + len(self._restores) >= TRANSFERS_MAX:
            raise ApiError.of(error_codes.INSUFFICIENT_RESOURCES)

    def is_staged(self, account_name: str, name: str) -> bool:
        """Whether a stream of that name is being filled from a backup."""
        return any(
            restore.is_staged and restore.key == (account_name, name) for restore in self._restores
        )

    def stream_gone(self, stream: Stream) -> None:
        """A stream was deleted: nobody can be sent the rest of it."""
        for snapshot in [*self._snapshots]:
            if snapshot.stream is stream:
                snapshot.stream_gone()

    def stop(self) -> None:
        """The server stops."""
        for snapshot in self._snapshots:
            snapshot.stop()
        for restore in self._restores:
            restore.abandon()
        self._snapshots.clear()
        self._restores.clear()
