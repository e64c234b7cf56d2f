"""The checkpoint of a streaming query: the id of the query, and the end of each batch.

Spark writes `offsets/<batch>` before the batch runs, so that it exists when the sink commits: a
line with the version, a line of Spark's own, and one line per source, in the source's own format. A
query keeps its id for the life of its checkpoint. Both are read here and nowhere else; the names
are Spark's, and a test reads a real checkpoint.
"""

import json
import os
from pathlib import Path
from typing import Final

from headwater.spark.jobs.archive.log import ArchiveError, Reached
from headwater.spark.read.offsets import Offset

OFFSETS_VERSION: Final = "v1"
_SOURCE_LINE: Final = 2


def query_id(checkpoint: Path) -> str | None:
    """The id of the checkpoint's query; None before its first start."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text("utf-8"))["id"])
    except FileNotFoundError:
        return None


def last_planned(checkpoint: Path) -> tuple[int, Reached] | None:
    """The last planned batch, which is the one that runs, and its end."""
    try:
        batches = [int(name) for name in os.listdir(checkpoint / "offsets") if name.isdigit()]
    except FileNotFoundError:
        return None
    reached = batch_end(checkpoint, max(batches)) if batches else None
    return None if reached is None else (max(batches), reached)


def batch_end(checkpoint: Path, batch: int) -> Reached | None:
    """The end of a batch; None if it was never planned, or is no longer kept."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text("utf-8").split("\n")
    except FileNotFoundError:
        return None
    if lines[0] != OFFSETS_VERSION or len(lines) != _SOURCE_LINE + 1:
        raise ArchiveError(
            f"option checkpoint: {checkpoint} was written by another kind of query, or by a Spark"
            f" whose offsets are {lines[0][:20]!r}: name a directory of its own for this archive"
        )
    offset = Offset.from_json(json.loads(lines[_SOURCE_LINE]))
    return Reached(offset.created, offset.next)
