"""A cluster for trying things out: several servers on this machine, their ports and files.

Must not know: processes, and the look of a report.
"""

import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
CLUSTER_NAME: Final = "local"
CONFIG_FILE: Final = "server.conf"
LOG_FILE: Final = "server.log"
STORE_FOLDER: Final = "store"
# The ports of the first server; each of the others has the next one.
CLIENT_PORT: Final = 4222
ROUTE_PORT: Final = 6222
MONITORING_PORT: Final = 8222
# Both users are for this machine only: the servers listen on its loopback address.
SYSTEM_USER: Final = "sys"
APP_USER: Final = "app"


@dataclass(frozen=True)
class Ports:
    """The ports of one server: for clients, for other servers, and for monitoring."""

    client: int
    route: int
    monitoring: int


@dataclass(frozen=True)
class LocalServer:
    """One server: its name, its ports, and the folder that has all its files."""

    name: str
    ports: Ports
    folder: Path

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"nats://{HOST}:{self.ports.client}"

    @property
    def monitoring_url(self) -> str:
        """The address of the pages for monitoring."""
        return f"http://{HOST}:{self.ports.monitoring}"

    @property
    def config_path(self) -> Path:
        return self.folder / CONFIG_FILE

    @property
    def log_path(self) -> Path:
        return self.folder / LOG_FILE

    def config(self, routes: Sequence[str]) -> str:
        """The configuration; `routes` are the addresses of all servers for one another."""
        number = self.name.removeprefix("s")
        return f"""# Written by `headwater cluster run`, at every start.
server_name: {self.name}
listen: "{HOST}:{self.ports.client}"
http: "{HOST}:{self.ports.monitoring}"
server_tags: ["zone:{number}"]
jetstream {{ store_dir: {json.dumps(str(self.folder / STORE_FOLDER))} }}
cluster {{
    name: {CLUSTER_NAME}
    listen: "{HOST}:{self.ports.route}"
    routes: {json.dumps(list(routes))}
}}
accounts {{
    SYS {{ users: [ {{ user: {SYSTEM_USER}, password: {SYSTEM_USER} }} ] }}
    APP {{ jetstream: enabled, users: [ {{ user: {APP_USER}, password: {APP_USER} }} ] }}
}}
system_account: SYS
no_auth_user: {APP_USER}
"""


@dataclass(frozen=True)
class LocalCluster:
    """The servers of a cluster on this machine."""

    servers: tuple[LocalServer, ...]

    @classmethod
    def of(cls, folder: Path, ports: Sequence[Ports]) -> "LocalCluster":
        """One server for each set of ports, in folders below `folder`."""
        names = [f"s{number}" for number in range(1, len(ports) + 1)]
        # A server whose working folder is another one still finds its files.
        absolute = folder.absolute()
        servers = (
            LocalServer(name, each, absolute / name)
            for name, each in zip(names, ports, strict=True)
        )
        return cls(tuple(servers))

    @property
    def urls(self) -> str:
        """The addresses of all servers for clients, as one setting."""
        return ",".join(server.url for server in self.servers)

    def write_configs(self) -> None:
        """Write the configuration of each server into its folder. Raises OSError."""
        routes = [f"nats://{HOST}:{server.ports.route}" for server in self.servers]
        for server in self.servers:
            server.folder.mkdir(parents=True, exist_ok=True)
            server.config_path.write_text(server.config(routes))


def consecutive_ports(count: int, client_port: int) -> list[Ports]:
    """The ports of `count` servers, the first of which has `client_port` for clients.

    The other ports have the same distance from their usual numbers.
    """
    shift = client_port - CLIENT_PORT
    return [
        Ports(CLIENT_PORT + number, ROUTE_PORT + number, MONITORING_PORT + number)
        for number in range(shift, shift + count)
    ]


def free_ports(count: int) -> list[Ports]:
    """Ports that nobody listens on, for `count` servers."""
    with ExitStack() as stack:
        # All are taken before any is given back, so that no port is found twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(3 * count)]
        for each in sockets:
            each.bind((HOST, 0))
        numbers = [each.getsockname()[1] for each in sockets]
    return [Ports(*numbers[place : place + 3]) for place in range(0, 3 * count, 3)]


def ports_in_use(ports: Sequence[Ports]) -> list[int]:
    """The ports that a program of this machine listens on."""
    numbers = [number for each in ports for number in (each.client, each.route, each.monitoring)]
    return [number for number in numbers if not is_free(number)]


def is_free(port: int) -> bool:
    """Whether a server could listen on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
