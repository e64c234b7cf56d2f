"""A server whose store is put back to an earlier state while its machine runs on notices it.

A real process is killed, and the folder of its store is put back as it was copied before. The mark
in the runtime folder tells that sequences were given since.
"""

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.server_process import HEADWATER, ServerProcess, Setup
from tests.kit.strict_frames import parse

CONFIG: Final = 'jetstream { store_dir: "store", runtime_dir: "runtime", sync_interval: %s }'
SILENCE_S_MAX: Final = 20.0
PONG: Final = b"PONG\r\n"
STREAM: Final = {"name": "S", "subjects": ["s"]}


class Client:
    """A connection that sends one request at a time."""

    def __init__(self, server: ServerProcess) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=SILENCE_S_MAX)
        self._socket.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB reply 1\r\n')
        self._until(b"\r\n")

    def _until(self, end: bytes) -> bytes:
        received = b""
        while not received.endswith(end):
            more = self._socket.recv(65536)
            assert more, f"the server closed the connection after {received!r}"
            received += more
        return received

    def call(self, subject: str, body: object = None) -> Any:
        """The answer to a request."""
        payload = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(f"PUB {subject} reply {len(payload)}\r\n".encode() + payload + b"\r\n")
        (answer,) = parse(self._until(b"}\r\n"))
        return json.loads(answer.payload)

    def publish(self, count: int) -> list[int]:
        """The sequences of messages that are published one by one."""
        return [self.call("s")["seq"] for _ in range(count)]

    def close(self) -> None:
        self._socket.close()


class Place:
    """The folder of a server that is started again and again."""

    def __init__(self, folder: Path, sync_interval: str) -> None:
        self.folder = folder
        self._setup = Setup(CONFIG % sync_interval)

    @contextmanager
    def running(self, is_killed: bool = True) -> Iterator[tuple[ServerProcess, Client]]:
        """A server and a client; the server is killed in the end, or stopped in order."""
        server = ServerProcess(HEADWATER, self._setup, self.folder)
        try:
            server.wait_until_ready()
            client = Client(server)
            yield server, client
            client.close()
            if is_killed:
                server.kill()
        finally:
            server.stop()

    def copy_store(self) -> None:
        """Keep a copy of the store as it is."""
        shutil.copytree(self.folder / "store", self.folder / "copy")

    def put_back(self) -> None:
        """Put the copy in the place of the store."""
        shutil.rmtree(self.folder / "store")
        (self.folder / "copy").rename(self.folder / "store")


@pytest.mark.parametrize("sync_interval", ["2m", "always"])
def test_a_store_that_is_put_back_gives_no_sequence_twice(
    tmp_path: Path, sync_interval: str
) -> None:
    place = Place(tmp_path, sync_interval)
    with place.running() as (_, client):
        client.call("$JS.API.STREAM.CREATE.S", STREAM)
        assert client.publish(5) == [1, 2, 3, 4, 5]
        place.copy_store()
        assert client.publish(5) == [6, 7, 8, 9, 10]
    place.put_back()
    with place.running() as (server, client):
        server.wait_for_log("given out")
        assert client.publish(1)[0] > 10
        assert client.call("$JS.API.STREAM.INFO.S")["state"]["lost"]


def test_a_store_that_is_put_back_beyond_a_stop_gives_no_sequence_twice(tmp_path: Path) -> None:
    place = Place(tmp_path, "2m")
    with place.running() as (_, client):
        client.call("$JS.API.STREAM.CREATE.S", STREAM)
        client.publish(5)
    with place.running(is_killed=False) as (_, client):
        pass
    place.copy_store()
    with place.running(is_killed=False) as (_, client):
        assert client.publish(1) == [6]
    place.put_back()
    with place.running() as (server, client):
        server.wait_for_log("put back to an earlier state")
        assert client.publish(1)[0] > 6


def test_a_kill_leaves_no_gap(tmp_path: Path) -> None:
    place = Place(tmp_path, "2m")
    with place.running() as (_, client):
        client.call("$JS.API.STREAM.CREATE.S", STREAM)
    sequences = []
    for _ in range(3):
        with place.running() as (_, client):
            sequences += client.publish(4)
    assert sequences == [*range(1, 13)]


def test_a_server_whose_mark_is_gone_too_notices_nothing(tmp_path: Path) -> None:
    """docs/consistency.md says so: one server has nothing else to remember by."""
    place = Place(tmp_path, "2m")
    with place.running() as (_, client):
        client.call("$JS.API.STREAM.CREATE.S", STREAM)
        client.publish(5)
        place.copy_store()
        assert client.publish(1) == [6]
    place.put_back()
    shutil.rmtree(tmp_path / "runtime")
    with place.running() as (_, client):
        assert client.publish(1) == [6]
