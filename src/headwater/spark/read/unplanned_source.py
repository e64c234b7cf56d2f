"""The streaming read for a Spark that does not tell a source where its next batch starts.

Before 4.2, Spark asks for the end of a batch alone. So the offset is a sequence without a plan, and
the batch is planned each time Spark asks for its parts: a batch that is run again has the same
bounds, and the messages that the stream still holds between them. Losses are found there too. The
rest is as in `stream_source`, which also reads batches that ended here and were not read when Spark
was replaced by a newer one.
"""

from typing import Any

from pyspark.sql.types import StructType

from headwater.spark.options import OptionError, SourceOptions
from headwater.spark.read.offsets import Offset
from headwater.spark.read.source import TableMissingError, end_sequence, one_line_errors
from headwater.spark.read.stream_source import StreamSourceReader
from headwater.spark.versions import check_read_limits, needs


class UnplannedStreamReader(StreamSourceReader):
    """Reads one table as a stream of batches without limits."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_read_limits(options)
        super().__init__(options, schema)
        self._latest: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        initial = super().initialOffset()
        with one_line_errors(), self._planning() as (_, info):
            if Offset.from_json(initial).next > info.end_seq + 1:
                # The end of a batch, asked for without its start, would lie before the start.
                raise OptionError(needs("startingSequence behind the end of a stream", "4.2"))
        return initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        with one_line_errors():
            try:
                told = None if self._latest is None else Offset.from_json(self._latest)
                with self._planning(told) as (connection, info):
                    last = end_sequence(connection, info, self.options.ending)
            except TableMissingError:
                if self._latest is None:
                    raise
                self._report_absence()
                return self._latest
        self._is_absent = False
        self._latest = Offset(info.name, info.created, last + 1, is_planned=False).to_json()
        return self._latest
