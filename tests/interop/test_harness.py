"""The harness against itself: it is quiet where there is nothing to find, and loud where there is.

A proxy in front of the oracle plays a server that is almost right. Every change it makes on the way
has to come out as a difference, through the same path that real differences take.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.case import PLAIN, Case
from tests.interop.cases import all_cases
from tests.interop.differential import ServerPool, observe, observe_subject
from tests.interop.masks import MASKS
from tests.interop.observation import Difference, differences
from tests.interop.session import HOST, Session
from tests.kit.server_process import ORACLE, Program, ServerProcess, Setup

CASES = {case.rule: case for case in all_cases()}
SAMPLE = (
    "core.info.second-after-first-pong",
    "core.pub.payload-at-limit",
    "core.op.unknown",
    "core.queue.one-member-gets-each",
    "perm.subscribe.denied",
    "monitor.connz.state-closed",
    "config.error.unknown-key",
    "client.request-reply",
)
READ_BYTES = 65536


class Meddler:
    """A TCP proxy that rewrites the server's bytes, a whole read at a time."""

    def __init__(self, target_port: int, rewrite: Callable[[bytes], bytes]) -> None:
        self._target_port = target_port
        self._rewrite = rewrite
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for link in self._sockets:
            link.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((HOST, self._target_port))
                self._sockets += [near, far]
                for source, target, change in ((near, far, bytes), (far, near, self._rewrite)):
                    thread = threading.Thread(target=_pump, args=(source, target, change))
                    thread.daemon = True
                    thread.start()


def _pump(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(READ_BYTES):
            target.sendall(change(data))
        target.shutdown(socket.SHUT_WR)


class ProxiedServer(ServerProcess):
    """A server whose client port is the proxy's."""

    def __init__(self, behind: ServerProcess, meddler: Meddler) -> None:
        self.program = behind.program
        self._meddler = meddler

    @property
    def port(self) -> int:
        return self._meddler.port


@pytest.fixture
def meddled(
    servers: ServerPool, tmp_path: Path
) -> Iterator[Callable[[Case, Callable[[bytes], bytes]], list[Difference]]]:
    """Compare the oracle with the oracle behind a proxy that rewrites its words."""
    meddlers: list[Meddler] = []

    def compare(case: Case, rewrite: Callable[[bytes], bytes]) -> list[Difference]:
        behind = servers.shared(ORACLE, PLAIN)
        meddler = Meddler(behind.port, rewrite)
        meddlers.append(meddler)
        with Session(ORACLE, ProxiedServer(behind, meddler), tmp_path) as session:
            subject = case.script(session)
        return differences(observe(case, ORACLE, servers), subject, MASKS)

    yield compare
    for meddler in meddlers:
        meddler.close()


@pytest.mark.parametrize("rule", SAMPLE)
def test_the_oracle_does_not_differ_from_itself(rule: str, servers: ServerPool) -> None:
    case = CASES[rule]
    found = differences(
        observe(case, ORACLE, servers), observe(case, ORACLE, servers), (*case.masks, *MASKS)
    )
    assert found == []


def test_a_faithful_proxy_is_not_noticed(
    meddled: Callable[[Case, Callable[[bytes], bytes]], list[Difference]],
) -> None:
    assert meddled(CASES["core.op.unknown"], bytes) == []


@pytest.mark.parametrize(
    ("rule", "said", "instead", "place"),
    [
        ("core.op.unknown", b"Unknown Protocol", b"Unknown protocol", "0"),
        ("core.pub.reply", b"MSG foo 1 answer.here 2", b"MSG foo 1 2", "0"),
        ("core.info.first", b'"headers":true', b'"headers":false', "INFO.headers"),
        ("core.info.first", b'"proto":1,', b"", "INFO.proto"),
        ("core.info.first", b'"version":"2.15', b'"version":"2.99', "INFO.version"),
        ("core.no-responders.answer", b"503", b"404", "0"),
        ("core.unsub.max.after-delivery", b"MSG foo 1 1\r\nb\r\n", b"", ""),
    ],
)
def test_a_changed_word_is_found_at_its_place(
    meddled: Callable[[Case, Callable[[bytes], bytes]], list[Difference]],
    rule: str,
    said: bytes,
    instead: bytes,
    place: str,
) -> None:
    found = meddled(CASES[rule], lambda data: data.replace(said, instead))
    assert [".".join(difference.path) for difference in found] == [place]


def test_a_server_that_does_not_start_is_a_difference_and_not_a_crash(servers: ServerPool) -> None:
    case = Case("x.y", lambda session: session.dial().frame(), Setup("nope: 1\n"), True, (), "")
    seen = observe_subject(case, ORACLE, servers)
    assert differences(observe(CASES["core.info.first"], ORACLE, servers), seen) != []


def test_a_program_that_is_not_there_is_a_difference_and_not_a_crash(servers: ServerPool) -> None:
    absent = Program("absent", ("./no-such-program",))
    seen = observe_subject(CASES["core.op.unknown"], absent, servers)
    assert "script could not finish" in str(seen)
