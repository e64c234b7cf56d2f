"""A real server and the real `headwater` command, each in its own process."""

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

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
    """The exit code and the output of a command."""

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
