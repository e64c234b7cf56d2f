"""An archive run without Spark that is killed at any one of its effects on the disk.

`run` does what Spark does with the sink: it plans a batch and writes it down, lets the tasks write,
lets the driver commit, notes the batch as done; a batch that was planned and not done is replayed
as it was planned. It uses the real functions of the archive and the real disk.

`run_in_child` runs it in a process of its own, which SIGKILL ends just before the n-th effect: a
file opened to be written, renamed, linked or removed, a directory made, two directories exchanged,
a Delta commit begun or finished.
So a sweep over n visits every state of the disk in which the death of a process can leave an
archive. The death of a machine is another matter: flushes do nothing here, to save time.
"""

import builtins
import itertools
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headwater.spark.jobs.archive.compaction import compact
from headwater.spark.jobs.archive.files import tree_changes
from headwater.spark.jobs.archive.files.durable_files import make_directory
from headwater.spark.jobs.archive.files.parquet_files import DATA_SCHEMA, FileShape
from headwater.spark.jobs.archive.log import DataFile
from headwater.spark.jobs.archive.manifest import Manifest, settle_manifest
from headwater.spark.jobs.archive.opening import open_log
from headwater.spark.jobs.archive.sink import SinkOptions, commit_files, write_files
from headwater.spark.jobs.archive.spark_checkpoint import query_id
from headwater.spark.read.offsets import Offset, PlannedRange

CREATED: Final = "2026-11-15T00:00:00Z"
SECOND_US: Final = 1_000_000
# Two batches of two tasks, with two tokens in each.
MESSAGES: Final = 40
BATCH_MESSAGES: Final = 20
FILE_BYTES: Final = 1 << 20

_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROJECT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Place:
    """The folders and the format of a run's archive."""

    root: Path
    checkpoint: Path
    format: str

    @property
    def manifest(self) -> Manifest:
        return Manifest("orders", self.format, ("date", "token_2"), ())  # type: ignore[arg-type]


def messages(first: int, last: int) -> pa.RecordBatch:
    """The messages of a range of the stream; every seventh was deleted."""
    sequences = [each for each in range(first, last + 1) if each % 7]
    columns = {
        "stream": ["orders"] * len(sequences),
        "subject": [f"orders.{each % 2}.new" for each in sequences],
        "sequence": sequences,
        "timestamp": [each * SECOND_US for each in sequences],
        "headers": [[("n", [str(each)])] for each in sequences],
        "data": [b"%d" % each for each in sequences],
        "stream_created": [0] * len(sequences),
    }
    return pa.RecordBatch.from_pydict(columns, schema=DATA_SCHEMA)


# --- what Spark does ----------------------------------------------------------------------------


def run(place: Place) -> None:
    """Archive everything, going on from whatever is there."""
    settle_manifest(place.root, place.manifest)
    log = open_log(place.root, place.manifest)
    log.prepare()
    make_directory(place.checkpoint / "offsets")
    make_directory(place.checkpoint / "commits")
    if query_id(place.checkpoint) is None:
        _put(place.checkpoint / "metadata", json.dumps({"id": "query"}))
    committed = log.record("query", CREATED).batch
    options = SinkOptions(
        root=place.root,
        checkpoint=place.checkpoint,
        run=f"{os.getpid():08x}",
        committed=-1 if committed is None else committed,
        shape=FileShape(FILE_BYTES, 8),
    )
    for batch in itertools.count(_done(place.checkpoint)):
        offset = _planned(place.checkpoint, batch)
        if offset is None:
            break
        _run_batch(options, batch, offset)
        _put(place.checkpoint / "commits" / str(batch), "v1\n{}")
        # A run compacts even if everything is archived: its last compaction may be cut off.
        compact(place.root, log, FILE_BYTES, 8)
    compact(place.root, log, FILE_BYTES, 8)


def _run_batch(options: SinkOptions, batch: int, offset: Offset) -> None:
    files: list[DataFile] = []
    for task, part in enumerate(offset.ranges):
        if batch > options.committed:
            files += write_files(options, batch, task, iter([messages(part.first, part.last)]))
    commit_files(options, batch, tuple(files))


def _done(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def _planned(checkpoint: Path, batch: int) -> Offset | None:
    """The end of a batch, as it was planned before or is planned now; None after the last."""
    path = checkpoint / "offsets" / str(batch)
    first = batch * BATCH_MESSAGES + 1
    if not path.exists():
        if first > MESSAGES:
            return None
        middle, last = first + BATCH_MESSAGES // 2 - 1, first + BATCH_MESSAGES - 1
        ranges = PlannedRange(first, middle, None), PlannedRange(middle + 1, last, None)
        planned = Offset("orders", CREATED, last + 1, ranges)
        _put(path, f"v1\n{{}}\n{json.dumps(planned.to_json())}")
    return Offset.from_json(json.loads(path.read_text().split("\n")[2]))


def _put(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(text)
    draft.replace(path)


# --- the crash ----------------------------------------------------------------------------------


GUARDED: Final[tuple[tuple[Any, str], ...]] = (
    (os, "replace"),
    (os, "unlink"),
    (os, "mkdir"),
    (os, "link"),
    (os, "fsync"),
    (tree_changes, "exchange"),
    (builtins, "open"),
    (DeltaTable, "create_write_transaction"),
)


class Trap:
    """Does something just before each effect: counts, and kills the process before one of them."""

    def __init__(self, deadly: int) -> None:
        self._effects = itertools.count(1)
        self._deadly = deadly

    def step(self) -> None:
        if next(self._effects) == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def guard(self, owner: Any, name: str, is_effect: Callable[..., bool] | None = None) -> None:
        """Count the calls of a function as effects, or only those for which `is_effect` is true."""
        original = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            if is_effect is None or is_effect(*args, **kwargs):
                self.step()
            return original(*args, **kwargs)

        setattr(owner, name, counted)

    def set(self) -> None:
        for name in ("replace", "unlink", "mkdir", "link"):
            self.guard(os, name)
        self.guard(tree_changes, "exchange")
        os.fsync = lambda fd: None
        self.guard(builtins, "open", lambda path, mode="r", **_: mode[0] in "wxa")
        # A kill before or after a commit is enough: delta-rs makes it one atomic step.
        original = DeltaTable.create_write_transaction

        def commit(*args: Any, **kwargs: Any) -> None:
            self.step()
            original(*args, **kwargs)
            self.step()

        DeltaTable.create_write_transaction = commit  # type: ignore[method-assign]


def _child(place: Place, deadly: int) -> None:
    Trap(deadly).set()
    run(place)


def run_in_child(place: Place, deadly: int = 0) -> bool:
    """Whether a run in a process of its own came to its end; 0 kills at no effect."""
    _PROCESSES.set_forkserver_preload([__name__])
    child = _PROCESSES.Process(target=_child, args=(place, deadly))
    # The server that forks, started with the first child, must find this module to load it once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(_PROJECT), prepend=os.pathsep)
        child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), child.exitcode
    return child.exitcode == 0


def crash_points(place: Callable[[int], Place], first: int, step: int) -> Iterator[Place]:
    """Runs that were killed at effect `first`, `first + step` and so on, up to the last effect."""
    for deadly in itertools.count(first, step):
        killed = place(deadly)
        if run_in_child(killed, deadly):
            return
        yield killed
