"""A whole server without its sockets: clients, accounts, and what each protocol operation does.

The runtime hands in connections and bytes; everything that happens in return is a call on a
Connection, a timer of the environment's scheduler, or a log line. Rules that need no client (who
may publish what, who listens to what) have modules of their own; this one owns a client's life:

    accepted ──CONNECT──▶ authenticating ──▶ ready ──▶ closed
        └──────────── any violation or time-out ──────────▶

Until CONNECT is accepted on a server that requires it, nothing but CONNECT is looked at.
"""

from collections.abc import Callable
from typing import Final, final

from headwater import __version__
from headwater.base.clock import NS_PER_S
from headwater.base.errors import PeerError
from headwater.go.quoting import quote, quote_bytes
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.runtime.environment import Environment, TimerHandle
from headwater.server.auth.authentication import Authenticator, SlowCheck, Verdict
from headwater.server.configuration.options import Options, UserOptions
from headwater.server.connections import closing
from headwater.server.connections.intake import Intake
from headwater.server.connections.roster import Roster
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.budget import CONNECT_UNITS, OPERATION_UNITS, Budget
from headwater.server.core.client import Client, Connection, Subscription
from headwater.server.core.permissions import ConnectionPermissions
from headwater.server.core.tracing import Tracer
from headwater.server.identity import new_server_id
from headwater.server.log import Log
from headwater.server.monitoring.facts import Facts
from headwater.server.settings import Settings
from headwater.server.streams.host import JetStream
from headwater.server.system.services import SystemServices
from headwater.subjects.grammar import is_valid_pattern
from headwater.wire import encoder
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
from headwater.wire.info import NATS_VERSION, PROTOCOL_INFO, ServerInfo

AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
BAD_CLIENT_PROTOCOL: Final = "invalid client protocol"
NO_RESPONDERS_NEED_HEADERS: Final = "no responders requires headers support"
TOO_MANY_CONNECTIONS: Final = "maximum connections exceeded"
TOO_MANY_ACCOUNT_CONNECTIONS: Final = "maximum account active connections exceeded"
TOO_MANY_SUBSCRIPTIONS: Final = "maximum subscriptions exceeded"
STALE_CONNECTION: Final = "Stale Connection"
INVALID_SUBJECT: Final = "Invalid Subject"

# Queue groups of servers; clients may not join them.
_SYSTEM_QUEUE: Final = b"_sys_"

# A client may leave 500,000 subscriptions behind; so many are removed in about 3 ms.
REMOVED_SUBSCRIPTIONS_MAX: Final = 1_000

# The first ping measures the round trip, so it comes early, spread so that clients that all
# reconnect at once are not all pinged at once.
FIRST_PING_S_MAX: Final = 2.0
_FIRST_PING_SPREAD: Final = 5
# A round trip older than this is measured again even if the client was heard of meanwhile.
_RTT_MAX_AGE_S: Final = 3600.0


@final
class Node:
    """One server."""

    def __init__(self, options: Options, environment: Environment, log: Log) -> None:
        started_wall_ns = environment.clock.wall_ns()
        self.settings = Settings(options, started_wall_ns)
        self.environment = environment
        self.log = log
        self.server_id = new_server_id(environment.entropy)
        # A reload does not change the name.
        self.name = options.server_name or self.server_id
        self.accounts = Accounts(options)
        self.roster = Roster(options.max_closed_clients)
        self.intake = Intake(environment.scheduler, self)
        self.broker = Broker(
            environment.clock,
            environment.entropy,
            environment.scheduler,
            Tracer(log, options),
            options.max_pending,
            self._end_subscription,
            self._slow_consumer,
            self.intake.resume,
        )
        self.broker.door.report = log.error
        self.broker.stalls_publishers = not options.no_fast_producer_stall
        self._publish_lines = PublishLines()
        self.lame_duck = False
        self.client_port = options.port
        # There once the store is open, if streams are wanted.
        self.jetstream: JetStream | None = None
        service_clients: dict[Account, Client] = {}
        self.facts = Facts(
            server_id=self.server_id,
            name=self.name,
            started_wall_ns=started_wall_ns,
            settings=self.settings,
            clock=environment.clock,
            process=environment.process,
            accounts=self.accounts,
            roster=self.roster,
            counters=self.broker.counters,
            get_info=self.info,
            get_streams=lambda: self.jetstream,
            get_lame_duck=lambda: self.lame_duck,
            service_clients=service_clients,
            requests={},
        )
        self.system_services = SystemServices(
            self.facts, self.broker, environment, log, service_clients, self.close
        )

    @property
    def options(self) -> Options:
        """The options in force."""
        return self.settings.options

    # --- streams -------------------------------------------------------------------------------

    def open_jetstream(self) -> None:
        """Open the store and bring back its streams. Raises OperatingError."""
        self.jetstream = JetStream(self)
        self.jetstream.start()

    def close_jetstream(self) -> None:
        """Close the store, if it is open."""
        if self.jetstream is not None:
            self.jetstream.stop()
            self.jetstream = None

    # --- identity ------------------------------------------------------------------------------

    def next_cid(self) -> int:
        """A connection id never given before."""
        return self.roster.next_cid()

    def info(self) -> ServerInfo:
        """INFO as it is for everybody."""
        options = self.options
        host, port = self._advertised()
        return ServerInfo(
            server_id=self.server_id,
            server_name=self.name,
            version=NATS_VERSION,
            proto=PROTOCOL_INFO,
            go="python",
            host=host,
            port=port,
            headers=not options.no_header_support,
            auth_required=self.settings.authenticator.required,
            max_payload=options.max_payload,
            api_lvl=API_LEVEL,
            jetstream=self.jetstream is not None,
            domain=options.jetstream.domain,
            headwater=__version__,
        )

    def _advertised(self) -> tuple[str, int]:
        """The address clients are told: the one listened on, unless options name another."""
        advertised = self.options.client_advertise
        if not advertised:
            return self.options.host, self.client_port
        host, _, port = advertised.rpartition(":")
        if not port.isdigit() or not host or (":" in host and not host.endswith("]")):
            return advertised, self.client_port
        return host.strip("[]"), int(port)

    def _info_for(self, client: Client) -> ServerInfo:
        return self._addressed(self.info(), client)

    def _addressed(self, info: ServerInfo, client: Client) -> ServerInfo:
        """INFO with what is this client's own."""
        info.client_id = client.cid
        info.client_ip = client.connection.peer_host
        info.max_payload = client.max_payload
        return info

    # --- connections ---------------------------------------------------------------------------

    def accept(self, connection: Connection) -> Client:
        """A connection was made."""
        decoder = ClientDecoder(
            self.options.max_control_line, self.options.max_payload, self._publish_lines
        )
        client = Client(self.next_cid(), connection, decoder, self.accounts.default)
        clock = self.environment.clock
        client.started_ns = client.last_in_ns = clock.monotonic_ns()
        client.started_wall_ns = client.last_activity_wall_ns = clock.wall_ns()
        self.roster.total_connections += 1
        self.log.debug(f"{client.label} - Client connection created")
        client.traced = self.broker.tracer.wants(client)
        info = self._info_for(client)
        info.auth_required = self.settings.authenticator.announced
        self.broker.tell(client, info.encode())
        limit = self.options.max_connections
        if limit < 0 or (limit > 0 and len(self.roster.open) >= limit):
            self.log.error(f"{client.label} - {TOO_MANY_CONNECTIONS}")
            self.close(client, closing.MAX_CONNECTIONS, TOO_MANY_CONNECTIONS)
            return client
        self.roster.open[client.cid] = client
        if self.settings.authenticator.required:
            client.auth_timer = self._later(
                self.options.auth_timeout_s, lambda: self._auth_timed_out(client)
            )
        else:
            self._move(client, self.accounts.default)
            self._apply_limits(client)
        self._set_ping_timer(client, self.options.ping_interval_s)
        return client

    def receive(self, client: Client, data: bytes) -> None:
        """Bytes arrived from a client."""
        self.intake.receive(client, data)

    def lost(self, client: Client, was_broken: bool = False) -> None:
        """The connection is gone, by the client's doing or the network's."""
        if not client.close_reason:
            self.intake.lose(client, closing.READ_ERROR if was_broken else closing.CLIENT_CLOSED)

    def writable(self, client: Client) -> None:
        """What was queued for the client has been taken."""
        self.broker.buffers.drained(client)
        if client.write_timer is not None:
            client.write_timer.cancel()
            client.write_timer = None

    def unwritable(self, client: Client) -> None:
        """More is queued for the client than the system takes; it has until the write deadline."""
        if client.write_timer is None and not client.close_reason:
            client.write_timer = self._later(
                self.options.write_deadline_s, lambda: self._write_deadline(client)
            )

    def close(self, client: Client, reason: str, error_text: str = "") -> None:
        """End a connection: the error, if any, is the last thing the client reads."""
        if client.close_reason:
            return
        if error_text:
            self.broker.tell(client, encoder.error(error_text))
        self.broker.buffers.flush_client(client)
        if client.close_reason:
            return
        self.forget(client, reason)
        client.connection.close()

    def close_all(self, reason: str) -> None:
        """End every connection."""
        self.system_services.shutting_down()
        for client in [*self.roster.open.values()]:
            self.close(client, reason)

    def forget(self, client: Client, reason: str) -> None:
        """Take a client out of everything."""
        client.close_reason = reason
        # Whoever has it on a route in hand takes the long way, and finds it closed.
        client.congested = True
        client.stopped_wall_ns = self.environment.clock.wall_ns()
        client.cancel_timers()
        client.out.clear()
        client.reads, client.segments = [], []
        client.decoder.close()
        client.connect.forget_secrets()
        if client.permissions is not None:
            client.permissions.forget()
        self.roster.closed.add(client)
        # A subscription leads back to its client: without this step neither would be freed.
        subscriptions, client.subscriptions = client.subscriptions, {}
        self._remove_subscriptions(client.account, [*subscriptions.values()])
        self._leave(client)
        self.roster.open.pop(client.cid, None)
        self.log.debug(f"{client.label} - Client connection closed: {reason}")
        self.system_services.client_disconnected(client)

    def _remove_subscriptions(self, account: Account, subs: list[Subscription]) -> None:
        """Take the subscriptions of a client that is gone out of the index, so many per turn.

        Those that wait get no messages any more: their client is closed.
        """
        for sub in subs[-REMOVED_SUBSCRIPTIONS_MAX:]:
            account.index.remove(sub.subject, sub.queue, sub)
            if account.watched:
                account.interest_changed(sub.subject)
        del subs[-REMOVED_SUBSCRIPTIONS_MAX:]
        if subs:
            self.environment.scheduler.call_soon(lambda: self._remove_subscriptions(account, subs))

    def _move(self, client: Client, account: Account) -> None:
        """Put a client into an account, out of the one it was in."""
        if client in account.clients:
            return
        client.account.clients.pop(client, None)
        client.account = account
        client.is_system = account is self.accounts.system
        account.clients[client] = None
        account.total_connections += 1

    def _leave(self, client: Client) -> None:
        """Keep the counters of a client that goes in the totals of server and account."""
        account = client.account
        account.clients.pop(client, None)
        account.out_msgs += client.out_msgs
        account.out_bytes += client.out_bytes
        self.broker.counters.out_msgs += client.out_msgs
        self.broker.counters.out_bytes += client.out_bytes

    def _slow_consumer(self, client: Client) -> None:
        self.roster.slow_consumers += 1
        client.account.slow_consumers += 1
        self.log.info(
            f"{client.label} - Slow Consumer Detected: MaxPending of "
            f"{self.options.max_pending} Exceeded"
        )
        self.forget(client, closing.SLOW_CONSUMER_PENDING)
        client.connection.abort()

    def _write_deadline(self, client: Client) -> None:
        client.write_timer = None
        self.roster.slow_consumers += 1
        client.account.slow_consumers += 1
        self.log.info(
            f"{client.label} - Slow Consumer Detected: WriteDeadline of "
            f"{self.options.write_deadline_s:g}s exceeded with 1 chunks of "
            f"{client.connection.buffered_bytes()} total bytes."
        )
        self.forget(client, closing.SLOW_CONSUMER_DEADLINE)
        client.connection.abort()

    # --- operations ----------------------------------------------------------------------------

    def perform(self, client: Client, segment: Segment, budget: Budget) -> Segment | None:
        """Do what a segment asks for; return the publishes the budget was too small for."""
        if client.traced:
            self.broker.tracer.received(client, segment)
        if self._awaits_connect(client) and not _begins_connect(segment):
            self._without_connect(client)
            if client.close_reason:
                return None
        if isinstance(segment, Publishes):
            self._heard(client)
            return self.broker.publish_many(client, segment, budget)
        if isinstance(segment, Run):
            self._heard(client)
            return self.broker.publish_run(client, segment, budget)
        if isinstance(segment, Subscribe | Unsubscribe):
            # Consumers that deliver to the subject may begin or end to do so.
            clock = self.environment.clock
            began_ns = clock.monotonic_ns()
            if isinstance(segment, Subscribe):
                self._on_subscribe(client, segment)
            else:
                self._on_unsubscribe(client, segment)
            budget.charge_time(clock.monotonic_ns() - began_ns, OPERATION_UNITS)
            return None
        budget.charge(OPERATION_UNITS)
        if isinstance(segment, Ping):
            self._on_ping(client)
        elif isinstance(segment, Pong):
            self._on_pong(client)
        elif isinstance(segment, Connect):
            budget.charge(CONNECT_UNITS)
            self._on_connect(client, segment)
        elif isinstance(segment, ClientError):
            self._on_client_error(client, segment)
        elif isinstance(segment, Malformed):
            self._on_malformed(client, segment)
        return None

    def decoded(self, client: Client) -> None:
        """Every whole operation has been performed; the beginning of the next one may tell."""
        if self._awaits_connect(client):
            first = client.decoder.unfinished
            if first and first not in b"Cc":
                self._without_connect(client)

    def write_answers(self) -> None:
        """Write what the operations of this turn have produced so far."""
        self.broker.flush()

    def _heard(self, client: Client) -> None:
        """The client did something of its own accord, so it need not be pinged for a while."""
        clock = self.environment.clock
        client.last_in_ns = clock.monotonic_ns()
        client.last_activity_wall_ns = clock.wall_ns()

    def _awaits_connect(self, client: Client) -> bool:
        return self.settings.authenticator.required and not client.connect_received

    def _without_connect(self, client: Client) -> None:
        """The first operation is not CONNECT on a server that requires it."""
        stand_in = self.settings.authenticator.stand_in
        if stand_in is None:
            self._authorization_violation(client)
            return
        client.connect_received = True
        self._cancel_auth_timer(client)
        self._admit(client, Verdict(stand_in))

    def _on_connect(self, client: Client, segment: Connect) -> None:
        clock = self.environment.clock
        self._cancel_auth_timer(client)
        client.last_activity_wall_ns = clock.wall_ns()
        client.rtt_ns = max(1, clock.monotonic_ns() - client.started_ns)
        self._set_first_ping_timer(client)
        try:
            client.connect.update(segment.document)
        except PeerError as error:
            self.log.error(f"{client.label} - {error.reply}")
            self.close(client, closing.PROTOCOL_VIOLATION)
            return
        if client.connect_received:
            self._drop_subscriptions(client)
        client.connect_received = True
        client.headers = client.connect.headers and not self.options.no_header_support
        client.decoder.headers = client.headers
        judged = self.settings.authenticator.check(client.connect)
        if isinstance(judged, SlowCheck):
            client.authenticating = True
            client.connection.pause_reading()
            self._judge_elsewhere(client, judged, self._judged)
        else:
            self._finish_connect(client, judged)

    def _judge_elsewhere(
        self,
        client: Client,
        check: SlowCheck,
        done: Callable[[Client, Verdict, Authenticator], None],
    ) -> None:
        """Check a password off the loop. A reload may come in between: `done` is told by whom."""
        authenticator = self.settings.authenticator
        self.environment.scheduler.offload(
            check.work, lambda verdict: done(client, verdict, authenticator)
        )

    def _judged(self, client: Client, verdict: Verdict, authenticator: Authenticator) -> None:
        """A password has been checked elsewhere; go on where the client was left."""
        if client.close_reason:
            return
        if authenticator is not self.settings.authenticator:
            judged = self.settings.authenticator.check(client.connect)
            if isinstance(judged, SlowCheck):
                self._judge_elsewhere(client, judged, self._judged)
                return
            verdict = judged
        client.authenticating = False
        self._finish_connect(client, verdict)
        self.intake.resume(client)

    def _finish_connect(self, client: Client, verdict: Verdict) -> None:
        connect = client.connect
        if verdict.user is None or connect.account or connect.new_account:
            self._authorization_violation(client)
            return
        if not self._admit(client, verdict):
            return
        if not 0 <= connect.protocol <= PROTOCOL_INFO:
            self.close(client, closing.BAD_PROTOCOL_VERSION, BAD_CLIENT_PROTOCOL)
            return
        if connect.no_responders and not client.headers:
            self.close(client, closing.NO_RESPONDERS_NEED_HEADERS, NO_RESPONDERS_NEED_HEADERS)
            return
        client.no_responders = connect.no_responders
        client.settle()
        self._describe(client)
        if connect.verbose:
            self.broker.tell(client, encoder.OK)

    def _admit(self, client: Client, verdict: Verdict) -> bool:
        """Put an authenticated client into its account."""
        user = verdict.user
        account = None if user is None else self.accounts.get(user.account_name)
        if user is None or account is None:
            self._authorization_violation(client)
            return False
        limit = account.limits.max_connections
        if limit >= 0 and client not in account.clients and len(account.clients) >= limit:
            self.log.error(f"{client.label} - {TOO_MANY_ACCOUNT_CONNECTIONS}")
            self.close(client, closing.MAX_ACCOUNT_CONNECTIONS, TOO_MANY_ACCOUNT_CONNECTIONS)
            return False
        self._move(client, account)
        client.username = user.username or client.connect.user
        client.permissions = _permissions_of(user)
        self._apply_limits(client)
        client.settle()
        self.system_services.client_connected(client)
        return True

    def _apply_limits(self, client: Client) -> None:
        """The server's limits, or the account's where they are lower."""
        server, account = self.options, client.account.limits
        client.max_payload = server.max_payload
        if 0 <= account.max_payload < server.max_payload:
            client.max_payload = account.max_payload
        client.max_subscriptions = server.max_subscriptions
        if account.max_subscriptions >= 0 and (
            server.max_subscriptions <= 0 or account.max_subscriptions < server.max_subscriptions
        ):
            client.max_subscriptions = account.max_subscriptions
        client.decoder.set_limits(server.max_control_line, client.max_payload)
        client.traced = self.broker.tracer.wants(client)

    def _describe(self, client: Client) -> None:
        """Give the client's log label what it said of itself."""
        connect = client.connect
        said = ":".join(
            part
            for part in (connect.version and f"v{connect.version}", connect.lang, connect.name)
            if part
        )
        label = f"{client.connection.peer_host}:{client.connection.peer_port} - cid:{client.cid}"
        if said:
            label += f" - {quote(said)}"
        whose = "token" if connect.auth_token else ""
        whose = f"user:{connect.user}" if connect.user else whose
        if whose:
            label += f" - {quote(f'{client.account.name}/{whose}')}"
        client.label = label

    def _authorization_violation(self, client: Client) -> None:
        connect = client.connect
        whose = ' - Token "[REDACTED]"' if connect.auth_token else ""
        whose = f" - User {quote(connect.user)}" if connect.user else whose
        self.log.error(f"{client.label} - authentication error{whose}")
        self.system_services.auth_failed(client)
        self.close(client, closing.AUTHENTICATION_VIOLATION, AUTHORIZATION_VIOLATION)

    def _auth_timed_out(self, client: Client) -> None:
        client.auth_timer = None
        self.log.debug(f"{client.label} - {AUTHENTICATION_TIMEOUT}")
        self.close(client, closing.AUTHENTICATION_TIMEOUT, AUTHENTICATION_TIMEOUT)

    def _cancel_auth_timer(self, client: Client) -> None:
        if client.auth_timer is not None:
            client.auth_timer.cancel()
            client.auth_timer = None

    def _on_subscribe(self, client: Client, segment: Subscribe) -> None:
        self._heard(client)
        subject, queue, sid = segment.subject, segment.queue, segment.sid
        permissions = client.permissions
        if queue == _SYSTEM_QUEUE or (
            permissions is not None and not permissions.may_subscribe(subject, queue)
        ):
            self._refuse_subscription(client, segment)
            return
        tokens_max = self.options.max_subscription_tokens
        if tokens_max and subject.count(b".") + 1 > tokens_max:
            text = f"Permissions Violation for Subscription to {quote_bytes(subject)}"
            self.broker.refuse(client, f"{text}, too many tokens")
            return
        limit = client.max_subscriptions
        if limit > 0 and len(client.subscriptions) >= limit:
            self.log.error(f"{client.label} - {TOO_MANY_SUBSCRIPTIONS}")
            self.broker.refuse(client, TOO_MANY_SUBSCRIPTIONS)
            return
        if sid not in client.subscriptions:
            if not is_valid_pattern(subject):
                self.broker.refuse(client, INVALID_SUBJECT)
                return
            sub = Subscription(client, subject, queue, sid)
            client.subscriptions[sid] = sub
            client.account.index.insert(subject, queue, sub)
            # If this turned delivery filtering on: those before it were asked and need none.
            sub.settle()
            if client.account.watched:
                client.account.interest_changed(subject)
        if client.connect.verbose:
            self.broker.tell(client, encoder.OK)

    def _refuse_subscription(self, client: Client, segment: Subscribe) -> None:
        subject = quote_bytes(segment.subject)
        sid = segment.sid.decode(errors="replace")
        queue_log = "" if segment.queue is None else f", Queue: {quote_bytes(segment.queue)}"
        what = _with_queue(segment.subject, segment.queue)
        self.broker.refuse(client, f"Permissions Violation for Subscription to {what}")
        self.log.error(
            f"{client.label} - Subscription Violation - Subject {subject}{queue_log}, SID {sid}"
        )

    def _explain_removal(self, client: Client, sub: Subscription) -> None:
        """A reload took away the right to a subscription."""
        what = f"{_with_queue(sub.subject, sub.queue)} (sid {quote_bytes(sub.sid)})"
        self.broker.refuse(client, f"Permissions Violation for Subscription to {what}")
        user = quote(client.username or "N/A")
        self.log.info(f"Removed sub {what} for User {user} - not authorized")

    def _on_unsubscribe(self, client: Client, segment: Unsubscribe) -> None:
        self._heard(client)
        sub = client.subscriptions.get(segment.sid)
        if client.connect.verbose:
            self.broker.tell(client, encoder.OK)
        if sub is None:
            return
        if segment.limit > sub.delivered:
            sub.limit = segment.limit
            sub.settle()
        else:
            self._end_subscription(sub)

    def _end_subscription(self, sub: Subscription) -> None:
        client = sub.client
        if client.traced:
            self.broker.tracer.unsubscribed(sub)
        if client.subscriptions.pop(sub.sid, None) is not None:
            sub.end()
            client.account.index.remove(sub.subject, sub.queue, sub)
            if client.account.watched:
                client.account.interest_changed(sub.subject)

    def _drop_subscriptions(self, client: Client) -> None:
        for sub in [*client.subscriptions.values()]:
            self._end_subscription(sub)

    def _on_ping(self, client: Client) -> None:
        self._heard(client)
        self.broker.tell(client, encoder.PONG)
        if not client.connect_received or client.first_pong_sent:
            return
        client.first_pong_sent = True
        if client.connect.protocol >= PROTOCOL_INFO:
            info = self._info_for(client)
            info.connect_info = True
            info.remote_account = client.account.name
            info.acc_is_sys = client.account is self.accounts.system
            self.broker.tell(client, info.encode())

    def _on_pong(self, client: Client) -> None:
        client.pings_out = 0
        now_ns = self.environment.clock.monotonic_ns()
        # A PONG that nobody asked for is measured from the beginning, as the one of CONNECT is.
        client.rtt_ns = max(1, now_ns - (client.ping_sent_ns or client.started_ns))

    def _on_client_error(self, client: Client, segment: ClientError) -> None:
        text = segment.text.decode(errors="replace")
        self.log.error(f"{client.label} - Client Error {text}")
        self.close(client, closing.PARSE_ERROR)

    def _on_malformed(self, client: Client, segment: Malformed) -> None:
        self.log.error(f"{client.label} - {segment.detail}")
        reason = {
            MAX_PAYLOAD: closing.MAX_PAYLOAD,
            MAX_CONTROL_LINE: closing.MAX_CONTROL_LINE,
        }.get(segment.reply, closing.PROTOCOL_VIOLATION)
        self.close(client, reason, segment.reply)

    # --- pings ---------------------------------------------------------------------------------

    def _later(self, delay_s: float, call: Callable[[], object]) -> TimerHandle:
        return self.environment.scheduler.call_later(delay_s, call)

    def _set_ping_timer(self, client: Client, delay_s: float) -> None:
        if client.ping_timer is not None:
            client.ping_timer.cancel()
        client.ping_timer = self._later(delay_s, lambda: self._ping_due(client))

    def _set_first_ping_timer(self, client: Client) -> None:
        delay_s = min(self.options.ping_interval_s, FIRST_PING_S_MAX)
        spread_ns = int(delay_s / _FIRST_PING_SPREAD * NS_PER_S)
        jitter_ns = self.environment.entropy.below(spread_ns) if spread_ns else 0
        self._set_ping_timer(client, delay_s + jitter_ns / NS_PER_S)

    def _ping_due(self, client: Client) -> None:
        client.ping_timer = None
        interval_s = self.options.ping_interval_s
        now_ns = self.environment.clock.monotonic_ns()
        rtt_stale = (
            client.ping_sent_ns == 0 or now_ns - client.ping_sent_ns > _RTT_MAX_AGE_S * NS_PER_S
        )
        if rtt_stale or now_ns - client.last_in_ns >= interval_s * NS_PER_S:
            if client.pings_out + 1 > self.options.ping_max:
                self.roster.stale_connections += 1
                self.log.debug(f"{client.label} - Stale Client Connection - Closing")
                self.close(client, closing.STALE_CONNECTION, STALE_CONNECTION)
                return
            client.ping_sent_ns = now_ns
            client.pings_out += 1
            self.broker.tell(client, encoder.PING)
        self._set_ping_timer(client, interval_s)

    # --- change of circumstances ---------------------------------------------------------------

    def announce_lame_duck(self) -> None:
        """Tell clients to go elsewhere."""
        self.lame_duck = True
        info = self.info()
        info.ldm = True
        self._send_to_all(info)
        self.system_services.lame_duck_entered()

    def reload(self, options: Options) -> None:
        """Take over new options, which the caller has checked to be reloadable."""
        old = self.options
        self.settings.replace(options, self.environment.clock.wall_ns())
        self.accounts.configure(options)
        self.system_services.accounts_changed()
        if self.jetstream is not None:
            self.jetstream.reload()
        self.broker.tracer = Tracer(self.log, options)
        self.broker.buffers.max_pending = options.max_pending
        if old.max_control_line != options.max_control_line:
            self._publish_lines.forget()
        self.broker.stalls_publishers = not options.no_fast_producer_stall
        for client in [*self.roster.open.values()]:
            self._apply_limits(client)
            self._recheck(client)
        limit = options.max_connections
        if limit:
            for client in [*self.roster.open.values()][max(limit, 0) :]:
                self.close(client, closing.MAX_CONNECTIONS, TOO_MANY_CONNECTIONS)
        # nats-server does not tell of a new max_payload either; it holds all the same.
        if old.client_advertise != options.client_advertise:
            self._send_to_all(self.info())

    def _recheck(self, client: Client) -> None:
        """After a reload: whoever would not be let in now goes; the rest get their new rights."""
        if client.authenticating:
            return
        if not client.connect_received:
            if (
                self.settings.authenticator.required
                and self.settings.authenticator.stand_in is None
            ):
                self._authorization_violation(client)
            return
        judged = self.settings.authenticator.check(client.connect)
        if isinstance(judged, SlowCheck):
            self._judge_elsewhere(client, judged, self._rechecked)
        else:
            self._rechecked(client, judged, self.settings.authenticator)

    def _rechecked(self, client: Client, verdict: Verdict, authenticator: Authenticator) -> None:
        user = verdict.user
        # Another reload has had the client checked again.
        if client.close_reason or authenticator is not self.settings.authenticator:
            return
        if user is None:
            if client.username and self.settings.authenticator.user(client.username) is None:
                # Removed: nats-server does not explain that.
                self.close(client, closing.CLIENT_CLOSED)
            else:
                self._authorization_violation(client)
            return
        if self.accounts.get(user.account_name) is not client.account:
            # Its subscriptions are in another subject space now; it has to come again.
            self.close(client, closing.CLIENT_CLOSED)
            return
        client.permissions = _permissions_of(user)
        for sub in [*client.subscriptions.values()]:
            permissions = client.permissions
            if permissions is not None and not permissions.may_subscribe(sub.subject, sub.queue):
                self._end_subscription(sub)
                self._explain_removal(client, sub)
        client.settle()

    def _send_to_all(self, info: ServerInfo) -> None:
        """INFO to every client that understands one it did not ask for."""
        for client in self.roster.open.values():
            if client.first_pong_sent and client.connect.protocol >= PROTOCOL_INFO:
                self.broker.tell(client, self._addressed(info, client).encode())


def _begins_connect(segment: Segment) -> bool:
    """Whether this is CONNECT, or would have been: its first byte decides."""
    if isinstance(segment, Malformed):
        return segment.operation in (b"C", b"c")
    return isinstance(segment, Connect)


def _permissions_of(user: UserOptions) -> ConnectionPermissions | None:
    return None if user.permissions is None else ConnectionPermissions(user.permissions)


def _with_queue(subject: bytes, queue: bytes | None) -> str:
    if queue is None:
        return quote_bytes(subject)
    return f"{quote_bytes(subject)} using queue {quote_bytes(queue)}"
