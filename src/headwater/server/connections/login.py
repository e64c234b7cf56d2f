"""The login of a connection: from CONNECT to a user in an account, with its limits and permissions.

    accepted ──▶ CONNECT ──▶ credentials checked, perhaps off the loop ──▶ admitted to an account
       └──▶ nobody says anything before the time is over ──▶ closed

A reload checks everybody again: clients that would not be let in now are closed, the others get
their new permissions. The states are those of `headwater.wire.session`.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.base.errors import PeerError
from headwater.go.quoting import quote
from headwater.runtime.environment import Scheduler
from headwater.server.auth.authentication import Authenticator, SlowCheck, Verdict
from headwater.server.configuration.options import UserOptions
from headwater.server.connections import closing
from headwater.server.connections.closing import Close
from headwater.server.connections.subscribing import Subscribing
from headwater.server.core.accounts import Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.core.permissions import ConnectionPermissions
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire import frames
from headwater.wire.info import PROTOCOL_INFO
from headwater.wire.session import Event, State

AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
BAD_CLIENT_PROTOCOL: Final = "invalid client protocol"
NO_RESPONDERS_NEED_HEADERS: Final = "no responders requires headers support"
TOO_MANY_ACCOUNT_CONNECTIONS: Final = "maximum account active connections exceeded"


class LoginEvents(Protocol):
    """The part of a server that tells others about logins."""

    def client_connected(self, client: Client) -> None:
        """A client has been admitted to its account."""
        ...

    def auth_failed(self, client: Client) -> None:
        """A client is about to be closed for its credentials."""
        ...


@final
class Login:
    """The logins of all clients of a server.

    `close` ends a connection, `resume` goes on with a client that waited for its login.
    """

    __slots__ = (
        "_accounts",
        "_broker",
        "_close",
        "_events",
        "_log",
        "_resume",
        "_scheduler",
        "_settings",
        "_subscribing",
    )

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        broker: Broker,
        subscribing: Subscribing,
        scheduler: Scheduler,
        log: Log,
        events: LoginEvents,
        close: Close,
        resume: Callable[[Client], None],
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._broker = broker
        self._subscribing = subscribing
        self._scheduler = scheduler
        self._log = log
        self._events = events
        self._close = close
        self._resume = resume

    # --- a new connection ----------------------------------------------------------------------

    def expect(self, client: Client) -> None:
        """Wait for CONNECT, or let the client do everything where none is required."""
        if self._settings.authenticator.required:
            client.session.apply(Event.REQUIRE)
            client.timers.auth = self._scheduler.call_later(
                self._settings.options.auth_timeout_s, lambda: self._time_out(client)
            )
        else:
            self._accounts.move(client, self._accounts.default)
            self.apply_limits(client)

    def connect(self, client: Client, document: bytes) -> None:
        """Perform CONNECT."""
        client.timers.cancel_auth()
        try:
            client.connect.update(document)
        except PeerError as error:
            self._log.error(f"{client.label} - {error.reply}")
            self._close(client, closing.PROTOCOL_VIOLATION)
            return
        session = client.session
        if session.state is State.CONNECTED:
            self._subscribing.end_all(client)
        session.apply(Event.CONNECT)
        client.headers = client.connect.headers and not self._settings.options.no_header_support
        client.decoder.headers = client.headers
        outcome = self._settings.authenticator.check(
            client.connect, client.certificates, client.nonce
        )
        if isinstance(outcome, SlowCheck):
            client.connection.pause_reading()
            self._check_elsewhere(client, outcome, self._finish_check)
        else:
            self._finish_connect(client, outcome)

    def stand_in(self, client: Client) -> None:
        """Admit a client that sent no CONNECT as the user who stands in, or refuse it."""
        user = self._settings.authenticator.stand_in
        if user is None:
            self._refuse(client)
            return
        client.timers.cancel_auth()
        self._admit(client, user)

    def _judge(self, client: Client) -> Verdict | SlowCheck:
        """Check the credentials of a client by the settings in force."""
        authenticator = self._settings.authenticator
        return authenticator.check(client.connect, client.certificates, client.nonce)

    def _time_out(self, client: Client) -> None:
        client.timers.auth = None
        self._log.debug(f"{client.label} - {AUTHENTICATION_TIMEOUT}")
        self._close(client, closing.AUTHENTICATION_TIMEOUT, AUTHENTICATION_TIMEOUT)

    def _check_elsewhere(
        self,
        client: Client,
        check: SlowCheck,
        done: Callable[[Client, Verdict, Authenticator], None],
    ) -> None:
        """Check a password off the loop. A reload may come in between: `done` is told by whom."""
        authenticator = self._settings.authenticator
        self._scheduler.offload(check.work, lambda verdict: done(client, verdict, authenticator))

    def _finish_check(self, client: Client, verdict: Verdict, authenticator: Authenticator) -> None:
        """Go on with a client whose password has been checked off the loop."""
        if client.close_reason:
            return
        if authenticator is not self._settings.authenticator:
            outcome = self._settings.authenticator.check(
                client.connect, client.certificates, client.nonce
            )
            if isinstance(outcome, SlowCheck):
                self._check_elsewhere(client, outcome, self._finish_check)
                return
            verdict = outcome
        self._finish_connect(client, verdict)
        self._resume(client)

    def _finish_connect(self, client: Client, verdict: Verdict) -> None:
        connect = client.connect
        if verdict.user is None or connect.account or connect.new_account:
            self._refuse(client)
            return
        if not self._admit(client, verdict.user):
            return
        if not 0 <= connect.protocol <= PROTOCOL_INFO:
            self._close(client, closing.BAD_PROTOCOL_VERSION, BAD_CLIENT_PROTOCOL)
            return
        if connect.no_responders and not client.headers:
            reason = closing.NO_RESPONDERS_NEED_HEADERS
            self._close(client, reason, NO_RESPONDERS_NEED_HEADERS)
            return
        client.no_responders = connect.no_responders
        client.update_checks()
        client.relabel()
        if connect.verbose:
            self._broker.queue_frame(client, frames.OK)

    # --- accounts ------------------------------------------------------------------------------

    def _admit(self, client: Client, user: UserOptions) -> bool:
        """Put a client into the account of its user. Returns whether there was room for it."""
        account = self._accounts.get(user.account_name)
        if account is None:
            self._refuse(client)
            return False
        limit = account.limits.max_connections
        if limit >= 0 and client not in account.clients and len(account.clients) >= limit:
            self._log.error(f"{client.label} - {TOO_MANY_ACCOUNT_CONNECTIONS}")
            reason = closing.MAX_ACCOUNT_CONNECTIONS
            self._close(client, reason, TOO_MANY_ACCOUNT_CONNECTIONS)
            return False
        client.session.apply(Event.ADMIT)
        self._accounts.move(client, account)
        client.username = user.username or client.connect.user
        client.permissions = _permissions_of(user)
        self.apply_limits(client)
        client.update_checks()
        self._events.client_connected(client)
        return True

    def apply_limits(self, client: Client) -> None:
        """Give a client the server's limits, or its account's where they are lower."""
        server, account = self._settings.options, client.account.limits
        max_payload = server.max_payload
        if 0 <= account.max_payload < server.max_payload:
            max_payload = account.max_payload
        client.max_subscriptions = server.max_subscriptions
        if account.max_subscriptions >= 0 and (
            server.max_subscriptions <= 0 or account.max_subscriptions < server.max_subscriptions
        ):
            client.max_subscriptions = account.max_subscriptions
        client.decoder.set_limits(server.max_control_line, max_payload)
        client.traced = self._broker.tracer.wants(client)

    def _refuse(self, client: Client) -> None:
        connect = client.connect
        whose = ' - Token "[REDACTED]"' if connect.auth_token else ""
        whose = f" - User {quote(connect.user)}" if connect.user else whose
        self._log.error(f"{client.label} - authentication error{whose}")
        self._events.auth_failed(client)
        self._close(client, closing.AUTHENTICATION_VIOLATION, AUTHORIZATION_VIOLATION)

    # --- reload --------------------------------------------------------------------------------

    def recheck(self, client: Client) -> None:
        """Check a client again after a reload."""
        session, authenticator = client.session, self._settings.authenticator
        if session.state is State.AUTHENTICATING:
            return
        if session.state is not State.CONNECTED:
            session.apply(Event.REQUIRE if authenticator.required else Event.WAIVE)
            if authenticator.required and authenticator.stand_in is None:
                self._refuse(client)
            return
        outcome = self._judge(client)
        if isinstance(outcome, SlowCheck):
            self._check_elsewhere(client, outcome, self._finish_recheck)
        else:
            self._finish_recheck(client, outcome, authenticator)

    def _finish_recheck(
        self, client: Client, verdict: Verdict, authenticator: Authenticator
    ) -> None:
        user = verdict.user
        # Another reload has had the client checked again.
        if client.close_reason or authenticator is not self._settings.authenticator:
            return
        if user is None:
            if client.username and authenticator.user(client.username) is None:
                # Removed: nats-server does not explain that.
                self._close(client, closing.CLIENT_CLOSED)
            else:
                self._refuse(client)
            return
        if self._accounts.get(user.account_name) is not client.account:
            # Its subscriptions are in another subject space now; it has to come again.
            self._close(client, closing.CLIENT_CLOSED)
            return
        client.permissions = _permissions_of(user)
        self._subscribing.end_forbidden(client)
        client.update_checks()


def _permissions_of(user: UserOptions) -> ConnectionPermissions | None:
    return None if user.permissions is None else ConnectionPermissions(user.permissions)
