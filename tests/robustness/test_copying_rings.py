"""Streams that copy each other without an end cost no other client its answers."""

import json
import signal
import socket
from pathlib import Path
from typing import Any, Final

from tests.kit.server_process import HEADWATER, ServerProcess, Setup

SILENCE_S_MAX: Final = 10.0
CONFIG: Final = 'jetstream { store_dir: "store" }'


class Client:
    """A connection that asks one thing at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_S_MAX)
        self._lines = self._socket.makefile("rb")
        assert self._lines.readline().startswith(b"INFO")
        self._socket.sendall(b'CONNECT {"verbose":false}\r\nSUB reply 1\r\n')

    def ping(self) -> bytes:
        """The answer to a PING."""
        self._socket.sendall(b"PING\r\n")
        return self._lines.readline()

    def call(self, subject: str, body: object = None) -> Any:
        """The answer to a request."""
        payload = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(b"PUB %b reply %d\r\n" % (subject.encode(), len(payload)))
        self._socket.sendall(payload + b"\r\n")
        size = int(self._lines.readline().split()[-1])
        return json.loads(self._lines.read(size + 2))

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self._socket.close()


def test_a_ring_of_sources_holds_nobody_up(tmp_path: Path) -> None:
    server = ServerProcess(HEADWATER, Setup(config=CONFIG), tmp_path)
    try:
        server.wait_until_ready()
        client = Client(server.port)
        first = {"name": "US", "subjects": ["us.>"]}
        second = {"name": "ALL", "sources": [{"name": "US", "filter_subject": "us.*"}]}
        for config in (first, second):
            answer = client.call(f"$JS.API.STREAM.CREATE.{config['name']}", config)
            assert "error" not in answer, answer
        assert client.call("us.1", {})["seq"] == 1
        ring = first | {"sources": [{"name": "ALL"}]}
        assert "error" not in client.call("$JS.API.STREAM.UPDATE.US", ring)
        while client.call("$JS.API.STREAM.INFO.US")["state"]["messages"] < 100:
            pass
        newcomer = Client(server.port)
        assert newcomer.ping() == b"PONG\r\n"
        newcomer.close()
        client.close()
        server.signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
    finally:
        server.stop()
