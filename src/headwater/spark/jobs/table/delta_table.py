"""A DataFrame written into a Delta table: Spark tasks write the files, one commit adds them.

Tasks write Parquet parts beside each other and report their names to the driver; readers do not see
them until `commit` names them in the log. So a run that is killed anywhere has added either
everything or nothing; `sweep` removes its remains. A task that Spark repeats writes another part,
and only that of the successful attempt is named.

A commit also carries a mark, a name with a number that only rises, in the same transaction: the
table itself has its progress, and of two writers that started from the same version one is refused.

Must not know: buckets, streams, what the columns mean.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from headwater.base.errors import OperatingError
from headwater.spark.jobs.archive.files.durable_files import make_directory, sync

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

LOG_DIRECTORY: Final = "_delta_log"
_PART_SCHEMA: Final = "path string, size bigint, rows bigint, modified_ms bigint, statistics string"


class TableConflictError(OperatingError):
    """Another process has written the table in the meantime."""


@dataclass(frozen=True)
class Part:
    """One Parquet file that a task has written, relative to the table."""

    path: str
    size: int
    rows: int
    modified_ms: int
    statistics: str


@dataclass(frozen=True)
class StoredPart:
    """One file that a version of a table names, relative to the table."""

    path: str
    size: int
    rows: int


class Table:
    """One version of a Delta table, or the place for the first one."""

    def __init__(self, path: str) -> None:
        from deltalake import DeltaTable

        self.path = path
        self._table: DeltaTable | None = (
            DeltaTable(path) if DeltaTable.is_deltatable(path) else None
        )

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def version(self) -> int:
        """The number of this version."""
        return self._existing().version()

    @property
    def rows(self) -> int:
        """The number of rows of this version, as counted by the writers of its files."""
        return sum(part.rows for part in self.parts)

    @property
    def parts(self) -> list[StoredPart]:
        """The files of this version."""
        import pyarrow as pa

        files = pa.table(self._existing().get_add_actions(flatten=True))
        columns = (files.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
        return [StoredPart(*row) for row in zip(*columns, strict=True)]

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that were set with `set_properties`."""
        return {} if self._table is None else self._table.metadata().configuration

    def mark(self, name: str) -> int | None:
        """The number of the last commit with the mark `name`."""
        return None if self._table is None else self._table.transaction_version(name)

    def create(self, schema: "pa.Schema", properties: Mapping[str, str]) -> None:
        """Create an empty table, unless another process has just created it."""
        from deltalake import DeltaTable

        make_directory(Path(self.path))
        self._table = DeltaTable.create(
            self.path,
            schema,
            mode="ignore",
            configuration=dict(properties),
            raise_if_key_not_exists=False,
        )

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table, in a commit of their own."""
        table = self._existing()
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False)
        table.update_incremental()

    def commit(
        self,
        parts: list[Part],
        mode: Literal["append", "overwrite"],
        schema: "pa.Schema",
        mark: tuple[str, int],
        replaced: Sequence[StoredPart] = (),
    ) -> None:
        """Add the parts, and for `overwrite` drop all others, as one new version.

        With `append`, the parts replace those in `replaced`, if there are any. Raises
        TableConflictError if the mark has been moved since this version was read.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        table = self._existing()
        before = table.version()
        actions: list[AddAction | RemoveAction] = [
            AddAction(part.path, part.size, {}, part.modified_ms, True, part.statistics)
            for part in parts
        ]
        now_ms = int(time.time() * 1_000)
        actions += [RemoveAction(part.path, True, now_ms, part.size) for part in replaced]
        try:
            table.create_write_transaction(
                actions,
                mode,
                schema,
                commit_properties=CommitProperties(app_transactions=[Transaction(*mark)]),
            )
        except CommitFailedError as error:
            raise TableConflictError(
                f"table {self.path} was written by another run at the same time: run it again when"
                f" the other has ended ({error})"
            ) from error
        table.update_incremental()
        # The log must be on the disk before a later commit builds on it.
        log = Path(self.path) / LOG_DIRECTORY
        for version in range(before + 1, table.version() + 1):
            sync(log / f"{version:020d}.json")
        sync(log)

    def read(self, spark: "SparkSession", parts: Sequence[StoredPart] | None = None) -> "DataFrame":
        """This version, or some of its files, as a DataFrame, read by Spark itself."""
        table = self._existing()
        files = table.file_uris()
        if parts is not None:
            files = [f"{self.path}/{part.path}" for part in parts]
        schema = _spark_schema(table)
        if not files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*files)

    def sweep(self, keep_versions_h: int) -> None:
        """Delete the files that no version of the last hours names."""
        table = self._existing()

        def vacuum(dry_run: bool) -> list[str]:
            return table.vacuum(
                keep_versions_h, dry_run=dry_run, enforce_retention_duration=False, full=True
            )

        # A run makes two more versions, even if there is nothing to do.
        if vacuum(dry_run=True):
            vacuum(dry_run=False)

    def compact(self, files_max: int) -> bool:
        """Merge small files if there are more than `files_max`. Returns whether it did."""
        table = self._existing()
        if len(table.file_uris()) <= files_max:
            return False
        table.optimize.compact()
        return True

    def _existing(self) -> "DeltaTable":
        if self._table is None:
            raise TableConflictError(f"table {self.path} is gone: it was there a moment ago")
        return self._table


def _spark_schema(table: "DeltaTable") -> Any:
    """The Spark schema of a table: Delta stores it in Spark's own JSON."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


# --- in tasks -----------------------------------------------------------------------------------


def write_parts(frame: "DataFrame", path: str, schema: "pa.Schema") -> list[Part]:
    """Write a DataFrame as parts of the table at `path`; its columns are those of `schema`."""
    make_directory(Path(path))
    rows = frame.select(*schema.names).mapInArrow(
        partial(_write_part, path=path, schema=schema), _PART_SCHEMA
    )
    return [Part(**row.asDict()) for row in rows.collect()]


def _write_part(
    batches: "Iterator[pa.RecordBatch]", path: str, schema: "pa.Schema"
) -> "Iterator[pa.RecordBatch]":
    """One task: all its rows in one file, which is on the disk before it is reported."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = f"part-{uuid.uuid4().hex}.parquet"
    place = Path(path) / name
    rows = 0
    writer = None
    for batch in batches:
        if writer is None:
            writer = pq.ParquetWriter(place, schema, compression="zstd")
        # Spark's own batches carry the session's zone and other nullability.
        writer.write_table(pa.Table.from_batches([batch]).cast(schema))
        rows += batch.num_rows
    if writer is None:
        return
    writer.close()
    sync(place)
    sync(Path(path))
    status = place.stat()
    yield pa.RecordBatch.from_pydict(
        {
            "path": [name],
            "size": [status.st_size],
            "rows": [rows],
            "modified_ms": [status.st_mtime_ns // 1_000_000],
            "statistics": [json.dumps({"numRecords": rows})],
        }
    )
