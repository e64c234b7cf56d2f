"""Real processes that may not be in one cluster: each is refused by name, once in the log.

A server that is refused dials again and again, so a reason that is logged at each refusal is there
several times.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.session import HOST
from tests.kit.server_process import HEADWATER, ORACLE, LogLine, Program, ServerProcess, Setup
from tests.kit.stream_servers import free_port

DIALLING = "Trying to connect to route on"


def config(name: str, port: int, routes: str, more: str = "") -> str:
    return (
        f"server_name: {name}\ndebug: true\n"
        f'cluster {{ name: mixed, listen: "{HOST}:{port}", routes: [{routes}]{more} }}\n'
    )


@contextmanager
def meeting(
    directory: Path,
    dialling: Program,
    dialled: Program,
    names: tuple[str, str] = ("here", "there"),
    authorization: str = "",
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers of one cluster name, of which one dials the other, which may ask for a login."""
    ports = free_port(), free_port()
    started: list[ServerProcess] = []
    try:
        for program, text in (
            (dialled, config(names[1], ports[0], "", authorization)),
            (dialling, config(names[0], ports[1], f'"nats://{HOST}:{ports[0]}"')),
        ):
            folder = directory / f"server{len(started)}"
            folder.mkdir()
            flags = ("-a", HOST, "-p", "-1", "-m", "-1")
            started.append(ServerProcess(program, Setup(text, flags), folder))
            started[-1].wait_until_ready()
        yield started[1], started[0]
    finally:
        for server in started:
            server.stop()


def errors(server: ServerProcess, text: str) -> list[str]:
    return [line.text for line in server.log if line.level == "ERR" and text in line.text]


def wait_for_dials(server: ServerProcess, count: int) -> None:
    """Wait until a server has dialled so often."""
    seen = 0
    for _ in range(count):
        server.wait_for_log(DIALLING, after=seen)
        log: list[LogLine] = server.log
        seen = 1 + next(n for n in range(seen, len(log)) if DIALLING in log[n].text)


REFUSED = "cannot join a cluster of Headwater servers"


def test_a_nats_server_that_dials_is_refused_by_name_and_logged_once(tmp_path: Path) -> None:
    with meeting(tmp_path, ORACLE, HEADWATER) as (oracle, subject):
        wait_for_dials(oracle, 3)
        assert len(errors(subject, f"a nats-server {REFUSED}")) == 1
        assert len(errors(subject, "")) == 1
        # The other end has the reason too.
        oracle.wait_for_log(REFUSED)


def test_a_nats_server_that_is_dialled_is_refused_by_name_and_logged_once(tmp_path: Path) -> None:
    with meeting(tmp_path, HEADWATER, ORACLE) as (subject, oracle):
        wait_for_dials(subject, 3)
        assert len(errors(subject, f'nats-server "there" (2.15.1) {REFUSED}')) == 1
        assert len(errors(subject, "")) == 1
        # It takes the end of a handshake for a failed login, whatever the other end says.
        oracle.wait_for_log("authentication error")


def check_refused_once(here: ServerProcess, there: ServerProcess, reason: str) -> None:
    wait_for_dials(here, 4)
    for server in (here, there):
        assert len(errors(server, reason)) == len(errors(server, "")) == 1


def test_a_second_server_of_a_name_is_refused_once_at_both_ends(tmp_path: Path) -> None:
    with meeting(tmp_path, HEADWATER, HEADWATER, names=("same", "same")) as (here, there):
        check_refused_once(here, there, 'Remote server has a duplicate name: "same"')


def test_a_server_without_the_credentials_is_refused_once_at_both_ends(tmp_path: Path) -> None:
    login = ", authorization { user: u, password: p }"
    with meeting(tmp_path, HEADWATER, HEADWATER, authorization=login) as (here, there):
        check_refused_once(here, there, "Authorization Violation")
