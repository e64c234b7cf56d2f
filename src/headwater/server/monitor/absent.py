"""Documents about what this server does not have yet: other servers and streams.

nats-server answers these requests whether the feature is configured or not; an operator's tool that
asks all of them gets from us what it gets from a nats-server on its own.
"""

from typing import TYPE_CHECKING

from headwater.server.monitor.documents import View, timestamp

if TYPE_CHECKING:
    from headwater.server.node import Node


class Routez(View, kw_only=True):
    """Connections to servers of the same cluster."""

    server_id: str
    server_name: str
    now: str
    num_routes: int
    routes: list[object]


class Gatewayz(View, kw_only=True):
    """Connections to other clusters."""

    server_id: str
    now: str
    outbound_gateways: dict[str, object]
    inbound_gateways: dict[str, object]


class Leafz(View, kw_only=True):
    """Connections to servers that extend this one."""

    server_id: str
    now: str
    leafnodes: int
    leafs: list[object]


class ApiStats(View, kw_only=True):
    """Requests to JetStream."""

    level: int
    total: int
    errors: int


class StoreLimits(View, kw_only=True):
    """What streams may take."""

    max_memory: int
    max_storage: int


class Jsz(View, kw_only=True):
    """JetStream, switched off."""

    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: ApiStats
    server_id: str
    now: str
    disabled: bool
    config: StoreLimits
    streams: int
    consumers: int
    messages: int
    bytes: int
    total: int


def routez(node: "Node") -> Routez:
    """No routes."""
    return Routez(
        server_id=node.server_id, server_name=node.name, now=_now(node), num_routes=0, routes=[]
    )


def gatewayz(node: "Node") -> Gatewayz:
    """No gateways."""
    return Gatewayz(
        server_id=node.server_id, now=_now(node), outbound_gateways={}, inbound_gateways={}
    )


def leafz(node: "Node") -> Leafz:
    """No leaf nodes."""
    return Leafz(server_id=node.server_id, now=_now(node), leafnodes=0, leafs=[])


def jsz(node: "Node") -> Jsz:
    """No streams."""
    return Jsz(
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        accounts=0,
        ha_assets=0,
        api=ApiStats(level=0, total=0, errors=0),
        server_id=node.server_id,
        now=_now(node),
        disabled=True,
        config=StoreLimits(max_memory=0, max_storage=0),
        streams=0,
        consumers=0,
        messages=0,
        bytes=0,
        total=0,
    )


def _now(node: "Node") -> str:
    return timestamp(node.environment.clock.wall_ns())
