"""Runs one job over and over until it is through, while something is killed at a chosen point.

The program is a process of its own with a Spark of its own, which lasts from case to case unless
the case kills it. A server that is killed comes back on its store and port: at once, or after an
outage that is longer than any retry without patience.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.kit.stream_servers import Server
from tests.spark.sweep.hook.sitecustomize import ORDERS

ROOT: Final = Path(__file__).resolve().parents[3]
HOOK: Final = Path(__file__).resolve().parent / "hook"
RUNS_MAX: Final = 5
"""The most runs of a job; one strike costs at most one run, and the death of a driver another."""

# Spark gives a worker ten seconds to start, which a busy machine may not have. A run that failed so
# has shown nothing, and is made again.
NO_WORKER: Final = "Python worker failed to connect back"
RUNS_WITHOUT_WORKER_MAX: Final = 20

LOOK_S: Final = 0.1

OUTAGE_S: Final = float(os.environ.get("SWEEP_OUTAGE_S", "4"))

Victim: TypeAlias = Literal["worker", "driver", "server", "outage", "task", "run", "attempt"]


@dataclass(frozen=True)
class Strike:
    """A fault: its point in the code, the call at which it happens, and its victim."""

    point: str
    when: Literal["before", "after"]
    nth: int
    victim: Victim

    def __str__(self) -> str:
        place = self.point.replace("headwater.spark.", "").replace(":", ".")
        return f"{self.victim}-{self.when}-{place}-{self.nth}"


class Program:
    """The process that runs the jobs, started again when it is dead."""

    def __init__(self, folder: Path, master: str = "local[2,4]", **conf: str) -> None:
        self.folder = folder
        self._environment = {
            "PYTHONPATH": f"{HOOK}{os.pathsep}{ROOT}",
            ORDERS: str(folder),
        }
        # Executors elsewhere do not have the driver's environment by themselves.
        conf |= {f"spark.executorEnv.{name}": text for name, text in self._environment.items()}
        self._command = [sys.executable, "-m", "tests.spark.sweep.program"]
        self._command += [master, json.dumps(conf)]
        self._process: subprocess.Popen[str] | None = None
        os.mkfifo(folder / "meeting")

    def order(self, strike: Strike) -> None:
        """From now on."""
        self.withdraw()
        text = json.dumps(asdict(strike))
        (self.folder / "order.new").write_text(text)
        (self.folder / "order.new").replace(self.folder / "order.json")

    def withdraw(self) -> None:
        for name in ("order.json", "passings", "held", "met", "run", "victim"):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def passings(self) -> int:
        """The number of calls of the point so far, over all processes."""
        path = self.folder / "passings"
        return path.stat().st_size if path.exists() else 0

    @property
    def have_met(self) -> bool:
        """Whether a second attempt has come to the point at which the first is held up."""
        return (self.folder / "met").exists()

    def run(self, job: dict[str, str]) -> list[str]:
        """Run the job until it succeeds. Returns the failures of the runs before."""
        failures: list[str] = []
        while (failed := self._told(job)) != "":
            failures.append(failed)
            shown = [each for each in failures if NO_WORKER not in each]
            assert len(shown) < RUNS_MAX, failures
            assert len(failures) < RUNS_WITHOUT_WORKER_MAX, failures
        return failures

    def is_through(self, job: dict[str, str], refusal: str) -> bool:
        """Tell the job until it is through, or has ended with a refusal."""
        for _ in range(RUNS_MAX):
            failed = self._told(job)
            if failed == "" or refusal in failed:
                return failed == ""
        raise AssertionError(failed)

    def _told(self, job: dict[str, str]) -> str:
        """Run the job once. Returns its failure, an empty text if it succeeded."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self.stop()
            return "killed"
        return str(json.loads(answer)["failed"])

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            with (self.folder / "program.log").open("a") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    cwd=ROOT,
                    env={**os.environ, **self._environment},
                    # So that the whole of it, the JVM included, can be killed at once.
                    start_new_session=True,
                )
            assert self._process.stdout is not None
            ready = self._process.stdout.readline()
            assert ready == "ready\n", (self.folder / "program.log").read_text()
        return self._process

    def stop(self) -> None:
        """With everything it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


@contextlib.contextmanager
def revived(server: Server, folder: Path) -> Iterator[None]:
    """While the block runs, a server that is killed is started again."""
    is_over = threading.Event()
    pid_file = folder / "server.pid"
    pid_file.write_text(str(server.pid))

    def watch() -> None:
        while not is_over.is_set():
            if server.has_exited(wait_s=LOOK_S) and not is_over.is_set():
                if (folder / "victim").read_text() == "outage":
                    is_over.wait(OUTAGE_S)
                server.restart()
                pid_file.write_text(str(server.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
