"""The streaming read: offsets for Spark's checkpoint, batches cut once and kept.

Spark drives it: `latestOffset` decides on the end of the next batch and plans its parts at the same
time, Spark stores that offset, and from then on `partitions` returns those parts and no others,
however often the batch has to be replayed. Nothing on the server belongs to a query: there is no
consumer to leave behind, and `commit` and `stop`, which Spark does not reliably call, do nothing.

One object of this class plans for the life of a query; others are pickled to the executors to read.
So the state of an object only saves requests; it never decides what is read.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headwater.base.errors import OperatingError
from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.reads.counts import count_messages
from headwater.client.link.reads.fetch import choose_way
from headwater.client.link.reads.lag import Lag, lag_behind
from headwater.client.link.reads.ranges import SequenceRange
from headwater.client.link.reads.sizes import message_sizes
from headwater.spark.options import At, Kind, SourceOptions
from headwater.spark.read.offsets import Changes, Offset, loss_of, replacement_of
from headwater.spark.read.planning import Limit, Measured, end_of_batch, measure
from headwater.spark.read.source import (
    LatestPart,
    RangePartition,
    TableMissingError,
    borrowed,
    changes_of,
    counter,
    cut_into_partitions,
    cut_measured_batch,
    density_of,
    end_sequence,
    hide_traceback,
    keeps,
    log,
    named_errors,
    one_line_errors,
    plan_latest,
    read_partition,
    report_loss,
    start_sequence,
    stream_to_read,
    subjects_of,
)
from headwater.spark.schema import check_columns
from headwater.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

EMPTY_STRETCH_SEQUENCES: Final = 100_000
"""The longest stretch without a match that is skipped without a batch.

A busy stream with a sparse filter thus has no empty batch at every trigger. After this stretch one
empty batch moves the checkpoint on, before messages that it has not read yet can expire and look
like a loss.
"""


class StreamSourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one table as a stream of batches."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(options.kind, [(f.name, f.dataType.simpleString()) for f in schema.fields])
        self.options = options.check_streaming()
        self.schema = schema
        self._initial: dict[str, Any] | None = None
        # The end of a query that reads only the available messages: a stream and a sequence.
        self._target: tuple[str, int] | None = None
        # The sequence up to which a stream is known to hold no match after the offset.
        self._barren: tuple[str, int] | None = None
        self._planned_next = 0
        self._is_absent = False
        # The batch whose messages were counted last before it was read, and how many were gone.
        self._gone: tuple[Offset, int] | None = None
        self._told_subjects: tuple[str, ...] | None = None

    # --- offsets, in the planner -------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks more than once and expects the same answer.
        if self._initial is None:
            with self._planning() as (connection, info):
                first = start_sequence(connection, info, self.options.starting)
            self._initial = Offset(info.name, info.created, first).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.messages_per_trigger_max is not None:
            return ReadMaxRows(self.options.messages_per_trigger_max)
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with self._planning() as (_, info):
            self._target = info.created, info.end_seq

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with one_line_errors():
            offset = Offset.from_json(start)
            plan = self.plan(offset, limit_of(limit, self.options))
        return start if plan.end is offset else plan.end.to_json()

    def plan(self, offset: Offset, limit: Limit) -> "Plan":
        """The batch that begins at an offset; it ends there too if there is nothing to read."""
        offset.check_stream(self.options.stream)
        self._tell_changed_subjects(offset)
        try:
            with self._planning(offset) as (connection, info):
                known = replace(offset, lost=offset.lost + self._gone_in(offset))
                begin = self._after_losses(self._after_barren(known), info)
                plan = self._planned(connection, info, begin, limit)
        except TableMissingError:
            self._report_absence()
            return Plan(offset)
        end = plan.end
        self._is_absent = False
        self._planned_next = end.next
        nothing = not end.ranges and (begin.created, begin.lost) == (offset.created, offset.lost)
        if nothing and end.next - offset.next < EMPTY_STRETCH_SEQUENCES:
            self._barren = info.created, end.next
            return Plan(offset)
        return plan

    def stands_at(self, offset: Offset) -> None:
        """Note the offset of the next batch, from which the lag of the stream is counted."""
        self._planned_next = offset.next

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The head of the stream, and the query's lag behind it (`Lag`)."""
        try:
            with borrowed(self.options.login) as connection:
                head, lag = self.lag(connection)
        except OperatingError:
            # Only a figure of the progress: the next batch meets the same error and reports it.
            return None
        return head.to_json() | lag.to_json()

    def lag(self, connection: Connection) -> tuple[Offset, Lag]:
        """The head of the stream, and the query's lag behind it. Raises OperatingError."""
        info = ApiClient(connection).stream_info(self.options.stream)
        lag = lag_behind(connection, info, self._planned_next, subjects_of(self.options))
        return Offset(info.name, info.created, info.last_seq + 1), lag

    def _report_absence(self) -> None:
        """Report a deleted stream; if the options allow it, the query waits for a new one."""
        if not self._is_absent:
            report_loss(self.options, f"stream {self.options.stream} was deleted")
        self._is_absent = True

    def _tell_changed_subjects(self, offset: Offset) -> None:
        """Continue a checkpoint of other subjects, with one warning about the consequences."""
        subjects = subjects_of(self.options)
        if offset.subjects in (None, subjects) or self._told_subjects == offset.subjects:
            return
        self._told_subjects = offset.subjects
        log.warning(
            "option subjects was changed from %r to %r: batches of stream %s from sequence %d on"
            " are read by the new value, earlier batches by the old one",
            ",".join(offset.subjects or ()) or "all",
            ",".join(subjects) or "all",
            offset.stream,
            offset.next,
        )

    def _gone_in(self, offset: Offset) -> int:
        """The number of messages that were gone just before the batch that ends here was read."""
        if self._gone is None or self._gone[0] != offset:
            return 0
        return self._gone[1]

    def _after_barren(self, offset: Offset) -> Offset:
        """The offset after sequences that are known to have no match."""
        if self._barren is None or self._barren[0] != offset.created:
            return offset
        return replace(offset, next=max(offset.next, self._barren[1]))

    def _after_losses(self, offset: Offset, info: StreamInfo) -> Offset:
        """The offset after lost messages, if the options allow it. Raises DataLossError."""
        starting = self.options.starting
        waits = starting.at is At.SEQUENCE and starting.value == offset.next
        loss = loss_of(offset, info, keeps(self.options, info), waits)
        if loss is None:
            return offset
        report_loss(self.options, loss.text)
        lost = offset.lost + loss.sequences
        return replace(offset, created=info.created, next=loss.next, lost=lost)

    def _planned(
        self, connection: Connection, info: StreamInfo, begin: Offset, limit: Limit
    ) -> "Plan":
        """The batch that starts at `begin`; without ranges if there is nothing to read."""
        last = end_sequence(connection, info, self.options.ending)
        if self._target is not None and self._target[0] == info.created:
            last = min(last, self._target[1])
        subjects = subjects_of(self.options)
        changes = changes_of(self.options, info)
        begin = replace(
            begin, ranges=(), subjects=subjects, changes=changes, head=None, is_planned=True
        )
        if last < begin.next:
            return Plan(begin)
        count = counter(connection, info, subjects)
        most = self._messages_max(info, limit)
        density = 1.0
        if most is not None and count(begin.next, last) is None:
            density = density_of(connection, info, subjects)
        last, _ = end_of_batch(begin.next, last, most, count, density)
        measured = self._measured(connection, info, SequenceRange(begin.next, last), limit)
        last = last if measured is None else measured.last
        end = replace(begin, next=last + 1)
        if end.changes is Changes.ALL:
            if measured is None:
                ranges = cut_into_partitions(self.options, info, begin.next, last, count)
            else:
                ranges = cut_measured_batch(self.options, info, begin.next, measured)
            end = replace(end, ranges=ranges)
        else:
            wanted = SequenceRange(begin.next, last, is_open=self.options.ending.at is At.LATEST)
            ranges = plan_latest(self.options, connection, info, wanted, count)
            end = replace(end, ranges=ranges, head=info.end_seq if wanted.is_open else None)
        if measured is not None:
            return Plan(end, len(measured.sequences), measured.bytes)
        # An unknown count is at most the number of sequences.
        messages = count(begin.next, last)
        return Plan(end, last - begin.next + 1 if messages is None else messages)

    def _messages_max(self, info: StreamInfo, limit: Limit) -> int | None:
        """The limit in messages.

        The messages about objects do not have the size of the objects: bytes are converted into
        messages of the stream's average size.
        """
        if limit.bytes is None or self.options.kind is not Kind.OBJECTS:
            return limit.messages
        average = max(1, info.bytes // max(1, info.messages))
        by_size = max(1, limit.bytes // average)
        return by_size if limit.messages is None else min(limit.messages, by_size)

    def _measured(
        self, connection: Connection, info: StreamInfo, wanted: SequenceRange, limit: Limit
    ) -> Measured | None:
        """The end that the limit in bytes allows; None if it does not limit the batch."""
        size = limit.bytes
        if size is None or self.options.kind is Kind.OBJECTS:
            return None
        if info.bytes <= size and not self.options.streams:
            # With several streams, the rest of the limit for the next one has to be known.
            return None
        subjects = subjects_of(self.options)
        way = choose_way(info, subjects, self.options.consistency)
        with closing(message_sizes(connection, info, wanted, subjects, way)) as sizes:
            return measure(wanted.last, size, sizes, limit.may_exceed)

    # --- one batch ---------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        offset = Offset.from_json(end)
        if start != end and not offset.is_planned:
            offset = self._planned_late(Offset.from_json(start), offset)
        if start == end or (offset.is_planned and not offset.ranges):
            return []
        # By the subjects of the plan: the options may have changed since.
        subjects = subjects_of(self.options) if offset.subjects is None else offset.subjects
        self._tell_changed_subjects(offset)
        with self._planning(offset) as (connection, info):
            offset.check_stream(info.name)
            loss = replacement_of(offset, info)
            if loss is not None:
                report_loss(self.options, loss.text)
                self._gone = offset, offset.planned_count or 0
                return []
            if not self.options.fail_on_data_loss:
                self._gone = offset, _gone_from(connection, info, offset, subjects)
        return [
            RangePartition(part, info, subjects, latest)
            for part, latest in zip(offset.ranges, _latest_parts(offset), strict=True)
        ]

    def _planned_late(self, start: Offset, end: Offset) -> Offset:
        """The plan of a batch whose end was asked for before its start was known."""
        with self._planning() as (connection, info):
            start.check_stream(info.name)
            if end.created != info.created:
                return end
            bounded = copy.copy(self)
            bounded._target = end.created, end.next - 1
            begin = self._after_losses(start, info)
            return bounded._planned(connection, info, begin, Limit()).end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, self.schema, partition, changes=True)

    @contextmanager
    def _planning(self, offset: Offset | None = None) -> Iterator[tuple[Connection, StreamInfo]]:
        """A connection, and the stream, of which the query has read up to `offset`."""

        def has_read(info: StreamInfo) -> int:
            if offset is None or offset.created != info.created:
                return 0
            starting = self.options.starting
            waits = starting.at is At.SEQUENCE and starting.value == offset.next
            return 0 if waits else offset.next - 1

        with named_errors(self.options), borrowed(self.options.login) as connection:
            yield connection, stream_to_read(connection, self.options, has_read)


@dataclass(frozen=True)
class Plan:
    """A batch of one stream: its end, and its size at the most.

    Bytes are known if they were limited.
    """

    end: Offset
    messages: int = 0
    bytes: int = 0


def limit_of(limit: ReadLimit, options: SourceOptions) -> Limit:
    """The limit that `getDefaultReadLimit` told Spark, which has no limit of both kinds."""
    if isinstance(limit, ReadMaxBytes):
        return Limit(bytes=int(limit.max_bytes))
    if isinstance(limit, ReadMaxRows):
        return Limit(limit.max_rows, options.bytes_per_trigger_max)
    return Limit()


def _gone_from(
    connection: Connection, info: StreamInfo, offset: Offset, subjects: tuple[str, ...]
) -> int:
    """The number of planned messages of a batch that the stream has no longer."""
    planned = offset.planned_count
    if planned is None or offset.changes is Changes.LATEST:
        return 0
    first, last = offset.ranges[0].first, offset.ranges[-1].last
    left = count_messages(connection, info, first, last, subjects)
    return 0 if left is None else max(0, planned - left)


def _latest_parts(offset: Offset) -> Sequence[LatestPart | None]:
    """The keys that each part of a batch keeps, if it is one of kind `latest`."""
    parts = len(offset.ranges)
    if offset.changes is Changes.ALL:
        return [None] * parts
    return [LatestPart(part, parts, offset.head) for part in range(parts)]


class RefusedStreamReader(DataSourceStreamReader):
    """Stands for a reader that could not be created, and raises the error as soon as it is used.

    Spark 4.3 hides an error raised where the reader is created behind one of its own.
    """

    def __init__(self, error: OperatingError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        raise self._refusal()

    def latestOffset(self, *_: Any) -> dict[str, Any]:
        # Without a start and a limit, if Spark is older than 4.2.
        raise self._refusal()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._refusal()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._refusal()

    def _refusal(self) -> OperatingError:
        hide_traceback()
        return self._error
