"""JetStream in a server: its accounts, its store, and the streams it keeps.

Opens the store, brings back what is in it, and makes, changes and removes streams as the API asks.
How a stream works is `headwater.server.streams.runner`; how requests are answered is
`headwater.server.streams.api_service`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, final

from headwater.base.ids import base62
from headwater.base.invariants import check
from headwater.base.sliced import Work
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import Action, ClientDocument
from headwater.jetstream.api import restored_consumers
from headwater.jetstream.api.documents import StreamCreateResponse, StreamState
from headwater.jetstream.api.keepers import ApiSettings, Keepers
from headwater.jetstream.api.restored_consumers import AdmittedConsumer
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import Compression, PersistMode, Storage, StreamConfig
from headwater.jetstream.consumers.acks import ACK_PREFIX
from headwater.jetstream.consumers.machine import Consumer, starting
from headwater.jetstream.consumers.push import FLOW_PREFIX
from headwater.jetstream.consumers.records import (
    ConsumerCreated,
    ConsumerReset,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.records import Record
from headwater.jetstream.server_room import ServerRoom, Usage
from headwater.jetstream.streams.file import StreamBody, decode_body, encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client
from headwater.server.core.ingest import RoomLimits
from headwater.server.core.own_subscriptions import OwnSubscriptions, own_client
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.streams.ack_inlet import AckInlet
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.api_service import JetStreamApi
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.backups.transfers import Transfers, TransferWorld
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.limits import ServerLimits
from headwater.server.streams.resources import (
    TEMPORARY_WARNING,
    banner,
    encoding_of,
    foreign_accounts,
    reserve_bytes_of,
    resources_of,
)
from headwater.server.streams.runner import StreamRunner, StreamRunners
from headwater.server.streams.waiting_steps import Change
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import ALL_SUBJECTS, MessageLog, StoreError
from headwater.store.store import SyncMode, open_store
from headwater.wire.info import NATS_VERSION

if TYPE_CHECKING:
    from headwater.server.node import Node

# Between the names of account and stream in the store; stream names can not have it.
_OF: Final = "/"
# What a consumer without a name is called by.
CONSUMER_NAME_SIZE: Final = 8
# What 0 stands for in the configuration.
DEFAULT_MAX_CONSUMERS: Final = 1000


@final
class JetStream:
    """All streams of a server. Made by `open_jetstream`."""

    def __init__(self, node: "Node") -> None:
        options = node.options.jetstream
        environment = node.environment
        self._node = node
        self.broker = node.broker
        self._clock = environment.clock
        self.resources = resources_of(options, environment)
        self.limits = ServerLimits(node.options, self.resources)
        self.limits.check_accounts()
        self._entropy = environment.entropy
        self._room = ServerRoom(
            max_payload=node.options.max_payload,
            domain=options.domain,
            entropy=environment.entropy,
            find_zone=environment.find_zone,
            batch_room=BatchRoom(options.batches),
            usage=self.limits.usage,
            check_storage=self.limits.check_room,
            has_listener=self._has_listener,
        )
        self._keepers = Keepers(self.limits, self, self, self, self.now_ns)
        self.accounts: dict[str, JetStreamAccount] = {}
        # Those in which requests are heard, with JetStream or without.
        self._listening: set[Account] = set()
        self._default_mode = SyncMode.ALWAYS if options.sync_always else SyncMode.INTERVAL
        # Stream files as they were read while the store was opened, by their bytes: reading one
        # takes longer than opening its log, and `start` needs each of them again.
        self._bodies: dict[bytes, StreamBody] = {}
        self._store = open_store(
            environment.disk,
            self.resources.folder,
            environment.entropy,
            environment.boot_id,
            mode_of=self._mode_of_file,
            encoding=encoding_of(options),
            compresses_of=self._compresses_file,
            reserve_bytes=reserve_bytes_of(self.resources),
        )
        if self._store.offline and not self._store.stream_names():
            self._store.abandon()
            raise StoreError(f"{self.resources.folder} can not be written: {self._store.offline}")
        self.advisories = Advisories(node)
        self.runners = StreamRunners(
            self._store,
            environment,
            self.broker,
            options.sync_interval_s,
            node.log,
            self.advisories,
            RoomLimits(
                options.max_buffered_messages,
                options.max_buffered_bytes,
                node.options.max_control_line,
            ),
        )
        self._subscriptions = OwnSubscriptions(self._new_client)
        self._api = JetStreamApi(node, self, self._subscriptions, self.advisories)
        self._transfers = Transfers(TransferWorld(node, self, self._subscriptions, self.advisories))

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring back every stream and begin to answer."""
        self._announce()
        for account in self._node.accounts.all():
            self._listen(account)
        for key in self._store.stream_names():
            self._bring_back(key)
        self._bodies.clear()
        self.runners.start()

    def _announce(self) -> None:
        options, log = self._node.options.jetstream, self._node.log
        if self.resources.is_temporary:
            log.warn(TEMPORARY_WARNING)
        for line in banner(options, self.resources):
            log.info(line)
        if self._store.offline:
            log.error(f"JetStream can not write: {self._store.offline}; streams can be read only")
        for finding in self._store.findings.reported:
            log.warn(f"JetStream store: {finding}")
        foreign = foreign_accounts(self._node.environment.disk, self.resources.folder)
        if foreign:
            log.warn(
                f'"{self.resources.folder}" also has streams that a nats-server left for '
                f"{', '.join(foreign)}: they are not read and stay as they are"
            )

    def reload(self) -> None:
        """Take over the limits of a new configuration, of the server and of accounts."""
        options, log = self._node.options, self._node.log
        self.resources = self.resources.raised(options.jetstream)
        self.limits.configure(options, self.resources)
        self._room.max_payload = options.max_payload
        self._api.configure(self._api_settings())
        for name, state in self.accounts.items():
            limits = self.limits.of_account(name)
            if limits is None:
                log.warn(f"Account {name} keeps its JetStream until the server is started again")
            else:
                state.limits = limits
        for account in self._node.accounts.all():
            if account not in self._listening:
                self._listen(account)
            elif account.name not in self.accounts:
                admitted = self._new_state(account)
                if admitted is not None:
                    self._api.admit(admitted)

    def _listen(self, account: Account) -> None:
        self._listening.add(account)
        self._api.listen(account, self._new_state(account))

    def _new_state(self, account: Account) -> JetStreamAccount | None:
        """The JetStream of an account; None if it has none."""
        limits = self.limits.of_account(account.name)
        if limits is None or account is self._node.accounts.system:
            return None
        state = self.accounts[account.name] = JetStreamAccount(account.name, limits, self._room)
        self._take_acks(account)
        return state

    def _new_client(self, account: Account) -> Client:
        """A client by which the server itself listens in an account."""
        return own_client(self._node.next_cid(), account)

    def _bring_back(self, key: str) -> None:
        account_name, _, name = key.partition(_OF)
        account = self._node.accounts.get(account_name)
        state = self.accounts.get(account_name)
        if account is None or state is None:
            self._node.log.warn(f"Stream {key} belongs to an account without JetStream: it is kept")
            return
        log = self._store.logs.get(key)
        if log is None:
            reason = self._store.unreadable.get(key, "")
            self._node.log.error(f"Stream {key} can not be opened: {reason}")
            return
        if self._node.options.jetstream.encryption_key and not self._store.is_encrypted(key):
            self._node.log.warn(f"Stream {key} was made without a key and stays unencrypted")
        try:
            body = self._body_of(key, log.body)
            if body.unfinished:
                self._node.log.warn(f"Stream {key} was not restored to its end: it is removed")
                self._store.remove_stream(key)
                return
        except StoreError as error:
            self._node.log.error(str(error))
            return
        stream = Stream(body.config, log, body.created_ns, state)
        try:
            stream.recover(self.now_ns())
        except StoreError as error:
            self._node.log.error(f"Stream {key} can not be opened: {error}")
            return
        if log.offline:
            self._node.log.error(f"Stream {key} can be read only: {log.offline}")
        self._run(account, state, stream, self._mode_of(body.config))
        for finding in log.findings.reported:
            self._node.log.warn(f"Stream {key}: {finding}")
        for reason in stream.set_aside:
            self._node.log.error(f"Stream {key}: {reason}")
        self._node.log.info(
            f"  Restored {log.messages} messages for stream '{account_name} > {name}'"
        )

    def end_consumers(self) -> None:
        """Tell those who wait for messages that the server ends."""
        self.runners.end_consumers()
        self.broker.flush()

    def stop(self) -> None:
        """Close every stream in order."""
        self._transfers.stop()
        self.runners.stop()
        try:
            self._store.close()
        except StoreError as error:
            self.runners.failed(str(error))

    @property
    def is_busy(self) -> bool:
        """Whether the disk is being waited for; the store must not be closed meanwhile."""
        return self.runners.is_busy

    @property
    def offline(self) -> str:
        """Why nothing can be written at all; empty if it can."""
        return self._store.offline

    @property
    def full(self) -> str:
        """Why messages are refused for now, since when, and what to do; empty if they are not."""
        return self.runners.disk.reason

    @property
    def file_problem(self) -> str:
        """The problem of the files that all streams share; empty if there is none."""
        return self.runners.files.problem

    def lost_streams(self) -> list[tuple[str, str]]:
        """Account and name of streams that somebody has removed while no server looked."""
        keys = [key.partition(_OF) for key in self._store.lost_streams]
        return [(account, name) for account, _, name in keys]

    def damage_of(self, account: str, name: str) -> str:
        """The problems of the files of a stream that is not offline; empty if there are none."""
        log = self._store.logs.get(account + _OF + name)
        if log is None:
            return ""
        problems = [*log.troubles.values()]
        if log.unreadable_count:
            problems.append(f"{log.unreadable_count} messages cannot be read any more")
        return "; ".join(problems)

    def stored_streams(self) -> list[tuple[str, str]]:
        """Account and name of every stream that has files, whether it runs or not.

        One that is being filled from a backup is none yet.
        """
        # With those whose folder somebody has removed.
        names = dict.fromkeys([*self._store.stream_names(), *self._store.logs])
        keys = [key.partition(_OF) for key in names]
        return [
            (account, name)
            for account, _, name in keys
            if not self._transfers.is_staged(account, name)
        ]

    # --- clock and disk ------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The time, as messages carry it."""
        return self._clock.wall_ns()

    # --- what all accounts share ---------------------------------------------------------------

    @property
    def domain(self) -> str:
        """The domain of the server."""
        return self._room.domain

    @property
    def usage(self) -> Usage:
        """What all accounts use together."""
        return self.limits.usage

    def used_bytes(self, storage: Storage) -> int:
        """What all accounts store."""
        return self.usage.used(storage)

    def new_api(self, account: JetStreamAccount) -> StreamApi:
        """The API of an account."""
        return StreamApi(account, self._keepers, self._api_settings())

    def _api_settings(self) -> ApiSettings:
        options = self._node.options.jetstream
        return ApiSettings(
            server_name=self._node.name,
            server_version=NATS_VERSION,
            strict=options.strict,
            duplicate_window_max_ns=options.duplicate_window_max_ns,
            max_ack_pending=options.max_ack_pending,
            max_request_batch=options.max_request_batch,
            default_max_consumers=options.default_max_consumers or DEFAULT_MAX_CONSUMERS,
        )

    # --- keeping streams -----------------------------------------------------------------------

    def _mode_of(self, config: StreamConfig) -> SyncMode | None:
        if config.storage is Storage.MEMORY:
            return None
        return SyncMode.ASYNC if config.persist_mode is PersistMode.ASYNC else self._default_mode

    def _mode_of_file(self, name: str, body: bytes) -> SyncMode:
        try:
            mode = self._mode_of(self._body_of(name, body).config)
        except StoreError:
            mode = None
        return mode or self._default_mode

    def _compresses_file(self, name: str, body: bytes) -> bool:
        try:
            return self._body_of(name, body).config.compression is Compression.S2
        except StoreError:
            return False

    def _body_of(self, key: str, data: bytes) -> StreamBody:
        """A stream file's content, read once while the store is opened. Raises StoreError."""
        body = self._bodies.get(data)
        if body is None:
            body = self._bodies[data] = decode_body(data, key)
        return body

    def create_stream(self, account: JetStreamAccount, config: StreamConfig) -> Stream:
        """Make a stream and begin to listen for it."""
        if self._transfers.is_staged(account.name, config.name):
            raise ApiError.of(error_codes.STREAM_NAME_EXIST)
        now_ns = self.now_ns()
        log = self._new_log(account, config, encode_body(config, now_ns), config.first_seq)
        stream = Stream(config, log, now_ns, account)
        self._begin(account, stream)
        return stream

    def _new_log(
        self, account: JetStreamAccount, config: StreamConfig, body: bytes, first_sequence: int
    ) -> MessageLog:
        first_sequence = max(first_sequence, 1)
        mode = self._mode_of(config)
        if mode is None:
            return MemoryLog(first_sequence)
        key = account.name + _OF + config.name
        compresses = config.compression is Compression.S2
        return self._store.create_stream(key, body, first_sequence, mode, compresses)

    def _begin(self, account: JetStreamAccount, stream: Stream) -> None:
        """A stream that was not there before runs."""
        home = self._home_of(account)
        self._run(home, account, stream, self._mode_of(stream.config))
        self.advisories.stream_action(home, stream.name, Action.CREATE)

    def _home_of(self, account: JetStreamAccount) -> Account:
        """The subject space of an account."""
        home = self._node.accounts.get(account.name)
        check(home is not None, "an account with JetStream is there")
        assert home is not None
        return home

    def _run(
        self, home: Account, account: JetStreamAccount, stream: Stream, mode: SyncMode | None
    ) -> None:
        runner = StreamRunner(self.runners, home, account, stream, mode)
        account.add(stream)
        self.runners.add(runner)
        self._listen_for(runner)
        runner.consumers.start()

    def _listen_for(self, runner: StreamRunner) -> None:
        runner.subscriptions = [
            self._subscriptions.take_in(runner.account, subject.encode(), runner.ingest)
            for subject in runner.stream.config.subjects
        ]

    def _stop_listening(self, runner: StreamRunner) -> None:
        for sub in runner.subscriptions:
            self._subscriptions.end(sub)
        runner.subscriptions = []

    def recording(self, account: JetStreamAccount, stream: Stream, record: Record) -> Work[None]:
        """Write a record down and apply it, some at a time, as part of a change."""
        runner = self.runners.of(account.name, stream.name)
        yield from runner.recording(record)
        self.runners.note_due(runner)

    def stream_changed(self, account: JetStreamAccount, stream: Stream, old: StreamConfig) -> None:
        """A stream may listen for other subjects now."""
        runner = self.runners.of(account.name, stream.name)
        account.reconfigured(stream, old)
        if runner.mode is not None and stream.config.compression is not old.compression:
            compresses = stream.config.compression is Compression.S2
            self._store.compress_stream(account.name + _OF + stream.name, compresses)
        if stream.config.subjects != old.subjects:
            self._stop_listening(runner)
            self._listen_for(runner)
        self.advisories.stream_action(runner.account, stream.name, Action.MODIFY)

    def change(self, account_name: str, stream_name: str, change: Change) -> None:
        """Have a stream changed in its turn."""
        self.runners.of(account_name, stream_name).change(change)

    def when_free(self, account_name: str, stream_name: str, look: Callable[[], object]) -> None:
        """Look at a stream, which need not be there, when nobody is in the midst of changing it."""
        runner = self.runners.find(account_name, stream_name)
        if runner is None:
            look()
        else:
            runner.when_free(look)

    @property
    def slices(self) -> SliceTurns:
        """The turns in which long work is done."""
        return self.runners.slices

    def is_held(self, account_name: str, stream_name: str) -> bool:
        """Whether somebody is in the midst of changing a stream."""
        runner = self.runners.find(account_name, stream_name)
        return runner is not None and runner.is_held

    # --- keeping consumers ---------------------------------------------------------------------

    def generate_name(self) -> str:
        """A name for a consumer that was not given one."""
        return base62(self._entropy, CONSUMER_NAME_SIZE)

    def _has_listener(self, account_name: str, subject: bytes) -> bool:
        account = self._node.accounts.get(account_name)
        return account is not None and account.index.match(subject).fan_out > 0

    def consumers_of(self, account_name: str, stream_name: str) -> ConsumerRunner | None:
        """Who runs the consumers of a stream, if it is there."""
        runner = self.runners.find(account_name, stream_name)
        return None if runner is None else runner.consumers

    def create_consumer(
        self,
        account: JetStreamAccount,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        now_ns: int,
    ) -> Work[Consumer]:
        """Make a consumer and let it work."""
        runner = self.runners.of(account.name, stream.name)
        start_sequence, lasts_until = yield from starting(stream, config)
        # The consumer will ask how many messages it is to deliver.
        patterns = config.patterns or (ALL_SUBJECTS,)
        yield from stream.log.counting(patterns, max(start_sequence, lasts_until + 1))
        record = ConsumerCreated(name, config, now_ns, start_sequence, lasts_until)
        yield from runner.recording(record)
        consumer = stream.consumers.by_name[name]
        runner.consumers.begin(consumer)
        self.advisories.consumer_action(runner.account, consumer, Action.CREATE)
        if consumer.is_paused(now_ns):
            self.advisories.consumer_paused(runner.account, consumer, True)
        return consumer

    def update_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, config: ConsumerConfig
    ) -> Work[None]:
        """Have a consumer go on with another configuration."""
        runner = self.runners.of(account.name, stream.name)
        if config.patterns != consumer.config.patterns:
            patterns = config.patterns or (ALL_SUBJECTS,)
            yield from stream.log.counting(patterns, consumer.cursor.sequence)
        old_subject = b"" if consumer.push is None else consumer.push.subject
        old_pause_ns = consumer.config.pause_until_ns
        yield from runner.recording(consumer.configured(config))
        runner.consumers.changed(consumer, old_subject)
        if old_pause_ns != config.pause_until_ns:
            is_paused = consumer.is_paused(self.now_ns())
            self.advisories.consumer_paused(runner.account, consumer, is_paused)

    def delete_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer
    ) -> Work[None]:
        """Remove all there is of a consumer."""
        yield from self.runners.of(account.name, stream.name).consumers.removing(consumer)

    def reset_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, sequence: int
    ) -> Work[None]:
        """Have a consumer begin again at a sequence of its stream."""
        runner = self.runners.of(account.name, stream.name)
        yield from stream.log.counting(consumer.patterns, sequence)
        yield from runner.recording(ConsumerReset(consumer.name, sequence))
        runner.consumers.deliver(consumer)

    def unpin_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, group: str
    ) -> None:
        """Let another client of a group have its turn."""
        self.runners.of(account.name, stream.name).consumers.unpin(consumer)

    def _take_acks(self, account: Account) -> None:
        """Hear what clients of an account say of messages they got."""

        def find(stream_name: str) -> ConsumerRunner | None:
            return self.consumers_of(account.name, stream_name)

        inlet = AckInlet(account, self.broker, find, self.domain)
        self._subscriptions.take_in(account, ACK_PREFIX + b">", inlet.ingest)

        self._subscriptions.serve(account, FLOW_PREFIX + b">", inlet.confirm_flow)

    def reads_of(self, account_name: str, stream_name: str) -> AwaitedReads:
        """The reads that wait for a stream."""
        return self.runners.of(account_name, stream_name).reads

    def delete_stream(self, account: JetStreamAccount, stream: Stream) -> None:
        """Stop listening for a stream and remove it."""
        runner = self.runners.pop(account.name, stream.name)
        self._stop_listening(runner)
        runner.give_up_walk()
        runner.refuse_waiting(ApiError.of(error_codes.STREAM_NOT_FOUND))
        runner.consumers.end_all(is_deleted=True)
        account.remove(stream)
        stream.retire()
        runner.reads.give_up()
        self._transfers.stream_gone(stream)
        self.runners.empty(stream.abandon())
        try:
            if runner.mode is None:
                stream.log.close()
            else:
                self._store.remove_stream(account.name + _OF + stream.name)
        finally:
            runner.end()
        self.advisories.stream_action(runner.account, stream.name, Action.DELETE)

    # --- backups -------------------------------------------------------------------------------

    def begin_snapshot(
        self,
        account: JetStreamAccount,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        client: ClientDocument | None,
    ) -> None:
        """Send a stream, once this turn is over."""
        home = self._home_of(account)
        self._transfers.begin_snapshot(home, stream, request, state, client)

    def begin_restore(
        self, account: JetStreamAccount, config: StreamConfig, client: ClientDocument | None
    ) -> str:
        """Wait for a backup; the subject its chunks go to."""
        return self._transfers.begin_restore(self._home_of(account), account, config, client)

    def room_left(self, storage: Storage) -> int:
        """How many bytes more all accounts together may store."""
        return self.limits.room_left(storage)

    def check_restorable(self, account: JetStreamAccount, config: StreamConfig) -> None:
        """Raises ApiError if no such stream may be made now."""
        self.new_api(account).check_restorable(config)

    def stage_stream(
        self, account: JetStreamAccount, config: StreamConfig, first_sequence: int
    ) -> MessageLog:
        """A log that is no stream yet, and is removed at the next start."""
        body = encode_body(config, self.now_ns(), unfinished=True)
        return self._new_log(account, config, body, first_sequence)

    def staged_written(self, config: StreamConfig) -> None:
        """Something was written to such a log: what is held back for it must not grow."""
        mode = self._mode_of(config)
        if mode is SyncMode.ALWAYS:
            self.runners.commit_wanted()
        elif mode is SyncMode.ASYNC:
            self.runners.flush_wanted()

    def admit_consumers(
        self, account: JetStreamAccount, config: StreamConfig, found: Sequence[BackedUpConsumer]
    ) -> list[AdmittedConsumer]:
        """The consumers of a backup as the stream is to have them."""
        return restored_consumers.admit(self.new_api(account), config, found, self.now_ns())

    def adopt_stream(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        log: MessageLog,
        created_ns: int,
        consumers: Sequence[AdmittedConsumer],
    ) -> Stream:
        """Make a stream of a staged log."""
        now_ns = self.now_ns()
        created_ns = created_ns or now_ns
        log.set_body(encode_body(config, created_ns))
        stream = Stream(config, log, created_ns, account)
        for consumer in consumers:
            stream.consumers.adopt(consumer.entries)
        # As in nats-server, what was published before the backup does not count as a duplicate.
        stream.recover(now_ns, with_ids=False)
        self._begin(account, stream)
        return stream

    def discard_staged(
        self, account: JetStreamAccount, config: StreamConfig, log: MessageLog
    ) -> None:
        """Remove a staged log."""
        if self._mode_of(config) is None:
            log.close()
        else:
            self._store.remove_stream(account.name + _OF + config.name)

    def describe_restored(self, account: JetStreamAccount, stream: Stream) -> StreamCreateResponse:
        """What whoever restored a stream is told of it."""
        return self.new_api(account).restored(stream)
