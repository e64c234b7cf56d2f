"""A real server and the real command, each in its own process.

Every test that takes `server` runs twice: against nats-server, which says what is right, and
against Headwater.
"""

import io
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

import pytest

from headwater.cli.commands import run

HEADWATER: Final = (sys.executable, "-m", "headwater")
SERVER_COMMANDS: Final = {
    "nats-server": (str(Path(sys.executable).with_name("nats-server")),),
    "headwater": (*HEADWATER, "serve"),
}
# The servers the commands about streams, and those about consumers, have to work with.
JETSTREAM_SERVERS: Final = ("nats-server", "headwater")
LISTENING: Final = re.compile(r"Listening for client connections on 127\.0\.0\.1:(\d+)")
PATIENCE_S: Final = 30
NUMBERS: Final = itertools.count(1)

# The commands of a developer's shell must not change what the tests see.
ENVIRONMENT: Final = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("NATS_") and name not in ("NO_COLOR", "FORCE_COLOR")
} | {"TERM": "xterm-256color"}


@contextmanager
def serving(kind: str, *flags: str) -> Iterator[str]:
    """A server of `kind` on a free port; its URL."""
    command = [*SERVER_COMMANDS[kind], "-a", "127.0.0.1", "-p", "-1", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield f"nats://127.0.0.1:{port_when_ready(process.stderr)}"
        finally:
            process.kill()


def port_when_ready(log: Iterator[str]) -> int:
    """The client port, once the log says that the server is ready."""
    port, lines = None, []
    for line in log:
        lines.append(line)
        if found := LISTENING.search(line):
            port = int(found[1])
        if "Server is ready" in line and port is not None:
            return port
    raise AssertionError("the server ended before it was ready:\n" + "".join(lines))


@dataclass(frozen=True)
class Running:
    """A command that has not ended yet."""

    process: subprocess.Popen[bytes]

    def line(self) -> str:
        """The next line of its standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def remark(self) -> str:
        """The next line of its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode()

    def interrupt(self) -> "Ended":
        """Press Ctrl-C and wait for the end."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> "Ended":
        """Wait for the end."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Ended(self.process.returncode, out.decode(), err.decode())


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Tool:
    """The `headwater` command, told by its environment which server to use."""

    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return ENVIRONMENT | ({"NATS_URL": self.url} if self.url else {})

    def run(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a command to its end."""
        done = subprocess.run(
            [*HEADWATER, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=PATIENCE_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def start(self, *arguments: str) -> Iterator[Running]:
        """Run a command beside the test."""
        with subprocess.Popen(
            [*HEADWATER, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        ) as process:
            # Reading a line waits as long as it takes; a command that says nothing must not hang
            # the whole run.
            watchdog = Timer(PATIENCE_S, process.kill)
            watchdog.start()
            try:
                yield Running(process)
            finally:
                watchdog.cancel()
                process.kill()

    @contextmanager
    def listen(self, *arguments: str) -> Iterator[Running]:
        """Run `sub` or `reply` beside the test, once it has said that it listens."""
        with self.start(*arguments) as running:
            remark = running.remark()
            assert remark.startswith("Listening on "), remark
            yield running


Call = Callable[..., Ended]


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Commands inherit whether SIGINT is ignored, and a run in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=SERVER_COMMANDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which server."""
    return str(request.param)


@pytest.fixture(scope="session")
def server(kind: str) -> Iterator[str]:
    """The URL of a server without authentication, one for all tests: subjects keep them apart."""
    with serving(kind) as url:
        yield url


@pytest.fixture
def tool(server: str) -> Tool:
    """The command, connected to `server`."""
    return Tool(server)


@pytest.fixture
def start_server(kind: str) -> Iterator[Callable[..., str]]:
    """Start a server with flags of the test's own: `start_server("--user", "a") -> url`."""
    with ExitStack() as stack:

        def start(*flags: str) -> str:
            opened: AbstractContextManager[str] = serving(kind, *flags)
            return stack.enter_context(opened)

        yield start


# --- streams and consumers ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def jetstream(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with streams."""
    with serving(kind, "-js", "-sd", str(tmp_path_factory.mktemp("store"))) as url:
        yield url


@pytest.fixture
def name() -> str:
    """A name that no other test has: of a stream, whose subjects begin with the same word."""
    return f"S{next(NUMBERS)}"


@pytest.fixture
def call(
    jetstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Run a command in this process: `call("stream", "ls") -> Ended`."""
    monkeypatch.setenv("NATS_URL", jetstream)

    def called(*arguments: object, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called
