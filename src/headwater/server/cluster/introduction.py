"""The introduction of a server to another one: INFO, as it is made and as it is checked.

A server passes on to all others of the cluster what one of them says of itself. An introduction
that they would refuse is therefore refused by the first server that reads it: otherwise one server
could end the links between the others.
"""

from collections.abc import Callable

from headwater import __version__
from headwater.server.cluster.addresses import joined_address, parsed_address
from headwater.server.configuration.options import Options
from headwater.server.configuration.reading import split_host_port
from headwater.server.configuration.server_names import name_fault
from headwater.wire.peer_frames import MalformedFrame
from headwater.wire.peer_info import LINK_VERSION, PeerInfo


def introduction_of(
    server_id: str,
    server_name: str,
    cluster_name: str,
    is_name_made_up: bool,
    port: int,
    is_lame_duck: bool,
    options: Options,
    client_urls: Callable[[], tuple[str, ...]],
) -> PeerInfo:
    """INFO of this server to others; `port` is the one that it listens on for them."""
    cluster = options.cluster
    host, port = _advertised(cluster.advertise, cluster.host, port)
    hides = cluster.no_advertise or is_lame_duck
    return PeerInfo(
        server_id=server_id,
        server_name=server_name,
        host=host,
        port=port,
        headers=not options.no_header_support,
        auth_required=bool(cluster.username),
        max_payload=options.max_payload,
        cluster=cluster_name,
        cluster_dynamic=is_name_made_up,
        connect_urls=() if hides else client_urls(),
        ldm=is_lame_duck,
        jetstream=options.jetstream.enabled,
        domain=options.jetstream.domain,
        headwater=__version__,
        link=LINK_VERSION,
    )


def _advertised(advertise: str, host: str, port: int) -> tuple[str, int]:
    """The address that other servers are told: that of `advertise`, as far as it has one."""
    address = split_host_port(advertise)
    if address is not None:
        return address[0], int(address[1])
    return (advertise.strip("[]"), port) if advertise else (host, port)


def check_introduction(info: PeerInfo) -> None:
    """Raise MalformedFrame for INFO that is not passed on to other servers."""
    if not info.server_id or not info.server_name:
        raise MalformedFrame("INFO of a server has no id or no name")
    named = {"id": info.server_id, "name": info.server_name, "cluster name": info.cluster}
    for title, name in named.items():
        if fault := name_fault(name):
            raise MalformedFrame(f"the {title} of a server {fault}")
    # A server that listens everywhere has no host, and is known by the one it connects from.
    if parsed_address(joined_address(info.host or "any", info.port)) is None:
        raise MalformedFrame("INFO of a server has no address that others can connect to")
