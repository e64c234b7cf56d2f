"""The store of a server as its accounts see it: logs by account and stream.

The store knows logs by a key, and keeps for each a stream file whose bytes it does not read. This
module knows the key and the stream file of each stream, and the sync mode of its log.
"""

from typing import Final, NamedTuple, final

from headwater.jetstream.config.stream_config import Compression, PersistMode, Storage, StreamConfig
from headwater.jetstream.streams.file import StreamBody, decode_body, encode_body
from headwater.runtime.environment import Environment
from headwater.server.configuration.options import JetStreamOptions
from headwater.server.streams.storage.resources import Resources, encoding_of, reserve_bytes_of
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog, StoreError
from headwater.store.store import Store, SyncMode, open_store

# Between the names of account and stream in a key of the store. Stream names cannot contain it.
_SEPARATOR: Final = "/"


class StreamKey(NamedTuple):
    """The names that a stored stream is found by."""

    account: str
    stream: str

    def __str__(self) -> str:
        return self.account + _SEPARATOR + self.stream


@final
class StreamStore:
    """The logs of all streams of a server. Opening raises StoreError."""

    __slots__ = ("_bodies", "_default_mode", "_staged", "store")

    def __init__(
        self, options: JetStreamOptions, resources: Resources, environment: Environment
    ) -> None:
        self._default_mode = SyncMode.ALWAYS if options.sync_always else SyncMode.INTERVAL
        # Stream files as they were read while the store was opened, by their bytes: reading one
        # takes longer than opening its log, and the recovery of the stream needs it again.
        self._bodies: dict[bytes, StreamBody] = {}
        # The logs that are being filled from backups, and are no streams yet.
        self._staged: set[StreamKey] = set()
        self.store: Store = open_store(
            environment.disk,
            resources.folder,
            environment.entropy,
            environment.boot_id,
            mode_of=self._mode_of_file,
            encoding=encoding_of(options),
            compresses_of=self._compresses_file,
            reserve_bytes=reserve_bytes_of(resources),
            has_entries=True,
        )
        if self.store.offline and not self.store.stream_names():
            self.store.abandon()
            raise StoreError(f"{resources.folder} cannot be written: {self.store.offline}")

    # --- stream files --------------------------------------------------------------------------

    def mode_of(self, config: StreamConfig) -> SyncMode | None:
        """The sync mode of a log with this configuration; None for a log in memory."""
        if config.storage is Storage.MEMORY:
            return None
        return SyncMode.ASYNC if config.persist_mode is PersistMode.ASYNC else self._default_mode

    def _mode_of_file(self, name: str, body: bytes) -> SyncMode:
        try:
            mode = self.mode_of(self._body_of(name, body).config)
        except StoreError:
            mode = None
        return mode or self._default_mode

    def _compresses_file(self, name: str, body: bytes) -> bool:
        try:
            return self._body_of(name, body).config.compression is Compression.S2
        except StoreError:
            return False

    def _body_of(self, key: str, data: bytes) -> StreamBody:
        body = self._bodies.get(data)
        if body is None:
            body = self._bodies[data] = decode_body(data, key)
        return body

    def body_of(self, key: StreamKey, log: FileLog) -> StreamBody:
        """The content of a stream file. Raises StoreError."""
        return self._body_of(str(key), log.body)

    def forget_bodies(self) -> None:
        """Free the stream files that were read while the store was opened."""
        self._bodies.clear()

    # --- logs ----------------------------------------------------------------------------------

    def create_log(
        self, account_name: str, config: StreamConfig, created_ns: int, first_sequence: int
    ) -> MessageLog:
        """Create the log of a new stream. Raises StoreError."""
        return self._create_log(
            account_name, config, encode_body(config, created_ns), first_sequence
        )

    def _create_log(
        self, account_name: str, config: StreamConfig, body: bytes, first_sequence: int
    ) -> MessageLog:
        first_sequence = max(first_sequence, 1)
        mode = self.mode_of(config)
        if mode is None:
            return MemoryLog(first_sequence)
        key = StreamKey(account_name, config.name)
        compresses = config.compression is Compression.S2
        return self.store.create_stream(str(key), body, first_sequence, mode, compresses)

    def remove_log(self, account_name: str, config: StreamConfig, log: MessageLog) -> None:
        """Remove a log with its files. Raises StoreError."""
        if self.mode_of(config) is None:
            log.close()
        else:
            self.store.remove_stream(str(StreamKey(account_name, config.name)))

    def set_compression(self, account_name: str, config: StreamConfig) -> None:
        """Have a log in files compress what it writes from now on, or not."""
        if self.mode_of(config) is not None:
            compresses = config.compression is Compression.S2
            self.store.compress_stream(str(StreamKey(account_name, config.name)), compresses)

    # --- logs that are filled from backups -----------------------------------------------------

    def stage_log(
        self, account_name: str, config: StreamConfig, now_ns: int, first_sequence: int
    ) -> MessageLog:
        """Create a log that is no stream yet, and is removed at the next start."""
        body = encode_body(config, now_ns, unfinished=True)
        log = self._create_log(account_name, config, body, first_sequence)
        self._staged.add(StreamKey(account_name, config.name))
        return log

    def is_staged(self, account_name: str, name: str) -> bool:
        """Whether a log of that name is being filled from a backup."""
        return StreamKey(account_name, name) in self._staged

    def finish_log(
        self, account_name: str, config: StreamConfig, log: MessageLog, created_ns: int
    ) -> None:
        """Have a staged log be the log of a stream. Raises StoreError."""
        log.set_body(encode_body(config, created_ns))
        self._staged.discard(StreamKey(account_name, config.name))

    def discard_log(self, account_name: str, config: StreamConfig, log: MessageLog) -> None:
        """Remove a staged log. Raises StoreError."""
        self._staged.discard(StreamKey(account_name, config.name))
        self.remove_log(account_name, config, log)

    # --- stored streams ------------------------------------------------------------------------

    def recoverable_streams(self) -> list[StreamKey]:
        """The streams that were found when the store was opened."""
        return [_key_of(key) for key in self.store.stream_names()]

    def stored_streams(self) -> list[StreamKey]:
        """Every stream that has files, whether it runs or not; no staged log."""
        # With those whose folder has been removed.
        names = dict.fromkeys([*self.store.stream_names(), *self.store.logs])
        keys = [_key_of(name) for name in names]
        return [key for key in keys if key not in self._staged]

    def lost_streams(self) -> list[StreamKey]:
        """The streams whose files have been removed while no server was running."""
        return [_key_of(key) for key in self.store.lost_streams]

    def damage_of(self, account_name: str, name: str) -> str:
        """The problems of the files of a stream that is not offline; empty if there are none."""
        log = self.store.logs.get(str(StreamKey(account_name, name)))
        if log is None:
            return ""
        problems = [*log.troubles.values()]
        if log.unreadable_count:
            problems.append(f"{log.unreadable_count} messages cannot be read any more")
        return "; ".join(problems)


def _key_of(name: str) -> StreamKey:
    account, _, stream = name.partition(_SEPARATOR)
    return StreamKey(account, stream)
