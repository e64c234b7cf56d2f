"""Three servers of one kind that know each other, and the actions of a script on them.

A subscription on one server is known to the others a moment later. `spread` waits for that moment:
interest travels in order, so a marker that was subscribed to last is heard last.

Must not know: which kind of server it is, and what any script compares.
"""

import http.client
import itertools
import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.interop.session import HOST, HTTP_S_MAX, connect_line
from tests.kit.server_process import Program, ServerProcess, Setup
from tests.kit.stream_servers import free_port
from tests.kit.wire_client import Frame, WireClient

NAMES = ("s1", "s2", "s3")
PATIENCE_S: Final = 60.0
"""A server that was not there yet is dialled again after a second, also by nats-server, and later
on a machine that does something else meanwhile."""

_CONFIG = """
server_name: {name}
cluster {{ name: trio, listen: "{host}:{port}", routes: [{routes}]{more} }}
accounts {{
    SYS {{ users [ {{ user: sys, password: sys }} ] }}
    A {{ users [ {{ user: a, password: a }} ] }}
    B {{ users [ {{ user: b, password: b }},
        {{ user: shy, password: b, permissions {{ publish {{ deny: "no.>" }} }} }} ] }}
}}
system_account: SYS
no_auth_user: a
"""

_markers = itertools.count(1)


class Trio:
    """Three running servers."""

    def __init__(self, program: Program, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self.route_ports = [free_port() for _ in NAMES]
        self.servers: list[ServerProcess] = []
        self._clients: list[WireClient] = []

    # --- servers -------------------------------------------------------------------------------

    def config(self, number: int, more: str = "", routes: str = "") -> str:
        """The configuration of a server, whose one route is the first server."""
        known = routes or f'"nats://{HOST}:{self.route_ports[0]}"'
        return _CONFIG.format(
            name=NAMES[number],
            host=HOST,
            port=self.route_ports[number],
            routes=known,
            more=more,
        )

    def launch(self, number: int) -> ServerProcess:
        """Start one server."""
        directory = self._directory / NAMES[number]
        directory.mkdir(exist_ok=True)
        flags = ("-a", HOST, "-p", "-1", "-m", "-1")
        return ServerProcess(self._program, Setup(self.config(number), flags), directory)

    def start(self) -> None:
        """Start all servers, and wait until all know each other."""
        self.servers = [self.launch(number) for number in range(len(NAMES))]
        for server in self.servers:
            server.wait_until_ready()
        self.wait_until_whole()

    def stop(self) -> None:
        """End everything."""
        for server in self.servers:
            server.stop()

    def remotes(self, number: int) -> list[str]:
        """The names of the servers that a server has routes to."""
        page = self.get(number, "/routez")
        return sorted({route["remote_name"] for route in page["routes"]})

    def links_to(self, number: int) -> set[tuple[str, int]]:
        """The connections that others have made to a server, by their names and ids."""
        routes = self.get(number, "/routez")["routes"]
        return {(each["remote_name"], each["rid"]) for each in routes if not each["did_solicit"]}

    def links_from(self, *numbers: int) -> int:
        """The number of connections that these servers have made to configured routes."""
        routes = [route for number in numbers for route in self.get(number, "/routez")["routes"]]
        return sum(route["did_solicit"] and route["is_configured"] for route in routes)

    def wait_until_whole(self) -> None:
        for number, name in enumerate(NAMES):
            others = [other for other in NAMES if other != name]
            self.wait_until(lambda n=number, o=others: self.remotes(n) == o)

    def wait_until(self, holds: Any) -> None:
        """Ask until something holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"it never held with {self._program.name}"

    def get(self, number: int, path: str) -> Any:
        """A page of the monitoring port."""
        link = http.client.HTTPConnection(HOST, self.servers[number].http_port, timeout=HTTP_S_MAX)
        try:
            link.request("GET", path)
            return json.loads(link.getresponse().read())
        finally:
            link.close()

    def reload(self, number: int, config: str, last: str) -> list[str]:
        """The lines of the log about a reload, up to the one that holds `last`."""
        server = self.servers[number]
        before = len(server.log)
        server.rewrite_config(config)
        server.signal(signal.SIGHUP)
        server.wait_for_log(last, after=before)
        return [line.text for line in server.log[before:] if "eload" in line.text]

    def stranger(self, number: int, said: str) -> list[str]:
        """The kinds and texts of the answers on the port for other servers."""
        with socket.create_connection((HOST, self.route_ports[number]), timeout=5) as link:
            link.sendall(said.encode())
            data = b""
            while chunk := link.recv(65536):
                data += chunk
        lines = data.decode().split("\r\n")
        return [re.sub(r"^INFO .*", "INFO", line) for line in lines if line]

    # --- clients -------------------------------------------------------------------------------

    def connect(self, number: int, **options: object) -> WireClient:
        """A client of a server, past its handshake."""
        client = WireClient(HOST, self.servers[number].port)
        self._clients.append(client)
        client.frame()
        refused = client.exchange(connect_line(**{"no_responders": True, **options}))
        assert not refused, refused
        return client

    def info(self, number: int) -> dict[str, Any]:
        """The first INFO of a server to a client."""
        client = WireClient(HOST, self.servers[number].port)
        self._clients.append(client)
        frame = client.frame()
        assert isinstance(frame, dict)
        found: dict[str, Any] = frame["INFO"]
        return found

    def subscribe(self, client: WireClient, *lines: str) -> None:
        """Send SUB lines, and wait until the other servers know of them."""
        mark = f"mark.{next(_markers)}"
        client.exchange("".join(f"{line}\r\n" for line in (*lines, f"SUB {mark} {mark}")))
        for number in range(len(NAMES)):
            self._wait_for_mark(client, number, mark)
        client.exchange(f"UNSUB {mark}\r\n")

    def _wait_for_mark(self, client: WireClient, number: int, mark: str) -> None:
        outside = WireClient(HOST, self.servers[number].port)
        outside.frame()
        user = getattr(client, "user", "a")
        outside.exchange(connect_line(user=user, **{"pass": user}))
        deadline = time.monotonic() + PATIENCE_S
        is_heard = False
        while not is_heard:
            assert time.monotonic() < deadline, f"{mark} was never heard"
            outside.exchange(f"PUB {mark} 0\r\n\r\n")
            is_heard = any(str(frame).startswith(f"MSG {mark}") for frame in client.exchange())
        outside.close()
        # Probes may still be on their way.
        while any(str(frame).startswith(f"MSG {mark}") for frame in client.exchange()):
            pass

    def heard(self, client: WireClient, count: int) -> list[Frame]:
        """The next `count` frames, and what is there already behind them."""
        return [*client.take(count), *client.exchange()]

    def close_clients(self) -> None:
        """Close the clients of one script."""
        for client in self._clients:
            client.close()
        self._clients.clear()


@contextmanager
def trio(program: Program, directory: Path) -> Iterator[Trio]:
    """Three servers that know each other."""
    running = Trio(program, directory)
    try:
        running.start()
        yield running
    finally:
        running.stop()
