"""The documents of system events and of service replies.

This module has their shapes and fills them; `headwater.server.system.services` decides when they
are sent, and to whom.
Fields are nats-server's, in its order (see `headwater.server.monitoring.pages.documents.View`).
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import Permissions, SubjectPermission
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.accountz import Traffic, account_stat
from headwater.server.monitoring.pages.documents import MsgBytes, View, round_trip_ns, timestamp
from headwater.server.monitoring.pages.jsz import JetStreamPart, jetstream_part
from headwater.server.monitoring.pages.routez import RouteStat, route_stats
from headwater.server.monitoring.pages.varz import (
    THREADS,
    FeatureFlags,
    KindCounts,
    cpu_percent,
    exchanged_with_peers,
    received_in_all,
    sent_in_all,
    slow_consumer_counts,
    stale_connection_counts,
    subscriptions_in_all,
)
from headwater.wire.info import NATS_VERSION

CONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_connect"
DISCONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_disconnect"
ACCOUNT_CONNECTIONS_TYPE: Final = "io.nats.server.advisory.v1.account_connections"

# The abilities of a nats-server with JetStream: streams, binary snapshots, and Raft traffic in
# accounts of its own.
JETSTREAM_FLAGS: Final = 0b111


class ServerIdentity(View, kw_only=True):
    """The server that sent an event or a reply. `seq` counts all of them."""

    name: str
    host: str
    id: str
    cluster: str = ""
    domain: str = ""
    ver: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] | UnsetType = UNSET
    feature_flags: FeatureFlags
    jetstream: bool
    flags: int
    seq: int
    time: str


class ServerId(View, kw_only=True):
    """The server that sent a reply, in short."""

    name: str
    host: str
    id: str


class ClientIdentity(View, kw_only=True):
    """The connection an event is about."""

    start: str
    host: str = ""
    id: int
    acc: str
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    stop: str = ""
    name_tag: str
    kind: str
    client_type: str


class Event(View, kw_only=True):
    """The fields that every event begins with."""

    type: str
    id: str
    timestamp: str
    server: ServerIdentity


class ConnectEvent(Event, kw_only=True):
    """A client is in its account."""

    client: ClientIdentity


class DisconnectEvent(Event, kw_only=True):
    """A client has gone. Sent and received are the client's, not the server's."""

    client: ClientIdentity
    sent: MsgBytes
    received: MsgBytes
    reason: str


class AccountConnections(Event, kw_only=True):
    """The number of connections of an account: an event that goes on with an AccountStat.

    The fields of AccountStat are written out, because a document has only one base.
    """

    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: Traffic
    received: Traffic
    slow_consumers: int


class ServerStats(View, kw_only=True):
    """The server in numbers, shorter than /varz."""

    start: str
    mem: int
    cores: int
    cpu: int | float
    connections: int
    total_connections: int
    active_accounts: int
    subscriptions: int
    sent: MsgBytes
    sent_to_clients: MsgBytes
    received: MsgBytes
    received_from_clients: MsgBytes
    slow_consumers: int
    slow_consumer_stats: KindCounts | UnsetType = UNSET
    stale_connections: int = 0
    stale_connection_stats: KindCounts | UnsetType = UNSET
    stalled_clients: int = 0
    routes: tuple[RouteStat, ...] = ()
    active_servers: int
    jetstream: JetStreamPart | UnsetType = UNSET
    gomaxprocs: int


class StatsEvent(View, kw_only=True):
    """STATSZ, both as an event and as an answer."""

    server: ServerIdentity
    statsz: ServerStats


class AllowDeny(View, kw_only=True):
    """Subjects of one direction."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Responses(View, kw_only=True):
    """The permission to respond; `ttl` in nanoseconds."""

    max: int
    ttl: int


class UserPermissions(View, kw_only=True):
    """The permissions of a user."""

    publish: AllowDeny
    subscribe: AllowDeny
    responses: Responses | UnsetType = UNSET


class UserInfo(View, kw_only=True):
    """The user of a client, as the client may see it."""

    user: str
    account: str
    account_name: str
    permissions: UserPermissions | UnsetType = UNSET


class ServiceError(View, kw_only=True):
    """The error of a reply."""

    code: int
    description: str


class Reply(View, kw_only=True):
    """The envelope of most answers."""

    server: ServerIdentity
    data: object = UNSET
    error: ServiceError | UnsetType = UNSET


def server_identity(facts: Facts, seq: int) -> ServerIdentity:
    """The server as events and replies name it now."""
    options = facts.options
    return ServerIdentity(
        name=facts.name,
        host=facts.info.host,
        id=facts.server_id,
        cluster=facts.info.cluster,
        domain=options.jetstream.domain,
        ver=NATS_VERSION,
        tags=tuple(options.server_tags),
        metadata=dict(sorted(options.server_metadata.items())) or UNSET,
        feature_flags=FeatureFlags(),
        jetstream=facts.streams is not None,
        flags=0 if facts.streams is None else JETSTREAM_FLAGS,
        seq=seq,
        time=timestamp(facts.now_ns),
    )


def client_identity(client: Client, stop: str = "") -> ClientIdentity:
    """A client that has come, or that has gone at `stop`."""
    connect = client.connect
    return ClientIdentity(
        start=timestamp(client.started_wall_ns),
        host=client.connection.peer_host,
        id=client.cid,
        acc=client.account.name,
        user=client.authorized_user,
        name=connect.name,
        lang=connect.lang,
        ver=connect.version,
        rtt=round_trip_ns(client.rtt_ns) if stop else 0,
        stop=stop,
        name_tag=client.account.name,
        kind="Client",
        client_type="nats",
    )


def connect_event(facts: Facts, client: Client, seq: int, event_id: str) -> ConnectEvent:
    """A client is in its account."""
    return ConnectEvent(
        type=CONNECT_TYPE,
        id=event_id,
        timestamp=timestamp(facts.now_ns),
        server=server_identity(facts, seq),
        client=client_identity(client),
    )


def disconnect_event(
    facts: Facts, client: Client, seq: int, event_id: str, reason: str
) -> DisconnectEvent:
    """A client has gone, or is about to be sent away."""
    stopped_ns = client.stopped_wall_ns or facts.now_ns
    return DisconnectEvent(
        type=DISCONNECT_TYPE,
        id=event_id,
        timestamp=timestamp(stopped_ns),
        server=server_identity(facts, seq),
        client=client_identity(client, timestamp(stopped_ns)),
        sent=MsgBytes(msgs=client.in_msgs, bytes=client.in_bytes),
        received=MsgBytes(msgs=client.out_msgs, bytes=client.out_bytes),
        reason=reason,
    )


def account_connections(
    facts: Facts, account: Account, seq: int, event_id: str
) -> AccountConnections:
    """The event about the number of connections of an account."""
    return AccountConnections(
        type=ACCOUNT_CONNECTIONS_TYPE,
        id=event_id,
        timestamp=timestamp(facts.now_ns),
        server=server_identity(facts, seq),
        **msgspec.structs.asdict(account_stat(account)),
    )


def stats_event(facts: Facts, seq: int) -> StatsEvent:
    """The server in numbers."""
    process = facts.process
    received, sent = received_in_all(facts), sent_in_all(facts)
    from_peers, to_peers = exchanged_with_peers(facts)
    slow, stale = slow_consumer_counts(facts), stale_connection_counts(facts)
    slow_in_all, stale_in_all = slow.clients + slow.routes, stale.clients + stale.routes
    return StatsEvent(
        server=server_identity(facts, seq),
        statsz=ServerStats(
            start=timestamp(facts.started_wall_ns),
            mem=process.rss_bytes(),
            cores=process.cores(),
            cpu=cpu_percent(facts),
            connections=len(facts.roster.open),
            total_connections=facts.roster.total_connections,
            active_accounts=sum(_is_active(facts, account) for account in facts.accounts.all()),
            subscriptions=subscriptions_in_all(facts),
            sent=_sum(sent, to_peers),
            sent_to_clients=sent,
            received=_sum(received, from_peers),
            received_from_clients=received,
            slow_consumers=slow_in_all,
            slow_consumer_stats=slow if slow_in_all else UNSET,
            stale_connections=stale_in_all,
            stale_connection_stats=stale if stale_in_all else UNSET,
            stalled_clients=facts.counters.stalled_clients,
            routes=tuple(route_stats(facts)),
            active_servers=1 if facts.cluster is None else 1 + len(facts.cluster.peers),
            jetstream=UNSET if facts.streams is None else jetstream_part(facts, in_stats=True),
            gomaxprocs=THREADS,
        ),
    )


def _is_active(facts: Facts, account: Account) -> bool:
    """Whether an account has clients or streams here. The servers of a cluster are clients of the
    system account."""
    if account.clients:
        return True
    if facts.streams is None:
        return False
    home = facts.streams.accounts.get(account.name)
    return bool(home and home.streams) or (
        account is facts.accounts.system and facts.get_consensus() is not None
    )


def _sum(one: MsgBytes, other: MsgBytes) -> MsgBytes:
    return MsgBytes(msgs=one.msgs + other.msgs, bytes=one.bytes + other.bytes)


def user_info(client: Client) -> UserInfo:
    """The user of a client, as the client may see it."""
    permissions = client.permissions
    return UserInfo(
        user=client.authorized_user,
        account=client.account.name,
        account_name=client.account.name,
        permissions=UNSET if permissions is None else _permissions(permissions.source),
    )


def _permissions(source: Permissions) -> UserPermissions:
    response = source.allow_responses
    return UserPermissions(
        publish=_allow_deny(source.publish),
        subscribe=_allow_deny(source.subscribe),
        responses=UNSET
        if response is None
        else Responses(max=response.max_msgs, ttl=round(response.ttl_s * NS_PER_S)),
    )


def _allow_deny(permission: SubjectPermission | None) -> AllowDeny:
    if permission is None:
        return AllowDeny()
    return AllowDeny(allow=permission.allow or (), deny=permission.deny or ())
