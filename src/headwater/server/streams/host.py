"""The streams of a server: opened with its store, joined to its accounts, closed with it.

`StreamHost` puts the parts together and owns their life. Each part has a module of its own:

    stream_store      the logs of streams, by account and name
    recovery          streams brought back when the server starts
    limits            how much accounts may store
    stream_set_runner the set of streams: streams created and deleted
    hosted_streams    streams opened, changed and closed
    runner            streams at work
    api_service       requests and their replies
    backups/          snapshots and restores
    facts             what monitoring reports
"""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from headwater.base.ids import base62
from headwater.base.invariants import check
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.cluster_documents import GroupState
from headwater.jetstream.api.keepers import (
    AccountTotals,
    ApiSettings,
    CopyInfo,
    FindSurroundings,
    Keepers,
    count_here,
    find_no_group,
    find_no_surroundings,
    find_no_sync_interval,
    hand_nothing_over,
)
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.stream_config import Placement
from headwater.jetstream.consumers.acks import ACK_PREFIX
from headwater.jetstream.consumers.push import FLOW_PREFIX
from headwater.jetstream.server_room import ServerRoom
from headwater.jetstream.streams.publishing.batch_limits import BatchRoom
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.tail import TailLimits
from headwater.runtime.environment import Environment
from headwater.server.configuration.options import Options
from headwater.server.configuration.placement_settings import sync_text
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.ingest import RoomLimits
from headwater.server.core.own_subscriptions import OwnSubscriptions, own_client
from headwater.server.log import Log
from headwater.server.streams.ack_inlet import AckInlet
from headwater.server.streams.advisories import Advisories, ServerTitle
from headwater.server.streams.api_service import ApiService
from headwater.server.streams.backups.exchange import TransferServer
from headwater.server.streams.backups.staging import Staging
from headwater.server.streams.backups.transfers import Transfers
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.copying.mirror_reads import MirrorReads
from headwater.server.streams.copying.room import CopyRoom
from headwater.server.streams.facts import StreamFacts
from headwater.server.streams.hosted_streams import HostedStreams
from headwater.server.streams.losses import tell_losses
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.storage.limits import ServerLimits
from headwater.server.streams.storage.recovery import (
    recover_set,
    recover_stream,
    report_recovered,
)
from headwater.server.streams.storage.resources import (
    NO_MARK,
    TEMPORARY_WARNING,
    Resources,
    banner,
    foreign_accounts,
    resources_of,
)
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import StoreError
from headwater.store.store import Store
from headwater.wire.info import NATS_VERSION

# Stands for 0 in the configuration.
DEFAULT_MAX_CONSUMERS: Final = 1000
# The size of the name of a consumer that was created without one.
CONSUMER_NAME_SIZE: Final = 8


@final
class StreamHost:
    """All streams of a server. Opening raises OperatingError.

    `next_cid` gives ids to the clients by which the server itself subscribes in accounts;
    `is_announced` has clients of all servers of a cluster reach the streams.
    """

    def __init__(
        self,
        options: Options,
        environment: Environment,
        log: Log,
        broker: Broker,
        accounts: Accounts,
        server: ServerTitle,
        next_cid: Callable[[], int],
        is_announced: bool = False,
    ) -> None:
        self._options = options
        self._environment = environment
        self._log = log
        self._broker = broker
        self._accounts = accounts
        self._server = server
        self._is_announced = is_announced
        resources = resources_of(options.jetstream, environment)
        self._limits = ServerLimits(options, resources)
        self._limits.check_accounts()
        self._room = self._new_room()
        # The accounts that have JetStream, by name.
        self.accounts: dict[str, JetStreamAccount] = {}
        # The accounts in which requests are answered, with JetStream or without.
        self._listening: set[Account] = set()
        self.files = StreamStore(options.jetstream, resources, environment)
        self._advisories = Advisories(
            server, accounts, broker, environment.clock, environment.entropy
        )
        self.runners = self._new_runners()
        self._subscriptions = OwnSubscriptions(lambda account: own_client(next_cid(), account))
        self._copying = self._new_copying()
        self.streams = HostedStreams(
            self.accounts,
            self.files,
            self.runners,
            self._subscriptions,
            self._advisories,
            self._home_of,
            self._stream_deleted,
            self._copying,
            server.domain,
            is_announced,
        )
        self.stream_set = self._new_set()
        self.api = self._new_api()
        self.staging = self._new_staging()
        self._transfers = self._new_transfers()
        # Finds the group of a stream. A server of a cluster has another one.
        self.find_group: Callable[[str, str], GroupState | None] = find_no_group
        # Likewise finds the streams and the limits of an account in the whole cluster.
        self.find_surroundings: FindSurroundings = find_no_surroundings
        # Likewise finds the sync interval of another server.
        self.find_sync_interval: Callable[[str], str] = find_no_sync_interval
        # Likewise has another server lead a stream.
        self.hand_over: Callable[[str, str, Placement | None], object] = hand_nothing_over
        # Likewise counts the usage of an account.
        self.count_totals: Callable[[JetStreamAccount], AccountTotals] = count_here
        self._keepers = self._new_keepers()
        self.facts = StreamFacts(self.accounts, self._limits, self.files, self.runners)

    def _new_runners(self) -> StreamRunners:
        chosen = self._options.jetstream
        return StreamRunners(
            self.files.store,
            self._environment,
            self._broker,
            chosen.sync_interval_s,
            self._log,
            self._advisories,
            _room_limits(self._options),
            chosen.ack_timeout_ns,
            TailLimits(chosen.eventual_max_tail),
        )

    def _new_room(self) -> ServerRoom:
        options, environment = self._options, self._environment
        return ServerRoom(
            max_payload=options.max_payload,
            domain=self._server.domain,
            entropy=environment.entropy,
            find_zone=environment.find_zone,
            batch_room=BatchRoom(options.jetstream.batches),
            usage=self._limits.usage,
            check_storage=self._limits.check_room,
            has_listener=self._has_listener,
        )

    def _new_set(self) -> StreamSetRunner:
        return StreamSetRunner(self.files.set_log, self.streams, self.runners.want_commit)

    def _new_api(self) -> ApiService:
        return ApiService(
            self.runners,
            self.stream_set,
            self._subscriptions,
            self._advisories,
            self._copying.mirrors,
            self._server.domain,
        )

    def _new_copying(self) -> CopyRoom:
        environment = self._environment
        return CopyRoom(
            self._broker,
            self._subscriptions,
            environment.entropy,
            environment.scheduler,
            environment.clock.wall_ns,
            self._server.domain,
            self._is_announced,
        )

    def _new_staging(self) -> Staging:
        return Staging(self.files, self._limits, self.runners, self.stream_set, self.api.api_of)

    def _new_transfers(self) -> Transfers:
        environment = self._environment
        server = TransferServer(
            environment.clock,
            environment.entropy,
            environment.scheduler,
            self._broker,
            self._log,
            self._subscriptions,
            self._advisories,
            self._server.domain,
        )
        return Transfers(server, self.staging, self._home_of)

    def _new_keepers(self) -> Keepers:
        environment = self._environment
        return Keepers(
            storage=self._limits,
            streams=self.streams,
            backups=self._transfers,
            generate_name=partial(base62, environment.entropy, CONSUMER_NAME_SIZE),
            now_ns=environment.clock.wall_ns,
            find_group=lambda account, stream: self.find_group(account, stream),
            hand_over=lambda *handed: self.hand_over(*handed),
            find_surroundings=lambda *asked: self.find_surroundings(*asked),
            count_totals=lambda account: self.count_totals(account),
            find_copies=self._find_copies,
            find_sync_interval=lambda server: self.find_sync_interval(server),
        )

    def _find_copies(self, account: str, stream: str) -> CopyInfo | None:
        copies = self.streams.find_copies(account, stream)
        return None if copies is None else copies.info()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover every stream and answer requests."""
        recover_set(self.files, self.stream_set)
        self._announce()
        for account in self._accounts.all():
            self._listen(account)
        recovered = [self._recover(key) for key in self.files.recoverable_streams()]
        try:
            self.files.store.finish_redo()
        except StoreError as error:
            self._log.error(f"JetStream: {error}")
        for found in recovered:
            if found is not None:
                self.streams.run(*found)
        for found in recovered:
            # When all streams run: one of them may store advisories.
            if found is not None:
                self._tell_losses(*found[:2])
        self.files.forget_bodies()
        self.runners.start()

    def _announce(self) -> None:
        log, store, resources = self._log, self.files.store, self._limits.resources
        if resources.is_temporary:
            log.warn(TEMPORARY_WARNING)
        for line in banner(self._options.jetstream, resources):
            log.info(line)
        if store.offline:
            log.error(f"JetStream cannot write: {store.offline}; streams can be read only")
        for finding in store.findings.reported:
            log.warn(f"JetStream store: {finding}")
        if store.mark.problem:
            log.warn(f"JetStream store: {NO_MARK}: {store.mark.problem}")
        foreign = foreign_accounts(self._environment.disk, resources.folder)
        if foreign:
            log.warn(
                f'"{resources.folder}" also has streams that a nats-server left for '
                f"{', '.join(foreign)}: they are not read and stay as they are"
            )

    def _recover(self, key: StreamKey) -> tuple[JetStreamAccount, Stream, bytes] | None:
        """A stream of the store with its account and its incarnation; None, with a line in the log,
        if it cannot run."""
        account = self.accounts.get(key.account)
        has_key = bool(self._options.jetstream.encryption_key)
        now_ns = self._environment.clock.wall_ns()
        stream = recover_stream(self.files, key, account, now_ns, self._log, has_key)
        if stream is None or account is None:
            return None
        report_recovered(self.files, key, stream, self._log)
        return account, stream, self.files.store.logs[str(key)].identity

    def _tell_losses(self, account: JetStreamAccount, stream: Stream) -> None:
        """Tell the messages that a start has found lost. Those of a replica are elsewhere."""
        log = stream.log
        if isinstance(log, FileLog) and not log.is_replica:
            home = self._home_of(account.name)
            tell_losses(self._advisories, self._log.warn, home, stream.name, log.newly_lost)

    def reload(self, options: Options) -> None:
        """Take over the limits of a new configuration, of the server and of accounts."""
        self._options = options
        self._room.max_payload = options.max_payload
        self._limits.configure(options, self._limits.resources.raised(options.jetstream))
        self.api.configure(self._api_settings())
        for name, state in self.accounts.items():
            limits = self._limits.of_account(name)
            if limits is None:
                self._log.warn(
                    f"Account {name} keeps its JetStream until the server is started again"
                )
            else:
                state.limits = limits
        for account in self._accounts.all():
            if account not in self._listening:
                self._listen(account)
            elif account.name not in self.accounts:
                self._enable(account)

    @property
    def is_strict(self) -> bool:
        """Whether unknown fields of a request are refused."""
        return self._options.jetstream.strict

    @property
    def resources(self) -> Resources:
        """The storage that streams may use."""
        return self._limits.resources

    @property
    def mirrors(self) -> MirrorReads:
        """The mirrors that answer for their origins."""
        return self._copying.mirrors

    @property
    def store(self) -> Store:
        """The store of the streams, and of the server's consensus groups."""
        return self.files.store

    def end_consumers(self) -> None:
        """Tell clients that wait for messages that the server stops."""
        self.runners.end_consumers()
        self._broker.turn.complete()

    def stop(self) -> None:
        """Close every stream in order."""
        self._copying.stop()
        self._transfers.stop()
        self.runners.stop()
        try:
            self.files.store.close()
        except StoreError as error:
            self.runners.failed(str(error))
        self.api.stop()

    @property
    def is_busy(self) -> bool:
        """Whether a sync is under way; the store must not be closed meanwhile."""
        return self.runners.is_busy

    # --- accounts ------------------------------------------------------------------------------

    def _listen(self, account: Account) -> None:
        """Answer requests in an account, with JetStream or without."""
        self._listening.add(account)
        self._enable(account)
        self.api.listen(account, is_system=account is self._accounts.system)

    def _enable(self, account: Account) -> None:
        """Give an account the JetStream that its configuration allows, if any."""
        limits = self._limits.of_account(account.name)
        if limits is None or account is self._accounts.system:
            return
        state = self.accounts[account.name] = JetStreamAccount(account.name, limits, self._room)
        self._serve_acks(account)
        self.api.add_api(StreamApi(state, self._keepers, self._api_settings()))

    def _api_settings(self) -> ApiSettings:
        options = self._options.jetstream
        return ApiSettings(
            server_name=self._server.name,
            server_version=NATS_VERSION,
            strict=options.strict,
            sync_interval=sync_text(self._options),
            duplicate_window_max_ns=options.duplicate_window_max_ns,
            max_ack_pending=options.max_ack_pending,
            max_request_batch=options.max_request_batch,
            default_max_consumers=options.default_max_consumers or DEFAULT_MAX_CONSUMERS,
        )

    def _serve_acks(self, account: Account) -> None:
        """Receive the acknowledgements and the flow control of an account's clients."""

        def find(stream_name: str) -> ConsumerRunner | None:
            return self.runners.find_consumers(account.name, stream_name)

        inlet = AckInlet(account, self._broker, find, self._server.domain)
        acks = self._subscriptions.take_in(account, ACK_PREFIX + b">", inlet.ingest)
        flow = self._subscriptions.serve(account, FLOW_PREFIX + b">", inlet.confirm_flow)
        # Each stream announces its own part of them.
        acks.serves_peers = flow.serves_peers = self._is_announced

    def _home_of(self, account_name: str) -> Account:
        """The subject space of an account that has JetStream."""
        home = self._accounts.get(account_name)
        check(home is not None, "an account with JetStream is there")
        assert home is not None
        return home

    def _has_listener(self, account_name: str, subject: bytes) -> bool:
        account = self._accounts.get(account_name)
        return account is not None and account.is_heard(subject)

    def _stream_deleted(self, stream: Stream) -> None:
        self._transfers.stream_deleted(stream)


def _room_limits(options: Options) -> RoomLimits:
    """The publishes that a stream may have gathered, by the options."""
    jetstream = options.jetstream
    return RoomLimits(
        jetstream.max_buffered_messages, jetstream.max_buffered_bytes, options.max_control_line
    )
