"""/varz: the server itself, in numbers."""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from headwater import __version__
from headwater.base.clock import NS_PER_S
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import MsgBytes, View, number, timestamp, uptime
from headwater.server.monitoring.pages.jsz import JetStreamPart, jetstream_part

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


class KindCounts(View, kw_only=True, omit_defaults=False):
    """A number for each kind of connection. There are only clients here."""

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
    cluster: Absent = msgspec.field(default_factory=Absent)
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
        connect_urls=info.connect_urls or UNSET,
        max_connections=options.max_connections,
        max_subscriptions=options.max_subscriptions or UNSET,
        ping_interval=round(options.ping_interval_s * NS_PER_S),
        ping_max=options.ping_max,
        http_host=options.monitoring_host,
        http_port=options.http_port,
        http_base_path=options.http_base_path,
        auth_timeout=number(options.auth_timeout_s),
        max_control_line=options.max_control_line,
        max_payload=options.max_payload,
        max_pending=options.max_pending,
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
        in_msgs=received.msgs,
        in_bytes=received.bytes,
        in_client_msgs=received.msgs,
        in_client_bytes=received.bytes,
        out_msgs=sent.msgs,
        out_bytes=sent.bytes,
        out_client_msgs=sent.msgs,
        out_client_bytes=sent.bytes,
        slow_consumers=facts.roster.slow_consumers,
        stale_connections=facts.roster.stale_connections,
        stalled_clients=facts.counters.stalled_clients,
        subscriptions=subscriptions_in_all(facts),
        http_req_stats=dict(sorted(facts.requests.items())),
        config_load_time=timestamp(facts.settings.loaded_wall_ns),
        config_digest=options.config_digest,
        tags=list(options.server_tags) or UNSET,
        metadata=dict(sorted(options.server_metadata.items())) or UNSET,
        system_account=UNSET if facts.accounts.system is None else facts.accounts.system.name,
        slow_consumer_stats=KindCounts(clients=facts.roster.slow_consumers),
        stale_connection_stats=KindCounts(clients=facts.roster.stale_connections),
    )


def received_in_all(facts: Facts) -> MsgBytes:
    """Messages that clients, open and closed, sent to this server."""
    counters = facts.counters
    return MsgBytes(msgs=counters.in_msgs, bytes=counters.in_bytes)


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
