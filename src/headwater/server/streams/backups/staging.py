"""Logs that are filled from backups, until they are streams.

A staged log has a file that says that it is no stream yet. A crash leaves the file behind, and the
next start removes the log.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, final

from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api import restored_consumers
from headwater.jetstream.api.documents import StreamCreateResponse
from headwater.jetstream.api.restore import check_free
from headwater.jetstream.api.restored_consumers import AdmittedConsumer
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Answered, Proposal
from headwater.jetstream.records import StreamSetRecord
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.storage.limits import ServerLimits
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.log.message_log import MessageLog


class RestoredStreams(Protocol):
    """The place of restored streams among those of the cluster."""

    def begin_restored(self, account: str, config: StreamConfig) -> StreamConfig:
        """The configuration with which a stream begins on this server."""
        ...

    def when_whole(self, account: str, name: str, answer: Callable[[], object]) -> None:
        """Answer the end of a restore when the stream has the configuration that was asked for."""
        ...


@final
class OwnStreams:
    """The restored streams of a server that is in no cluster: they are whole at once."""

    __slots__ = ()

    def begin_restored(self, account: str, config: StreamConfig) -> StreamConfig:
        """The configuration as it is."""
        return config

    def when_whole(self, account: str, name: str, answer: Callable[[], object]) -> None:
        """Answer at once."""
        answer()


@final
class Staging:
    """Makes streams of logs that were filled from backups."""

    __slots__ = ("_api_of", "_files", "_limits", "_runners", "_stream_set", "restored")

    def __init__(
        self,
        files: StreamStore,
        limits: ServerLimits,
        runners: StreamRunners,
        stream_set: StreamSetRunner,
        api_of: Callable[[str], StreamApi],
    ) -> None:
        # A server of a cluster has another one.
        self.restored: RestoredStreams = OwnStreams()
        self._files = files
        self._limits = limits
        self._runners = runners
        self._stream_set = stream_set
        self._api_of = api_of

    def memory_left(self) -> int:
        """The bytes of memory that streams may still use; not below zero."""
        return max(self._limits.room_left(Storage.MEMORY), 0)

    def check_creatable(self, account: JetStreamAccount, config: StreamConfig) -> None:
        """Raises ApiError if no stream of this configuration may be created now."""
        check_free(account, config.name)
        self._api_of(account.name).check_restorable(config)

    def check_room(self, account: JetStreamAccount, storage: Storage, byte_count: int) -> None:
        """Raises ApiError if account or server may not store so many bytes more."""
        if (
            0 <= account.limits.bytes_max(storage) < account.used_bytes(storage) + byte_count
            or self._limits.room_left(storage) < byte_count
        ):
            raise ApiError.of(
                error_codes.MEMORY_RESOURCES_EXCEEDED
                if storage is Storage.MEMORY
                else error_codes.STORAGE_RESOURCES_EXCEEDED
            )

    def stage_log(
        self, account: JetStreamAccount, config: StreamConfig, first_sequence: int
    ) -> MessageLog:
        """Create a log that is no stream yet. Raises StoreError."""
        return self._files.stage_log(account.name, config, self._runners.now_ns(), first_sequence)

    def is_staged(self, account: JetStreamAccount, name: str) -> bool:
        """Whether a log of that name is being filled."""
        return self._files.is_staged(account.name, name)

    def flush_written(self, config: StreamConfig) -> None:
        """Have the deferred writes to a staged log reach the disk, so that they stay few."""
        if self._files.defers_writes(config):
            self._runners.flush_wanted()

    def admit_consumers(
        self, account: JetStreamAccount, config: StreamConfig, found: Sequence[BackedUpConsumer]
    ) -> list[AdmittedConsumer]:
        """The consumers of a backup as the stream is to have them. Raises ApiError."""
        api = self._api_of(account.name)
        return restored_consumers.admit_consumers(api, config, found, self._runners.now_ns())

    def adopt_log(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        created_ns: int,
        consumers: Sequence[AdmittedConsumer],
        answered: Answered,
    ) -> None:
        """Have a stream made of a staged log. Without a time it was created now."""
        created_ns = created_ns or self._runners.now_ns()

        def decide() -> Proposal[StreamSetRecord] | Callable[[], object]:
            try:
                # Other streams may have been created since the restore began.
                self.check_creatable(account, config)
                begun = self.restored.begin_restored(account.name, config)
                proposal = self._files.decide_restored(account.name, begun, created_ns, consumers)
            except ApiError as error:
                return partial(answered.refuse, error)
            proposal.effects += (Answered(respond, answered.refuse),)
            return proposal

        def respond(removed: int) -> None:
            self.restored.when_whole(account.name, config.name, lambda: answered.respond(removed))

        self._stream_set.request(decide)

    def discard_log(self, account: JetStreamAccount, config: StreamConfig, log: MessageLog) -> None:
        """Remove a staged log. Raises StoreError."""
        self._files.discard_log(account.name, config, log)

    def describe_restored(self, account: JetStreamAccount, name: str) -> StreamCreateResponse:
        """The reply to the end of a restore."""
        return self._api_of(account.name).restored(account.stream(name))
