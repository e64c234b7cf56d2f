"""What a streaming query's checkpoint says: who the query is, and where each batch ends.

Spark writes `offsets/<batch>` before the batch runs, so that it is there when the sink commits:
a line with the version, a line of Spark's own, and one line per source, in the source's own words.
A query keeps its id for the life of its checkpoint. Both are read here and nowhere else; the names
are Spark's, and a test reads what Spark has written.
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
    """The batch that was planned last, which is the one that runs, and where it ends."""
    try:
        batches = [int(name) for name in os.listdir(checkpoint / "offsets") if name.isdigit()]
    except FileNotFoundError:
        return None
    reached = batch_end(checkpoint, max(batches)) if batches else None
    return None if reached is None else (max(batches), reached)


def batch_end(checkpoint: Path, batch: int) -> Reached | None:
    """Where a batch ends; None for one that was never planned, or is forgotten."""
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
