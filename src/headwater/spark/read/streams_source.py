"""Several streams as one table: named one by one, or by patterns of their names.

Each stream is read by a reader of its own that keeps its own offset; the column `stream` has the
origin of a row. This module finds the streams, divides the limits of a batch among them, and
combines their offsets and figures.

A limit is filled stream by stream, so that it holds for the whole batch as exactly as for one
stream; each batch begins with another stream, so that none of them waits for ever.

Streams that appear while a query runs are read from their first message. A stream that was read and
is gone is a loss, as for a query that reads it alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headwater.base.errors import OperatingError
from headwater.client.link.reads.lag import Lag
from headwater.spark.options import EARLIEST, At, OptionError, SourceOptions
from headwater.spark.read.offsets import Offset, StreamsOffset
from headwater.spark.read.source import (
    SourceReader,
    borrowed,
    is_named,
    log,
    named_errors,
    one_line_errors,
    read_partition,
    report_loss,
    stream_names,
)
from headwater.spark.read.stream_source import StreamSourceReader, limit_of
from headwater.spark.schema import check_columns
from headwater.spark.versions import ReadLimit, SupportsTriggerAvailableNow


class StreamsReader(DataSourceReader):
    """A batch read of several streams, as they are when the read is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(options.kind, [(f.name, f.dataType.simpleString()) for f in schema.fields])
        self.options = options.check_batch()
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        names = _names(self.options)
        if not names:
            with one_line_errors():
                raise OptionError(
                    f"option {self.options.target_option}={self.options.name!r}: no stream at"
                    f" {self.options.login.shown_url} has such a name"
                )
        readers = [SourceReader(self.options.of_stream(name), self.schema) for name in names]
        return [part for reader in readers for part in reader.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, self.schema, partition, changes=False)


class StreamsSourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads several streams as one stream of batches.

    The state of an object only saves requests, as for one stream.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(options.kind, [(f.name, f.dataType.simpleString()) for f in schema.fields])
        self.options = options.check_streaming()
        self.schema = schema
        self._readers: dict[str, StreamSourceReader] = {}
        self._initial: dict[str, Any] | None = None
        # The streams of a query that reads only the available messages.
        self._available: list[str] | None = None
        # The stream that the last batch began with.
        self._first = ""
        self._is_empty_told = False

    # --- offsets, in the planner -------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks more than once and expects the same answer.
        if self._initial is None:
            offsets = {name: self._reader(name).initialOffset() for name in _names(self.options)}
            self._initial = {"streams": offsets, "lost": 0}
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return StreamSourceReader(self.options, self.schema).getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available = _names(self.options, may_miss=True)
        for name in self._available:
            self._reader(name).prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with one_line_errors():
            before = StreamsOffset.from_json(start)
            names = self._available
            if names is None:
                names = _names(self.options, may_miss=True)
            self._tell_empty(names)
            kept = self._without_gone(before, names)
            ends = dict(kept.streams)
            left = limit_of(limit, self.options)
            for name in self._in_turn(names):
                begin = kept.streams.get(name) or self._first_offset(name)
                if left.is_spent:
                    self._reader(name).stands_at(begin)
                    continue
                plan = self._reader(name).plan(begin, left)
                left = left.after(plan.messages, plan.bytes)
                if plan.end is not begin:
                    ends[name] = plan.end
        end = replace(kept, streams=ends)
        return start if end == before else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The heads of the streams, and the query's lag behind all of them together."""
        heads: dict[str, Offset] = {}
        total = Lag()
        try:
            with borrowed(self.options.login) as connection:
                for name in [*self._readers]:
                    heads[name], lag = self._readers[name].lag(connection)
                    total += lag
        except OperatingError:
            # Only a figure of the progress: the next batch meets the same error and reports it.
            return None
        return StreamsOffset(heads).to_json() | total.to_json()

    def _reader(self, name: str) -> StreamSourceReader:
        if name not in self._readers:
            self._readers[name] = StreamSourceReader(self.options.of_stream(name), self.schema)
        return self._readers[name]

    def _first_offset(self, name: str) -> Offset:
        """The first offset of a stream that has appeared since the query began."""
        options = self.options
        if options.starting.at is At.LATEST:
            # All messages of the stream are new.
            options = replace(options, starting=EARLIEST)
        reader = StreamSourceReader(options.of_stream(name), self.schema)
        return Offset.from_json(reader.initialOffset())

    def _without_gone(self, before: StreamsOffset, names: Sequence[str]) -> StreamsOffset:
        """The offset without streams that no longer exist or are no longer named."""
        gone = sorted(set(before.streams) - set(names))
        for name in gone:
            if is_named(name, self.options.streams):
                report_loss(self.options, f"stream {name} was deleted")
            else:
                log.warning(
                    "option %s was changed to %r: stream %s is no longer read",
                    self.options.target_option,
                    self.options.name,
                    name,
                )
            self._readers.pop(name, None)
        lost = sum(before.streams[name].lost for name in gone)
        left = {name: each for name, each in before.streams.items() if name not in gone}
        return StreamsOffset(left, before.lost + lost)

    def _in_turn(self, names: Sequence[str]) -> list[str]:
        """The streams, beginning behind the one that the last batch began with."""
        at = next((at for at, name in enumerate(names) if name > self._first), 0)
        turned = [*names[at:], *names[:at]]
        self._first = turned[0] if turned else ""
        return turned

    def _tell_empty(self, names: Sequence[str]) -> None:
        if not names and not self._is_empty_told:
            log.warning(
                "option %s=%r: no stream has such a name yet; the query waits for one",
                self.options.target_option,
                self.options.name,
            )
        self._is_empty_told = not names

    # --- one batch ---------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        StreamsOffset.from_json(end)
        before = start["streams"]
        return [
            part
            for name, offset in end["streams"].items()
            if offset != before.get(name)
            for part in self._reader(name).partitions(before.get(name, {}), offset)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, self.schema, partition, changes=True)


def _names(options: SourceOptions, may_miss: bool = False) -> list[str]:
    """The existing streams. Raises OptionError."""
    with named_errors(options), borrowed(options.login) as connection:
        return stream_names(connection, options, may_miss)
