"""The function of each kind of job, which takes a session, the settings and a progress.

The union read is a DataFrame; this module makes it a job that counts its rows or writes them out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.shell.exits import CommandFailed
from headwater.spark.jobs.archive.job import archive
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.reading import lag_of_reader
from headwater.spark.jobs.replay.job import replay
from headwater.spark.jobs.stats.job import stats
from headwater.spark.jobs.table.job import table
from headwater.spark.jobs.union import UnionSettings, union_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# To the microsecond, which Spark's own default for texts cuts to the millisecond.
TIME_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
# Options of Spark for the formats that are texts. A quote within a field of CSV is doubled, as in
# RFC 4180 and as other programs expect; Spark's own default is a backslash before it.
EXPORT_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {"header": "true", "escape": '"', "timestampFormat": TIME_FORMAT},
    "json": {"timestampFormat": TIME_FORMAT},
}


@dataclass(frozen=True)
class UnionResult:
    """The figures of a union, and as many of its rows as were asked for."""

    stream: str
    archive: str
    messages: int
    first_sequence: int | None
    last_sequence: int | None
    to: str | None = None
    rows: tuple[dict[str, Any], ...] = ()


def union(
    spark: "SparkSession",
    settings: UnionSettings,
    progress: Progress = SILENT,
    rows_max: int = 0,
) -> UnionResult:
    """Count a union; write it into a folder where the settings name one."""
    refuse_what_is_there(settings)
    progress.stage("union", None)
    frame = rows_of(spark, settings)
    to = None if settings.root is None else str(settings.root)
    if to is not None:
        # The count is of the written rows, without messages that came in the meantime.
        options = EXPORT_OPTIONS.get(settings.format, {})
        exportable(frame, settings.format).write.format(settings.format).options(**options).save(to)
    messages, first, last = counted(frame)
    progress.advance(messages)
    if last is not None:
        # Messages that have come since are not among the rows.
        lag = lag_of_reader(settings.login, settings.stream, last + 1, settings.subjects)
        progress.note(str(lag))
    # The sequences of a stream that was created again start at 1 again.
    in_order = frame.orderBy("stream_created", "sequence")
    rows = in_order.limit(rows_max).collect() if rows_max else []
    return UnionResult(
        settings.stream,
        str(settings.archive_root),
        messages,
        first,
        last,
        to,
        rows=tuple(row.asDict() for row in rows),
    )


def refuse_what_is_there(settings: UnionSettings) -> None:
    """Raise CommandFailed where the folder to write into is there already."""
    if settings.root is not None and settings.root.exists():
        raise CommandFailed(
            f"{settings.root} is there already (to)", "Remove it, or name another folder."
        )


def rows_of(spark: "SparkSession", settings: UnionSettings) -> "DataFrame":
    """The rows the settings mean."""
    return union_read(
        spark,
        settings.login,
        str(settings.archive_root),
        settings.stream,
        settings.subjects,
        settings.fail_on_data_loss,
    )


def counted(frame: "DataFrame") -> tuple[int, int | None, int | None]:
    """The number of rows, and their first and last sequence."""
    from pyspark.sql import functions as f

    count, first, last = frame.agg(f.count("*"), f.min("sequence"), f.max("sequence")).collect()[0]
    return count, first, last


def exportable(frame: "DataFrame", format: str) -> "DataFrame":
    """The rows as a format can have them: CSV knows neither maps nor bytes."""
    from pyspark.sql import functions as f

    if format != "csv":
        return frame
    return frame.withColumn("headers", f.to_json("headers")).withColumn("data", f.base64("data"))


RUN: Final[Mapping[str, Callable[..., Any]]] = {
    "archive": archive,
    "table": table,
    "replay": replay,
    "union": union,
    "stats": stats,
}


def run_job(spark: "SparkSession", job: Job, progress: Progress) -> Any:
    """Run a job, of whatever kind."""
    return RUN[job.kind](spark, job.settings, progress)
