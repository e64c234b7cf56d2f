"""Starting, watching and stopping one server process: the oracle or the server under test.

Both are started with the same flags, in a directory of their own, with the same configuration file
name, so that messages that name files are equal. The output of a process is known when its end was
waited for: no polling of files, no sleeping.

Must not know: the protocol, or what a case compares.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONFIG_FILE = "server.conf"
START_S_MAX = 10.0
STOP_S_MAX = 5.0
LOOPBACK_FLAGS = ("-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-n", "interop")
"""The address of a server unless its configuration names one, and one name for both programs."""

_LOG_LINE = re.compile(
    r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(?P<level>[A-Z]{3})\] (?P<text>.*)"
)
_CLIENT_PORT = re.compile(r"Listening for client connections on .*:(\d+)$")
_HTTP_PORT = re.compile(r"Starting http monitor on .*:(\d+)$")


@dataclass(frozen=True)
class Program:
    """A server one can start: the words before its flags."""

    name: str
    command: tuple[str, ...]


ORACLE = Program("nats-server", (str(Path(sysconfig.get_path("scripts")) / "nats-server"),))
HEADWATER = Program("headwater", (sys.executable, "-m", "headwater", "serve"))


@dataclass(frozen=True)
class Setup:
    """The flags and files of a start; `files` are written beside the configuration before it."""

    config: str = ""
    flags: tuple[str, ...] = LOOPBACK_FLAGS
    files: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def arguments(self) -> list[str]:
        config = ["-c", CONFIG_FILE] if self.config else []
        return [*self.flags, *config]

    def write(self, directory: Path) -> None:
        for name, text in (*self.files, (CONFIG_FILE, self.config)):
            (directory / name).write_text(text)


@dataclass(frozen=True)
class LogLine:
    """A line of a server's log without its pid and time; a foreign line has an empty level."""

    level: str
    text: str

    @classmethod
    def parse(cls, line: str) -> "LogLine":
        match = _LOG_LINE.fullmatch(line)
        return cls(match["level"], match["text"]) if match else cls("", line)


@dataclass
class _Log:
    lines: list[LogLine] = field(default_factory=list)
    ended: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)


class ServerProcess:
    """A running server. Ports are those it logged."""

    def __init__(self, program: Program, setup: Setup, directory: Path) -> None:
        self.program = program
        self.directory = directory
        setup.write(directory)
        # Marks of stores are gone when the test is.
        runtime = {"XDG_RUNTIME_DIR": str(directory)}
        self._process = subprocess.Popen(
            [*program.command, *setup.arguments()],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**_quiet_environment(), **runtime, **dict(setup.environment)},
            text=True,
        )
        self._log = _Log()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def port(self) -> int:
        return self._port_in_log(_CLIENT_PORT)

    @property
    def http_port(self) -> int:
        return self._port_in_log(_HTTP_PORT)

    @property
    def log(self) -> list[LogLine]:
        """The lines of the log so far."""
        with self._log.changed:
            return list(self._log.lines)

    def wait_until_ready(self) -> None:
        self.wait_for_log("Server is ready")

    def wait_for_log(self, text: str, after: int = 0) -> LogLine:
        """The first line holding `text`, not counting the first `after` lines."""

        def found() -> LogLine | None:
            return next((line for line in self._log.lines[after:] if text in line.text), None)

        with self._log.changed:
            self._log.changed.wait_for(lambda: found() or self._log.ended, START_S_MAX)
            line = found()
        if line is None:
            raise AssertionError(f"{self.program.name} never logged {text!r}: {self.log}")
        return line

    def rewrite_config(self, config: str) -> None:
        (self.directory / CONFIG_FILE).write_text(config)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait_for_exit(self) -> int:
        return self._process.wait(START_S_MAX)

    def has_exited(self, wait_s: float) -> bool:
        """Whether it ends within that time, or has ended before."""
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process however it is doing; harmless when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_S_MAX)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _port_in_log(self, pattern: re.Pattern[str]) -> int:
        for line in self.log:
            if match := pattern.search(line.text):
                return int(match[1])
        raise AssertionError(f"{self.program.name} logged no port: {self.log}")

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._log.changed:
                self._log.lines.append(LogLine.parse(line.rstrip("\n")))
                self._log.changed.notify_all()
        with self._log.changed:
            self._log.ended = True
            self._log.changed.notify_all()


@dataclass(frozen=True)
class Finished:
    """A process that ended by itself."""

    exit_code: int
    stdout: str
    stderr: tuple[LogLine, ...]


def run_to_exit(program: Program, setup: Setup, directory: Path) -> Finished:
    """Start a server that is expected to stop by itself, such as one with a bad configuration."""
    setup.write(directory)
    return run_command(program, setup.arguments(), directory)


def run_command(program: Program, arguments: Sequence[str], directory: Path) -> Finished:
    done = subprocess.run(
        [*program.command, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_quiet_environment(),
        text=True,
        timeout=START_S_MAX,
        check=False,
    )
    stderr = tuple(LogLine.parse(line) for line in done.stderr.splitlines())
    return Finished(done.returncode, done.stdout, stderr)


def _quiet_environment() -> dict[str, str]:
    """Ours, so that the interpreter finds the package, without what would change a server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
