"""Streams restored from backups: one object per restore under way, from the reply to the end.

    chunks ─▶ staged log, whose file says that it is no stream yet
    end    ─▶ limits, consumers ─▶ sync ─▶ the file says that it is a stream ─▶ the stream runs

A restore that fails, is given up, or meets a crash leaves no stream behind, and the reply that
describes a restored stream is sent when that stream is on the disk. Chunks are decoded by
`headwater.jetstream.api.restore`.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.go.json import write
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import RestoreCompleteAdvisory, RestoreCreateAdvisory
from headwater.jetstream.api.documents import ErrorDocument, StreamCreateResponse
from headwater.jetstream.api.restore import Need, RestoreReceiver, apply_limits, refused
from headwater.jetstream.api.restored_consumers import AdmittedConsumer, write_consumers
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Answered
from headwater.server.core.client import Client
from headwater.server.streams.backups.exchange import Exchange, TransferServer
from headwater.server.streams.backups.staging import Staging
from headwater.store.log.message_log import MessageLog, StoreError
from headwater.store.upkeep.log_sync import LogSync

_DELIVER_PREFIX: Final = "$JS.SNAPSHOT.RESTORE"
# A turn ends after this many steps, or this much time.
TURN_STEPS_MAX: Final = 64
TURN_NS: Final = 5 * NS_PER_MS


@final
class Restore:
    """One restore under way. `ended` is called when it is over, however it ends."""

    __slots__ = (
        "_account",
        "_clock",
        "_config",
        "_consumers",
        "_exchange",
        "_log",
        "_offload",
        "_receiver",
        "_server_log",
        "_staging",
        "ended",
        "subject",
    )

    def __init__(
        self,
        server: TransferServer,
        exchange: Exchange,
        staging: Staging,
        account: JetStreamAccount,
        config: StreamConfig,
        ended: Callable[["Restore"], object],
    ) -> None:
        self._clock = server.clock
        self._offload = server.scheduler.offload
        self._server_log = server.log
        self._exchange = exchange
        self._staging = staging
        self._account = account
        self._config = config
        self.ended = ended
        memory_bytes = staging.memory_left()
        rules = Rules(
            stream_name=config.name,
            max_payload=account.server.max_payload,
            max_msg_size=config.max_msg_size,
            allow_msg_ttl=config.allow_msg_ttl,
            gap_bytes_max=memory_bytes,
            consumer_bytes_max=memory_bytes,
        )
        self._receiver = RestoreReceiver(rules, exchange.title, self._clock.monotonic_ns())
        # The staged log, from the first chunks until it is a stream or discarded.
        self._log: MessageLog | None = None
        # The consumers of the backup, once all chunks have come.
        self._consumers: list[AdmittedConsumer] = []
        self.subject = exchange.new_subject(_DELIVER_PREFIX)
        exchange.subscribe(self.subject.encode(), self._receive_chunk)
        self._server_log.info(f"Starting restore for {exchange.title}")
        exchange.advise("RESTORE_CREATE", RestoreCreateAdvisory)
        self._set_deadline()

    # --- chunks --------------------------------------------------------------------------------

    def _receive_chunk(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        data = payload[header_size:] if header_size > 0 else payload
        self._receiver.chunk(reply, data, self._clock.monotonic_ns())
        self._exchange.plan_turn(self._read_chunks)

    def _read_chunks(self) -> None:
        """Decode chunks for one turn."""
        receiver, clock = self._receiver, self._clock
        now_ns = begin_ns = clock.monotonic_ns()
        wall_ns = clock.wall_ns()
        need = Need.TURN
        steps = 0
        while need is Need.TURN and steps < TURN_STEPS_MAX and now_ns - begin_ns < TURN_NS:
            need = receiver.step(now_ns, wall_ns)
            if need is Need.LOG:
                self._stage_log()
                need = Need.TURN
            steps += 1
            now_ns = clock.monotonic_ns()
        self._check_room()
        self._answer_chunks()
        if receiver.error is not None:
            self._discard_log()
        if need is Need.NOTHING:
            self._conclude()
        elif need is Need.TURN:
            self._exchange.plan_turn(self._read_chunks)

    def _stage_log(self) -> None:
        """Create the log of the backup, if the limits allow it."""
        receiver, staging = self._receiver, self._staging
        account, config, beginning = self._account, self._config, receiver.beginning
        try:
            staging.check_creatable(account, config)
            staging.check_room(account, config.storage, beginning.byte_count)
            self._log = staging.stage_log(account, config, beginning.first_sequence)
        except ApiError as error:
            receiver.fail(error)
        except StoreError as error:
            receiver.fail(refused(str(error)))
        else:
            receiver.give_log(self._log)

    def _check_room(self) -> None:
        """Fail if the staged log has grown beyond the limits of account or server."""
        if self._log is None or self._receiver.error is not None:
            return
        try:
            self._staging.check_room(self._account, self._config.storage, self._log.byte_count)
        except ApiError as error:
            self._receiver.fail(error)
        else:
            self._staging.flush_written(self._config)

    def _answer_chunks(self) -> None:
        for reply in self._receiver.answered:
            self._exchange.send(reply, b"")
        self._receiver.answered.clear()

    # --- time ----------------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        stalls_ns = self._receiver.stalls_ns() or self._clock.monotonic_ns() + NS_PER_S
        self._exchange.set_deadline(stalls_ns, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        """Give up if no chunk has come for too long."""
        if self._receiver.is_over:
            return
        stalls_ns = self._receiver.stalls_ns()
        if not stalls_ns or self._clock.monotonic_ns() < stalls_ns:
            self._set_deadline()
            return
        self._server_log.warn(f"Restore for {self._exchange.title} is stalled: it is given up")
        self._exchange.close()
        self._discard_log()
        self.ended(self)

    # --- the end -------------------------------------------------------------------------------

    def _discard_log(self) -> None:
        """Remove the staged log, if there is one."""
        log, self._log = self._log, None
        if log is None:
            return
        try:
            self._staging.discard_log(self._account, self._config, log)
        except StoreError as error:
            # The file still says that the log is no stream, and the next start removes it.
            self._server_log.warn(f"Restore for {self._exchange.title}: {error}")

    def _conclude(self) -> None:
        self._exchange.close()
        if self._receiver.error is not None or self._log is None:
            self._fail(self._receiver.error or refused("it did not create a stream"))
            return
        try:
            self._consumers = self._staging.admit_consumers(
                self._account, self._config, self._receiver.consumers
            )
            apply_limits(self._log, self._config)
            write_consumers(self._log, self._consumers)
            work = self._log.begin_sync()
            if work is None:
                # A log in memory: there is no disk to wait for.
                self._adopt()
                return
        except ApiError as error:
            self._fail(error)
            return
        except StoreError as error:
            self._fail(refused(str(error)))
            return
        log = self._log
        self._offload(work.run, lambda _: self._synced(log, work))

    def _synced(self, log: MessageLog, work: LogSync) -> None:
        """Finish the sync of the staged log, and make a stream of it."""
        if self._log is not log:
            # The server has stopped meanwhile.
            return
        try:
            log.finish_sync(work)
        except StoreError as error:
            self._fail(refused(str(error)))
        else:
            self._adopt()

    def _adopt(self) -> None:
        self._staging.adopt_log(
            self._account,
            self._config,
            self._receiver.created_ns,
            self._consumers,
            Answered(self._complete, self._refuse),
        )

    def _complete(self, _: int) -> None:
        """Tell that the stream runs."""
        self._log = None
        self._server_log.info(f"Completed restore for {self._exchange.title}")
        self._advise_end()
        self._reply(self._staging.describe_restored(self._account, self._config.name))

    def _refuse(self, error: StoreError | ApiError) -> None:
        """Tell that the set of streams could not take the stream."""
        self._fail(refused(str(error)) if isinstance(error, StoreError) else error)

    def _fail(self, error: ApiError) -> None:
        self._discard_log()
        self._server_log.warn(f"Restore failed for {self._exchange.title}: {error.description}")
        self._advise_end()
        self._reply(StreamCreateResponse(error=ErrorDocument.of(error)))

    def _reply(self, response: StreamCreateResponse) -> None:
        if self._receiver.end_reply is not None:
            self._exchange.send(self._receiver.end_reply, write(response))

    def _advise_end(self) -> None:
        self.ended(self)
        received = self._receiver.received_bytes
        self._exchange.advise_end("RESTORE_COMPLETE", RestoreCompleteAdvisory, bytes=received)

    def abandon(self) -> None:
        """End the restore, because the server stops. The next start removes the staged log."""
        self._exchange.close()
        self._log = None
