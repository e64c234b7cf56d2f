"""The limits of a server's storage, of all accounts together and of each.

A stream with `max_bytes` reserves that many bytes; a stream without a limit needs a single byte
that is left, as in nats-server.
"""

from typing import final

from headwater.jetstream import error_codes
from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.server_room import Usage, exceeded
from headwater.server.configuration.options import GLOBAL_ACCOUNT, Options
from headwater.server.streams.storage.resources import ResourceError, Resources


@final
class ServerLimits:
    """The storage that the options allow, and the bytes of all accounts together."""

    __slots__ = ("_by_account", "resources", "usage")

    def __init__(self, options: Options, resources: Resources) -> None:
        self.usage = Usage()
        self._by_account: dict[str, AccountLimits] = {}
        self.configure(options, resources)

    def configure(self, options: Options, resources: Resources) -> None:
        """Take over the limits of new options."""
        self.resources = resources
        self.usage.memory.bytes_max = resources.max_memory_bytes
        self.usage.file.bytes_max = resources.max_storage_bytes
        self._by_account = {
            account.name: account.jetstream
            for account in options.accounts
            if account.jetstream is not None
        }
        if all(account.name == options.system_account for account in options.accounts):
            # Without accounts of its own, a server has JetStream for the global account.
            self._by_account[GLOBAL_ACCOUNT] = AccountLimits()

    def of_account(self, name: str) -> AccountLimits | None:
        """The limits of an account; None if it has no JetStream."""
        return self._by_account.get(name)

    def bytes_max(self, storage: Storage) -> int:
        """The bytes that all accounts together may store."""
        resources = self.resources
        if storage is Storage.MEMORY:
            return resources.max_memory_bytes
        return resources.max_storage_bytes

    def check_accounts(self) -> None:
        """Raises ResourceError if accounts may store more together than the server may."""
        for storage in Storage:
            promised = sum(
                max(limits.bytes_max(storage), 0) for limits in self._by_account.values()
            )
            if promised > self.bytes_max(storage):
                error = exceeded(storage)
                raise ResourceError(
                    f"Error enabling jetstream on configured accounts: {error.description} "
                    f"({error.err_code})"
                )

    def check_room(self, storage: Storage) -> None:
        """Raises ApiError if the server stores more than it may."""
        if self.usage.used(storage) > self.bytes_max(storage):
            raise ApiError.of(error_codes.INSUFFICIENT_RESOURCES)

    def room_left(self, storage: Storage) -> int:
        """The bytes that all accounts together may still store."""
        return self.bytes_max(storage) - self.usage.used(storage)

    def check_reservation(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        old: StreamConfig | None,
        coming: ComingStreams,
    ) -> None:
        """Raises ApiError if a stream would reserve more than server or account have left.

        `old` is the configuration that a stream has already; None for a new one. `coming` are the
        streams whose creation is in flight.
        """
        if 0 < account.limits.max_consumers < config.max_consumers:
            raise ApiError.of(error_codes.MAXIMUM_CONSUMERS_LIMIT)
        storage = config.storage
        reserved = account.reserved_bytes(storage) + coming.reserved(storage, account.name)
        if old is None:
            # A new stream without a limit needs a single byte that is left.
            added = config.max_bytes if config.max_bytes >= 0 else 1
            on_server = added
        else:
            added = max(config.max_bytes, 0) - max(old.max_bytes, 0)
            on_server = max(added, 0)
        self._check(account, storage, reserved + added, coming.reserved(storage) + on_server)

    def _check(
        self, account: JetStreamAccount, storage: Storage, account_bytes: int, added_bytes: int
    ) -> None:
        """Compare the sum of the account with its limit, and the sum of the server with its own."""
        server_bytes = self.usage.reserved(storage) + added_bytes
        if 0 <= account.limits.bytes_max(storage) < account_bytes or server_bytes > self.bytes_max(
            storage
        ):
            raise ApiError.of(exceeded(storage))
