"""The actions of a script on the server in front of it.

A session belongs to one run of one script against one server. Connections opened through it are
closed, and waited for, when the script ends, so that scripts sharing a server do not meet.

Must not know: whether its server is the oracle.
"""

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tests.interop.observation import Observation
from tests.kit.server_process import (
    Finished,
    Program,
    ServerProcess,
    Setup,
    run_command,
    run_to_exit,
)
from tests.kit.wire_client import Frame, WireClient

HOST = "127.0.0.1"
HTTP_S_MAX = 5.0
HTTP_ATTEMPTS_MAX = 2000
"""The most requests of a page that a script waits for to change; each takes under 1 ms."""


class Session:
    """One script's view of one server, or of a program that has not been started."""

    def __init__(
        self,
        program: Program,
        server: ServerProcess | None,
        directory: Path,
        replicas: int = 1,
        directories: tuple[Path, ...] = (),
    ) -> None:
        self._program = program
        self._server = server
        self.directory = directory
        self.replicas = replicas
        """The servers that keep each stream of a script that does not say how many."""
        self.directories = directories or (directory,)
        """Those of all servers that may keep a stream."""
        self._clients: list[WireClient] = []

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.close()

    @property
    def server(self) -> ServerProcess:
        assert self._server is not None, "this case starts no server"
        return self._server

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.server.port}"

    def dial(self) -> WireClient:
        """A new connection on which nothing was sent or read."""
        client = WireClient(HOST, self.server.port)
        self._clients.append(client)
        return client

    def connect(self, **options: object) -> WireClient:
        """A connection past its handshake; the server has handled the CONNECT.

        Protocol 0 unless asked for, so that no second INFO lands among a script's frames.
        """
        client = self.dial()
        client.frame()
        refused = client.exchange(connect_line(**options))
        assert not refused, f"the handshake was answered {refused}"
        return client

    def handshake(self, **options: object) -> list[Frame]:
        """The frames that answer CONNECT and PING on a new connection, its first INFO left out."""
        client = self.dial()
        client.frame()
        return client.exchange(connect_line(**options))

    def get(self, path: str) -> dict[str, Any]:
        """One page of the monitoring port: status, type of content, and the body.

        A JSON body is parsed and put under the name of the page, which is where masks find it; any
        other is under `text`.
        """
        link = http.client.HTTPConnection(HOST, self.server.http_port, timeout=HTTP_S_MAX)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            text = answer.read().decode()
        finally:
            link.close()
        kind = answer.headers.get("Content-Type")
        is_json = kind == "application/json"
        name = urlsplit(path).path.strip("/") if is_json else "text"
        return {"status": answer.status, "type": kind, name: json.loads(text) if is_json else text}

    def get_when(self, path: str, ready: Callable[[Any], bool]) -> dict[str, Any]:
        """The page, asked for until it shows what the script waits for.

        A page that never does is returned as it is: the comparison will tell.
        """
        answer = self.get(path)
        for _ in range(HTTP_ATTEMPTS_MAX):
            if ready(answer):
                break
            answer = self.get(path)
        return answer

    def wait_for_file(self, pattern: str) -> Path:
        """The one file of the server's directory with such a name, once it is there and filled.

        Pages asked for in between give the server its time.
        """
        for _ in range(HTTP_ATTEMPTS_MAX):
            found = [path for path in self.directory.glob(pattern) if path.stat().st_size]
            if found:
                return found[0]
            self.get("/healthz")
        raise AssertionError(f"no file {pattern} appeared")

    def wait_until_gone(self, client: WireClient, account: str = "$G") -> None:
        """Wait until the server has forgotten a closed connection and its subscriptions.

        The close a client sees comes first; the list of the account is the last to change.
        """

        def is_gone(page: dict[str, Any]) -> bool:
            connections = page["connz"]["connections"] or ()
            return all(connection["cid"] != client.client_id for connection in connections)

        page = self.get_when(f"/connz?acc={account}", is_gone)
        assert is_gone(page), f"connection {client.client_id} is still listed in {account}"

    def run(self, *arguments: str) -> dict[str, Observation]:
        """The program run with these arguments until it ends by itself."""
        return _finished(run_command(self._program, arguments, self.directory))

    def fail_to_start(self, setup: Setup) -> dict[str, Observation]:
        """A start that is expected to end by itself."""
        return _finished(run_to_exit(self._program, setup, self.directory))


def connect_line(**options: object) -> str:
    """A CONNECT: quiet, with headers, protocol 0; `options` add to that or replace it."""
    chosen = {"verbose": False, "pedantic": False, "headers": True, "protocol": 0, **options}
    return f"CONNECT {json.dumps(chosen)}\r\n"


def _finished(done: Finished) -> dict[str, Observation]:
    return {
        "exit_code": done.exit_code,
        "stdout": done.stdout,
        "stderr": [{"level": line.level, "text": line.text} for line in done.stderr],
    }
