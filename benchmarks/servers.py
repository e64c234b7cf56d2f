"""The servers under measurement, each a child process on a free port of this machine.

`relay` is not a server: it copies bytes from publisher to subscriber without parsing them. The rate
through it is the load generator's own limit.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEADWATER: Final = "headwater"
NATS_SERVER: Final = "nats-server"
RELAY: Final = "relay"

LISTENING: Final = re.compile(rb"Listening for client connections on 127\.0\.0\.1:(\d+)")
READY: Final = b"Server is ready"
STOP_PATIENCE_S: Final = 10.0
BYTES_PER_MB: Final = 1e6


class BenchmarkError(Exception):
    """A measurement cannot be trusted; the text has the reason."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    port: int
    pid: int
    ready_s: float
    """Seconds from exec to the line "Server is ready"."""

    def resident_mb(self) -> float:
        """Its resident memory now."""
        return resident_mb(self.pid)

    def cpu_s(self) -> float:
        """Processor time it has used so far."""
        return cpu_s(self.pid)


def command_line(name: str) -> list[str]:
    """The command line of the server `name`."""
    listen = ["-a", "127.0.0.1", "-p", "-1"]
    if name == HEADWATER:
        return [sys.executable, "-m", "headwater", "serve", *listen]
    if name == NATS_SERVER:
        binary = Path(sys.executable).with_name("nats-server")
        return [str(binary) if binary.exists() else "nats-server", *listen]
    return [sys.executable, "-m", "benchmarks.relay"]


@contextmanager
def running(name: str, *arguments: str) -> Iterator[Server]:
    """A server for the length of a block."""
    started = time.monotonic()
    command = [*command_line(name), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            port, seen = wait_until_ready(process)
            # A server whose log goes into a full pipe stands still.
            threading.Thread(target=discard_log, args=(process,), daemon=True).start()
            yield Server(name, port, process.pid, seen - started)
        finally:
            stop(process)


def wait_until_ready(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """The port, and the moment at which the server was ready."""
    assert process.stderr is not None
    port, lines = 0, []
    for line in process.stderr:
        lines.append(line)
        if found := LISTENING.search(line):
            port = int(found[1])
        if READY in line and port:
            return port, time.monotonic()
    log = b"".join(lines).decode(errors="replace")
    raise BenchmarkError(f"{process.args!r} ended before it was ready:\n{log}")


def discard_log(process: "subprocess.Popen[bytes]") -> None:
    """Read the server's log until it ends."""
    assert process.stderr is not None
    for _ in process.stderr:
        pass


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Terminate the process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(timeout=STOP_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def resident_mb(pid: int) -> float:
    """Resident memory of a process, from /proc if it exists."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        listing = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        return int(listing.stdout) * 1024 / BYTES_PER_MB
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    if found is None:
        raise BenchmarkError(f"process {pid} has gone")
    return int(found[1]) * 1024 / BYTES_PER_MB


def cpu_s(pid: int) -> float:
    """Processor time of a process; 0 if the system does not have it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
