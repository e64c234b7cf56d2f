"""The table `latest` of the job `table`, kept up to date by merging changes into its files.

A file of Parquet cannot be changed, only replaced. A merge finds the files that hold a key which
has changed or is gone, writes their other rows and the new ones into new files, and replaces the
former by the latter in one commit. The other files stay as they are, so the cost of a merge depends
on the changes and not on the size of the table. Keys are spread over the new files by their hash: a
key stays in one file, and few keys that change often touch few files.

New keys get files of their own. When more than `SMALL_FILES_MAX` files are small, the next merge
includes them in the files it writes.

Must not know: how a bucket is read. A function returns the keys that it has lost.
"""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from headwater.spark.jobs.table.delta_table import StoredPart, Table, write_parts
from headwater.spark.jobs.table.history import LATEST_COLUMNS, arrow_schema, newest, present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

FILE_ROWS: Final = 100_000
"""The rows of a file, which are written again when one of its keys changes."""

SMALL_FILES_MAX: Final = 8
"""The number of files with less than a quarter of that which may stay; each costs a reader time."""

_FILE: Final = "file"

Mark = tuple[str, int]
"""The bucket of a table, and its revision."""

Gone = Callable[["DataFrame"], Sequence[str]]
"""Returns the keys of a frame that the bucket has lost without a marker."""


@dataclass(frozen=True)
class LatestTable:
    """One version of the table, and the means to make the next."""

    spark: "SparkSession"
    table: Table
    gone: Gone

    def bring_up(self, history: "DataFrame", rows_max: int, mark: Mark, now: datetime) -> None:
        """Bring the table up to date with a history of at most `rows_max` rows at `mark`."""
        from pyspark.sql import functions as f

        held = self.table.mark(mark[0])
        if held is None:
            alive = present(newest(history), now)
            keys = self._keys(self.gone(alive.select("key")))
            rows = alive.join(keys, "key", "left_anti").select(*LATEST_COLUMNS)
            self._commit(rows, rows_max, self.table.parts, mark)
            return
        with _kept(newest(history.where(f.col("revision") > held))) as changes:
            self._merge(changes, held, mark, now)

    def _merge(self, changes: "DataFrame", held: int, mark: Mark, now: datetime) -> None:
        from pyspark.sql import functions as f

        known = self._known()
        puts = present(changes, now)
        lost = self._keys(self.gone(known.select("key").union(puts.select("key")).distinct()))
        expired = known.where(f.col("expires") <= f.lit(now)).select("key")
        touched = changes.select("key").union(lost).union(expired).distinct()
        files = known.join(touched, "key", "left_semi").select(_FILE).distinct().collect()
        names = {row[_FILE] for row in files}
        added = puts.join(lost, "key", "left_anti").select(*LATEST_COLUMNS)
        added_count = added.count()
        if not names and not added_count and held == mark[1]:
            return
        replaced = _replaced(self.table.parts, names)
        rows = added
        if replaced:
            others = self.table.read(self.spark, replaced).join(touched, "key", "left_anti")
            rows = added.unionByName(others.select(*LATEST_COLUMNS))
        rows_max = added_count + sum(part.rows for part in replaced)
        self._commit(rows, rows_max, replaced, mark)

    def _known(self) -> "DataFrame":
        """The keys of the table, their expiry, and their files."""
        from pyspark.sql import functions as f

        rows = self.table.read(self.spark)
        # Without files there is no file name column.
        file = f.col("_metadata.file_name") if self.table.parts else f.lit("")
        return rows.select("key", "expires", file.alias(_FILE))

    def _commit(
        self, rows: "DataFrame", rows_max: int, replaced: Sequence[StoredPart], mark: Mark
    ) -> None:
        schema = arrow_schema(LATEST_COLUMNS)
        parts = []
        if rows_max:
            files = -(-rows_max // FILE_ROWS)
            spread = rows.coalesce(1) if files == 1 else rows.repartition(files, "key")
            parts = write_parts(spread, self.table.path, schema)
        self.table.commit(parts, "append", schema, mark, replaced)

    def _keys(self, names: Sequence[str]) -> "DataFrame":
        import pyarrow as pa

        return self.spark.createDataFrame(pa.table({"key": pa.array(names, pa.string())}))


def _replaced(parts: Sequence[StoredPart], touched: set[str]) -> list[StoredPart]:
    """The files that a merge replaces: those it touches, and small ones if they are many."""
    small = {part.path for part in parts if part.rows < FILE_ROWS // 4}
    if len(small - touched) > SMALL_FILES_MAX:
        touched = touched | small
    return [part for part in parts if part.path in touched]


@contextmanager
def _kept(frame: "DataFrame") -> "Iterator[DataFrame]":
    """The frame, computed once however often it is used."""
    cached = frame.cache()
    try:
        yield cached
    finally:
        cached.unpersist()
