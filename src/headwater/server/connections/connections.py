"""The connections of a server: accepted, served and closed, and the meaning of every operation.

The runtime hands in connections and bytes. Everything that happens in return is a call on a
Connection, a timer of the environment's scheduler, or a log line. `Intake` decides when the
operations of a client are performed, `headwater.wire.session` has the states of a connection, and
the parts beside this module know the login, the pings, the subscriptions and INFO.
"""

from typing import Final, Protocol, cast, final

from headwater.runtime.environment import Environment
from headwater.server.configuration.options import Options
from headwater.server.connections import closing
from headwater.server.connections.announcements import Announcements
from headwater.server.connections.intake import Intake
from headwater.server.connections.login import Login, LoginEvents
from headwater.server.connections.pings import Pings
from headwater.server.connections.roster import Roster
from headwater.server.connections.securing import SecurableConnection, Securing
from headwater.server.connections.subscribing import Subscribing
from headwater.server.core.accounts import Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.budget import CONNECT_UNITS, OPERATION_UNITS, Budget
from headwater.server.core.client import Client, Connection
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire import frames
from headwater.wire.batch import (
    ClientError,
    Connect,
    Malformed,
    Ping,
    Pong,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)
from headwater.wire.decoder import MAX_CONTROL_LINE, MAX_PAYLOAD, ClientDecoder, PublishLines
from headwater.wire.session import Event, State, Treatment, begins_connect, may_begin_connect

TOO_MANY_CONNECTIONS: Final = "maximum connections exceeded"


class ClientEvents(LoginEvents, Protocol):
    """The part of a server that tells others about connections."""

    def client_disconnected(self, client: Client) -> None:
        """A client has left its account, or was never admitted to one."""
        ...


@final
class Connections:
    """All client connections of a server."""

    __slots__ = (
        "_accounts",
        "_announcements",
        "_broker",
        "_clock",
        "_events",
        "_log",
        "_login",
        "_note_activity",
        "_pings",
        "_publish_lines",
        "_roster",
        "_scheduler",
        "_securing",
        "_settings",
        "_subscribing",
        "intake",
        "receive",
    )

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        log: Log,
        accounts: Accounts,
        roster: Roster,
        broker: Broker,
        announcements: Announcements,
        events: ClientEvents,
    ) -> None:
        self._clock = environment.clock
        self._scheduler = environment.scheduler
        self._settings = settings
        self._log = log
        self._accounts = accounts
        self._roster = roster
        self._broker = broker
        self._announcements = announcements
        self._events = events
        self._publish_lines = PublishLines()
        self.intake = Intake(environment.scheduler, self)
        # Bytes arrived from a client. Not a method, which would be one more call for every read.
        self.receive = self.intake.receive
        self._subscribing = Subscribing(settings, broker, environment.scheduler, log)
        self._pings = Pings(environment, settings, log, roster, broker, self.close)
        self._securing = Securing(
            settings, environment.scheduler, log, self._greet_at_once, self._begin, self.close
        )
        self._note_activity = self._pings.note_activity
        self._login = Login(
            settings,
            accounts,
            broker,
            self._subscribing,
            environment.scheduler,
            log,
            events,
            self.close,
            self.intake.resume,
        )

    # --- called by the runtime -----------------------------------------------------------------

    def accept(self, connection: Connection) -> Client:
        """A connection was made."""
        options, roster = self._settings.options, self._roster
        decoder = ClientDecoder(options.max_control_line, options.max_payload, self._publish_lines)
        client = Client(roster.next_cid(), connection, decoder, self._accounts.default)
        client.liveness.start(self._clock.monotonic_ns(), self._clock.wall_ns())
        roster.total_connections += 1
        self._log.debug(f"{client.label} - Client connection created")
        client.traced = self._broker.tracer.wants(client)
        if not self._securing.is_first:
            self._announcements.greet(client)
        limit = options.max_connections
        if limit < 0 or (limit > 0 and len(roster.open) >= limit):
            self._log.error(f"{client.label} - {TOO_MANY_CONNECTIONS}")
            self.close(client, closing.MAX_CONNECTIONS, TOO_MANY_CONNECTIONS)
            return client
        roster.open[client.cid] = client
        if options.tls is None:
            self._begin(client)
        else:
            # INFO leaves as clear text.
            self._broker.buffers.flush_client(client)
            self._securing.expect(client, cast(SecurableConnection, connection))
        return client

    def _begin(self, client: Client) -> None:
        """Begin the login of a connection, which is secured if it has to be."""
        self._login.expect(client)
        self._pings.watch(client)

    def _greet_at_once(self, client: Client) -> None:
        self._announcements.greet(client)
        self._broker.buffers.flush_client(client)

    def lost(self, client: Client, was_broken: bool = False) -> None:
        """The connection is gone, by the client's doing or the network's."""
        if self._securing.is_waiting(client) and not client.close_reason:
            self._securing.handshake_failed(client, "EOF")
        if not client.close_reason:
            self.intake.lose(client, closing.READ_ERROR if was_broken else closing.CLIENT_CLOSED)

    def writable(self, client: Client) -> None:
        """The operating system has taken the bytes that were queued for the client."""
        self._broker.buffers.drained(client)
        client.timers.cancel_write()

    def unwritable(self, client: Client) -> None:
        """More is queued for the client than the system takes; it has until the write deadline."""
        if client.timers.write is None and not client.close_reason:
            client.timers.write = self._scheduler.call_later(
                self._settings.options.write_deadline_s, lambda: self._end_late_reader(client)
            )

    # --- the end of a connection ---------------------------------------------------------------

    def close(self, client: Client, reason: str, error_text: str = "") -> None:
        """End a connection; the error, if any, is the last text that the client reads."""
        if client.close_reason:
            return
        if error_text:
            self._broker.queue_frame(client, frames.error(error_text))
        self._broker.buffers.flush_client(client)
        if client.close_reason:
            return
        self.forget(client, reason)
        client.connection.close()

    def close_all(self, reason: str) -> None:
        """End every connection."""
        for client in [*self._roster.open.values()]:
            self.close(client, reason)

    def forget(self, client: Client, reason: str) -> None:
        """Take a client out of everything."""
        client.close_reason = reason
        client.session.apply(Event.CLOSE)
        # Routes that were handed out may still have the client. Deliveries to a congested client
        # are checked, and the checks find it closed.
        client.congested = True
        self._broker.buffers.forget(client)
        self._securing.forget(client)
        client.liveness.stopped_wall_ns = self._clock.wall_ns()
        client.timers.cancel_all()
        client.out.clear()
        client.backlog.clear()
        client.decoder.close()
        client.connect.forget_secrets()
        if client.permissions is not None:
            client.permissions.forget()
        self._roster.closed.add(client)
        self._subscribing.remove_all(client)
        self._accounts.leave(client)
        counters = self._broker.counters
        counters.in_msgs += client.in_msgs
        counters.in_bytes += client.in_bytes
        counters.out_msgs += client.out_msgs
        counters.out_bytes += client.out_bytes
        self._roster.open.pop(client.cid, None)
        self._log.debug(f"{client.label} - Client connection closed: {reason}")
        self._events.client_disconnected(client)

    def end_slow_consumer(self, client: Client) -> None:
        """End a connection for which more than `max_pending` bytes wait."""
        self._abort_slow_consumer(
            client,
            closing.SLOW_CONSUMER_PENDING,
            f"MaxPending of {self._settings.options.max_pending} Exceeded",
        )

    def _end_late_reader(self, client: Client) -> None:
        client.timers.write = None
        self._abort_slow_consumer(
            client,
            closing.SLOW_CONSUMER_DEADLINE,
            f"WriteDeadline of {self._settings.options.write_deadline_s:g}s exceeded with 1 chunks "
            f"of {client.connection.buffered_bytes()} total bytes.",
        )

    def _abort_slow_consumer(self, client: Client, reason: str, text: str) -> None:
        self._roster.slow_consumers += 1
        client.account.slow_consumers += 1
        self._log.info(f"{client.label} - Slow Consumer Detected: {text}")
        self.forget(client, reason)
        client.connection.abort()

    # --- operations ----------------------------------------------------------------------------

    def perform(self, client: Client, segment: Segment, budget: Budget) -> Segment | None:
        """Perform a segment. Returns the publishes for which the budget was too small."""
        if client.traced:
            self._broker.tracer.received(client, segment)
        if not client.session.performs_all and not self._may_perform(client, segment):
            return None
        if isinstance(segment, Publishes):
            self._note_activity(client)
            remote = client.account.remote
            if remote is not None:
                return remote.publish(client, segment, budget)
            return self._broker.publish_many(client, segment, budget)
        if isinstance(segment, Run):
            self._note_activity(client)
            remote = client.account.remote
            if remote is not None:
                return remote.publish(client, segment, budget)
            return self._broker.publish_run(client, segment, budget)
        if isinstance(segment, Subscribe | Unsubscribe):
            # Consumers that deliver to the subject may start or stop, which takes time.
            began_ns = self._clock.monotonic_ns()
            self._note_activity(client)
            if isinstance(segment, Subscribe):
                self._subscribing.subscribe(client, segment)
            else:
                self._subscribing.unsubscribe(client, segment)
            budget.charge_time(self._clock.monotonic_ns() - began_ns, OPERATION_UNITS)
            return None
        budget.charge(OPERATION_UNITS)
        if isinstance(segment, Ping):
            self._answer_ping(client)
        elif isinstance(segment, Pong):
            self._pings.note_pong(client)
        elif isinstance(segment, Connect):
            budget.charge(CONNECT_UNITS)
            self._pings.note_connect(client)
            self._login.connect(client, segment.document)
        elif isinstance(segment, ClientError):
            self._close_after_error(client, segment)
        elif isinstance(segment, Malformed):
            self._close_malformed(client, segment)
        return None

    def decoded(self, client: Client) -> None:
        """Check the first byte of an operation of which the rest has not come."""
        if client.session.treatment(is_connect=False) is Treatment.STAND_IN:
            beginning = client.decoder.unfinished
            if beginning and not may_begin_connect(beginning):
                self._login.stand_in(client)

    def write_answers(self) -> None:
        """Write the frames that the operations of this turn have produced so far."""
        self._broker.turn.complete()

    def _may_perform(self, client: Client, segment: Segment) -> bool:
        """Whether an operation may be performed before the client is connected."""
        if client.session.treatment(begins_connect(segment)) is Treatment.STAND_IN:
            self._login.stand_in(client)
        return not client.close_reason

    def _answer_ping(self, client: Client) -> None:
        self._note_activity(client)
        self._broker.queue_frame(client, frames.PONG)
        session = client.session
        if not session.is_greeted and session.state is State.CONNECTED:
            session.is_greeted = True
            self._announcements.confirm_connect(client)

    def _close_after_error(self, client: Client, segment: ClientError) -> None:
        text = segment.text.decode(errors="replace")
        self._log.error(f"{client.label} - Client Error {text}")
        self.close(client, closing.PARSE_ERROR)

    def _close_malformed(self, client: Client, segment: Malformed) -> None:
        self._log.error(f"{client.label} - {segment.detail}")
        reason = {
            MAX_PAYLOAD: closing.MAX_PAYLOAD,
            MAX_CONTROL_LINE: closing.MAX_CONTROL_LINE,
        }.get(segment.reply, closing.PROTOCOL_VIOLATION)
        self.close(client, reason, segment.reply)

    # --- reload --------------------------------------------------------------------------------

    def reload(self, old: Options) -> None:
        """Hold every client to the options that are in force now."""
        options = self._settings.options
        if old.max_control_line != options.max_control_line:
            self._publish_lines.forget()
        for client in [*self._roster.open.values()]:
            self._securing.recheck(client, old.tls)
        for client in [*self._roster.open.values()]:
            self._login.apply_limits(client)
            self._login.recheck(client)
        limit = options.max_connections
        if limit:
            for client in [*self._roster.open.values()][max(limit, 0) :]:
                self.close(client, closing.MAX_CONNECTIONS, TOO_MANY_CONNECTIONS)
