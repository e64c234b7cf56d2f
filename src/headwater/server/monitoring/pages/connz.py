"""/connz: connections, open and closed, with their options, counters and subscriptions."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from headwater.runtime.tls import TlsState
from headwater.server.configuration.options import GLOBAL_ACCOUNT
from headwater.server.connections.closed_clients import ClosedClient, ClosedSubscription
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Subscription
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import (
    Refused,
    View,
    round_trip,
    round_trip_ns,
    text,
    timestamp,
    uptime,
)
from headwater.subjects.grammar import FULL, collide
from headwater.wire.credentials.certificates import summary

LIST_SIZE: Final = 1024

STATE_OPEN: Final = 0
STATE_CLOSED: Final = 1
STATE_ANY: Final = 2
STATES: Final = {
    "": STATE_OPEN,
    "open": STATE_OPEN,
    "closed": STATE_CLOSED,
    "any": STATE_ANY,
    "all": STATE_ANY,
}

# A connection that is open or has ended; the fields that are shown have the same names in both.
Shown: TypeAlias = Client | ClosedClient


class ConnzOptions(View, kw_only=True):
    """The connections to show, and the details of each; by the names of the system service."""

    sort: str = ""
    auth: bool = False
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: int = 0
    limit: int = 0
    cid: int = 0
    mqtt_client: str = ""
    state: int = STATE_OPEN
    user: str = ""
    acc: str = ""
    filter_subject: str = ""


class SubDetail(View, kw_only=True):
    """One subscription."""

    account: str = ""
    account_tag: str = ""
    subject: str
    qgroup: str = ""
    sid: str
    msgs: int
    max: int = 0
    cid: int


class PeerCertificate(View, kw_only=True):
    """One certificate that a client has presented."""

    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class ConnInfo(View, kw_only=True):
    """One connection."""

    cid: int
    kind: str
    type: str
    ip: str
    port: int
    start: str
    last_activity: str
    stop: str = ""
    reason: str = ""
    rtt: str
    uptime: str
    idle: str
    pending_bytes: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher_suite: str = ""
    tls_peer_certs: tuple[PeerCertificate, ...] = ()
    tls_first: bool = False
    authorized_user: str = ""
    account: str = ""
    subscriptions_list: tuple[str, ...] = ()
    subscriptions_list_detail: tuple[SubDetail, ...] = ()
    name_tag: str = ""


class Connz(View, kw_only=True):
    """A page of connections."""

    server_id: str
    now: str
    num_connections: int
    total: int
    offset: int
    limit: int
    connections: list[ConnInfo] | None


def connz(facts: Facts, options: ConnzOptions) -> Connz:
    """The page that was asked for. Raises Refused."""
    _check(options)
    now_ns = facts.now_ns
    limit = 1 if options.cid else options.limit if options.limit > 0 else LIST_SIZE
    page = Connz(
        server_id=facts.server_id,
        now=timestamp(now_ns),
        num_connections=0,
        total=0,
        offset=max(options.offset, 0),
        limit=limit,
        connections=[],
    )
    account = facts.accounts.get(options.acc)
    if options.acc and account is None:
        # As nats-server answers for an account it has never heard of.
        page.server_id, page.connections = "", None
        return page
    opened = _open_clients(facts, options, account)
    closed = _closed_clients(facts, options)
    page.total = len(opened) + len(closed)
    chosen = _choose(facts, options, opened, closed)
    ascending, key = _sort_key(options.sort, now_ns)
    chosen.sort(key=_by_cid)
    chosen.sort(key=key, reverse=not ascending)
    shown = chosen[page.offset : page.offset + limit]
    page.connections = [_connection(client, options, now_ns) for client in shown]
    page.num_connections = len(shown)
    return page


def subscription_detail(
    subscription: Subscription | ClosedSubscription, cid: int, account: str = ""
) -> SubDetail:
    """A subscription, with its account where the list is not one of a connection."""
    return SubDetail(
        account=account,
        account_tag=account,
        subject=text(subscription.subject),
        qgroup=text(subscription.queue or b""),
        sid=text(subscription.sid),
        msgs=subscription.delivered,
        max=subscription.limit,
        cid=cid,
    )


# --- selection ----------------------------------------------------------------------------------


def _check(options: ConnzOptions) -> None:
    if options.sort and options.sort not in _SORT_KEYS:
        raise Refused(f"invalid sorting option: {options.sort}")
    if options.sort in ("stop", "reason") and options.state != STATE_CLOSED:
        raise Refused(f"sort by {options.sort} only valid on closed connections")
    if options.filter_subject not in ("", FULL.decode()) and not options.acc:
        raise Refused("filter by subject only valid with account filtering")


def _open_clients(facts: Facts, options: ConnzOptions, account: Account | None) -> list[Client]:
    if options.state == STATE_CLOSED:
        return []
    return list(facts.roster.open.values() if account is None else account.clients)


def _closed_clients(facts: Facts, options: ConnzOptions) -> list[ClosedClient]:
    if options.state == STATE_OPEN:
        return []
    wanted = options.acc
    return [client for client in facts.roster.closed if wanted in ("", client.account_name)]


def _choose(
    facts: Facts, options: ConnzOptions, opened: list[Client], closed: list[ClosedClient]
) -> list[Shown]:
    """Apply the filters that do not change the total."""
    if options.cid:
        found = facts.roster.open.get(options.cid) if options.state != STATE_CLOSED else None
        if found is not None:
            return [found]
        closed = [client for client in closed if client.cid == options.cid][:1]
        opened = []
    if options.filter_subject not in ("", FULL.decode()):
        pattern = options.filter_subject.encode()
        opened = [client for client in opened if _listens(client, pattern)]
    chosen: Iterable[Shown] = [*opened, *closed]
    if options.user:
        chosen = [client for client in chosen if client.authorized_user == options.user]
    # No connection of this server speaks MQTT.
    return [] if options.mqtt_client else list(chosen)


def _listens(client: Client, pattern: bytes) -> bool:
    return any(collide(pattern, sub.subject) for sub in client.subscriptions.values())


# --- order --------------------------------------------------------------------------------------

SortKey = Callable[[Shown], int | str]


def _by_cid(client: Shown) -> int:
    return client.cid


# Name of the order -> whether it ascends, and by what.
_SORT_KEYS: Final[dict[str, tuple[bool, SortKey]]] = {
    "cid": (True, _by_cid),
    "start": (True, _by_cid),
    "subs": (False, lambda client: client.subscription_count),
    "pending": (False, lambda client: client.pending_bytes),
    "msgs_to": (False, lambda client: client.out_msgs),
    "msgs_from": (False, lambda client: client.in_msgs),
    "bytes_to": (False, lambda client: client.out_bytes),
    "bytes_from": (False, lambda client: client.in_bytes),
    "last": (False, lambda client: client.last_activity_wall_ns),
    "idle": (True, lambda client: client.last_activity_wall_ns),
    "uptime": (True, _by_cid),
    "stop": (False, lambda client: client.stopped_wall_ns),
    "reason": (True, lambda client: client.close_reason),
    "rtt": (False, lambda client: round_trip_ns(client.rtt_ns)),
}


def _sort_key(name: str, now_ns: int) -> tuple[bool, SortKey]:
    if name != "uptime":
        return _SORT_KEYS[name or "cid"]

    def lived_ns(client: Shown) -> int:
        return (client.stopped_wall_ns or now_ns) - client.started_wall_ns

    return True, lived_ns


# --- one connection -----------------------------------------------------------------------------


def _connection(client: Shown, options: ConnzOptions, now_ns: int) -> ConnInfo:
    is_closed = client.stopped_wall_ns != 0
    until_ns = client.stopped_wall_ns if is_closed else now_ns
    info = ConnInfo(
        cid=client.cid,
        kind="Client",
        type="nats",
        ip=client.peer_host,
        port=client.peer_port,
        start=timestamp(client.started_wall_ns),
        last_activity=timestamp(client.last_activity_wall_ns),
        stop=timestamp(client.stopped_wall_ns) if is_closed else "",
        reason=client.close_reason,
        rtt=round_trip(client.rtt_ns),
        uptime=uptime(until_ns - client.started_wall_ns),
        idle=uptime(until_ns - client.last_activity_wall_ns),
        pending_bytes=client.pending_bytes,
        in_msgs=client.in_msgs,
        out_msgs=client.out_msgs,
        in_bytes=client.in_bytes,
        out_bytes=client.out_bytes,
        subscriptions=client.subscription_count,
        name=client.name,
        lang=client.lang,
        version=client.version,
    )
    if options.subscriptions_detail:
        # nats-server keeps the subscriptions of a closed connection with their account.
        account = client.account_name if is_closed else ""
        info.subscriptions_list_detail = tuple(
            subscription_detail(sub, client.cid, account) for sub in _listed(client)
        )
    elif options.subscriptions:
        info.subscriptions_list = tuple(text(sub.subject) for sub in _listed(client))
    if client.tls is not None:
        _add_tls(info, client.tls, options.auth)
        info.tls_first = client.is_tls_first
    if options.auth:
        _add_identity(info, client, is_closed)
    return info


def _add_tls(info: ConnInfo, tls: TlsState, shows_certificates: bool) -> None:
    info.tls_version = tls.version
    info.tls_cipher_suite = tls.cipher_suite
    if shows_certificates:
        info.tls_peer_certs = tuple(
            PeerCertificate(
                subject=found.subject, spki_sha256=found.key_sha256, cert_sha256=found.sha256
            )
            for found in map(summary, tls.peer_certificates)
        )


def _listed(client: Shown) -> Iterable[Subscription | ClosedSubscription]:
    """The subscriptions of a connection; of a closed connection, those that are remembered."""
    return client.subscriptions.values() if isinstance(client, Client) else client.subscriptions


def _add_identity(info: ConnInfo, client: Shown, is_closed: bool) -> None:
    info.authorized_user = client.authorized_user
    account = client.account_name
    if account != GLOBAL_ACCOUNT:
        info.account = account
    # nats-server names the global account of open connections only.
    if account != GLOBAL_ACCOUNT or not is_closed:
        info.name_tag = account
