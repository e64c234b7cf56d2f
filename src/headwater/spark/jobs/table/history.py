"""A bucket's entries at a revision or at a time, derived from their history.

The history has a row for every entry that was read, with its operation. The value of a key is its
newest row within the bound, unless that row

- is a delete or a purge: the key does not exist. A purge also hides earlier entries, so histories
  leave them out too unless they are asked for everything;
- had expired by then: `expires` is the time from which the bucket no longer shows it.

A bucket that is deleted and created again counts its revisions from 1 again. `bucket_since`, the
time since which the bucket exists, distinguishes the two: rows of an older bucket are hidden as
soon as a newer one exists, so a revision means one of the newest bucket, and a time is looked up in
the bucket that existed then.

Functions from DataFrame to DataFrame; nothing here reads or writes a table.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from headwater.jetstream.streams.publishing.ttl import NEVER, NONE, TtlError, ttl_seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PUT: Final = "put"
PURGE: Final = "purge"

HISTORY_COLUMNS: Final = (
    "key", "revision", "operation", "timestamp", "expires", "bucket_since", "headers", "value",
)  # fmt: skip
LATEST_COLUMNS: Final = ("key", "revision", "timestamp", "expires", "headers", "value")

TTL_HEADER: Final = "Nats-TTL"
# The longest TTL with which Spark can still represent the time.
_TTL_S_MAX: Final = 1_000 * 365 * 86_400


@dataclass(frozen=True)
class AsOf:
    """A point in the life of a bucket: a revision, a time, or (neither) all that was read."""

    revision: int | None = None
    time: datetime | None = None


def arrow_schema(columns: tuple[str, ...]) -> "pa.Schema":
    """The columns in files."""
    import pyarrow as pa

    types = {
        "key": pa.string(),
        "revision": pa.int64(),
        "operation": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "expires": pa.timestamp("us", "UTC"),
        "bucket_since": pa.timestamp("us", "UTC"),
        "headers": pa.map_(pa.string(), pa.list_(pa.string())),
        "value": pa.binary(),
    }
    return pa.schema([(name, types[name]) for name in columns])


def history_rows(
    entries: "DataFrame", bucket_since: datetime, max_age_ns: int, has_ttls: bool
) -> "DataFrame":
    """Rows of the history from a bucket's table as the data source reads it."""
    from pyspark.sql import functions as f

    expires = f.lit(None).cast("timestamp")
    if max_age_ns > 0:
        expires = f.timestamp_add("MICROSECOND", f.lit(max_age_ns // 1_000), f.col("timestamp"))
    if has_ttls:
        # Python processes every row here, so only buckets that allow TTL headers pay for it.
        read = f.udf(lambda text: _ttl_s(text), "bigint")
        ttl_s = read(f.get(f.element_at(f.col("headers"), TTL_HEADER), f.lit(0)))
        own = f.timestamp_add("SECOND", ttl_s, f.col("timestamp"))
        expires = (
            f.when(ttl_s == NEVER, f.lit(None).cast("timestamp"))
            .when(ttl_s == NONE, expires)
            .otherwise(f.least(own, expires))
        )
    return entries.select(
        "key",
        "revision",
        "operation",
        "timestamp",
        expires.alias("expires"),
        f.lit(bucket_since).cast("timestamp").alias("bucket_since"),
        "headers",
        f.col("data").alias("value"),
    )


def _ttl_s(value: str | None) -> int:
    try:
        return min(ttl_seconds((value or "").encode()), _TTL_S_MAX)
    except TtlError:
        return NONE


def newest(rows: "DataFrame") -> "DataFrame":
    """The newest row of each key, with any operation."""
    from pyspark.sql import functions as f

    columns = rows.columns
    row = f.struct("revision", *(name for name in columns if name != "revision"))
    # Revisions are unique within a bucket, so the row with the largest one is one row.
    picked = rows.groupBy("key").agg(f.max_by(row, "revision").alias("row"))
    return picked.select(*(f.col(f"row.{name}").alias(name) for name in columns))


def present(rows: "DataFrame", now: datetime | None) -> "DataFrame":
    """The newest rows whose keys exist at `now`, or (None) existed at any time."""
    from pyspark.sql import functions as f

    shown = rows.where(f.col("operation") == PUT)
    return shown if now is None else shown.where(_is_alive(f.lit(now)))


def as_of(history: "DataFrame", generations: list[datetime], bound: AsOf) -> "DataFrame":
    """The newest rows within the bound whose keys existed then."""
    from pyspark.sql import functions as f

    rows = until(history, generations, bound)
    if bound.revision is None:
        return present(newest(rows), bound.time)
    # The moment of a revision is that at which it was stored.
    moment = rows.agg(f.max("timestamp").alias("moment"))
    shown = present(newest(rows), None).crossJoin(f.broadcast(moment))
    return shown.where(_is_alive(f.col("moment"))).drop("moment")


def _is_alive(moment: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.col("expires").isNull() | (f.col("expires") > moment)


def until(history: "DataFrame", generations: list[datetime], bound: AsOf) -> "DataFrame":
    """The rows of the history within the bound.

    `generations` are the values of `bucket_since`, oldest first; more than one if the bucket was
    deleted and created again under the table.
    """
    from pyspark.sql import functions as f

    since = generations[-1]
    if bound.time is not None:
        # Before the first bucket there was nothing: its rows are all later, and none is shown.
        since = max((each for each in generations if each <= bound.time), default=generations[0])
    rows = history.where(f.col("bucket_since") == f.lit(since))
    if bound.revision is not None:
        rows = rows.where(f.col("revision") <= bound.revision)
    if bound.time is not None:
        rows = rows.where(f.col("timestamp") <= f.lit(bound.time))
    return rows


def without_purged(rows: "DataFrame") -> "DataFrame":
    """The rows without those that a later purge of their key was meant to remove."""
    from pyspark.sql import functions as f

    purges = rows.where(f.col("operation") == PURGE)
    last = purges.groupBy("key").agg(f.max("revision").alias("purged_at"))
    return (
        rows.join(last, "key", "left")
        .where(f.col("purged_at").isNull() | (f.col("revision") >= f.col("purged_at")))
        .drop("purged_at")
        .select(*rows.columns)
    )
