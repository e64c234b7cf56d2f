"""Streams taken in from backups: one object per restore under way, from the reply to the end.

    chunks ─▶ staged log, whose file says that it is no stream yet
    end    ─▶ limits, consumers ─▶ the disk has it all ─▶ its file says that it is a stream
           ─▶ it runs

So a restore that fails, is given up, or meets a crash leaves no stream behind, and one that is
answered with a stream has that stream on the disk. What chunks hold is the affair of
`headwater.jetstream.api.restore`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.go.json import write
from headwater.go.times import format_time
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import (
    ClientDocument,
    RestoreCompleteAdvisory,
    RestoreCreateAdvisory,
    stream_subject,
)
from headwater.jetstream.api.documents import ErrorDocument, StreamCreateResponse
from headwater.jetstream.api.restore import (
    Need,
    RestoreReceiver,
    check_free,
    refused,
    settle_limits,
)
from headwater.jetstream.api.restored_consumers import AdmittedConsumer, write_down
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.runtime.environment import TimerHandle
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Subscription
from headwater.server.identity import new_event_id
from headwater.store.log.file_log import FileLog
from headwater.store.log.log_sync import LogSync
from headwater.store.log.message_log import MessageLog, StoreError

if TYPE_CHECKING:
    from headwater.server.streams.backups.transfers import TransferWorld

_DELIVER_PREFIX: Final = "$JS.SNAPSHOT.RESTORE"
# A turn ends after so many steps, or so much time.
TURN_STEPS_MAX: Final = 64
TURN_NS: Final = 5 * NS_PER_MS


@final
class Restore:
    """One restore on its way in. `ended` is called when it is over, however it ends."""

    __slots__ = (
        "_account",
        "_client",
        "_config",
        "_consumers",
        "_home",
        "_log",
        "_receiver",
        "_started_ns",
        "_subscription",
        "_timer",
        "_turn",
        "_world",
        "ended",
        "is_staged",
        "subject",
    )

    def __init__(
        self,
        world: "TransferWorld",
        home: Account,
        account: JetStreamAccount,
        config: StreamConfig,
        client: ClientDocument | None,
        ended: Callable[["Restore"], object],
    ) -> None:
        self._world = world
        self._home = home
        self._account = account
        self._config = config
        self._client = client
        self.ended = ended
        memory_bytes = max(world.keeper.room_left(Storage.MEMORY), 0)
        rules = Rules(
            stream_name=config.name,
            max_payload=world.max_payload,
            max_msg_size=config.max_msg_size,
            allow_msg_ttl=config.allow_msg_ttl,
            gap_bytes_max=memory_bytes,
            consumer_bytes_max=memory_bytes,
        )
        title = f"stream '{home.name} > {config.name}'"
        self._receiver = RestoreReceiver(rules, title, world.clock.monotonic_ns())
        self._log: MessageLog | None = None
        # Those that the stream gets, once all is there.
        self._consumers: list[AdmittedConsumer] = []
        # Whether a log of the stream's name is there.
        self.is_staged = False
        self._started_ns = world.clock.wall_ns()
        self._turn: TimerHandle | None = None
        self._timer: TimerHandle | None = None
        self.subject = f"{_DELIVER_PREFIX}.{config.name}.{new_event_id(world.entropy)}"
        self._subscription: Subscription | None = world.subscriptions.serve(
            home, self.subject.encode(), self._chunk
        )
        self._announce()
        self._watch()

    @property
    def key(self) -> tuple[str, str]:
        """Account and stream."""
        return self._account.name, self._config.name

    def _announce(self) -> None:
        self._world.log(f"Starting restore for {self._receiver.title}")
        self._world.advisories.tell(
            self._home,
            stream_subject("RESTORE_CREATE", self._config.name),
            lambda heading: RestoreCreateAdvisory(
                **heading._asdict(),
                stream=self._config.name,
                client=self._client,
                domain=self._world.domain,
            ),
        )

    # --- chunks --------------------------------------------------------------------------------

    def _chunk(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        data = payload[header_size:] if header_size > 0 else payload
        self._receiver.chunk(reply, data, self._world.clock.monotonic_ns())
        self._plan_turn()

    def _plan_turn(self) -> None:
        if self._turn is None:
            self._turn = self._world.scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Work through chunks, for one turn."""
        self._turn = None
        receiver, clock = self._receiver, self._world.clock
        now_ns = begin_ns = clock.monotonic_ns()
        wall_ns = clock.wall_ns()
        need = Need.TURN
        steps = 0
        while need is Need.TURN and steps < TURN_STEPS_MAX and now_ns - begin_ns < TURN_NS:
            need = receiver.step(now_ns, wall_ns)
            if need is Need.LOG:
                self._give_log()
                need = Need.TURN
            steps += 1
            now_ns = clock.monotonic_ns()
        self._look_at_room()
        self._answer_chunks()
        if receiver.error is not None:
            self._discard()
        if need is Need.NOTHING:
            self._conclude()
        elif need is Need.TURN:
            self._plan_turn()

    def _give_log(self) -> None:
        """Make the log that the backup goes into, if there may be one."""
        receiver, keeper = self._receiver, self._world.keeper
        beginning = receiver.beginning
        try:
            check_free(self._account, self._config.name)
            keeper.check_restorable(self._account, self._config)
            self._check_room(beginning.byte_count)
            self._log = keeper.stage_stream(self._account, self._config, beginning.first_sequence)
        except ApiError as error:
            receiver.fail(error)
        except StoreError as error:
            receiver.fail(refused(str(error)))
        else:
            self.is_staged = True
            receiver.give_log(self._log)

    def _look_at_room(self) -> None:
        if self._log is None or self._receiver.error is not None:
            return
        try:
            self._check_room(self._log.byte_count)
        except ApiError as error:
            self._receiver.fail(error)
        else:
            self._world.keeper.staged_written(self._config)

    def _check_room(self, byte_count: int) -> None:
        """Raises ApiError if so much more is more than the account or the server may store."""
        storage = self._config.storage
        used_bytes = self._account.used_bytes(storage)
        if (
            0 <= self._account.limits.bytes_max(storage) < used_bytes + byte_count
            or self._world.keeper.room_left(storage) < byte_count
        ):
            raise ApiError.of(
                error_codes.MEMORY_RESOURCES_EXCEEDED
                if storage is Storage.MEMORY
                else error_codes.STORAGE_RESOURCES_EXCEEDED
            )

    def _answer_chunks(self) -> None:
        for reply in self._receiver.answered:
            self._send(reply, b"")
        self._receiver.answered.clear()

    def _send(self, subject: bytes, payload: bytes) -> None:
        route = self._home.index.match(subject)
        self._world.broker.send(route, subject, None, payload)

    # --- time ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        """See to it that it ends if no chunk comes any more."""
        now_ns = self._world.clock.monotonic_ns()
        stalls_ns = self._receiver.stalls_ns() or now_ns + NS_PER_S
        delay_s = max(stalls_ns - now_ns, 0) / NS_PER_S
        self._timer = self._world.scheduler.call_later(delay_s, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._receiver.is_over:
            return
        stalls_ns = self._receiver.stalls_ns()
        if not stalls_ns or self._world.clock.monotonic_ns() < stalls_ns:
            self._watch()
            return
        self._world.warn(f"Restore for {self._receiver.title} is stalled: it is given up")
        self.stop()
        self._discard()
        self.ended(self)

    # --- the end -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take nothing in any more."""
        for timer in (self._turn, self._timer):
            if timer is not None:
                timer.cancel()
        self._turn = self._timer = None
        if self._subscription is not None:
            self._world.subscriptions.end(self._subscription)
            self._subscription = None

    def _discard(self) -> None:
        """Leave nothing behind."""
        log, self._log = self._log, None
        if log is None:
            return
        self.is_staged = False
        try:
            self._world.keeper.discard_staged(self._account, self._config, log)
        except StoreError as error:
            # What is left says of itself that it is no stream: it goes at the next start.
            self._world.warn(f"Restore for {self._receiver.title}: {error}")

    def _conclude(self) -> None:
        self.stop()
        if self._receiver.error is not None or self._log is None:
            self._fail(self._receiver.error or refused("it did not create a stream"))
            return
        try:
            self._consumers = self._world.keeper.admit_consumers(
                self._account, self._config, self._receiver.consumers
            )
            settle_limits(self._log, self._config)
            write_down(self._log, self._consumers)
            if not isinstance(self._log, FileLog):
                self._adopt(self._log)
                return
            work = self._log.begin_sync()
        except ApiError as error:
            self._fail(error)
            return
        except StoreError as error:
            self._fail(refused(str(error)))
            return
        log = self._log
        self._world.scheduler.offload(work.run, lambda _: self._synced(log, work))

    def _synced(self, log: FileLog, work: LogSync) -> None:
        """The disk has all of it."""
        if self._log is not log:
            # The server has stopped meanwhile.
            return
        try:
            log.finish_sync(work)
        except StoreError as error:
            self._fail(refused(str(error)))
        else:
            self._adopt(log)

    def _adopt(self, log: MessageLog) -> None:
        keeper = self._world.keeper
        try:
            # Others may have been made since the restore began.
            check_free(self._account, self._config.name)
            keeper.check_restorable(self._account, self._config)
            stream = keeper.adopt_stream(
                self._account, self._config, log, self._receiver.created_ns, self._consumers
            )
        except ApiError as error:
            self._fail(error)
            return
        except StoreError as error:
            self._fail(refused(str(error)))
            return
        self._log = None
        self._world.log(f"Completed restore for {self._receiver.title}")
        self._tell_end()
        self._reply(keeper.describe_restored(self._account, stream))

    def _fail(self, error: ApiError) -> None:
        self._discard()
        self._world.warn(f"Restore failed for {self._receiver.title}: {error.description}")
        self._tell_end()
        self._reply(StreamCreateResponse(error=ErrorDocument.of(error)))

    def _reply(self, response: StreamCreateResponse) -> None:
        if self._receiver.end_reply is not None:
            self._send(self._receiver.end_reply, write(response))

    def _tell_end(self) -> None:
        self.ended(self)
        end_ns = self._world.clock.wall_ns()
        self._world.advisories.tell(
            self._home,
            stream_subject("RESTORE_COMPLETE", self._config.name),
            lambda heading: RestoreCompleteAdvisory(
                **heading._asdict(),
                stream=self._config.name,
                start=format_time(self._started_ns),
                end=format_time(end_ns),
                bytes=self._receiver.received_bytes,
                client=self._client,
                domain=self._world.domain,
            ),
        )

    def abandon(self) -> None:
        """The server stops: what is staged goes at its next start."""
        self.stop()
        self._log = None
