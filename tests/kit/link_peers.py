"""The other ends of a connection: server processes, a responder, a peer that plays a part."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.client.link.connection import Connection
from headwater.client.link.errors import LinkError, NoRespondersError
from headwater.client.link.login import Login
from headwater.wire.frames import publish_frame
from tests.kit.server_process import Program, ServerProcess, Setup

WAIT_S_MAX = 20.0
INFO = b'INFO {"server_id":"x","version":"2.15.1","headers":true,"max_payload":1048576}\r\n'


@contextlib.contextmanager
def running(
    program: Program, directory: Path, config: str = "", port: int = -1
) -> Iterator[ServerProcess]:
    """A server of its own in `directory`, on a free port unless one is given."""
    directory.mkdir(exist_ok=True)
    flags = ("-a", "127.0.0.1", "-p", str(port), "-n", "link")
    server = ServerProcess(program, Setup(config, flags), directory)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def url_of(server: ServerProcess) -> str:
    return f"nats://127.0.0.1:{server.port}"


def settle(connection: Connection) -> None:
    """Return when the server has acted on all that was sent: it answers in order."""
    with contextlib.suppress(NoRespondersError):
        connection.request("nobody.listens.here")


class Responder:
    """Answers what is sent to a subject, until it is left.

    With the same headers and payload, unless it is given another payload to answer with. Before
    each answer `before` is called with the number of the request, from 1 on.
    """

    def __init__(
        self,
        login: Login,
        subject: str,
        before: Callable[[int], None] = lambda number: None,
        payload: bytes | None = None,
    ) -> None:
        self._connection = Connection(login)
        self._sid = self._connection.subscribe(subject)
        settle(self._connection)
        self._before = before
        self._payload = payload
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # If the server is gone, so is what the thread waits for.
        login = replace(self._connection.login, retries=0)
        with contextlib.suppress(LinkError), Connection(login) as other:
            other.send(publish_frame(self._end.encode(), b"", b"", b""))
            settle(other)
        self._thread.join(WAIT_S_MAX)
        self._connection.close()

    @property
    def _end(self) -> str:
        return f"end.{id(self)}"

    def _serve(self) -> None:
        connection, taken = self._connection, 0
        connection.subscribe(self._end)
        with contextlib.suppress(LinkError):
            while True:
                arrived = connection.receive(WAIT_S_MAX)
                for sid, reply, header, payload in zip(
                    arrived.sids, arrived.replies, arrived.headers, arrived.payloads, strict=True
                ):
                    if sid != self._sid:
                        return
                    taken += 1
                    self._before(taken)
                    answer = payload if self._payload is None else self._payload
                    connection.send(publish_frame(reply, b"", header, answer))


class ScriptedPeer:
    """A listener that plays the same part to everyone who connects.

    The part is a list of steps: bytes to send, or text to wait for from the client. The bytes
    of all clients are kept in `heard`.
    """

    def __init__(self, *steps: bytes | str, port: int = 0) -> None:
        self._steps = steps
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self.visits = 0
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Closing alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_S_MAX)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            visitor.settimeout(WAIT_S_MAX)
            self.visits += 1
            with visitor, contextlib.suppress(OSError):
                self._play(visitor)

    def _play(self, visitor: socket.socket) -> None:
        said = b""
        for step in self._steps:
            if isinstance(step, bytes):
                visitor.sendall(step)
                continue
            while step.encode() not in said:
                data = visitor.recv(1 << 16)
                if not data:
                    return
                said += data
                self.heard += data
            said = said.partition(step.encode())[2]
