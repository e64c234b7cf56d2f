"""/routez: the connections to the other servers of the cluster.

A link has two connections, and each is a route here: the one for messages with the interest that
the peer has announced, and the one for consensus without any.
"""

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from headwater.server.cluster.channel import Channel
from headwater.server.cluster.peer import Peer
from headwater.server.configuration.options import SubjectPermission
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.connz import SubDetail
from headwater.server.monitoring.pages.documents import (
    MsgBytes,
    View,
    round_trip,
    text,
    timestamp,
    uptime,
)
from headwater.wire.peer_info import Purpose


class RoutezOptions(View, kw_only=True):
    """The parts of a route to show, by the names of the system service."""

    subscriptions: bool = False
    subscriptions_detail: bool = False


class AllowDeny(View, kw_only=True):
    """Subjects that cross to other servers, or that do not."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class RouteInfo(View, kw_only=True):
    """One connection to another server."""

    rid: int
    remote_id: str
    remote_name: str
    did_solicit: bool
    is_configured: bool
    ip: str
    port: int
    start: str
    last_activity: str
    rtt: str
    uptime: str
    idle: str
    pending_size: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    subscriptions_list: tuple[str, ...] = ()
    subscriptions_list_detail: tuple[SubDetail, ...] = ()
    compression: str
    # Ours: the traffic that the connection is for.
    purpose: str


class Routez(View, kw_only=True, rename={"import_": "import"}):
    """Connections to servers of one cluster."""

    server_id: str
    server_name: str
    now: str
    import_: AllowDeny | UnsetType = UNSET
    export: AllowDeny | UnsetType = UNSET
    num_routes: int
    routes: list[RouteInfo]


class RouteStat(View, kw_only=True):
    """One connection to another server, as STATSZ shows it."""

    rid: int
    name: str
    sent: MsgBytes
    received: MsgBytes
    pending: int


def open_routes(facts: Facts) -> Iterator[tuple[Peer, Channel]]:
    """The open connections, peer by peer."""
    if facts.cluster is not None:
        for peer in facts.cluster.peers.values():
            for channel in peer.channels.values():
                yield peer, channel


def routez(facts: Facts, options: RoutezOptions) -> Routez:
    """The connections now."""
    permissions = facts.options.cluster.permissions
    routes = [_route(facts, peer, channel, options) for peer, channel in open_routes(facts)]
    return Routez(
        server_id=facts.server_id,
        server_name=facts.name,
        now=timestamp(facts.now_ns),
        import_=_permission(permissions.publish),
        export=_permission(permissions.subscribe),
        num_routes=len(routes),
        routes=routes,
    )


def route_stats(facts: Facts) -> list[RouteStat]:
    """The connections for STATSZ."""
    return [
        RouteStat(
            rid=channel.rid,
            name=peer.name,
            sent=MsgBytes(msgs=channel.out_msgs, bytes=channel.out_bytes),
            received=MsgBytes(msgs=channel.in_msgs, bytes=channel.in_bytes),
            pending=channel.connection.buffered_bytes(),
        )
        for peer, channel in open_routes(facts)
    ]


def _permission(permission: SubjectPermission | None) -> AllowDeny | UnsetType:
    if permission is None:
        return UNSET
    return AllowDeny(allow=permission.allow or (), deny=permission.deny or ())


def _route(facts: Facts, peer: Peer, channel: Channel, options: RoutezOptions) -> RouteInfo:
    now_ns, liveness = facts.now_ns, channel.liveness
    is_listed = channel.purpose is Purpose.MESSAGES
    keys = [*peer.subscriptions] if is_listed else []
    info = RouteInfo(
        rid=channel.rid,
        remote_id=peer.server_id,
        remote_name=peer.name,
        did_solicit=channel.target is not None,
        is_configured=channel.target is not None and channel.target.is_configured,
        ip=channel.connection.peer_host,
        port=channel.connection.peer_port,
        start=timestamp(liveness.started_wall_ns),
        last_activity=timestamp(liveness.last_activity_wall_ns),
        rtt=round_trip(liveness.rtt_ns),
        uptime=uptime(now_ns - liveness.started_wall_ns),
        idle=uptime(now_ns - liveness.last_activity_wall_ns),
        pending_size=channel.connection.buffered_bytes(),
        in_msgs=channel.in_msgs,
        out_msgs=channel.out_msgs,
        in_bytes=channel.in_bytes,
        out_bytes=channel.out_bytes,
        subscriptions=len(keys),
        compression="off",
        purpose=channel.purpose.value,
    )
    if options.subscriptions_detail:
        info.subscriptions_list_detail = tuple(
            SubDetail(
                subject=text(pattern),
                qgroup=text(queue),
                sid=f"{account} {text(pattern)}" + (f" {text(queue)}" if queue else ""),
                msgs=0,
                cid=channel.rid,
            )
            for account, pattern, queue in keys
        )
    elif options.subscriptions:
        info.subscriptions_list = tuple(text(pattern) for _, pattern, _ in keys)
    return info
