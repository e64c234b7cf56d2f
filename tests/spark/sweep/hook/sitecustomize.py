"""Strikes at a chosen point of the code under test, in whichever process comes there.

Python imports this module at the start of every process that has its folder on the path: the
program of the sweep, Spark's planners and Spark's workers. When one of the modules in POINTS is
imported, its functions are wrapped; a wrapped function checks before and after its work whether to
strike. A file, which the test rewrites from case to case, holds the order:

    {"point": "headwater.spark.write.markers:commit", "when": "before", "nth": 2,
     "victim": "driver"}

The n-th passing is counted over all processes, by the length of a file that each of them appends
a byte to; the process that makes it n long strikes, and no process after it. The victim `run` is
the exception: all processes that pass after the n-th in the same run of the query fail too, so that
Spark gives the run up, though its process lives on. The victim `outage` is the server, which stays
away for a while: the test starts it again later. The victim `attempt` is the first at a task: it is
held up until a second attempt at the same task, which Spark starts because the first is slow, comes
to the same point. Second attempts do not count as passings then.

It must not know: pytest, or anything else that is not in the standard library; Spark only in a
task, which has loaded it.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ORDERS = "HEADWATER_SWEEP"
"""The folder with `order.json`, `passings`, `meeting`, `held`, `met`, `run`, `victim`,
`program.pgid` and `server.pid`."""
MEETING_S_MAX = 60

POINTS = {
    "headwater.client.link.reads.fetch": ("read_range",),
    "headwater.client.link.publisher": ("Publisher.send", "Publisher.finish"),
    "headwater.spark.write.markers": ("Claim.acquire", "Claim.finish", "commit"),
    "headwater.spark.read.stream_source": (
        "StreamSourceReader.latestOffset",
        "StreamSourceReader.partitions",
    ),
    "headwater.spark.jobs.archive.sink": ("write_files", "commit_files"),
    "headwater.spark.jobs.archive.manifest": ("settle_manifest",),
    "headwater.spark.jobs.archive.compaction": ("compact", "merge_files"),
    "headwater.spark.jobs.archive.files.delta_log": (
        "DeltaLog.commit",
        "DeltaLog.replace",
        "DeltaLog._write",
    ),
    "headwater.spark.jobs.archive.files.parquet_directory": (
        "ParquetDirectory.commit",
        "ParquetDirectory.replace",
        "ParquetDirectory._publish",
        "State.write",
    ),
    "headwater.spark.jobs.archive.files.parquet_files": (
        "PartitionedFiles.append",
        "ParquetFile.close",
    ),
}


class StruckError(Exception):
    """The error of a task that is the victim of a strike."""


def pass_by(point: str, when: str) -> None:
    """Strike if the order is for this point and this is the passing it names."""
    folder = Path(os.environ[ORDERS])
    try:
        order = json.loads((folder / "order.json").read_text())
    except FileNotFoundError:
        return
    if order["point"] != point or order["when"] != when:
        return
    if order["victim"] == "attempt" and is_second_attempt():
        meet(folder)
        return
    passings = os.open(folder / "passings", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(passings, b".")
        number = os.lseek(passings, 0, os.SEEK_CUR)
    finally:
        os.close(passings)
    if number == order["nth"]:
        strike(order["victim"], folder)
    elif number > order["nth"] and order["victim"] == "run" and is_struck_run(folder):
        raise StruckError("it is the run's turn to fail")


def strike(victim: str, folder: Path) -> None:
    """Kill, fail, or hold up."""
    if victim == "run":
        (folder / "run").write_text(this_run())
    if victim in ("task", "run"):
        raise StruckError(f"it was this {victim}'s turn to fail")
    if victim == "attempt":
        hold_up(folder)
    elif victim in ("server", "outage"):
        (folder / "victim").write_text(victim)
        os.kill(int((folder / "server.pid").read_text()), signal.SIGKILL)
    else:
        if victim == "driver":
            os.killpg(int((folder / "program.pgid").read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def hold_up(folder: Path) -> None:
    """Wait for a second attempt at this task; if none comes, the alarm kills."""
    (folder / "held.new").write_text(task_name())
    (folder / "held.new").rename(folder / "held")
    signal.alarm(MEETING_S_MAX)
    os.close(os.open(folder / "meeting", os.O_RDONLY))
    signal.alarm(0)


def meet(folder: Path) -> None:
    """Release the first attempt at this task, if it was held up."""
    held = folder / "held"
    if held.exists() and held.read_text() == task_name():
        held.unlink()
        signal.alarm(MEETING_S_MAX)
        os.close(os.open(folder / "meeting", os.O_WRONLY))
        signal.alarm(0)
        # The second attempt notes it: Spark kills the first one as soon as this one has ended.
        (folder / "met").touch()


def is_struck_run(folder: Path) -> bool:
    """Whether this process works for the run that is to fail."""
    struck, run = folder / "run", this_run()
    return run != "" and struck.exists() and struck.read_text() == run


def this_run() -> str:
    """The run of the query, by its name in the sink; empty in a process of the driver's."""
    task = this_task()
    return "" if task is None else str(task.getLocalProperty("spark.jobGroup.id"))


def is_second_attempt() -> bool:
    """Whether this is the second or a later attempt at a task; a driver's process has no task."""
    return this_task() is not None and this_task().attemptNumber() > 0


def task_name() -> str:
    """The name of a task, which all attempts at it share."""
    return f"{this_task().stageId()}.{this_task().partitionId()}"


def this_task() -> Any:
    """Spark's context of the task that this process runs, None if it runs none."""
    return sys.modules["pyspark"].TaskContext.get()


def watched(point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def passing(*arguments: Any, **named: Any) -> Any:
        pass_by(point, "before")
        answer = function(*arguments, **named)
        pass_by(point, "after")
        return answer

    return passing


def watch(module: ModuleType) -> None:
    """Wrap the points of a module that has just been imported."""
    for name in POINTS[module.__name__]:
        *owners, last = name.split(".")
        owner: Any = functools.reduce(getattr, owners, module)
        setattr(owner, last, watched(f"{module.__name__}:{name}", getattr(owner, last)))


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules in POINTS, and wraps their functions once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in POINTS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Loads, then wraps."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        watch(module)


if ORDERS in os.environ:
    sys.meta_path.insert(0, Finder())
