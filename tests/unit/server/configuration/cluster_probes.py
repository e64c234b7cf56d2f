"""Ways to look at a server with a cluster from outside, to see whether a key does anything.

A probe is a function as those of `key_probes`. The server with the options in question is s1; the
others have options of their own.
"""

from typing import Any

import msgspec

from headwater.server.cluster.consensus.settings import settings_of
from headwater.server.configuration.options import Options
from headwater.server.monitoring.pages.varz import varz
from headwater.wire.peer_frames import Kind, frame
from tests.kit.cluster_world import ClusterWorld
from tests.kit.consensus_servers import ConsensusServers
from tests.kit.world import infos_in


def links(options: Options) -> object:
    """The links with a server that dials s1, and the words in which s1 refuses it."""
    world = ClusterWorld()
    world.run("s1", options)
    world.start("s2", "s1")
    refusals = [line for line in world.logs["s1"] if "[ERR]" in line]
    return sorted(world.links()), len(refusals)


def links_of_its_own(options: Options) -> object:
    """The links with a server that dials nobody."""
    world = ClusterWorld()
    world.start("s2")
    world.run("s1", options)
    return sorted(world.links())


def route_info(*keys: str) -> Any:
    """The values of these keys in the INFO that another server gets."""

    def probe(options: Options) -> object:
        world = ClusterWorld()
        world.run("s1", options)
        end = world.stranger("s1")
        (info,) = infos_in(bytes(end.unread))
        return [info.get(key) for key in keys]

    return probe


def client_info(*keys: str) -> Any:
    """The values of these keys in the INFO that a client gets while there is another server."""

    def probe(options: Options) -> object:
        world = ClusterWorld()
        world.run("s1", options)
        world.start("s2", "s1")
        client = world.client("s1")
        infos = infos_in(client.ask(b"PING\r\n") + bytes(client.connection.received))
        return [infos[0].get(key) for key in keys]

    return probe


def reported_failures(options: Options) -> object:
    """The failures to reach a configured route that are errors in the log of a minute."""
    world = ClusterWorld()
    world.run("s1", options)
    world.advance(60)
    return sum("[ERR] Error trying to connect" in line for line in world.logs["s1"])


def reported_failures_later(options: Options) -> object:
    """The failures to reach a route again that are errors in the log of a minute."""
    world = ClusterWorld()
    world.start("s2")
    world.run("s1", options)
    world.stop("s2")
    world.advance(60)
    return sum("[ERR] Error trying to connect" in line for line in world.logs["s1"])


def attempts(options: Options) -> object:
    """The attempts of a minute to reach a configured route."""
    world = ClusterWorld()
    world.run("s1", options)
    world.advance(60)
    return sum("Error trying to connect" in line for line in world.logs["s1"])


def attempts_to_a_member(options: Options) -> object:
    """The attempts of a minute to reach a server again that others had named, and has gone."""
    world = ClusterWorld()
    world.start("s2")
    world.run("s1", options)
    world.start("s3", "s2")
    world.advance(1)
    world.stop("s3")
    world.advance(60)
    return sum("Error trying to connect" in line for line in world.logs["s1"])


def crossing(options: Options) -> object:
    """The messages that cross between s1 and another server, in both directions."""
    world = ClusterWorld()
    world.run("s1", options)
    world.start("s2", "s1")
    here, there = world.client("s1"), world.client("s2")
    here.send(b"SUB a 1\r\n")
    there.send(b"SUB a 1\r\nSUB b 2\r\n")
    told_there = here.ask(b"PUB b 1\r\nx\r\n"), there.take()
    told_here = there.ask(b"PUB a 1\r\nx\r\n"), here.take()
    return told_there, told_here


def pings(options: Options) -> object:
    """The pings of a minute to another server."""
    world = ClusterWorld()
    world.run("s1", options)
    world.start("s2", "s1", ping_interval_s=1000.0)
    far = world.pipes[0][3]
    world.advance(60)
    return bytes(far.written).count(frame(Kind.PING, bytes(8)))


def silence_s(options: Options) -> object:
    """The time after which a server that is silent is given up."""
    world = ClusterWorld()
    world.run("s1", options)
    world.start("s2", "s1")
    world.lose("s2")
    seconds = 0
    while world.links() and seconds < 200:
        world.advance(1)
        seconds += 1
    return seconds


def slow_reader_s(options: Options) -> object:
    """The time after which a server that does not read is given up."""
    world = ClusterWorld()
    world.run("s1", options)
    world.start("s2", "s1")
    client, listener = world.client("s1"), world.client("s2")
    listener.send(b"SUB a 1\r\n")
    world.pipes[0][2].pause_reading()
    client.send(b"PUB a 200000\r\n%b\r\n" % bytes(200_000))
    seconds = 0
    while ("s1", "s2", "messages") in world.links() and seconds < 60:
        world.advance(1)
        seconds += 1
    return seconds


def handshake_s(options: Options) -> object:
    """The time that a stranger has before it is sent away."""
    world = ClusterWorld()
    world.run("s1", options)
    end = world.stranger("s1")
    seconds = 0
    while not end.ended and seconds < 60:
        world.advance(1)
        seconds += 1
    return seconds


def cluster_part(options: Options) -> object:
    """The cluster on /varz."""
    world = ClusterWorld()
    world.run("s1", options)
    return msgspec.json.encode(varz(world.nodes["s1"].facts).cluster)


def _agreed(options: Options) -> ConsensusServers:
    """Servers with these settings that have a leader."""
    servers = ConsensusServers("abc", settings=settings_of(options.cluster))
    servers.start()
    servers.run(20)
    return servers


def frames_of_an_idle_group(options: Options) -> object:
    """The number of payloads between servers in ten idle seconds."""
    servers = _agreed(options)
    before = servers.payloads
    servers.run(10)
    return servers.payloads - before


def silence_of_a_lost_leader_s(options: Options) -> object:
    """The whole seconds after which a leader that says nothing is replaced."""
    servers = _agreed(options)
    first = servers.leader
    servers.pause(first)
    for seconds in range(20):
        servers.run(1)
        if servers.leaders() & {*servers.names} - {first}:
            return seconds
    return None
