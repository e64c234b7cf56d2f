"""All backups on their way out and in."""

from collections.abc import Callable
from typing import Final, final

from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.streams.backups.exchange import Exchange, TransferServer
from headwater.server.streams.backups.restores import Restore
from headwater.server.streams.backups.snapshots import Snapshot
from headwater.server.streams.backups.staging import Staging

# Each transfer holds a window of chunks on its way out, or as much on its way in.
TRANSFERS_MAX: Final = 64


@final
class Transfers:
    """The backups that are under way. `home_of` gives the account of clients by its name."""

    __slots__ = ("_home_of", "_restores", "_server", "_snapshots", "_staging")

    def __init__(
        self,
        server: TransferServer,
        staging: Staging,
        home_of: Callable[[str], Account],
    ) -> None:
        self._server = server
        self._staging = staging
        self._home_of = home_of
        self._snapshots: dict[Snapshot, None] = {}
        self._restores: dict[Restore, None] = {}

    def begin_snapshot(
        self,
        account: JetStreamAccount,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        client: ClientDocument | None,
    ) -> None:
        """Send a stream, in the `state` it has, after the reply. Raises ApiError."""
        exchange = self._new_exchange(account, stream.name, client)
        snapshot = Snapshot(self._server, exchange, stream, request, state, self._snapshots.pop)
        self._snapshots[snapshot] = None

    def begin_restore(
        self, account: JetStreamAccount, config: StreamConfig, client: ClientDocument | None
    ) -> str:
        """Wait for the chunks of a backup. Returns the subject that they are sent to.

        Raises ApiError.
        """
        exchange = self._new_exchange(account, config.name, client)
        if self._staging.is_staged(account, config.name):
            raise ApiError.of(error_codes.STREAM_NAME_EXIST_RESTORE_FAILED)
        restore = Restore(
            self._server, exchange, self._staging, account, config, self._restores.pop
        )
        self._restores[restore] = None
        return restore.subject

    def _new_exchange(
        self, account: JetStreamAccount, stream_name: str, client: ClientDocument | None
    ) -> Exchange:
        if len(self._snapshots) + len(self._restores) >= TRANSFERS_MAX:
            raise ApiError.of(error_codes.INSUFFICIENT_RESOURCES)
        return Exchange(self._server, self._home_of(account.name), stream_name, client)

    def stream_deleted(self, stream: Stream) -> None:
        """End the snapshots of a stream that was deleted."""
        for snapshot in [*self._snapshots]:
            if snapshot.stream is stream:
                snapshot.stream_deleted()

    def stop(self) -> None:
        """End all transfers, because the server stops."""
        for snapshot in self._snapshots:
            snapshot.stop()
        for restore in self._restores:
            restore.abandon()
        self._snapshots.clear()
        self._restores.clear()
