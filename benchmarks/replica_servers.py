"""Three servers of one kind that keep streams together, of which some are stopped and started."""

import json
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster_scenarios import COUNT, StoredServer, free_port
from benchmarks.servers import BenchmarkError, Server, running
from benchmarks.wire import READ_BYTES, dial

PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.02
ANSWER_S: Final = 2.0
# A request in an election is not answered, and is sent again.
TRIES_S: Final = 60.0

# Replies to publishes under load have other subjects, so that they are not heard here.
_inboxes: Final = (f"_INBOX.replicas{number}." for number in count())


class Member:
    """A server of a cluster, which keeps its name, its files and its ports between two starts."""

    def __init__(self, kind: str, name: str, config: Path, http_port: int) -> None:
        self.name = name
        self._store = config.with_suffix("")
        self._kind = kind
        self._flags = ("-c", str(config), "-n", name, "-m", str(http_port))
        self._http_port = http_port
        self._stack = ExitStack()
        self.start()

    def start(self) -> None:
        """Start the server, whose port for clients is another one each time."""
        server = self._stack.enter_context(running(self._kind, *self._flags))
        self.stored = StoredServer(self.name, server, self._http_port)

    @property
    def server(self) -> Server:
        return self.stored.server

    def kill(self) -> None:
        """End the server from one moment to the next."""
        os.kill(self.server.pid, signal.SIGKILL)

    def empty(self) -> None:
        """Remove the files of a stopped server."""
        shutil.rmtree(self._store)

    def stop(self) -> None:
        """End the server in any state, a paused one too."""
        with suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGCONT)
        self._stack.close()


class ReplicaCluster:
    """The servers, and questions about the streams that they keep."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members

    def member(self, name: str) -> Member:
        """The server of this name."""
        return next(each for each in self.members if each.name == name)

    def others(self, *members: Member) -> list[Member]:
        """The other servers."""
        return [each for each in self.members if each not in members]

    def leader(self, stream: str) -> Member:
        """The leader of a stream, once all its replicas have everything."""
        found = self.info_when(self.members[0], stream, is_whole)
        return self.member(found["cluster"]["leader"])

    def create(self, config: dict[str, Any]) -> None:
        """Create a stream, when the servers know each other well enough to place it."""
        name = config["name"]
        body = json.dumps(config).encode()

        def is_made() -> bool:
            reply = ask(self.members[0].server, f"STREAM.CREATE.{name}", body)
            if reply.get("error", {}).get("err_code", 10005) != 10005:
                raise BenchmarkError(f"no stream {name}: {reply}")
            return "error" not in reply

        wait_until(is_made, f"no stream {name} can be placed")

    def info_when(
        self, member: Member, stream: str, holds: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """INFO of a stream as soon as it is as awaited."""
        seen: dict[str, Any] = {}

        def is_so() -> bool:
            seen["info"] = ask(member.server, f"STREAM.INFO.{stream}", b"")
            return "error" not in seen["info"] and holds(seen["info"])

        wait_until(is_so, f"stream {stream} never was as awaited")
        found: dict[str, Any] = seen["info"]
        return found

    def wait_until_heard(self, subject: str) -> None:
        """Return when a publish through each server reaches its stream."""
        for member in self.members:
            wait_until(
                lambda m=member: first_ack_s(m.server, subject, 5.0) is not None,  # type: ignore[misc]
                f"{subject} has no stream",
            )


def is_whole(info: dict[str, Any]) -> bool:
    """Whether a stream has a leader that all other replicas follow."""
    cluster = info.get("cluster", {})
    replicas = cluster.get("replicas", [])
    want = info["config"]["num_replicas"] - 1
    return (
        bool(cluster.get("leader"))
        and len(replicas) == want
        and all(each["current"] for each in replicas)
    )


def wait_until(holds: Callable[[], bool], complaint: str) -> None:
    """Look until something holds. Raises BenchmarkError in the end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(LOOK_S)
    raise BenchmarkError(complaint)


def ask(server: Server, call: str, body: bytes) -> dict[str, Any]:
    """The answer of the API to a request that is sent again until it is answered."""
    deadline = time.monotonic() + TRIES_S
    subject, inbox = f"$JS.API.{call}", next(_inboxes)
    with dial(server.port, f"SUB {inbox}* 1\r\n".encode()) as connection:
        connection.settimeout(ANSWER_S)
        while time.monotonic() < deadline:
            connection.sendall(f"PUB {subject} {inbox}0 {len(body)}\r\n".encode() + body + b"\r\n")
            reply = _one_message(connection)
            if reply:
                found: dict[str, Any] = json.loads(reply)
                return found
    raise BenchmarkError(f"{call} is not answered")


def _one_message(connection: socket.socket) -> bytes:
    """The payload of the next message, empty if none comes or it has a status."""
    data = b""
    with suppress(TimeoutError):
        while True:
            data += connection.recv(READ_BYTES)
            start = data.find(b"MSG ")
            end = data.find(b"\r\n", start)
            if start < 0 or end < 0:
                continue
            size = int(data[start:end].rsplit(b" ", 1)[1])
            if len(data) >= end + 4 + size:
                payload = data[end + 2 : end + 2 + size]
                return payload if payload.startswith(b"{") else b""
    return b""


def first_ack_s(server: Server, subject: str, patience_s: float = PATIENCE_S) -> float | None:
    """The time to the first ack of publishes that are sent all the time; None if there is none."""
    inbox = next(_inboxes)
    line = f"PUB {subject} {inbox}0 1\r\nx\r\n".encode()
    with dial(server.port, f"SUB {inbox}* 1\r\n".encode()) as connection:
        connection.settimeout(LOOK_S)
        started = time.monotonic()
        tail = b""
        while time.monotonic() - started < patience_s:
            connection.sendall(line)
            with suppress(TimeoutError):
                tail = tail[-64:] + connection.recv(READ_BYTES)
                if b'"seq":' in tail and b'"error"' not in tail:
                    return time.monotonic() - started
    return None


@contextmanager
def replica_cluster(
    kind: str, sync_always: bool = False, more: str = ""
) -> Iterator[ReplicaCluster]:
    """Three servers with streams, which have a leader that leads all of them.

    `more` are further settings of JetStream.
    """
    ports = [free_port() for _ in range(COUNT)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    own = ", sync_interval: always" if sync_always else ""
    own += f", {more}" if more else ""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        members = []
        for number, port in enumerate(ports):
            config = folder / f"s{number}.conf"
            config.write_text(
                f'jetstream {{ store_dir: "{folder}/s{number}"{own} }}\n'
                f'cluster {{ name: benchmark, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n'
            )
            member = Member(kind, f"s{number}", config, free_port())
            stack.callback(member.stop)
            members.append(member)
        wait_until(
            lambda: any(each.stored.leads_all() for each in members),
            "the servers of a cluster have elected no leader",
        )
        yield ReplicaCluster(members)
