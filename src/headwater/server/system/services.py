"""The services that a server answers and the events that it publishes, on subjects `$SYS.>`.

A service is a subscription with a handler, of a client of the server itself. The server has one
client in every account for the services that users may ask about themselves and their account. Its
client in the system account also answers with the documents of monitoring. Events are published in
the system account only, and only if it has subscribers for them.

A server without a system account has neither services nor events.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec import UNSET, UnsetType

from headwater.runtime.environment import Environment, TimerHandle
from headwater.server.configuration.options import GLOBAL_ACCOUNT
from headwater.server.connections import closing
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client, Subscription
from headwater.server.core.own_subscriptions import own_client
from headwater.server.identity import new_event_id
from headwater.server.log import Log
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.absent import gatewayz, leafz
from headwater.server.monitoring.pages.accountz import (
    OWN_ACCOUNT_SERVICES,
    USER_INFO,
    AccountStatzOptions,
    AccountzOptions,
    account_info,
    account_statz,
    accountz,
)
from headwater.server.monitoring.pages.connz import ConnzOptions, connz
from headwater.server.monitoring.pages.documents import Filtered, Refused, View, encode
from headwater.server.monitoring.pages.healthz import HealthzOptions, healthz
from headwater.server.monitoring.pages.jsz import JszOptions, jsz, jsz_of_account
from headwater.server.monitoring.pages.raftz import RaftzOptions, raftz
from headwater.server.monitoring.pages.routez import RoutezOptions, routez
from headwater.server.monitoring.pages.subsz import SubszOptions, subsz
from headwater.server.monitoring.pages.varz import varz
from headwater.server.system.events import (
    Reply,
    ServerId,
    ServiceError,
    account_connections,
    connect_event,
    disconnect_event,
    server_identity,
    stats_event,
    user_info,
)

# The time between two STATSZ events, while the system account has clients.
STATSZ_INTERVAL_S: Final = 10.0

_BAD_REQUEST: Final = 400
_INTERNAL_ERROR: Final = 500

# Requests that every server of a cluster answers for itself.
_FOR_PEERS: Final = (b"$SYS.REQ.SERVER.", b"$SYS.REQ.ACCOUNT.")

# In the place of an account's name: every account.
_EVERY_ACCOUNT: Final = "PING"


class NoOptions(View, kw_only=True):
    """The options of a service that has none."""


class ServerFilter(View, kw_only=True):
    """The servers that a request is meant for; it comes beside the options of any request."""

    server_name: str = ""
    cluster: str = ""
    host: str = ""
    exact_match: bool = False
    tags: tuple[str, ...] = ()
    domain: str = ""


class KickRequest(View, kw_only=True):
    """The connection to close."""

    cid: int = 0


class ConnectionsRequest(View, kw_only=True):
    """The account whose connections the event counts; its name is in the subject too."""

    acc: str | UnsetType = UNSET


class Request(NamedTuple):
    """A message to a service."""

    source: Client | None
    account: Account
    subject: bytes
    reply: bytes | None
    body: bytes


class Service(NamedTuple):
    """A document that can be asked for."""

    options: type[Any]
    view: Callable[[Facts, Any], object]


class AccountService(NamedTuple):
    """A document about one account; None is not sent."""

    options: type[Any]
    view: Callable[[Facts, str, Any], object | None]


def _subsz_of(facts: Facts, account: str, options: SubszOptions) -> object:
    options.subscriptions, options.account = True, account
    return subsz(facts, options)


def _connz_of(facts: Facts, account: str, options: ConnzOptions) -> object:
    options.acc = account
    return connz(facts, options)


def _statz_of(facts: Facts, account: str, options: AccountStatzOptions) -> object | None:
    if account != _EVERY_ACCOUNT:
        options.accounts = (account,)
    page = account_statz(facts, options)
    return page if page.account_statz or options.include_unused else None


# Asked by `$SYS.REQ.SERVER.PING.<name>` of all servers and by `$SYS.REQ.SERVER.<id>.<name>` of one.
_SERVER_SERVICES: Final = {
    "VARZ": Service(NoOptions, lambda facts, _: varz(facts)),
    "CONNZ": Service(ConnzOptions, connz),
    "SUBSZ": Service(SubszOptions, subsz),
    "ACCOUNTZ": Service(AccountzOptions, accountz),
    "HEALTHZ": Service(HealthzOptions, healthz),
    "ROUTEZ": Service(RoutezOptions, routez),
    "GATEWAYZ": Service(NoOptions, lambda facts, _: gatewayz(facts)),
    "LEAFZ": Service(NoOptions, lambda facts, _: leafz(facts)),
    "JSZ": Service(JszOptions, jsz),
    "IPQUEUESZ": Service(NoOptions, lambda facts, _: {}),
    "RAFTZ": Service(RaftzOptions, raftz),
}

# Asked by `$SYS.REQ.ACCOUNT.<account>.<name>`, in the system account. Other accounts ask some of
# them about themselves (`OWN_ACCOUNT_SERVICES`).
_ACCOUNT_SERVICES: Final = {
    "CONNZ": AccountService(ConnzOptions, _connz_of),
    "STATZ": AccountService(AccountStatzOptions, _statz_of),
    "SUBSZ": AccountService(SubszOptions, _subsz_of),
    "INFO": AccountService(NoOptions, lambda facts, account, _: account_info(facts, account)),
    "LEAFZ": AccountService(NoOptions, lambda facts, account, _: leafz(facts)),
    "JSZ": AccountService(JszOptions, jsz_of_account),
}


@final
class SystemServices:
    """The services and events of one server."""

    __slots__ = (
        "_accounts",
        "_broker",
        "_clients",
        "_close",
        "_entropy",
        "_facts",
        "_log",
        "_scheduler",
        "_seq",
        "_statsz_timer",
        "_system",
    )

    def __init__(
        self,
        facts: Facts,
        broker: Broker,
        environment: Environment,
        log: Log,
        clients: dict[Account, Client],
        close: Callable[[Client, str], None],
    ) -> None:
        self._facts = facts
        self._accounts = facts.accounts
        self._broker = broker
        self._entropy = environment.entropy
        self._scheduler = environment.scheduler
        self._log = log
        self._close = close
        # The server's own client in each account, by which it listens.
        self._clients = clients
        self._system: Account | None = None
        self._seq = 0
        self._statsz_timer: TimerHandle | None = None
        self.accounts_changed()

    # --- what the connections tell -------------------------------------------------------------

    def accounts_changed(self) -> None:
        """Accounts were made, or are no longer there."""
        accounts = self._accounts
        if accounts.system is not self._system:
            for account in [*self._clients]:
                self._withdraw(account)
            self._system = accounts.system
        if self._system is None:
            return
        present = accounts.all()
        for account in [*self._clients]:
            if account not in present:
                self._withdraw(account)
        for account in present:
            if account not in self._clients:
                self._offer(account)

    def client_connected(self, client: Client) -> None:
        """A client is in its account."""
        self._publish_connections(client.account)
        subject = f"$SYS.ACCOUNT.{client.account.name}.CONNECT"
        self._publish(
            subject, lambda seq: connect_event(self._facts, client, seq, self._new_event_id())
        )
        if client.account is self._system and self._statsz_timer is None:
            self._set_statsz_timer()

    def audience_changed(self) -> None:
        """The system account has listeners on other servers, or has them no more."""
        if self._has_audience and self._statsz_timer is None:
            self._set_statsz_timer()

    def client_disconnected(self, client: Client) -> None:
        """A client has left its account, or never got into one."""
        reason = client.close_reason
        self._publish_connections(client.account)
        subject = f"$SYS.ACCOUNT.{client.account.name}.DISCONNECT"
        self._publish_disconnect(subject, client, reason)

    def auth_failed(self, client: Client) -> None:
        """A client is going to be sent away for its credentials."""
        subject = f"$SYS.SERVER.{self._facts.server_id}.CLIENT.AUTH.ERR"
        reason = closing.AUTHENTICATION_VIOLATION
        self._publish_disconnect(subject, client, reason)

    def lame_duck_entered(self) -> None:
        """The server wants its clients to go elsewhere."""
        self._publish_identity("LAMEDUCK")

    def shutting_down(self) -> None:
        """The server is about to close everything."""
        self._publish_identity("SHUTDOWN")
        if self._statsz_timer is not None:
            self._statsz_timer.cancel()
            self._statsz_timer = None

    # --- services ------------------------------------------------------------------------------

    def _offer(self, account: Account) -> None:
        """Subscribe to everything that may be asked in an account."""
        client = own_client(self._facts.roster.next_cid(), account)
        self._clients[account] = client
        self._subscribe(client, USER_INFO, self._answer_user_info)
        if account is self._system:
            self._offer_to_system(client)
            return
        for subject, name in OWN_ACCOUNT_SERVICES.items():
            self._subscribe(client, subject, self._about_own_account(_ACCOUNT_SERVICES[name]))

    def _offer_to_system(self, client: Client) -> None:
        self._subscribe(client, "$SYS.REQ.SERVER.PING", self._answer_statsz)
        server_id = self._facts.server_id
        for target in ("PING", server_id):
            self._subscribe(client, f"$SYS.REQ.SERVER.{target}.STATSZ", self._answer_statsz)
            self._subscribe(client, f"$SYS.REQ.SERVER.{target}.IDZ", self._answer_id)
            for name, service in _SERVER_SERVICES.items():
                subject = f"$SYS.REQ.SERVER.{target}.{name}"
                self._subscribe(client, subject, self._about_server(service))
        self._subscribe(client, f"$SYS.REQ.SERVER.{server_id}.KICK", self._kick)
        self._subscribe(client, "$SYS.REQ.ACCOUNT.*.CONNS", self._answer_connections)
        for name, account_service in _ACCOUNT_SERVICES.items():
            subject = f"$SYS.REQ.ACCOUNT.*.{name}"
            self._subscribe(client, subject, self._about_account(account_service))

    def _subscribe(self, client: Client, subject: str, serve: Callable[[Request], None]) -> None:
        account = client.account

        def handler(
            source: Client | None,
            subject: bytes,
            reply: bytes | None,
            header_size: int,
            payload: bytes,
        ) -> None:
            serve(Request(source, account, subject, reply, payload[max(header_size, 0) :]))

        sid = b"%d" % (len(client.subscriptions) + 1)
        subscription = Subscription(client, subject.encode(), None, sid, handler)
        client.subscriptions[sid] = subscription
        account.index.insert(subscription.subject, None, subscription)
        if self._is_for_peers(account, subscription) and account.ledger is not None:
            account.ledger.add(subscription.subject, None)

    def _withdraw(self, account: Account) -> None:
        for subscription in self._clients.pop(account).subscriptions.values():
            account.index.remove(subscription.subject, None, subscription)
            if self._is_for_peers(account, subscription) and account.ledger is not None:
                account.ledger.remove(subscription.subject, None)

    def _is_for_peers(self, account: Account, subscription: Subscription) -> bool:
        """Whether a service is asked by the system accounts of other servers too."""
        return account is self._system and subscription.subject.startswith(_FOR_PEERS)

    def _about_server(self, service: Service) -> Callable[[Request], None]:
        view = service.view
        return lambda request: self._answer(
            request, service.options, lambda options: view(self._facts, options)
        )

    def _about_account(self, service: AccountService) -> Callable[[Request], None]:
        view = service.view

        def serve(request: Request) -> None:
            name = request.subject.split(b".")[3].decode(errors="replace")
            self._answer(request, service.options, lambda options: view(self._facts, name, options))

        return serve

    def _about_own_account(self, service: AccountService) -> Callable[[Request], None]:
        view = service.view
        return lambda request: self._answer(
            request,
            service.options,
            lambda options: view(self._facts, request.account.name, options),
        )

    def _answer(
        self, request: Request, options: type[Any], view: Callable[[Any], object | None]
    ) -> None:
        """Reply with a document, or with the reason for which it cannot be made."""
        if request.reply is None:
            return
        try:
            asked = _decoded(request.body, options)
            if not self._is_meant(_decoded(request.body, ServerFilter)):
                return
        except msgspec.DecodeError as reason:
            self._reply(
                request,
                self._envelope(error=ServiceError(code=_BAD_REQUEST, description=str(reason))),
            )
            return
        try:
            data = view(asked)
        except Filtered:
            return
        except Refused as reason:
            error = ServiceError(code=_INTERNAL_ERROR, description=str(reason))
            self._reply(request, self._envelope(data=None, error=error))
            return
        if data is not None:
            self._reply(request, self._envelope(data=data))

    def _answer_user_info(self, request: Request) -> None:
        if request.reply is not None and request.source is not None:
            self._reply(request, self._envelope(data=user_info(request.source)))

    def _answer_id(self, request: Request) -> None:
        facts = self._facts
        self._reply(request, ServerId(name=facts.name, host=facts.info.host, id=facts.server_id))

    def _answer_statsz(self, request: Request) -> None:
        """Reply with STATSZ, or publish it as an event if the request has no reply subject."""
        if request.reply is None:
            self._publish_stats()
            return
        try:
            meant = self._is_meant(_decoded(request.body, ServerFilter))
        except msgspec.DecodeError as reason:
            error = ServiceError(code=_BAD_REQUEST, description=str(reason))
            self._reply(request, self._envelope(error=error))
            return
        if meant:
            self._reply(request, stats_event(self._facts, self._next_seq()))

    def _answer_connections(self, request: Request) -> None:
        """Reply with the event about the connections of an account, if it has any here."""
        name = request.subject.split(b".")[3].decode(errors="replace")
        try:
            asked = _decoded(request.body, ConnectionsRequest)
        except msgspec.DecodeError as reason:
            self._log.error(f"Error unmarshalling account connections request message: {reason}")
            return
        account = self._accounts.get(name)
        if asked.acc not in (UNSET, name) or account is None or not account.clients:
            return
        event_id = self._new_event_id()
        self._reply(request, account_connections(self._facts, account, self._next_seq(), event_id))

    def _kick(self, request: Request) -> None:
        try:
            asked = _decoded(request.body, KickRequest)
        except msgspec.DecodeError as reason:
            self._log.error(f"Error unmarshalling kick client request: {reason}")
            return
        client = self._facts.roster.open.get(asked.cid)
        if client is None:
            error = ServiceError(code=_INTERNAL_ERROR, description="no such client or leafnode id")
            self._reply(request, self._envelope(error=error))
            return
        self._reply(request, self._envelope())
        self._close(client, closing.KICKED)

    def _is_meant(self, wanted: ServerFilter) -> bool:
        """Whether a request that names servers names this one."""
        options = self._facts.options
        for name, own in (
            (wanted.server_name, self._facts.name),
            (wanted.host, self._facts.info.host),
            (wanted.cluster, self._facts.info.cluster),
        ):
            if name and (name != own if wanted.exact_match else name not in own):
                return False
        if wanted.domain and wanted.domain != options.jetstream.domain:
            return False
        return all(tag.lower() in options.server_tags for tag in wanted.tags)

    def _envelope(self, data: object = UNSET, error: ServiceError | UnsetType = UNSET) -> Reply:
        server = server_identity(self._facts, self._next_seq())
        return Reply(server=server, data=data, error=error)

    def _reply(self, request: Request, document: object) -> None:
        subject = request.reply
        if subject is not None:
            self._send(request.account, subject, encode(document))

    def _send(self, account: Account, subject: bytes, payload: bytes) -> None:
        self._broker.send(account, subject, None, payload)

    # --- events --------------------------------------------------------------------------------

    @property
    def _has_audience(self) -> bool:
        """Whether the system account has clients, here or elsewhere: events are for them."""
        system = self._system
        return system is not None and (bool(system.clients) or system.remote is not None)

    def _publish(self, subject: str, event: Callable[[int], object]) -> None:
        """Make and send an event, if the system account has a subscription for it."""
        if self._system is None or not self._has_audience:
            return
        name = subject.encode()
        if self._system.is_heard(name):
            self._send(self._system, name, encode(event(self._next_seq())))

    def _publish_disconnect(self, subject: str, client: Client, reason: str) -> None:
        self._publish(
            subject,
            lambda seq: disconnect_event(self._facts, client, seq, self._new_event_id(), reason),
        )

    def _publish_connections(self, account: Account) -> None:
        """Send one event under its old and its new name; the global account has no such event."""
        if account.name == GLOBAL_ACCOUNT or not self._has_audience:
            return
        event_id = self._new_event_id()
        for subject in (
            f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS",
            f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS",
        ):
            self._publish(
                subject, lambda seq: account_connections(self._facts, account, seq, event_id)
            )

    def _publish_identity(self, event: str) -> None:
        subject = f"$SYS.SERVER.{self._facts.server_id}.{event}"
        self._publish(subject, lambda seq: server_identity(self._facts, seq))

    def _publish_stats(self) -> None:
        subject = f"$SYS.SERVER.{self._facts.server_id}.STATSZ"
        self._publish(subject, lambda seq: stats_event(self._facts, seq))

    def _set_statsz_timer(self) -> None:
        self._statsz_timer = self._scheduler.call_later(STATSZ_INTERVAL_S, self._statsz_due)

    def _statsz_due(self) -> None:
        """Publish STATSZ, and again later, while the system account has clients."""
        self._statsz_timer = None
        if self._has_audience:
            self._publish_stats()
            self._set_statsz_timer()

    def _new_event_id(self) -> str:
        return new_event_id(self._entropy)

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq


def _decoded(body: bytes, options: type[Any]) -> Any:
    """The options in a request; none, or null, are the defaults. Raises msgspec.DecodeError."""
    if not body:
        return options()
    try:
        return msgspec.json.decode(body, type=options | None) or options()
    except RecursionError:
        raise msgspec.DecodeError("exceeded max depth") from None
