"""The union read: one DataFrame over an archive and the newer messages of its stream.

A snapshot of the archive is taken first; it has the sequence up to which it is complete. The stream
is then read from there to its current end. So each message is on exactly one side, whatever the
archive job or a compaction does meanwhile: later commits are not in the snapshot. The DataFrame
does not change: every action on it sees the same rows.

Messages are missing if the stream has lost them between the end of the archive and its own first
message, or if it was deleted and created again. That is a DataLossError, unless `fail_on_data_loss`
is off: then it is logged, and the rest is read. A stream that ends before its archive was restored
from an older state or cut, which is a loss too.

Messages that were deleted from the stream after they were archived are still in the archive, and so
in the DataFrame.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.spark.jobs.archive.log import Snapshot
from headwater.spark.jobs.archive.manifest import Manifest, read_manifest
from headwater.spark.jobs.archive.opening import open_log
from headwater.spark.jobs.reading import (
    Bounds,
    check_subjects,
    read_stream,
    stream_info,
    subject_regex,
    utc,
)
from headwater.spark.options import OptionError, parse_point_in_time
from headwater.spark.read.offsets import (
    DataLossError,
    Offset,
    first_sequence,
    keeps_messages,
    loss_of,
)
from headwater.subjects.grammar import is_subset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log: Final = logging.getLogger(__name__)

ExportFormat = Literal["parquet", "json", "csv"]


@dataclass(frozen=True)
class UnionSettings:
    """The archive and the stream to read as one, and the place of a copy.

    Without `subjects`, all archived ones. `to` is a directory for a copy in `format`.
    """

    login: Login
    archive: str
    stream: str
    subjects: tuple[str, ...] = ()
    to: str | None = None
    format: ExportFormat = "parquet"
    fail_on_data_loss: bool = True

    def check(self) -> None:
        """Raises OptionError."""
        for option in ("archive", "stream"):
            if not getattr(self, option):
                raise OptionError(f"option {option} is empty: give it a value")
        check_subjects(self.subjects)
        if self.format not in get_args(ExportFormat):
            raise OptionError(
                f"option format={self.format!r} is not valid: allowed is"
                f" {' or '.join(get_args(ExportFormat))}"
            )

    @property
    def archive_root(self) -> Path:
        """The absolute path of the archive: workers run in folders of their own."""
        return Path(self.archive).absolute()

    @property
    def root(self) -> Path | None:
        """The directory of the copy, if there is to be one."""
        return None if self.to is None else Path(self.to).absolute()


def union_read(
    spark: "SparkSession",
    login: Login,
    archive_path: str,
    stream: str,
    subjects: Sequence[str] = (),
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """The archive, and the messages of the stream that are not in it yet.

    The DataFrame has the columns of the archive, so that filters on date or token work on both.
    Raises OptionError, DataLossError.
    """
    from pyspark.sql import functions as f

    from headwater.spark.jobs.archive.reader import read_files, with_partition_columns

    root = Path(archive_path).absolute()
    manifest = read_manifest(root, "archive")
    wanted = subjects_of_both(manifest, stream, subjects)
    # In this order: messages that are committed in between are read from the stream.
    snapshot = open_log(root, manifest).snapshot()
    with Connection(login.at_start) as connection:
        info = stream_info(ApiClient(connection), stream)
    start = start_of_tail(snapshot, info, fail_on_data_loss)
    archived = read_files(spark, root, manifest, snapshot.files)
    if subjects:
        archived = archived.where(
            archived["subject"].rlike("|".join(subject_regex(each) for each in wanted))
        )
    if start > info.last_seq:
        return archived
    tail = read_stream(
        spark,
        login,
        stream,
        wanted,
        Bounds(first_sequence=start, last_sequence=info.last_seq),
        fail_on_data_loss=fail_on_data_loss,
    )
    created = f.lit(utc(parse_point_in_time(info.created))).alias("stream_created")
    return archived.unionByName(
        with_partition_columns(tail.select("*", created), manifest.partitioning)
    )


def subjects_of_both(manifest: Manifest, stream: str, subjects: Sequence[str]) -> tuple[str, ...]:
    """The subjects to read on both sides. Raises OptionError for subjects that are not archived."""
    if manifest.stream != stream:
        raise OptionError(
            f"option stream={stream!r} is not valid: the archive holds the stream"
            f" {manifest.stream}: name that one, or another archive"
        )
    check_subjects(subjects)
    for each in subjects:
        archived = [outer.encode() for outer in manifest.subjects]
        if archived and not any(is_subset(each.encode(), outer) for outer in archived):
            raise OptionError(
                f"option subjects: {each!r} is not all in the archive, which holds"
                f" {','.join(manifest.subjects)}: ask for a part of that, or make another archive"
            )
    return tuple(subjects) or manifest.subjects


def start_of_tail(snapshot: Snapshot, info: StreamInfo, fail_on_data_loss: bool) -> int:
    """The first sequence to read from the stream. Raises DataLossError."""
    reached = snapshot.next_sequence(info.created)
    if reached is None and not snapshot.files:
        # Nothing was archived, so the whole stream is read.
        return first_sequence(info)
    if reached is None:
        text = f"stream {info.name} was deleted and created again after it was archived"
        start = first_sequence(info)
    else:
        loss = loss_of(Offset(info.name, info.created, reached), info, keeps_messages(info))
        if loss is None:
            return reached
        text, start = loss.text, max(loss.next, reached)
    if fail_on_data_loss:
        raise DataLossError(
            f"{text}: archive and stream have a gap between them; read without"
            " fail_on_data_loss to leave it out"
        )
    _log.warning("%s: it is left out", text)
    return start
