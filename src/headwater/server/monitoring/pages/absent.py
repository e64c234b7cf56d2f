"""Documents about what this server does not have yet: other servers.

nats-server answers these requests whether the feature is configured or not; an operator's tool that
asks all of them gets from us what it gets from a nats-server on its own.
"""

from typing import TYPE_CHECKING

from headwater.server.monitoring.pages.documents import View, timestamp

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


def _now(node: "Node") -> str:
    return timestamp(node.environment.clock.wall_ns())
