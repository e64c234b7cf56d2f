"""The query of the archive job: started, watched, and cleaned up after.

The steps of a run, each safe to be cut off at any point and done again by the next run:

    settle the manifest   the directory becomes this archive, or is refused
    prepare the log       what a crash has left half done is finished
    remove orphans        files of attempts that are dead for long
    run the query         each batch: tasks write, the driver commits, Spark notes it as done
    tidy up               between batches and at the end: compact, remove orphans and what is too
                          old to be read

One run at a time: a lock inside the archive is held from the first step to the last.
"""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.reads.lag import Lag
from headwater.spark.jobs.archive.compaction import Compacted, compact
from headwater.spark.jobs.archive.files.durable_files import locked, make_directory, remove
from headwater.spark.jobs.archive.files.parquet_files import FileShape
from headwater.spark.jobs.archive.log import ArchiveLog, Record
from headwater.spark.jobs.archive.manifest import check_place, own_directory, settle_manifest
from headwater.spark.jobs.archive.opening import open_log
from headwater.spark.jobs.archive.settings import ArchiveResult, ArchiveSettings
from headwater.spark.jobs.archive.sink import SINK_NAME, ArchiveSink, SinkOptions
from headwater.spark.jobs.archive.spark_checkpoint import query_id
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.reading import MESSAGE_COLUMNS, login_options, stream_info
from headwater.spark.options import OptionError
from headwater.spark.session import make_active
from headwater.spark.versions import HAS_READ_LIMITS

SOURCE_NAME: Final = "headwater"
POLL_S: Final = 1
NO_BATCH: Final = -1


def run(spark: SparkSession, settings: ArchiveSettings, progress: Progress) -> ArchiveResult:
    """One run of the job."""
    with Connection(settings.login.at_start) as connection:
        info = stream_info(ApiClient(connection), settings.stream)
    with exclusive(settings.root):
        settle_manifest(settings.root, settings.manifest)
        return ArchiveRun(spark, settings, info, progress).run()


@contextlib.contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Hold the archive's lock. Raises OptionError if another run does."""
    check_place(root)
    try:
        make_directory(own_directory(root))
    except OSError as error:
        raise OptionError(f"option to: {root} cannot be created: {error.strerror}") from error
    with locked(own_directory(root) / "run.lock", wait=False) as is_ours:
        if not is_ours:
            raise OptionError(
                f"option to: another run is archiving into {root}: wait for it, or stop it"
            )
        yield


class ArchiveRun:
    """One run into an archive that is locked and settled."""

    def __init__(
        self, spark: SparkSession, settings: ArchiveSettings, info: StreamInfo, progress: Progress
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._info = info
        self._progress = progress
        self._root = settings.root
        self._log: ArchiveLog = open_log(self._root, settings.manifest)
        self._run_id = uuid.uuid4().hex[:8]
        self._last_batch = NO_BATCH
        self._batches = 0
        self._messages = 0
        self._compacted = Compacted()
        self._removed = 0

    def run(self) -> ArchiveResult:
        began = time.monotonic()
        self._log.prepare()
        self._remove_orphans()
        query = self._start()
        try:
            self._watch(query)
        except KeyboardInterrupt:
            if not self._settings.follow:
                raise
        finally:
            query.stop()
        self._count(query)
        self._maintain(self._progress)
        return self._result(time.monotonic() - began)

    def _start(self) -> StreamingQuery:
        checkpoint = self._settings.checkpoint_directory
        make_directory(checkpoint)
        record = self._record()
        self._progress.stage("archive", self._messages_to_come(record))
        options = SinkOptions(
            root=self._root,
            checkpoint=checkpoint,
            run=self._run_id,
            committed=NO_BATCH if record.batch is None else record.batch,
            shape=FileShape(self._settings.file_mb << 20, self._settings.row_group_rows),
        )
        make_active(self._spark)
        self._spark.dataSource.register(ArchiveSink)
        writer = (
            self._source(record)
            .writeStream.format(SINK_NAME)
            .options(**options.to_options())
            .option("checkpointLocation", str(checkpoint))
        )
        if not self._settings.follow:
            writer = writer.trigger(availableNow=True)
        elif self._settings.every_s:
            # Each batch is a version of the table, and at least one file.
            writer = writer.trigger(
                processingTime=f"{self._settings.every_s * 1000:.0f} milliseconds"
            )
        return writer.start()

    def _source(self, record: Record) -> DataFrame:
        options = {**login_options(self._settings.login), **self._settings.source_options()}
        # An archive has each sequence once; the newest entry of a key could come in two batches.
        options["changes"] = "all"
        if self._settings.max_messages_per_trigger is None and not HAS_READ_LIMITS:
            # The limit is a default, and an older Spark cannot keep it.
            del options["maxMessagesPerTrigger"]
        if record.next_sequence is not None:
            # For a new checkpoint; one with a batch continues from there.
            options["startingSequence"] = str(record.next_sequence)
        source = self._spark.readStream.format(SOURCE_NAME).options(**options).load()
        return source.select(*MESSAGE_COLUMNS)

    def _record(self) -> Record:
        query = query_id(self._settings.checkpoint_directory)
        return self._log.record(query or "", self._info.created)

    def _messages_to_come(self, record: Record) -> int | None:
        if self._settings.follow or self._settings.subjects:
            return None
        start = max(record.next_sequence or 1, self._info.first_seq)
        return max(0, self._info.last_seq + 1 - start)

    def _watch(self, query: StreamingQuery) -> None:
        """Wait for the end of the query, and maintain the archive at intervals."""
        compacted_at = 0
        while not query.awaitTermination(POLL_S):  # raises what ended the query
            self._count(query)
            every = self._settings.compact_every
            if every and self._batches - compacted_at >= every:
                compacted_at = self._batches
                # Without progress: that of the query is on display.
                self._maintain(SILENT)

    def _count(self, query: StreamingQuery) -> None:
        recent = query.recentProgress
        for each in recent:
            # Without work Spark reports the next batch again and again.
            if each.batchId > self._last_batch and "addBatch" in each.durationMs:
                self._last_batch = each.batchId
                self._batches += 1
                self._messages += each.numInputRows
                self._progress.advance(each.numInputRows)
        if not HAS_READ_LIMITS:
            # A Spark without read limits asks no source for its lag.
            return
        lag = None if not recent else lag_of(recent[-1])
        if lag is not None:
            self._progress.note(str(lag))

    def _maintain(self, progress: Progress) -> None:
        if self._settings.compact:
            self._compacted += compact(
                self._root,
                self._log,
                self._settings.file_mb << 20,
                self._settings.row_group_rows,
                progress,
            )
        self._remove_orphans()
        self._removed += self._log.expire(self._settings.replaced_age_s)

    def _remove_orphans(self) -> None:
        oldest = time.time() - self._settings.orphan_age_s
        for path in self._log.orphans():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    self._removed += remove(path)

    def _result(self, seconds: float) -> ArchiveResult:
        files = self._log.snapshot().files
        return ArchiveResult(
            stream=self._settings.stream,
            to=str(self._root),
            format=self._settings.format,
            batches=self._batches,
            messages=self._messages,
            next_sequence=self._record().next_sequence,
            files=len(files),
            bytes=sum(each.size_bytes for each in files),
            files_merged=self._compacted.files_before,
            files_removed=self._removed,
            seconds=round(seconds, 3),
        )


def lag_of(progress: StreamingQueryProgress) -> Lag | None:
    """The lag of the query behind its stream; None if unknown."""
    head = progress.sources[0].latestOffset
    # PySpark converts a missing value into a text as well.
    return Lag.from_json(json.loads(head)) if head.startswith("{") else None
