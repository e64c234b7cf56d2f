"""The parts of the Spark that runs here, and stand-ins for those that an older one lacks.

Spark's interface for sources and sinks in Python grows with each minor version. Names that some
supported version lacks are imported from here, so that the rest of the package is written for the
newest one:

    4.0   reads, writes and streaming queries in Arrow batches
    4.1   filters of a query reach the source (`pushdown`); a writer of streams that takes Arrow
    4.2   a source learns where a batch starts and how much it may take: limits per trigger, the
          plan of a batch in its offset (ADR 9), several batches in one `availableNow`, the lag

A feature that this Spark lacks is refused by the name of its option, never ignored.
"""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types

from headwater.spark.options import OptionError, SourceOptions

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

HAS_FILTERS: Final = hasattr(datasource, "Filter")

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(
        datasource.DataSourceArrowWriter, datasource.DataSourceStreamWriter
    ):
        """Spark 4.0 asks for the first class before it hands over Arrow, also in streams."""


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ImportError:
    HAS_READ_LIMITS = False
    if not TYPE_CHECKING:

        class ReadLimit:
            """The limit of a batch."""

        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @dataclass
        class ReadMaxRows(ReadLimit):
            """A limit in rows."""

            max_rows: int

        @dataclass
        class ReadMaxBytes(ReadLimit):
            """A limit in bytes."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Has no meaning for a Spark that does not know it."""


def arrow_schema(schema: "StructType") -> "pyarrow.Schema":
    """The Arrow schema that Spark expects of batches of this schema."""
    convert: Any = arrow_types.to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:
        return convert(schema, timezone="UTC")
    # Spark 4.0 has no other zone than UTC here.
    return convert(schema)


def sound_batch(batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    """The rows of a sink's batch, in a form that Arrow can process.

    The Arrow of an older Spark leaves the offsets of lists without elements out of a batch, and
    functions that follow them end the process. Rows copied by `take` have offsets of their own.
    """
    return batch if HAS_READ_LIMITS else batch.take(list(range(batch.num_rows)))


def check_filters(options: SourceOptions) -> None:
    """Raises OptionError if the options need filters and this Spark does not pass them on."""
    if options.pushdown and not HAS_FILTERS:
        raise OptionError(needs("pushdown", "4.1"))


def check_read_limits(options: SourceOptions) -> None:
    """Raises OptionError if the options need limits and this Spark cannot keep them."""
    if HAS_READ_LIMITS:
        return
    if options.messages_per_trigger_max is not None:
        raise OptionError(needs("maxMessagesPerTrigger", "4.2"))
    if options.bytes_per_trigger_max is not None:
        raise OptionError(needs("maxBytesPerTrigger", "4.2"))


def needs(option: str, version: str) -> str:
    """The reason why an option is refused."""
    return f"option {option} needs Spark {version} or newer: this is Spark {pyspark.__version__}"


__all__ = [
    "HAS_FILTERS",
    "HAS_READ_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "check_filters",
    "check_read_limits",
    "needs",
    "sound_batch",
]
