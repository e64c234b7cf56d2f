"""The format `headwater`: Spark's entry point, in a planner process beside the driver.

Every error is raised as early as Spark allows: options, credentials, the server and the stream are
checked in `schema`, which `load()` calls. If the user gives a schema, Spark does not ask for ours,
and the first check is the planning of the first action, still before any job.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headwater.base.errors import OperatingError
from headwater.client.link.connection import probe_server
from headwater.spark.catalog_tables import (
    is_new_table,
    sink_options,
    source_options,
    table_schema,
)
from headwater.spark.options import OptionError, SourceOptions, reading_options
from headwater.spark.read.source import SourceReader, check_reachable, one_line_errors
from headwater.spark.read.stream_source import RefusedStreamReader, StreamSourceReader
from headwater.spark.read.streams_source import StreamsReader, StreamsSourceReader
from headwater.spark.read.unplanned_source import UnplannedStreamReader
from headwater.spark.schema import ddl
from headwater.spark.versions import HAS_READ_LIMITS, check_filters, needs
from headwater.spark.write import sink

NAME = "headwater"


class HeadwaterDataSource(DataSource):
    """Streams, buckets and object stores as tables."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType | str:
        with one_line_errors():
            is_table = is_new_table(self.options)
            given = reading_options(self.options) if is_table else self.options
            options = SourceOptions.parse(given)
            check_reachable(options)
            if is_table:
                return table_schema(options, self.options)
        return ddl(options.kind)

    def reader(self, schema: StructType) -> DataSourceReader:
        with one_line_errors():
            options = source_options(schema, self.options)
            if options.streams:
                return StreamsReader(options, schema)
            # Spark refuses a reader with filters if its configuration disables their pushdown.
            return (_pushdown_reader if options.pushdown else SourceReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            options = source_options(schema, self.options)
            if options.streams:
                if not HAS_READ_LIMITS:
                    raise OptionError(needs(f"{options.target_option} with several streams", "4.2"))
                return StreamsSourceReader(options, schema)
            return (StreamSourceReader if HAS_READ_LIMITS else UnplannedStreamReader)(
                options, schema
            )
        except OperatingError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with one_line_errors():
            options = sink_options(schema, self.options)
            # Spark creates the writer of a batch once, before any task runs.
            probe_server(options.login)
            return sink.batch_writer(options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        with one_line_errors():
            options = sink_options(schema, self.options)
            return sink.stream_writer(options, schema, overwrite)


def _pushdown_reader(options: SourceOptions, schema: StructType) -> DataSourceReader:
    """A reader that accepts filters. Raises OptionError if this Spark has none."""
    check_filters(options)
    from headwater.spark.read.pushdown import PushdownReader

    return PushdownReader(options, schema)
