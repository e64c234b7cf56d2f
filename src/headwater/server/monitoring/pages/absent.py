"""Documents about other clusters and leaf nodes, which this server does not know yet.

nats-server answers these requests whether the feature is configured or not. An operator's tool that
asks for all of them gets the documents of a nats-server on its own.
"""

from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import View, timestamp


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


def gatewayz(facts: Facts) -> Gatewayz:
    """No gateways."""
    return Gatewayz(
        server_id=facts.server_id,
        now=timestamp(facts.now_ns),
        outbound_gateways={},
        inbound_gateways={},
    )


def leafz(facts: Facts) -> Leafz:
    """No leaf nodes."""
    return Leafz(server_id=facts.server_id, now=timestamp(facts.now_ns), leafnodes=0, leafs=[])
