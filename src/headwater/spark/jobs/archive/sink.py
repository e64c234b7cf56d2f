"""The streaming sink of the archive job: tasks write files, the driver commits them.

    created  on the driver, at the start of each batch: finds the stream of the batch
    write    on an executor: sorts the rows of one partition of a batch into files of its own
    commit   on the driver, when all tasks are done: one step makes them part of the archive
    abort    on the driver, when some task failed: the files of the others are removed

Each runs in a process of its own and knows only the options and Spark's arguments. A task that ran
twice (a retry, speculation) has written two sets of files; Spark commits one, the other stays
behind as an orphan. A batch that is replayed after a crash is recognised by the record.

The job registers the sink under the name `headwater_archive`; it is not for use in other queries,
because it reads the checkpoint of the archive's query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.base.errors import ProgrammerError
from headwater.spark.jobs.archive.files.parquet_files import (
    DraftNames,
    FileShape,
    PartitionedFiles,
    with_created,
)
from headwater.spark.jobs.archive.log import (
    ArchiveError,
    BatchCommit,
    DataFile,
    Reached,
)
from headwater.spark.jobs.archive.manifest import read_manifest
from headwater.spark.jobs.archive.opening import open_log
from headwater.spark.jobs.archive.spark_checkpoint import batch_end, last_planned, query_id
from headwater.spark.options import parse_point_in_time
from headwater.spark.versions import DataSourceStreamArrowWriter, sound_batch

SINK_NAME: Final = "headwater_archive"
# Names that Spark does not document; a test checks them.
BATCH_PROPERTY: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class SinkOptions:
    """The options that the job passes to the sink.

    `run` is in the names of this run's files; `committed` is the last batch that was committed when
    the run began, or -1: it need not be written again.
    """

    root: Path
    checkpoint: Path
    run: str
    committed: int
    shape: FileShape

    def to_options(self) -> dict[str, str]:
        return {
            "root": str(self.root),
            "checkpoint": str(self.checkpoint),
            "run": self.run,
            "committed": str(self.committed),
            "fileBytesMax": str(self.shape.file_bytes_max),
            "rowGroupRowsMax": str(self.shape.row_group_rows_max),
        }

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "SinkOptions":
        return cls(
            root=Path(options["root"]),
            checkpoint=Path(options["checkpoint"]),
            run=options["run"],
            committed=int(options["committed"]),
            shape=FileShape(int(options["fileBytesMax"]), int(options["rowGroupRowsMax"])),
        )


@dataclass(frozen=True)
class TaskFiles(WriterCommitMessage):
    """The files that a task has written; it travels to the driver."""

    batch: int
    files: tuple[DataFile, ...]


class ArchiveSink(DataSource):
    """The data source behind the name of the sink."""

    @classmethod
    def name(cls) -> str:
        return SINK_NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> "ArchiveWriter":
        options = SinkOptions.from_options(self.options)
        # Not in the tasks: Spark's checkpoint may be in a place that only the driver can read.
        return ArchiveWriter(options, last_planned(options.checkpoint))


class ArchiveWriter(DataSourceStreamArrowWriter):
    """Writes and commits one batch. `planned` is the batch, and its end."""

    def __init__(self, options: SinkOptions, planned: tuple[int, Reached] | None) -> None:
        self._options = options
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        batch, task = _place()
        if batch <= self._options.committed:
            # Spark considers a worker that leaves rows unread as broken.
            for _ in iterator:
                pass
            return TaskFiles(batch, ())
        created_us = self._created_us(batch)
        rows = (with_created(sound_batch(each), created_us) for each in iterator)
        return TaskFiles(batch, write_files(self._options, batch, task, rows))

    def _created_us(self, batch: int) -> int:
        if self._planned is None or self._planned[0] != batch:
            raise ProgrammerError(f"batch {batch} is written by the writer of {self._planned}")
        return parse_point_in_time(self._planned[1].created) // 1_000

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        files = _files_of(messages, batchId)
        commit_files(self._options, batchId, files)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        options = self._options
        open_log(options.root, read_manifest(options.root, "to")).discard(
            _files_of(messages, batchId)
        )


def write_files(
    options: SinkOptions, batch: int, task: int, batches: Iterator[pa.RecordBatch]
) -> tuple[DataFile, ...]:
    """Write the rows of one task; the files are on the disk when this returns."""
    manifest = read_manifest(options.root, "to")
    names = DraftNames(open_log(options.root, manifest).drafts, options.run, batch, task)
    files = PartitionedFiles(options.root, manifest.partitioning, names, options.shape)
    try:
        for each in batches:
            files.append(each)
        return files.close()
    except BaseException:
        files.abandon()
        raise


def commit_files(options: SinkOptions, batch: int, files: tuple[DataFile, ...]) -> bool:
    """Make the files of all tasks part of the archive. Returns False if the batch was already."""
    query = query_id(options.checkpoint)
    reached = batch_end(options.checkpoint, batch)
    if query is None or reached is None:
        raise ArchiveError(
            f"option checkpoint: {options.checkpoint} does not say where batch {batch} ends:"
            " it must be a directory that the driver can read"
        )
    log = open_log(options.root, read_manifest(options.root, "to"))
    started = batch_end(options.checkpoint, batch - 1)
    return log.commit(BatchCommit(query, batch, started, reached, files))


def _files_of(messages: Sequence[WriterCommitMessage | None], batch: int) -> tuple[DataFile, ...]:
    written = [each for each in messages if isinstance(each, TaskFiles)]
    if any(each.batch != batch for each in written):
        raise ProgrammerError(f"batch {batch} was given files of another: {written}")
    return tuple(file for each in written for file in each.files)


def _place() -> tuple[int, int]:
    """The current batch, and the task of it that runs here."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    if context is None or batch is None:
        raise ProgrammerError(f"Spark does not say which batch this is ({BATCH_PROPERTY})")
    return int(batch), context.partitionId()
