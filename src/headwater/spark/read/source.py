"""The batch read: its planning, and the reading of partitions by tasks.

Planning happens in a Python process beside the driver: it inspects the stream once, finds the
sequences to read, cuts them into partitions and gives each all it needs. A task reads one partition
in an executor's Python process, which Spark uses again for the next task; so a connection that a
task has used without an error is kept for the next one of the same login.

Readers hold options and schemas, never anything open: Spark pickles them.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.base.errors import OperatingError
from headwater.client.api.answers import STREAM_NOT_FOUND, StreamInfo
from headwater.client.api.requests import stream_info
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import (
    ApiRefusedError,
    LinkError,
    NoRespondersError,
    RefusedError,
    UnreachableError,
)
from headwater.client.link.login import Login
from headwater.client.link.reads.counts import count_messages, sequence_at
from headwater.client.link.reads.fetch import (
    Columns,
    ReadLevelError,
    SequenceRange,
    StreamReplacedError,
    choose_way,
    read_range,
)
from headwater.client.link.reads.lag import oldest_time_ns
from headwater.client.link.reads.levels import stream_at
from headwater.spark import buckets, objects
from headwater.spark.options import (
    PARTITIONS_MAX,
    STREAMS_MAX,
    At,
    Kind,
    OptionError,
    Position,
    SourceOptions,
)
from headwater.spark.read.batches import BatchBuilder, in_batches
from headwater.spark.read.offsets import (
    Changes,
    DataLossError,
    Offset,
    PlannedRange,
    first_sequence,
    keeps_messages,
    loss_of,
)
from headwater.spark.read.planning import (
    PARALLELISM_VARIABLE,
    PARTITIONS_DEFAULT,
    Count,
    Measured,
    cut,
    cut_measured,
    partition_count,
    without_counts,
)
from headwater.spark.schema import check_columns

log: Final = logging.getLogger("headwater.spark")

HIDDEN_PREFIXES: Final = ("KV_", "OBJ_")
"""The prefixes of the streams of buckets and object stores."""

IDLE_S_MAX: Final = 30.0
"""The longest idle time of a connection between tasks, in which no one answers a server's pings."""

# With this variable PySpark leaves the traceback out of errors for the driver.
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
# Set in the processes that Spark starts to plan and to run tasks.
_SPARKS_PROCESS: Final = "PYTHON_WORKER_FACTORY_SECRET"


class TableMissingError(OptionError):
    """No stream, bucket or object store has this name."""


_idle: dict[tuple[int, Login], tuple[Connection, float]] = {}


@contextmanager
def borrowed(login: Login) -> Iterator[Connection]:
    """A connection of this process, kept for the next borrower unless there is an error."""
    # A forked process must not share its parent's socket.
    key = os.getpid(), login
    connection, idle_since = _idle.pop(key, (None, 0.0))
    if connection is not None and time.monotonic() - idle_since > IDLE_S_MAX:
        connection.close()
        connection = None
    connection = connection or Connection(login)
    try:
        yield connection
    except BaseException:
        # Half an answer may still be on its way.
        connection.close()
        raise
    _idle[key] = connection, time.monotonic()


@contextmanager
def named_errors(options: SourceOptions) -> Iterator[None]:
    """Turn errors of the server into errors that name the option, each one line in the driver."""
    with one_line_errors():
        try:
            yield
        except LinkError as error:
            raise _named(error, options) from None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Let errors reach the driver as one line, without the frames of PySpark."""
    try:
        yield
    except OperatingError:
        hide_traceback()
        raise


def hide_traceback() -> None:
    """Make PySpark report the next error by its message alone.

    A Python process of Spark's ends after an error, so nothing else is hidden.
    """
    if _SPARKS_PROCESS in os.environ:
        os.environ[_HIDE_TRACEBACK] = "1"


def _named(error: LinkError, options: SourceOptions) -> OperatingError:
    at = options.login.shown_url
    if isinstance(error, UnreachableError):
        return OptionError(f"option url: {error}")
    if isinstance(error, NoRespondersError):
        return OptionError(f"option {options.login.api_option or f'url={at!r}'}: {error}")
    if isinstance(error, RefusedError):
        method = options.login.method
        if method == "no credentials":
            return OptionError(f"option user (or token, nkey, creds) is missing: {error}")
        return OptionError(f"option {method}: {error}")
    if isinstance(error, ReadLevelError):
        return OptionError(
            f"option readConsistency={error.level.value!r}: {error}; set the stream's"
            " read_consistency on a Headwater server, or use leader"
        )
    if isinstance(error, ApiRefusedError) and error.err_code == STREAM_NOT_FOUND:
        what = {Kind.STREAM: "stream", Kind.BUCKET: "bucket", Kind.OBJECTS: "object store"}
        return TableMissingError(
            f"option {options.target_option}={options.name!r}: there is no such"
            f" {what[options.kind]} at {at}: create it, or correct the name"
        )
    return error


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The part of one task, with the stream as the planner saw it."""

    range: PlannedRange
    info: StreamInfo
    subjects: tuple[str, ...]
    latest: "LatestPart | None" = None


@dataclass(frozen=True)
class LatestPart:
    """The share of a task in a batch of kind `latest`: some of the keys that have changed.

    `head` is the end of the stream when the batch was planned; None if later entries do not count.
    """

    part: int
    parts: int
    head: int | None


@dataclass(frozen=True)
class ObjectsPartition(InputPartition):
    """The objects that one task of a batch read reads."""

    metas: tuple[objects.Meta, ...]
    info: StreamInfo


def check_reachable(options: SourceOptions) -> None:
    """Raise an OperatingError that names the option, if the table cannot be read."""
    with named_errors(options), borrowed(options.login.at_start) as connection:
        names = stream_names(connection, options) if options.streams else [options.stream]
        for name in names:
            info = stream_at(connection, name, options.consistency)
            choose_way(info, subjects_of(options), options.consistency)


def stream_names(
    connection: Connection, options: SourceOptions, may_miss: bool = False
) -> list[str]:
    """The existing streams among those that are read as one.

    Raises TableMissingError for a name without a stream, unless streams `may_miss`. Patterns may
    match nothing yet.
    """
    there = ApiClient(connection).stream_names()
    missing = {name for name in options.streams if "*" not in name}.difference(there)
    if missing and not may_miss:
        raise TableMissingError(
            f"option {options.target_option}: there is no stream {min(missing)} at"
            f" {options.login.shown_url}: create it, or correct the name"
        )
    found = [name for name in there if is_named(name, options.streams)]
    if len(found) > STREAMS_MAX:
        raise OptionError(
            f"option {options.target_option}={options.name!r} matches {len(found)} streams: allowed"
            f" are {STREAMS_MAX}"
        )
    return found


def is_named(stream: str, names: Sequence[str]) -> bool:
    """Whether a stream is one of those named.

    Patterns match the streams of buckets and object stores only if they begin with their prefix.
    """
    if stream in names:
        return True
    hidden = next((prefix for prefix in HIDDEN_PREFIXES if stream.startswith(prefix)), "")
    patterns = [name for name in names if "*" in name and name.startswith(hidden)]
    return any(
        re.fullmatch(".*".join(map(re.escape, name.split("*"))), stream) for name in patterns
    )


def subjects_of(options: SourceOptions) -> tuple[str, ...]:
    """The patterns of the stream's subjects that form the table; empty means all."""
    if options.kind is Kind.BUCKET:
        return buckets.subjects_of(options.name, options.subjects)
    if options.kind is Kind.OBJECTS:
        return (objects.meta_pattern(options.name),)
    return options.subjects


def changes_of(options: SourceOptions, info: StreamInfo) -> Changes:
    """The rows of a streaming read, unless its options name them."""
    if options.changes is not None:
        return options.changes
    replaces = int(info.config.get("max_msgs_per_subject") or -1) > 0
    return Changes.LATEST if replaces and options.kind is not Kind.OBJECTS else Changes.ALL


def keeps(options: SourceOptions, info: StreamInfo) -> bool:
    """Whether the removal of a message before it is read is a loss."""
    return options.kind is Kind.STREAM and keeps_messages(info)


def report_loss(options: SourceOptions, text: str) -> None:
    """Fail or continue, by the options. Raises DataLossError."""
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{text}; to go on with what is left, set option failOnDataLoss=false or start a new"
            " query with another checkpointLocation"
        )
    log.warning("data loss, ignored because of failOnDataLoss=false: %s", text)


def stream_to_read(
    connection: Connection,
    options: SourceOptions,
    has_read: Callable[[StreamInfo], int] = lambda _: 0,
) -> StreamInfo:
    """The stream of a read with its end, as the level of the options sees it.

    `has_read` returns the last sequence that the query has read of a stream.
    """
    return stream_at(
        connection,
        options.stream,
        options.consistency,
        lambda info: max(options.session_sequence, has_read(info)),
    )


def newest(connection: Connection, options: SourceOptions, info: StreamInfo) -> int:
    """The end of a stream as it is now, which a session has seen up to `info`."""
    return stream_to_read(connection, options, lambda _: info.end_seq).end_seq


def start_sequence(connection: Connection, info: StreamInfo, position: Position) -> int:
    """The first sequence to read."""
    if position.at is At.SEQUENCE:
        return position.value
    if position.at is At.TIME:
        return sequence_at(connection, info, position.value)
    return info.end_seq + 1 if position.at is At.LATEST else first_sequence(info)


def end_sequence(connection: Connection, info: StreamInfo, position: Position) -> int:
    """The last sequence to read, of the existing ones."""
    if position.at is At.SEQUENCE:
        return min(position.value, info.end_seq)
    if position.at is At.TIME:
        return min(sequence_at(connection, info, position.value) - 1, info.end_seq)
    return info.end_seq


def counter(connection: Connection, info: StreamInfo, subjects: tuple[str, ...]) -> Count:
    """A function that counts messages of the stream; equal questions reach the server once."""
    known: dict[tuple[int, int], int | None] = {}

    def count(first: int, last: int) -> int | None:
        if (first, last) not in known:
            known[first, last] = count_messages(connection, info, first, last, subjects)
        return known[first, last]

    return count


def density_of(connection: Connection, info: StreamInfo, subjects: tuple[str, ...]) -> float:
    """The average share of sequences that have a matching message."""
    matching = info.messages
    if subjects:
        found: dict[str, int] = {}
        for pattern in subjects:
            answer = ApiClient(connection).call_with_retry(
                stream_info(info.name, {"subjects_filter": pattern})
            )
            found |= answer["state"].get("subjects") or {}
        matching = sum(found.values())
    return matching / max(1, info.last_seq - info.first_seq + 1)


def cut_into_partitions(
    options: SourceOptions, info: StreamInfo, first: int, last: int, count: Count
) -> tuple[PlannedRange, ...]:
    """The parts of the messages from `first` to `last`; none if there is nothing to read."""
    total = count(first, last)
    if total == 0:
        return ()
    messages = last - first + 1 if total is None else total
    size_bytes = messages * info.bytes // max(1, info.messages)
    parts = partition_count(messages, options.partitions_min, size_bytes, parallelism())
    ranges = cut(first, last, total, parts, count)
    return ranges if keeps(options, info) else without_counts(ranges)


def cut_measured_batch(
    options: SourceOptions, info: StreamInfo, first: int, measured: Measured
) -> tuple[PlannedRange, ...]:
    """The parts of a batch whose messages were measured."""
    messages = len(measured.sequences)
    if not messages:
        return ()
    parts = partition_count(messages, options.partitions_min, measured.bytes, parallelism())
    ranges = cut_measured(first, measured, parts)
    return ranges if keeps(options, info) else without_counts(ranges)


def parallelism() -> int:
    """The number of tasks that run at a time, as far as the planner can know.

    Spark does not tell a planner. A session of ours does; otherwise it is assumed to have as many
    cores as this machine.
    """
    told = os.environ.get(PARALLELISM_VARIABLE, "")
    tasks = int(told) if told.isdigit() else os.cpu_count() or 1
    return max(PARTITIONS_DEFAULT, min(tasks, PARTITIONS_MAX))


def plan_latest(
    options: SourceOptions,
    connection: Connection,
    info: StreamInfo,
    wanted: SequenceRange,
    count: Count,
) -> tuple[PlannedRange, ...]:
    """The parts of a batch of kind `latest`; none if no key has changed.

    Whether an entry was replaced by a newer one is unknown within a part, so each part reads the
    whole range and keeps a share of the keys.
    """
    total = count(wanted.first, wanted.last)
    # An entry that was replaced before it was counted would not be missed, and not searched.
    has_moved = newest(connection, options, info) != info.end_seq
    if total == 0:
        subjects = subjects_of(options)
        may_be_behind = wanted.is_open and has_moved
        if not may_be_behind or oldest_time_ns(connection, info, wanted.first, subjects) is None:
            return ()
    planned = PlannedRange(wanted.first, wanted.last, None if has_moved else total)
    return (planned,) * (options.partitions_min or 1)


class SourceReader(DataSourceReader):
    """A batch read: from the start to the end in the options, as the stream is when planned.

    Spark plans a loaded table at the first action on it and keeps the plan: a DataFrame is as of
    that moment, however often it is used.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(options.kind, [(f.name, f.dataType.simpleString()) for f in schema.fields])
        self.options = options.check_batch()
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self.options
        with named_errors(options), borrowed(options.login) as connection:
            info = stream_to_read(connection, options)
            first, last = self.bounds(connection, info)
            subjects = self.subjects()
            if subjects is None or first > last:
                return []
            if options.kind is Kind.OBJECTS:
                return self._of_objects(connection, info, SequenceRange(first, last), subjects)
            if options.kind is Kind.BUCKET and not options.history:
                # Whether an entry is the last of its key is unknown within a part.
                ranges: tuple[PlannedRange, ...] = (PlannedRange(first, last, None),)
            else:
                count = counter(connection, info, subjects)
                ranges = cut_into_partitions(options, info, first, last, count)
            return [RangePartition(part, info, subjects) for part in ranges]

    def _of_objects(
        self,
        connection: Connection,
        info: StreamInfo,
        wanted: SequenceRange,
        subjects: tuple[str, ...],
    ) -> list[InputPartition]:
        options = self.options
        way = choose_way(info, subjects, options.consistency)
        reader = objects.ObjectReader(connection, options.name, info, way, changes=False)
        is_open = options.ending.at is At.LATEST
        until_now = partial(newest, connection, options, info) if is_open else None
        metas = reader.metas(wanted, subjects, until_now)
        parts = options.partitions_min or PARTITIONS_DEFAULT
        return [ObjectsPartition(share, info) for share in objects.shared_out(metas, parts)]

    def bounds(self, connection: Connection, info: StreamInfo) -> tuple[int, int]:
        """The first and the last sequence to read."""
        options = self.options
        start = Offset(info.name, info.created, start_sequence(connection, info, options.starting))
        loss = loss_of(start, info, keeps(options, info), waits_for_start=True)
        if loss is not None:
            report_loss(options, loss.text)
        first = max(start.next, first_sequence(info))
        return first, end_sequence(connection, info, options.ending)

    def subjects(self) -> tuple[str, ...] | None:
        """The patterns to read by; None if nothing can match."""
        return subjects_of(self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, self.schema, partition, changes=False)


def read_partition(
    options: SourceOptions, schema: StructType, partition: InputPartition, changes: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition. Spark passes an unplanned one if there were none.

    `changes`: whether to return rows for deletions too.
    """
    if not isinstance(partition, RangePartition | ObjectsPartition):
        return
    with named_errors(options), borrowed(options.login) as connection:
        try:
            yield from _rows(connection, options, schema, partition, changes)
        except StreamReplacedError as error:
            report_loss(options, str(error))


def _rows(
    connection: Connection,
    options: SourceOptions,
    schema: StructType,
    partition: RangePartition | ObjectsPartition,
    changes: bool,
) -> Iterator[pa.RecordBatch]:
    if options.kind is not Kind.OBJECTS and isinstance(partition, RangePartition):
        yield from _message_rows(connection, options, schema, partition)
        return
    subjects = subjects_of(options)
    way = choose_way(partition.info, subjects, options.consistency)
    reader = objects.ObjectReader(connection, options.name, partition.info, way, changes)
    if isinstance(partition, ObjectsPartition):
        metas: Sequence[objects.Meta] = partition.metas
    else:
        planned = partition.range
        metas = reader.metas(SequenceRange(planned.first, planned.last), partition.subjects)
    yield from reader.batches(metas, schema, options.include_headers)


def _message_rows(
    connection: Connection, options: SourceOptions, schema: StructType, partition: RangePartition
) -> Iterator[pa.RecordBatch]:
    info, subjects, planned = partition.info, partition.subjects, partition.range
    way = choose_way(info, subjects, options.consistency)
    headers_only = not _wants_payloads(options, schema)

    def read(wanted: SequenceRange) -> Iterator[Columns]:
        return read_range(connection, info, wanted, subjects, way, headers_only=headers_only)

    newest_now = partial(newest, connection, options, info)
    one_per_key = info.config.get("max_msgs_per_subject") == 1
    if partition.latest is not None:
        of = partition.latest
        entries = buckets.LatestEntries(read, one_per_key, (of.part, of.parts))
        chunks = entries.changes(
            planned.first,
            planned.last,
            planned.count,
            of.head or planned.last,
            None if of.head is None else newest_now,
        )
    elif options.kind is Kind.BUCKET and not options.history:
        entries = buckets.LatestEntries(read, one_per_key)
        until_now = newest_now if options.ending.at is At.LATEST else None
        chunks = entries.chunks(planned.first, planned.last, until_now)
    else:
        chunks = _complete(read(SequenceRange(planned.first, planned.last)), options, partition)
    more = buckets.COLUMNS if options.kind is Kind.BUCKET else None
    builder = BatchBuilder(schema, info.name, options.include_headers, more)
    yield from in_batches(chunks, builder)


def _wants_payloads(options: SourceOptions, schema: StructType) -> bool:
    """Whether complete messages are needed: servers add a header to messages without data."""
    names = schema.fieldNames()
    return "data" in names or ("headers" in names and options.include_headers)


def _complete(
    chunks: Iterator[Columns], options: SourceOptions, partition: RangePartition
) -> Iterator[Columns]:
    """The chunks unchanged; a planned message that is missing at the end is a loss."""
    found = 0
    for chunk in chunks:
        found += len(chunk)
        yield chunk
    planned = partition.range
    if planned.count is not None and found < planned.count:
        report_loss(
            options,
            f"stream {partition.info.name} has {found} of {planned.count} messages that were"
            f" planned in sequences {planned.first} to {planned.last}: the others were deleted,"
            " purged or expired before they were read",
        )
