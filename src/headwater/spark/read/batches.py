"""Messages as Arrow record batches: columns of bytes and numbers in, columns of a table out.

Messages come from the server as parallel lists, and Arrow converts a list at once, so no Python
code runs per message here, except for headers, whose blocks have to be parsed, and only for
messages with headers. Columns that the schema does not have are not built.

A message without headers has null there, and so has every message if `include_headers` is off.
Subjects and headers are texts in Spark and bytes on the wire: bytes that are not UTF-8 become
backslash escapes. Times are cut to microseconds, the resolution of Spark's type.

Invariant: the schema of every batch equals `arrow_schema(schema)` exactly, or Spark refuses it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from headwater.base.columns import StoredColumns
from headwater.spark.versions import arrow_schema

BATCH_ROWS: Final = 10_000
"""Large enough that the cost per batch vanishes, small enough to stay in a cache."""

BATCH_BYTES: Final = 32 << 20
"""A batch of large payloads is sent before it has all its rows."""

_NS_PER_US: Final = 1_000


Column = Callable[[Any], pa.Array]
"""Makes one column of the messages of a batch, whose fields depend on the table."""


class BatchBuilder:
    """Makes batches of one schema. Tables other than streams add their own columns."""

    def __init__(
        self,
        schema: StructType,
        stream: str,
        include_headers: bool = True,
        more: dict[str, Column] | None = None,
    ) -> None:
        self._schema = arrow_schema(schema)
        self._stream = pa.scalar(stream, pa.string())
        self._include_headers = include_headers
        known: dict[str, Column] = {
            "stream": self._stream_column,
            "subject": lambda columns: texts(columns.subjects),
            "sequence": lambda columns: pa.array(columns.sequences, pa.int64()),
            "timestamp": self._time_column,
            "headers": self._headers_column,
            "data": lambda columns: pa.array(columns.payloads, pa.binary()),
        }
        known |= more or {}
        self._columns = [known[name] for name in self._schema.names]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._schema

    def batch(self, columns: StoredColumns) -> pa.RecordBatch:
        """One batch of all messages in the columns."""
        arrays = [column(columns) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _stream_column(self, columns: StoredColumns) -> pa.Array:
        return pa.repeat(self._stream, len(columns.sequences))

    def _time_column(self, columns: StoredColumns) -> pa.Array:
        times_ns = pa.array(columns.timestamps_ns, pa.int64())
        return pc.divide(times_ns, _NS_PER_US).view(pa.timestamp("us", "UTC"))

    def _headers_column(self, columns: StoredColumns) -> pa.Array:
        type_ = self._schema.field("headers").type
        if not self._include_headers or not any(columns.headers):
            return pa.nulls(len(columns.headers), type_)
        return header_maps(columns.headers, type_)


def texts(values: list[bytes]) -> pa.Array:
    """Bytes as an array of texts."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text(value) for value in values], pa.string())


def text(value: bytes) -> str:
    """Bytes as a text; invalid UTF-8 becomes backslash escapes."""
    return value.decode("utf-8", "backslashreplace")


def header_pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values of a header block, in its order; lines without a colon are left out.

    Blanks before a value belong to the line, blanks after it to the value.
    """
    lines = block.split(b"\r\n")
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            yield name, value.lstrip(b" \t")


def header_maps(blocks: list[bytes], type_: pa.MapType) -> pa.MapArray:
    """Blocks as maps from a name to all its values, names in the order they first appear."""
    map_ends: list[int | None] = []
    names: list[bytes] = []
    values: list[bytes] = []
    value_ends = [0]
    for block in blocks:
        if not block:
            map_ends.append(None)
            continue
        map_ends.append(len(names))
        found: dict[bytes, list[bytes]] = {}
        for name, value in header_pairs(block):
            found.setdefault(name, []).append(value)
        for name, of_name in found.items():
            names.append(name)
            values.extend(of_name)
            value_ends.append(len(values))
    map_ends.append(len(names))
    items = pa.ListArray.from_arrays(
        pa.array(value_ends, pa.int32()), texts(values), type=type_.item_type
    )
    return pa.MapArray.from_arrays(pa.array(map_ends, pa.int32()), texts(names), items, type=type_)


def in_batches(chunks: Iterable[StoredColumns], builder: BatchBuilder) -> Iterator[pa.RecordBatch]:
    """The messages of chunks of any size, in batches of a suitable size."""
    held, payload_bytes = StoredColumns(), 0
    for chunk in chunks:
        if not len(held) and len(chunk) >= BATCH_ROWS:
            yield builder.batch(chunk)
            continue
        held.extend(chunk)
        payload_bytes += sum(map(len, chunk.payloads))
        if len(held) >= BATCH_ROWS or payload_bytes >= BATCH_BYTES:
            yield builder.batch(held)
            held, payload_bytes = StoredColumns(), 0
    if len(held):
        yield builder.batch(held)
