"""/varz: the server itself, in numbers."""

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from headwater import __version__
from headwater.base.clock import NS_PER_S
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import MsgBytes, View, number, timestamp, uptime
from headwater.server.monitoring.pages.jsz import JetStreamPart, jetstream_part
from headwater.server.monitoring.pages.routez import open_routes

# Time for a TLS handshake; shown also by servers without TLS.
TLS_TIMEOUT_S: Final = 2
# One thread runs the server, however many cores the machine has.
THREADS: Final = 1


class FeatureFlags(View, kw_only=True, omit_defaults=False):
    """Switches of nats-server 2.15, at their defaults."""

    js_ack_fc_v2: bool = False
    js_api_reply_v2: bool = False
    js_raft_delete_range: bool = True
    js_snapshot_sources: bool = False


class Absent(View, kw_only=True):
    """A part that this server does not have."""


class ClusterPart(View, kw_only=True):
    """The cluster, as it is configured."""

    name: str = ""
    addr: str = ""
    cluster_port: int = 0
    auth_timeout: int | float = 0
    urls: tuple[str, ...] = ()
    tls_timeout: int | float = 0
    write_deadline: int = 0


class KindCounts(View, kw_only=True, omit_defaults=False):
    """A number for each kind of connection. There are only clients and routes here."""

    clients: int
    routes: int = 0
    gateways: int = 0
    leafs: int = 0


class DiskWaits(View, kw_only=True, omit_defaults=False):
    """Waits for the disk, which are not counted here."""

    waiters: int = 0
    waits: int = 0
    wait_time: int = 0
    max_wait_time: int = 0


class Varz(View, kw_only=True, omit_defaults=False):
    """The document, in nats-server's order.

    Defaults are the values of a server without that feature; UNSET fields are left out.
    """

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str | UnsetType = UNSET
    go: str
    host: str
    port: int
    auth_required: bool | UnsetType = UNSET
    tls_required: bool | UnsetType = UNSET
    tls_verify: bool | UnsetType = UNSET
    connect_urls: list[str] | UnsetType = UNSET
    max_connections: int
    max_subscriptions: int | UnsetType = UNSET
    ping_interval: int
    ping_max: int
    http_host: str
    http_port: int
    http_base_path: str
    https_port: int = 0
    auth_timeout: int | float
    max_control_line: int
    max_payload: int
    max_pending: int
    cluster: ClusterPart = msgspec.field(default_factory=ClusterPart)
    gateway: Absent = msgspec.field(default_factory=Absent)
    leaf: Absent = msgspec.field(default_factory=Absent)
    mqtt: Absent = msgspec.field(default_factory=Absent)
    websocket: Absent = msgspec.field(default_factory=Absent)
    jetstream: JetStreamPart
    tls_timeout: int | float = TLS_TIMEOUT_S
    write_deadline: int
    start: str
    now: str
    uptime: str
    mem: int
    cores: int
    gomaxprocs: int = THREADS
    cpu: int | float
    connections: int
    total_connections: int
    routes: int = 0
    remotes: int = 0
    leafnodes: int = 0
    in_msgs: int
    in_bytes: int
    in_client_msgs: int
    in_client_bytes: int
    out_msgs: int
    out_bytes: int
    out_client_msgs: int
    out_client_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_clients: int
    subscriptions: int
    http_req_stats: dict[str, int]
    config_load_time: str
    config_digest: str
    tags: list[str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    feature_flags: FeatureFlags = msgspec.field(default_factory=FeatureFlags)
    system_account: str | UnsetType = UNSET
    slow_consumer_stats: KindCounts
    stale_connection_stats: KindCounts
    tls_cert_not_after: str | UnsetType = UNSET
    disk_io_wait_stats: DiskWaits = msgspec.field(default_factory=DiskWaits)
    # Ours, as in INFO.
    headwater: str = __version__


def varz(facts: Facts) -> Varz:
    """The server now."""
    options = facts.options
    info = facts.info
    process = facts.process
    now_ns = facts.now_ns
    received, sent = received_in_all(facts), sent_in_all(facts)
    from_peers, to_peers = exchanged_with_peers(facts)
    slow, stale = slow_consumer_counts(facts), stale_connection_counts(facts)
    return Varz(
        server_id=info.server_id,
        server_name=info.server_name,
        version=info.version,
        proto=info.proto,
        git_commit=info.git_commit or UNSET,
        go=info.go,
        host=info.host,
        port=info.port,
        # INFO leaves it out where a no_auth_user stands in; /varz does not.
        auth_required=facts.settings.authenticator.required or UNSET,
        **_tls_members(facts),
        connect_urls=info.connect_urls or UNSET,
        max_connections=options.max_connections,
        max_subscriptions=options.max_subscriptions or UNSET,
        ping_interval=round(options.ping_interval_s * NS_PER_S),
        ping_max=options.ping_max,
        http_host=options.monitoring_host,
        http_port=options.http_port,
        http_base_path=options.http_base_path,
        https_port=options.https_port,
        auth_timeout=number(options.auth_timeout_s),
        max_control_line=options.max_control_line,
        max_payload=options.max_payload,
        max_pending=options.max_pending,
        cluster=_cluster_part(facts),
        jetstream=jetstream_part(facts),
        write_deadline=round(options.write_deadline_s * NS_PER_S),
        start=timestamp(facts.started_wall_ns),
        now=timestamp(now_ns),
        uptime=uptime(now_ns - facts.started_wall_ns),
        mem=process.rss_bytes(),
        cores=process.cores(),
        cpu=cpu_percent(facts),
        connections=len(facts.roster.open),
        total_connections=facts.roster.total_connections,
        routes=sum(1 for _ in open_routes(facts)),
        remotes=0 if facts.cluster is None else len(facts.cluster.peers),
        in_msgs=received.msgs + from_peers.msgs,
        in_bytes=received.bytes + from_peers.bytes,
        in_client_msgs=received.msgs,
        in_client_bytes=received.bytes,
        out_msgs=sent.msgs + to_peers.msgs,
        out_bytes=sent.bytes + to_peers.bytes,
        out_client_msgs=sent.msgs,
        out_client_bytes=sent.bytes,
        slow_consumers=slow.clients + slow.routes,
        stale_connections=stale.clients + stale.routes,
        stalled_clients=facts.counters.stalled_clients,
        subscriptions=subscriptions_in_all(facts),
        http_req_stats=dict(sorted(facts.requests.items())),
        config_load_time=timestamp(facts.settings.loaded_wall_ns),
        config_digest=options.config_digest,
        tags=list(options.server_tags) or UNSET,
        metadata=dict(sorted(options.server_metadata.items())) or UNSET,
        system_account=UNSET if facts.accounts.system is None else facts.accounts.system.name,
        slow_consumer_stats=slow,
        stale_connection_stats=stale,
    )


def _tls_members(facts: Facts) -> dict[str, Any]:
    """The members about the TLS of clients."""
    tls, context, info = facts.options.tls, facts.settings.tls_context, facts.info
    members: dict[str, Any] = {
        "tls_required": info.tls_required or UNSET,
        "tls_verify": info.tls_verify or UNSET,
        "tls_timeout": TLS_TIMEOUT_S if tls is None else number(tls.timeout_s),
    }
    if context is not None and context.not_after_ns:
        members["tls_cert_not_after"] = timestamp(context.not_after_ns)
    return members


def _cluster_part(facts: Facts) -> ClusterPart:
    cluster = facts.cluster
    if cluster is None:
        return ClusterPart()
    options = facts.options.cluster
    return ClusterPart(
        name=cluster.cluster_name,
        addr=options.host,
        cluster_port=cluster.port,
        auth_timeout=number(options.auth_timeout_s),
        urls=tuple(route.address for route in options.routes),
        tls_timeout=TLS_TIMEOUT_S,
        write_deadline=round(options.write_deadline_s * NS_PER_S),
    )


def slow_consumer_counts(facts: Facts) -> KindCounts:
    """Connections that were closed because they read too slowly."""
    cluster = facts.cluster
    routes = 0 if cluster is None else cluster.slow_consumers
    return KindCounts(clients=facts.roster.slow_consumers, routes=routes)


def stale_connection_counts(facts: Facts) -> KindCounts:
    """Connections that were closed because they left pings unanswered."""
    cluster = facts.cluster
    routes = 0 if cluster is None else cluster.stale_connections
    return KindCounts(clients=facts.roster.stale_connections, routes=routes)


def exchanged_with_peers(facts: Facts) -> tuple[MsgBytes, MsgBytes]:
    """Messages from other servers, and to them."""
    cluster = facts.cluster
    if cluster is None:
        return MsgBytes(msgs=0, bytes=0), MsgBytes(msgs=0, bytes=0)
    in_msgs, in_bytes, out_msgs, out_bytes = cluster.counts()
    return MsgBytes(msgs=in_msgs, bytes=in_bytes), MsgBytes(msgs=out_msgs, bytes=out_bytes)


def received_in_all(facts: Facts) -> MsgBytes:
    """Messages that clients, open and closed, sent to this server."""
    counters = facts.counters
    live = facts.roster.open.values()
    return MsgBytes(
        msgs=counters.in_msgs + sum(client.in_msgs for client in live),
        bytes=counters.in_bytes + sum(client.in_bytes for client in live),
    )


def sent_in_all(facts: Facts) -> MsgBytes:
    """Messages that this server sent to clients, open and closed."""
    counters = facts.counters
    live = facts.roster.open.values()
    return MsgBytes(
        msgs=counters.out_msgs + sum(client.out_msgs for client in live),
        bytes=counters.out_bytes + sum(client.out_bytes for client in live),
    )


def subscriptions_in_all(facts: Facts) -> int:
    """Subscriptions of clients and of the server's own services."""
    return sum(account.index.count for account in facts.accounts.all())


def cpu_percent(facts: Facts) -> int | float:
    """Processor time, to the tenth of a percent."""
    return number(round(facts.process.cpu_percent(), 1))
