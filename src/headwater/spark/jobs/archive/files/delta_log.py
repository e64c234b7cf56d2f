"""An archive as a Delta table, whose log is the record.

A batch is one commit: its files, `txn(query, batch)`, and `txn(headwater/<created>, next)`, the
sequence up to which the table is complete. Both transactions are part of every later snapshot, even
when old entries of the log are gone. Of two simultaneous commits of one query delta-rs lets one
fail, which finds the other's transaction when it reads the log again.

A compaction is a commit that removes files and adds one with the same rows. delta-rs does not
notice that another process has removed the same files in between, so this commit is only allowed at
the version it was made from.

Must not know: how files are written, Spark.
"""

import json
import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from headwater.spark.jobs.archive.files.durable_files import HIDDEN, remove, sync
from headwater.spark.jobs.archive.files.parquet_files import table_schema
from headwater.spark.jobs.archive.log import (
    ArchiveError,
    BatchCommit,
    DataFile,
    DraftPlace,
    Record,
    Snapshot,
    StoredFile,
)
from headwater.spark.jobs.archive.manifest import Manifest

LOG_DIRECTORY: Final = "_delta_log"
# Each failure means that another process has committed: a batch, or a compaction.
COMMIT_ATTEMPTS_MAX: Final = 20
READER_VERSION_MAX: Final = 1
LOG_RETENTION: Final = "delta.logRetentionDuration"
# A checkpoint lists all files of the table: not worth it for a few entries.
LOG_ENTRIES_EXPIRED_MIN: Final = 100

CREATED_MIN: Final = "min.stream_created"

_ENTRY: Final = re.compile(r"(\d{20})\.json")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaSnapshot:
    """One version of the table."""

    def __init__(self, table: DeltaTable, columns: tuple[str, ...]) -> None:
        self._table = table
        self.files: Sequence[StoredFile] = [
            _stored(row, columns) for row in _active(table, columns)
        ]

    def next_sequence(self, created: str) -> int | None:
        return self._table.transaction_version(_position_id(created))


class DeltaLog:
    """The log of the table in `root`."""

    # A file belongs to the table only if a commit names it, whatever its own name is.
    drafts = DraftPlace("", ".parquet")

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self._root = root
        self._manifest = manifest
        self._columns = manifest.partition_by
        self._schema = table_schema(manifest.partitioning)

    def prepare(self) -> None:
        if not DeltaTable.is_deltatable(str(self._root)):
            DeltaTable.create(
                str(self._root),
                self._schema,
                mode="ignore",
                partition_by=list(self._columns),
                name=self._manifest.stream,
                description=f"Archive of the stream {self._manifest.stream}",
            )
            sync(self._root / LOG_DIRECTORY)
            sync(self._root)
            return
        table = self._table()
        known = {each.name for each in table.schema().fields}
        added = [each for each in Schema.from_arrow(self._schema).fields if each.name not in known]
        if added:
            # A table of a former version.
            table.alter.add_columns(added)

    def record(self, query: str, created: str) -> Record:
        return _record(self._table(), query, created)

    def commit(self, batch: BatchCommit) -> bool:
        additions = [_addition(each, self._columns, is_new=True) for each in batch.files]
        transactions = [
            Transaction(batch.query, batch.batch),
            Transaction(_position_id(batch.reached.created), batch.reached.next_sequence),
        ]
        for _ in range(COMMIT_ATTEMPTS_MAX):
            table = self._table()
            if _record(table, batch.query, batch.reached.created).holds(batch):
                self.discard(batch.files)
                return False
            try:
                self._write(table, additions, CommitProperties(app_transactions=transactions))
            except CommitFailedError:
                continue
            return True
        raise ArchiveError(
            f"batch {batch.batch} could not be committed to {self._root}: others have committed"
            f" {COMMIT_ATTEMPTS_MAX} times meanwhile; stop them, and start the archive again"
        )

    def discard(self, files: Sequence[DataFile]) -> None:
        # An error of the commit does not tell whether the commit happened.
        committed = {row["path"] for row in _active(self._table(), self._columns)}
        for each in files:
            if each.path not in committed:
                remove(self._root / each.path)

    def snapshot(self) -> Snapshot:
        return DeltaSnapshot(self._table(), self._columns)

    def replace(self, covered: Sequence[StoredFile], merged: DataFile) -> bool:
        now_ms = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(
                each.path, False, now_ms, each.size_bytes, _partition_values(each, self._columns)
            )
            for each in covered
        ]
        actions.append(_addition(merged, self._columns, is_new=False))
        wanted = {each.path for each in covered}
        for _ in range(COMMIT_ATTEMPTS_MAX):
            table = self._table()
            if not wanted <= {row["path"] for row in _active(table, self._columns)}:
                break
            try:
                self._write(table, actions, CommitProperties(max_commit_retries=0))
            except CommitFailedError:
                continue
            return True
        self.discard([merged])
        return False

    def expire(self, replaced_age_s: float) -> int:
        table = self._table()
        hours = max(0, round(replaced_age_s / 3600))

        def vacuum(dry_run: bool) -> list[str]:
            return table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False)

        # Each run of it is two entries of the log, worth it only if there is something to do.
        removed = len(set(vacuum(dry_run=False))) if vacuum(dry_run=True) else 0
        self._expire_log(replaced_age_s)
        return removed

    def _expire_log(self, age_s: float) -> None:
        """Remove entries of the log that lead to versions whose files are gone.

        They are removed only if a checkpoint makes them dispensable.
        """
        table = self._table()
        retention = f"interval {int(age_s)} seconds"
        if table.metadata().configuration.get(LOG_RETENTION) != retention:
            table.alter.set_table_properties({LOG_RETENTION: retention})
            table = self._table()
        log = self._root / LOG_DIRECTORY
        oldest = time.time() - age_s
        entries = [log / f"{version:020d}.json" for version in _versions(log)]
        expired = [path for path in entries[:-1] if path.stat().st_mtime < oldest]
        if len(expired) >= LOG_ENTRIES_EXPIRED_MIN:
            table.create_checkpoint()
            table.cleanup_metadata()

    def orphans(self) -> list[Path]:
        table = self._table()
        known = {row["path"] for row in _active(table, self._columns)}
        # Replaced files are still read through older versions.
        known |= set(table.vacuum(0, dry_run=True, enforce_retention_duration=False))
        found = []
        for directory, names, files in os.walk(self._root):
            names[:] = [name for name in names if not name.startswith(("_", HIDDEN))]
            relative = os.path.relpath(directory, self._root)
            for name in files:
                path = name if relative == "." else f"{relative}/{name}"
                if name.endswith(".parquet") and path not in known:
                    found.append(self._root / path)
        return found

    def _table(self) -> DeltaTable:
        table = DeltaTable(str(self._root))
        version = table.protocol().min_reader_version
        if version > READER_VERSION_MAX:
            raise ArchiveError(
                f"the Delta table in {self._root} needs reader version {version}, which was"
                f" raised: only version {READER_VERSION_MAX} can be read without Delta's jars"
            )
        return table

    def _write(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        properties: CommitProperties,
    ) -> None:
        before = table.version()
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            partition_by=list(self._columns),
            commit_properties=properties,
        )
        # delta-rs does not sync the log; it must be on the disk before Spark's checkpoint, which is
        # written after this.
        table.update_incremental()
        for version in range(before + 1, table.version() + 1):
            sync(self._root / LOG_DIRECTORY / f"{version:020d}.json")
        sync(self._root / LOG_DIRECTORY)


def _versions(log: Path) -> list[int]:
    """The versions that have an entry of their own in the log, in order."""
    found = (_ENTRY.fullmatch(path.name) for path in log.iterdir())
    return sorted(int(each[1]) for each in found if each is not None)


def _position_id(created: str) -> str:
    return f"headwater/{created}"


def _record(table: DeltaTable, query: str, created: str) -> Record:
    return Record(
        batch=table.transaction_version(query),
        next_sequence=table.transaction_version(_position_id(created)),
    )


def _active(table: DeltaTable, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The files of the table's version."""
    actions = pa.table(table.get_add_actions(flatten=True))
    wanted = ["path", "size_bytes", *(f"partition.{column}" for column in columns)]
    # Missing while the table has no file with statistics.
    wanted += {"min.sequence", "max.sequence", CREATED_MIN}.intersection(actions.column_names)
    rows = cast(list[dict[str, Any]], actions.select(wanted).to_pylist())
    for row in rows:
        # As a file name again: the log has it as part of a URI.
        row["path"] = unquote(row["path"])
    return rows


def _stored(row: dict[str, Any], columns: tuple[str, ...]) -> StoredFile:
    values = (row[f"partition.{column}"] for column in columns)
    first, last = row.get("min.sequence"), row.get("max.sequence")
    return StoredFile(
        path=row["path"],
        values=tuple(None if value is None else str(value) for value in values),
        size_bytes=row["size_bytes"],
        # Files without the value are older than those with it.
        order=(_micros(row.get(CREATED_MIN)), first or 0),
        sequences=None if first is None or last is None else (first, last),
    )


def _micros(moment: datetime | None) -> int:
    return 0 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _partition_values(
    file: DataFile | StoredFile, columns: tuple[str, ...]
) -> dict[str, str | None]:
    return dict(zip(columns, file.values, strict=True))


def _addition(file: DataFile, columns: tuple[str, ...], is_new: bool) -> AddAction:
    statistics: dict[str, Any] = {
        "numRecords": file.rows,
        "minValues": {
            "sequence": file.sequence_min,
            "timestamp": _as_stamp(file.timestamp_us_min // 1000),
        },
        # Stamps have milliseconds: rounded so that the file's rows lie between them.
        "maxValues": {
            "sequence": file.sequence_max,
            "timestamp": _as_stamp(-(-file.timestamp_us_max // 1000)),
        },
        "nullCount": {"sequence": 0, "timestamp": 0},
    }
    if file.created_us is not None:
        stamp = _as_stamp(file.created_us // 1000)
        statistics["minValues"]["stream_created"] = stamp
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=_partition_values(file, columns),
        modification_time=int(time.time() * 1000),
        data_change=is_new,
        stats=json.dumps(statistics),
    )


def _as_stamp(timestamp_ms: int) -> str:
    text = (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
