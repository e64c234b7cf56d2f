"""A client that may publish little forges nothing: a real server, and every byte of its victim.

tests/properties/test_injection.py tries every text of every request in one process. Here is the
worst of them once more, from socket to socket.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.server_process import HEADWATER, ServerProcess, Setup
from tests.kit.strict_frames import Frame, parse

CONFIG: Final = """
jetstream { store_dir: "store" }
authorization {
  users: [
    { user: victim, password: v }
    {
      user: attacker, password: a
      permissions { publish: ["$JS.API.>", "attack.>"], subscribe: ["reply", "again.>"] }
    }
  ]
}
"""
FORGED_MESSAGE: Final = "x 1 2\r\nhi\r\nMSG payments.approve 1 5\r\npwned\r\nMSG y"
FORGED_INFO: Final = 'x 1 0\r\n\r\nINFO {"connect_urls":["203.0.113.1:4222"]}\r\nMSG y'
SILENCE_S_MAX: Final = 10.0
PONG: Final = b"PONG\r\n"


class Client:
    """A connection of which every byte is kept until it is parsed."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=SILENCE_S_MAX)
        self._socket.settimeout(SILENCE_S_MAX)
        said = {"user": user, "pass": user[0], "verbose": False, "headers": True}
        greeting = self.exchange(b"CONNECT %b\r\n" % json.dumps(said).encode())
        assert [frame.kind for frame in greeting] == ["INFO"]

    def exchange(self, data: bytes) -> list[Frame]:
        """Send, and take every frame that comes before the server has answered a PING."""
        self._socket.sendall(data + b"PING\r\n")
        received = b""
        while not received.endswith(PONG):
            more = self._socket.recv(65536)
            assert more, f"the server closed the connection after {received!r}"
            received += more
        return parse(received[: -len(PONG)])

    def call(self, subject: str, body: object) -> Any:
        """The answer to a request of the API."""
        payload = json.dumps(body).encode()
        line = f"PUB $JS.API.{subject} reply {len(payload)}\r\n".encode()
        (answer,) = self.exchange(b"SUB reply 1\r\nUNSUB 1 1\r\n" + line + payload + b"\r\n")
        return json.loads(answer.payload)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(HEADWATER, Setup(CONFIG), tmp_path)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.stop()


@pytest.mark.parametrize("forged", [FORGED_MESSAGE, FORGED_INFO, " ", "a\tb"])
def test_a_republish_forges_no_frame_for_another_client(server: ServerProcess, forged: str) -> None:
    stream = {"name": "A", "subjects": ["attack.>"], "storage": "memory"}
    with (
        closing(Client(server, "attacker")) as attacker,
        closing(Client(server, "victim")) as victim,
    ):
        victim.exchange(b"SUB > 1\r\n")
        for destination in (f"again.{forged}", f"again.{forged}.>"):
            source = ">" if destination.endswith(">") else "attack.a"
            republish = {"src": source, "dest": destination}
            refused = attacker.call("STREAM.CREATE.A", stream | {"republish": republish})
            assert refused["error"] == {
                "code": 500,
                "err_code": 10052,
                "description": "stream configuration for republish with transform "
                f"from '{source}' to '{destination}' not valid",
            }
        republish = {"src": ">", "dest": "again.>"}
        assert "error" not in attacker.call("STREAM.CREATE.A", stream | {"republish": republish})
        victim.exchange(b"")
        attacker.exchange(b"PUB attack.a 5\r\nhello\r\n")
        heard = victim.exchange(b"")
        assert [frame.subject for frame in heard] == [b"attack.a", b"again.attack.a"]
