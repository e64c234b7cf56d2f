"""The store of a server as its accounts see it: logs by account and stream.

The store knows logs by a key, and keeps for each a stream file whose bytes it does not read. This
module knows the key and the stream file of each stream, and the sync mode of its log.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from headwater.jetstream import error_codes
from headwater.jetstream.api.restored_consumers import AdmittedConsumer
from headwater.jetstream.codec.stream_set_records import INCARNATION_BYTES
from headwater.jetstream.config.stream_config import Compression, PersistMode, Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import StreamCreated, StreamSetRecord
from headwater.jetstream.streams.file import StreamBody, decode_body, encode_body
from headwater.raft.storage import BIRTH_INDEX
from headwater.runtime.environment import Environment
from headwater.server.configuration.options import JetStreamOptions
from headwater.server.streams.storage.resources import Resources, encoding_of, reserve_bytes_of
from headwater.server.streams.storage.stream_set_log import StreamKey, StreamSetLog
from headwater.store.groups.frames import GroupMode
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog, StoreError
from headwater.store.replicas import resume_refill
from headwater.store.store import Store, SyncMode, open_store


class StagedLog(NamedTuple):
    """A log that is filled from a backup: its incarnation, and the consumers of its stream."""

    incarnation: bytes
    log: MessageLog
    consumers: Sequence[AdmittedConsumer] = ()


@final
class StreamStore:
    """The logs of all streams of a server. Opening raises StoreError."""

    __slots__ = ("_bodies", "_default_mode", "_entropy", "_staged", "set_log", "store")

    def __init__(
        self, options: JetStreamOptions, resources: Resources, environment: Environment
    ) -> None:
        self._default_mode = SyncMode.ALWAYS if options.sync_always else SyncMode.INTERVAL
        # Stream files as they were read while the store was opened, by their bytes: reading one
        # takes longer than opening its log, and the recovery of the stream needs it again.
        self._bodies: dict[bytes, StreamBody] = {}
        # Logs that are being filled from backups, and are no streams yet.
        self._staged: dict[StreamKey, StagedLog] = {}
        self.store: Store = open_store(
            environment.disk,
            resources.folder,
            environment.entropy,
            environment.boot_id,
            mode_of=self._mode_of_file,
            encoding=encoding_of(options),
            compresses_of=self._compresses_file,
            reserve_bytes=reserve_bytes_of(resources),
            is_copy_of=self._is_copy_file,
            marks=environment.marks_in(options.runtime_dir),
        )
        if self.store.offline and not self.store.stream_names():
            self.store.abandon()
            raise StoreError(f"{resources.folder} cannot be written: {self.store.offline}")
        self._entropy = environment.entropy
        self.set_log = StreamSetLog(self.store)
        try:
            self.set_log.recover()
        except StoreError:
            self.store.abandon()
            raise

    # --- stream files --------------------------------------------------------------------------

    def mode_of(self, config: StreamConfig) -> SyncMode | None:
        """The sync mode of a log with this configuration; None for a log in memory."""
        if config.storage is Storage.MEMORY:
            return None
        return SyncMode.ASYNC if config.persist_mode is PersistMode.ASYNC else self._default_mode

    def defers_writes(self, config: StreamConfig) -> bool:
        """Whether a log with this configuration has records in memory until the next flush."""
        return self.mode_of(config) is SyncMode.ASYNC

    def group_mode_of(self, config: StreamConfig) -> GroupMode:
        """The mode of the group of a replicated stream with this configuration."""
        mode = self.mode_of(config)
        if mode is None:
            return GroupMode.MEMORY
        return GroupMode.SYNCED if mode is SyncMode.ALWAYS else GroupMode.WRITTEN

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

    def _is_copy_file(self, name: str, body: bytes) -> bool:
        """Whether a stream gets its sequences from the origin that it mirrors."""
        try:
            return self._body_of(name, body).config.mirror is not None
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

    def decide_creation(
        self, account_name: str, config: StreamConfig, now_ns: int
    ) -> Proposal[StreamSetRecord]:
        """The creation of a stream, whose incarnation is drawn. Raises ApiError and StoreError."""
        key = StreamKey(account_name, config.name)
        if self.is_staged(*key):
            raise ApiError.of(error_codes.STREAM_NAME_EXIST)
        if self.mode_of(config) is not None:
            self.store.check_creatable(str(key))
        incarnation = self._entropy.random_bytes(INCARNATION_BYTES)
        return self.set_log.streams.decide_create(
            account_name, config, now_ns, incarnation, self._lost_incarnation(key)
        )

    def _lost_incarnation(self, key: StreamKey) -> bytes | None:
        """The incarnation of a stream that exists, and whose files are gone."""
        created = self.set_log.streams.get(*key)
        if created is None or self.mode_of(created.config) is None:
            return None
        log = self.store.logs.get(str(key))
        is_there = log is not None and log.identity == created.incarnation
        return None if is_there else created.incarnation

    def make_log(self, created: StreamCreated) -> MessageLog:
        """Make the log of a stream that exists from now on. Raises StoreError.

        The log of a stream with several replicas is one of them. It is as the birth of its group
        leaves a stream, so that a crash before its first sync finds all entries behind it.
        """
        body = encode_body(created.config, created.created_ns)
        config = created.config
        is_replica = config.num_replicas > 1
        return self._make_log(
            _key_of(created), created.incarnation, config, body, config.first_seq, is_replica
        )

    def _make_log(
        self,
        key: StreamKey,
        identity: bytes,
        config: StreamConfig,
        body: bytes,
        first_sequence: int,
        is_replica: bool = False,
    ) -> MessageLog:
        first_sequence = max(first_sequence, 1)
        mode = self.mode_of(config)
        if mode is None:
            return MemoryLog(first_sequence)
        compresses = config.compression is Compression.S2
        return self.store.make_stream(
            str(key), identity, body, first_sequence, mode, compresses, is_replica, BIRTH_INDEX
        )

    # --- replicas ------------------------------------------------------------------------------

    def secure_entries(self, account_name: str, name: str) -> None:
        """Return when all entries of a stream so far are on the disk. Raises StoreError."""
        self.store.group_commit.secure_entries(str(StreamKey(account_name, name)))

    def join_group(self, created: StreamCreated, applied_entry: int) -> None:
        """Make the log of a stream on this server only a replica that holds the effects of all
        entries up to one, before its group is created. Raises StoreError."""
        name = str(_key_of(created))
        # The stream file speaks of no entry of an earlier group.
        self.store.logs[name].set_body(encode_body(created.config, created.created_ns))
        self.store.join_group(name, applied_entry)

    def leave_group(self, created: StreamCreated) -> None:
        """Make a replica the log of a stream on this server only, after its group is gone. Raises
        StoreError."""
        mode = self.mode_of(created.config) or self._default_mode
        self.store.leave_group(str(_key_of(created)), mode)

    def begin_refill(self, created: StreamCreated, first_sequence: int = 1) -> FileLog:
        """Put an empty log in the place of a replica's, which is to be filled from another one.
        Raises StoreError."""
        log = self.store.begin_refill(str(_key_of(created)), first_sequence)
        log.set_body(encode_body(created.config, created.created_ns))
        return log

    def resume_refill(self, account_name: str, name: str) -> None:
        """Have the log of a replica be filled further from another one. Raises StoreError."""
        resume_refill(self.store.logs[str(StreamKey(account_name, name))])

    def cut_back(self, account_name: str, name: str) -> FileLog:
        """Open the log of a replica again without the entries that are taken back. Raises
        StoreError."""
        log = self.store.cut_back(str(StreamKey(account_name, name)))
        if log.offline:
            raise StoreError(log.offline)
        return log

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
        key = StreamKey(account_name, config.name)
        body = encode_body(config, now_ns, unfinished=True)
        incarnation = self._entropy.random_bytes(INCARNATION_BYTES)
        log = self._make_log(key, incarnation, config, body, first_sequence)
        self._staged[key] = StagedLog(incarnation, log)
        return log

    def is_staged(self, account_name: str, name: str) -> bool:
        """Whether a log of that name is being filled from a backup."""
        return StreamKey(account_name, name) in self._staged

    def find_staged(self, created: StreamCreated) -> StagedLog | None:
        """The staged log of a stream that was created from it; None for any other stream."""
        staged = self._staged.get(StreamKey(created.account, created.name))
        is_its_log = staged is not None and staged.incarnation == created.incarnation
        return staged if is_its_log else None

    def decide_restored(
        self,
        account_name: str,
        config: StreamConfig,
        created_ns: int,
        consumers: Sequence[AdmittedConsumer] = (),
    ) -> Proposal[StreamSetRecord]:
        """The creation of a stream from a staged log. Raises ApiError."""
        key = StreamKey(account_name, config.name)
        staged = self._staged[key] = self._staged[key]._replace(consumers=consumers)
        return self.set_log.streams.decide_create(
            account_name, config, created_ns, staged.incarnation, self._lost_incarnation(key)
        )

    def finish_log(self, created: StreamCreated, log: MessageLog) -> None:
        """Have a staged log be the log of a stream that exists from now on. Raises StoreError."""
        log.set_body(encode_body(created.config, created.created_ns))
        self._staged.pop(StreamKey(created.account, created.name), None)

    def discard_log(self, account_name: str, config: StreamConfig, log: MessageLog) -> None:
        """Remove a staged log. Raises StoreError."""
        self._staged.pop(StreamKey(account_name, config.name), None)
        self.remove_log(account_name, config, log)

    # --- stored streams ------------------------------------------------------------------------

    def recoverable_streams(self) -> list[StreamKey]:
        """The streams that were found when the store was opened."""
        return [StreamKey.parse(key) for key in self.store.stream_names()]

    def stored_streams(self) -> list[StreamKey]:
        """Every stream that has files, whether it runs or not; no staged log."""
        # With those whose folder has been removed.
        names = dict.fromkeys([*self.store.stream_names(), *self.store.logs])
        keys = [StreamKey.parse(name) for name in names]
        return [key for key in keys if key not in self._staged]

    def lost_streams(self) -> list[StreamKey]:
        """The streams whose files have been removed while no server was running."""
        return [StreamKey.parse(key) for key in self.store.lost_streams]

    def damage_of(self, account_name: str, name: str) -> str:
        """The problems of the files of a stream that is not offline; empty if there are none."""
        log = self.store.logs.get(str(StreamKey(account_name, name)))
        if log is None:
            return ""
        problems = [*log.troubles.values()]
        if log.unreadable_count:
            problems.append(f"{log.unreadable_count} messages cannot be read any more")
        return "; ".join(problems)


def _key_of(created: StreamCreated) -> StreamKey:
    return StreamKey(created.account, created.name)
