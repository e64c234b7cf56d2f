"""Servers and commands for the tests of the command line.

Every test that takes `server` runs twice: against nats-server, which says what is right, and
against Headwater.
"""

import io
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from headwater.cli.commands import run
from tests.kit.command_line import NUMBERS, SERVER_COMMANDS, Call, Ended, Tool, serving


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Commands inherit whether SIGINT is ignored, and a run in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=SERVER_COMMANDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
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
