"""Running cases: servers are started once per set-up and shared by the cases that allow it.

Must not know: what is compared, or what any case means.
"""

import tempfile
from pathlib import Path

from tests.interop.case import Case
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Program, ServerProcess, Setup


class ServerPool:
    """Servers by program and set-up, started when first needed, stopped together."""

    def __init__(self) -> None:
        self._running: dict[tuple[Program, Setup], ServerProcess] = {}
        self._workspace = tempfile.TemporaryDirectory(prefix="interop-")

    def shared(self, program: Program, setup: Setup) -> ServerProcess:
        key = (program, setup)
        if key not in self._running:
            self._running[key] = self.start(program, setup)
        return self._running[key]

    def start(self, program: Program, setup: Setup) -> ServerProcess:
        server = ServerProcess(program, setup, self.new_directory())
        try:
            server.wait_until_ready()
        except BaseException:
            server.stop()
            raise
        return server

    def new_directory(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._workspace.name))

    def close(self) -> None:
        for server in self._running.values():
            server.stop()
        self._running.clear()
        self._workspace.cleanup()


def observe(case: Case, program: Program, pool: ServerPool) -> Observation:
    """The observation of the script with this program."""
    if case.setup is None:
        with Session(program, None, pool.new_directory()) as session:
            return case.script(session)
    if not case.own_server:
        server = pool.shared(program, case.setup)
        with Session(program, server, server.directory) as session:
            return case.script(session)
    return observe_alone(case, program, pool)


def observe_alone(case: Case, program: Program, pool: ServerPool) -> Observation:
    """As `observe`, on a server that nobody else uses."""
    if case.setup is None:
        return observe(case, program, pool)
    server = pool.start(program, case.setup)
    try:
        with Session(program, server, server.directory) as session:
            return case.script(session)
    finally:
        server.stop()


def observe_subject(case: Case, program: Program, pool: ServerPool) -> Observation:
    """As `observe`, but a script that could not finish is an observation too: it differs."""
    try:
        return observe(case, program, pool)
    except Exception as error:
        return {"script could not finish": f"{type(error).__name__}: {error}"}
