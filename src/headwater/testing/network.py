"""The simulated network: hosts, the links between them, and everything that can go wrong.

It stands behind the loop's `create_server` and `create_connection`. A connection belongs to the
hosts whose processes made it; every pair of hosts has one link each way. Faults here are calls that
take effect at once and last until undone (`heal`, `slow` with defaults, `accept`);
`headwater.testing.faults` says which of them a program can survive.
"""

import asyncio
import errno
import os
import random
import socket as real_socket
from collections.abc import Callable
from typing import Any, Final, Literal

from headwater.base.invariants import check
from headwater.testing.host import Host
from headwater.testing.loop import CURRENT_PROCESS, SimLoop
from headwater.testing.tcp import Connection, Control, Link, NetworkSettings, Socket
from headwater.testing.trace import Trace
from headwater.testing.transport import SimServer, SimTransport

Direction = Literal["both", "forward", "backward"]
"""Of a pair (a, b): both ways, from a to b, from b to a."""

_LOOPBACK: Final = "127.0.0.1"
_LOOPBACK_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_WILDCARDS: Final = frozenset(("", "0.0.0.0", "::"))
_PARTITION: Final = "partition"
_NO_POWER: Final = "no power at "


def _os_error(kind: type[OSError], code: int, where: str) -> OSError:
    return kind(code, f"{os.strerror(code)}: {where}")


class _Attempt:
    """A connect that has not been answered."""

    __slots__ = ("address", "answer", "client", "port", "process", "server")

    def __init__(
        self,
        client: Host,
        server: Host,
        address: str,
        port: int,
        answer: "asyncio.Future[Connection]",
    ) -> None:
        self.client = client
        self.process = client.process
        self.server = server
        self.address = address
        self.port = port
        self.answer = answer

    def abandoned(self) -> bool:
        return self.process.dead or self.answer.done()

    def fail(self, kind: type[OSError], code: int) -> None:
        if not self.abandoned():
            self.answer.set_exception(_os_error(kind, code, f"{self.server.name}:{self.port}"))


class SimNetwork:
    """Hosts, links and connections of one world."""

    def __init__(
        self, loop: SimLoop, rng: random.Random, trace: Trace, settings: NetworkSettings
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.settings = settings
        self._hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._connections: dict[int, Connection] = {}
        self._connection_count = 0

    # Hosts and links

    def add_host(self, host: Host) -> None:
        """Connect a host to the network."""
        check(host.name not in self._hosts, f"there is a host {host.name} already")
        self._hosts[host.name] = host
        self._by_address[host.address] = host

    def resolve(self, name: str) -> str:
        """The address of a host name. Raises a resolver's error."""
        if name in _LOOPBACK_NAMES:
            return _LOOPBACK
        host = self._hosts.get(name) or self._by_address.get(name)
        if host is None:
            text = f"Name or service not known: {name}"
            raise real_socket.gaierror(real_socket.EAI_NONAME, text)
        return host.address

    def here(self) -> Host:
        """The host whose process is calling."""
        process = CURRENT_PROCESS.get(self.loop.outside)
        return self._hosts[process.name]

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another."""
        link = self._links.get((source, target))
        if link is None:
            check(source in self._hosts and target in self._hosts, f"no {source} or {target}")
            settings = self.settings
            if source == target:
                link = Link(source, target, settings.loopback_latency_s, 0.0)
            else:
                link = Link(source, target, settings.latency_s, settings.jitter_s)
            for name in (source, target):
                if not self._hosts[name].powered:
                    link.blocks[_NO_POWER + name] = None
            self._links[source, target] = link
        return link

    def connections(self, a: str | None = None, b: str | None = None) -> list[Connection]:
        """Living connections in order of age: all, those of host `a`, or those of a pair."""
        wanted = {name for name in (a, b) if name is not None}
        return [
            connection
            for connection in self._connections.values()
            if wanted <= {connection.client_host, connection.server_host}
        ]

    # Listening

    async def create_server(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: Any,
        port: Any,
        *,
        ssl: object = None,
        start_serving: bool = True,
        **options: Any,
    ) -> SimServer:
        """Bind a port of the calling host."""
        if ssl is not None:
            raise NotImplementedError("no TLS in the simulated world; test it on real sockets")
        here = self.here()
        if isinstance(host, (list, tuple)):
            host = host[0]
        address = "0.0.0.0" if host is None or host in _WILDCARDS else self.resolve(host)
        if address not in ("0.0.0.0", _LOOPBACK, here.address):
            raise _os_error(OSError, errno.EADDRNOTAVAIL, f"{host} on {here.name}")
        number = int(port or 0) or here.free_port()
        if number in here.listeners:
            raise _os_error(OSError, errno.EADDRINUSE, f"{here.name}:{number}")
        server = SimServer(self.loop, self, here.process, (address, number), factory)
        here.listeners[number] = server
        self._note("listen", f"{here.name}:{number}")
        if start_serving:
            await server.start_serving()
        return server

    def unbind(self, server: SimServer) -> None:
        """Free the port of a closed server."""
        host = self._hosts[server.process.name]
        if host.listeners.get(server.name[1]) is server:
            del host.listeners[server.name[1]]
            self._note("unlisten", f"{host.name}:{server.name[1]}")

    # Connecting

    async def create_connection(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: Any,
        port: Any,
        *,
        ssl: object = None,
        **options: Any,
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Connect from the calling host."""
        if ssl:
            raise NotImplementedError("no TLS in the simulated world; test it on real sockets")
        connection = await self._connect(str(host), int(port))
        protocol = factory()
        waiter: asyncio.Future[None] = self.loop.create_future()
        transport = SimTransport(self.loop, connection.client, protocol, waiter=waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def _connect(self, name: str, port: int) -> Connection:
        client = self.here()
        address = self.resolve(name)
        server = client if address == _LOOPBACK else self._by_address[address]
        answer: asyncio.Future[Connection] = self.loop.create_future()
        attempt = _Attempt(client, server, address, port, answer)
        self._note("connect", f"{client.name}>{server.name}:{port}")
        limit_s = self.loop.now_s() + self.settings.connect_limit_s
        timer = self.loop.call_kernel_at(limit_s, attempt.fail, TimeoutError, errno.ETIMEDOUT)
        self._packet(self.link(client.name, server.name), self._request_arrived, attempt)
        try:
            return await answer
        finally:
            timer.cancel()

    def _packet(self, link: Link, arrived: Callable[..., object], *args: Any) -> None:
        """Send a small packet; behind a partition it waits to be repeated."""
        if link.blocks:
            link.held.append(lambda: self._packet(link, arrived, *args))
        else:
            delay_s = link.delay_s(self.rng)
            self.loop.call_kernel_at(self.loop.now_s() + delay_s, arrived, *args)

    def _request_arrived(self, attempt: _Attempt) -> None:
        back = self.link(attempt.server.name, attempt.client.name)
        if self._listener(attempt.server, attempt.address, attempt.port) is None:
            self._note("refuse", f"{attempt.client.name}>{attempt.server.name}:{attempt.port}")
            self._packet(back, attempt.fail, ConnectionRefusedError, errno.ECONNREFUSED)
        else:
            self._packet(back, self._request_answered, attempt)

    def _listener(self, host: Host, address: str, port: int) -> SimServer | None:
        server = host.listeners.get(port)
        if server is None or host.refusing or not server.is_serving():
            return None
        return server if server.name[0] in ("0.0.0.0", address) else None

    def _request_answered(self, attempt: _Attempt) -> None:
        if attempt.abandoned():
            return
        client, server = attempt.client.name, attempt.server.name
        source = _LOOPBACK if attempt.address == _LOOPBACK else attempt.client.address
        self._connection_count += 1
        connection = Connection(
            self,
            self._connection_count,
            (self.link(client, server), self.link(server, client)),
            ((source, attempt.client.free_port()), (attempt.address, attempt.port)),
            self._established,
            self._over,
        )
        self._connections[connection.number] = connection
        self._note("established", f"#{connection.number} {client}>{server}:{attempt.port}")
        connection.client.lane_out.control(Control.ESTABLISHED)
        attempt.answer.set_result(connection)

    def _established(self, connection: Connection) -> None:
        host = self._hosts[connection.server_host]
        server = self._listener(host, connection.server.local[0], connection.port)
        if server is None:
            connection.server.lane_out.control(Control.RST)
            connection.server.close()
        else:
            server.accept(connection.server)

    def _over(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)

    # Faults

    def partition(self, a: str, b: str, direction: Direction = "both") -> None:
        """Let nothing pass between two hosts, or in one direction only."""
        self._note("fault", f"partition {a} {b} {direction}")
        for link in self._directed(a, b, direction):
            self._block(link, _PARTITION)

    def isolate(self, host: str) -> None:
        """Partition a host from every other."""
        for name in self._hosts:
            if name != host:
                self.partition(host, name)

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """End partitions: all of them, those of host `a`, or those of a pair."""
        self._note("fault", f"heal {a or '*'} {b or '*'}")
        wanted = {name for name in (a, b) if name is not None}
        for link in list(self._links.values()):
            if wanted <= {link.source, link.target}:
                self._unblock(link, _PARTITION)

    def slow(
        self,
        a: str,
        b: str,
        *,
        latency_s: float | None = None,
        jitter_s: float | None = None,
        bytes_per_s: float | None = None,
        direction: Direction = "both",
    ) -> None:
        """Set the speed of a link; a value that is not given becomes the default again."""
        settings = self.settings
        self._note("fault", f"slow {a} {b} {direction} {latency_s} {jitter_s} {bytes_per_s}")
        for link in self._directed(a, b, direction):
            link.latency_s = settings.latency_s if latency_s is None else latency_s
            link.jitter_s = settings.jitter_s if jitter_s is None else jitter_s
            link.bytes_per_s = bytes_per_s

    def cut(self, connection: Connection) -> None:
        """Lose a connection: both ends get a prefix of the bytes under way, then a reset."""
        self._note("fault", f"cut #{connection.number}")
        connection.sever()

    def cut_after(
        self, connection: Connection, size: int, direction: Direction = "forward"
    ) -> None:
        """Lose a connection once `size` more bytes were sent; forward is towards the server."""
        self._note("fault", f"cut #{connection.number} after {size} {direction}")
        if direction != "backward":
            connection.client.lane_out.cut_after = size
        if direction != "forward":
            connection.server.lane_out.cut_after = size

    def half_open(self, connection: Connection, loser: str) -> None:
        """Lose a connection at one host only; the other learns when it next sends."""
        check(loser in (connection.client_host, connection.server_host), f"not an end: {loser}")
        self._note("fault", f"half-open #{connection.number} lost at {loser}")
        end = connection.client if loser == connection.client_host else connection.server
        end.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def refuse(self, host: str) -> None:
        """Refuse new connections to a host; existing ones stay."""
        self._note("fault", f"refuse {host}")
        self._hosts[host].refusing = True

    def accept(self, host: str) -> None:
        """End `refuse`."""
        self._note("fault", f"accept {host}")
        self._hosts[host].refusing = False

    # Effects of the death of a host, called by the world

    def process_killed(self, host: Host) -> None:
        """Close the sockets of a killed process, as its kernel does."""
        host.process_died()
        for end in self._ends(host):
            end.orphan()
            end.close()

    def power_lost(self, host: Host) -> None:
        """Drop the sockets of a host, and block its links until power is back."""
        host.process_died()
        host.powered = False
        for end in self._ends(host):
            end.orphan()
            end.vanish()
        for link in list(self._links.values()):
            if host.name in (link.source, link.target):
                self._block(link, _NO_POWER + host.name)

    def power_restored(self, host: Host) -> None:
        """Unblock the links of a host, which has lost its connections."""
        host.powered = True
        for link in list(self._links.values()):
            self._unblock(link, _NO_POWER + host.name)

    def end(self) -> None:
        """Stop all transports, at the end of the world."""
        for host in self._hosts.values():
            for end in self._ends(host):
                end.orphan()

    # Inner parts

    def _ends(self, host: Host) -> list[Socket]:
        ends = []
        for connection in self.connections(host.name):
            if connection.client_host == host.name:
                ends.append(connection.client)
            if connection.server_host == host.name:
                ends.append(connection.server)
        return ends

    def _directed(self, a: str, b: str, direction: Direction) -> list[Link]:
        check(a != b, "a host cannot be parted from itself")
        links = []
        if direction != "backward":
            links.append(self.link(a, b))
        if direction != "forward":
            links.append(self.link(b, a))
        return links

    def _block(self, link: Link, reason: str) -> None:
        if reason in link.blocks:
            return
        link.blocks[reason] = None
        for lane in list(link.lanes):
            lane.blocked()

    def _unblock(self, link: Link, reason: str) -> None:
        if reason not in link.blocks:
            return
        del link.blocks[reason]
        if link.blocks:
            return
        held, link.held = link.held, []
        for lane in list(link.lanes):
            lane.unblocked(self._recovery_s(link))
        for send_again in held:
            self.loop.call_kernel_at(self._recovery_s(link), send_again)

    def _recovery_s(self, link: Link) -> float:
        wait_s = self.settings.recovery_s * self.rng.random()
        return self.loop.now_s() + wait_s + link.delay_s(self.rng)

    def _note(self, kind: str, detail: str) -> None:
        self.trace.note(self.loop.now_s(), kind, detail)
