"""Spark on the loopback address: a standalone master and its workers, or a server of Spark Connect.

The pip package has no scripts that start a cluster, but it has the classes. Nothing here is
specific to Headwater: what runs here runs on any Spark whose Python has the package installed.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Final

import pyspark

from headwater.spark.java import java_home

LOOPBACK: Final = "127.0.0.1"
DAEMON_MEMORY: Final = "256m"
WORKER_MEMORY: Final = "1g"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0

_SPARK_HOME: Final = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Cluster:
    """The address of the master, and the folder in which workers keep the logs of executors."""

    master: str
    work: Path

    def executors(self) -> list[Path]:
        """One folder for every executor there has been."""
        return sorted(self.work.glob("*/app-*/*"))


@contextmanager
def standalone_cluster(
    directory: Path, hosts: Sequence[str] = (LOOPBACK,), cores: int = 2
) -> Iterator[Cluster]:
    """A master with a worker of so many cores for each host; afterwards all are gone.

    Spark takes two names of one host for two hosts.
    """
    work = directory / "work"
    with ExitStack() as running:
        master = running.enter_context(_deployed("master.Master", LOOPBACK, "--port", "0"))
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        size = ("--cores", str(cores), "--memory", WORKER_MEMORY)
        for number, host in enumerate(hosts):
            place = ("--work-dir", str(work / str(number)))
            worker = running.enter_context(_deployed("worker.Worker", host, *size, *place, url))
            worker.wait_for("Successfully registered with master")
        yield Cluster(url, work)


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The address of a server of Spark Connect with two cores; afterwards it is gone."""
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(directory),
        "spark.ui.enabled": "false",
    }
    words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ("spark-submit", "--master", "local[2]", "--class", name, *words, "spark-internal")
    with _daemon(WORKER_MEMORY, *command) as server:
        yield "sc://" + server.wait_for(r"Spark Connect server started at: (\S+)")[1]


class _Daemon:
    """A JVM of Spark's and its output."""

    def __init__(self, memory: str, script: str, *arguments: str) -> None:
        self._name = " ".join((script, *arguments))
        self._process = subprocess.Popen(
            [_SPARK_HOME / "bin" / script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **environ,
                "JAVA_HOME": str(java_home()),
                "SPARK_HOME": str(_SPARK_HOME),
                "SPARK_LOCAL_IP": LOOPBACK,
                "SPARK_DAEMON_MEMORY": memory,
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that holds `pattern`."""

        def found() -> re.Match[str] | None:
            matches = (re.search(pattern, line) for line in self._lines)
            return next(filter(None, matches), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, START_S_MAX)
            match = found()
        assert match is not None, f"{self._name} never said {pattern!r}: {''.join(self._lines)}"
        return match

    def stop(self) -> None:
        """The script has become the JVM, so this is the JVM that ends."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_S_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@contextmanager
def _deployed(name: str, host: str, *arguments: str) -> Iterator[_Daemon]:
    """A part of a standalone cluster."""
    place = ("--host", host, "--webui-port", "0")
    command = ("spark-class", f"org.apache.spark.deploy.{name}", *place, *arguments)
    with _daemon(DAEMON_MEMORY, *command) as daemon:
        yield daemon


@contextmanager
def _daemon(memory: str, script: str, *arguments: str) -> Iterator[_Daemon]:
    daemon = _Daemon(memory, script, *arguments)
    try:
        yield daemon
    finally:
        daemon.stop()
