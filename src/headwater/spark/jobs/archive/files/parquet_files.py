"""Parquet files of an archive: messages sorted into directories, and the merging of small files.

A task writes one file per combination of partition values it meets, more only if a file exceeds its
size or more files are open than a process may have. Rows keep their order, which is that of their
sequences. A file is closed, flushed to the disk and measured before it is reported.

`stream_created` distinguishes the messages of a stream from those of another one of its name,
created after the first was deleted: their sequences are equal numbers. Files of former versions do
not have it; it is null there.

Files have the data columns only; the partition columns are in the names of the directories, as in
Hive, Spark and Delta. Statistics of sequence, timestamp and subject let readers skip row groups;
those of payloads would only cost space.

Must not know: what is committed, Spark.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.spark.jobs.archive.files.durable_files import make_directory, remove, sync
from headwater.spark.jobs.archive.files.partitioning import DATE, HOUR, Partitioning, token_of
from headwater.spark.jobs.archive.log import DataFile, DraftPlace

COMPRESSION: Final = "zstd"
# The fastest level: the archive has to keep up with the stream.
COMPRESSION_LEVEL: Final = 1
ROW_GROUP_BYTES_MAX: Final = 64 << 20
# For one task, over all its open files.
BUFFERED_BYTES_MAX: Final = 192 << 20
# Many systems give a process 1,024 descriptors, and Spark's worker needs some.
OPEN_FILES_MAX: Final = 256
MERGE_BATCH_ROWS: Final = 16_384

DATA_SCHEMA: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("headers", pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))),
        pa.field("data", pa.binary()),
        pa.field("stream_created", pa.timestamp("us", tz="UTC")),
    ]
)
_WITH_STATISTICS: Final = ["sequence", "timestamp", "subject", "stream_created"]
_WITH_DICTIONARY: Final = ["stream", "subject", "headers.key_value.key", "stream_created"]


def table_schema(partitioning: Partitioning) -> pa.Schema:
    """The columns of an archive: those of its files, then those of its directories."""
    kinds = {DATE: pa.date32(), HOUR: pa.int32()}
    columns = [pa.field(name, kinds.get(name, pa.string())) for name in partitioning.columns]
    return pa.schema([*DATA_SCHEMA, *columns])


@dataclass(frozen=True)
class FileShape:
    """The limits of the size of files and of their row groups."""

    file_bytes_max: int
    row_group_rows_max: int


@dataclass(frozen=True)
class DraftNames:
    """Names of the files of one attempt of one task: no other attempt writes under them."""

    place: DraftPlace
    run: str
    batch: int
    task: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def path(self, directory: str, number: int) -> str:
        """The path of the attempt's file of this number for a directory."""
        return self.place.path(
            directory,
            f"part-{self.batch:010d}-{self.task:05d}-{number:04d}-{self.run}-{self.attempt}",
        )


class ParquetFile:
    """One file while it is written. Rows wait until a row group is full."""

    def __init__(self, path: Path, shape: FileShape) -> None:
        self.path = path
        self.rows = 0
        self.buffered_bytes = 0
        self._shape = shape
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._file: IO[bytes] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._sequences: list[int] = []
        self._timestamps_us: list[int] = []
        self._created_us: int | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_full(self) -> bool:
        return self._file is not None and self._file.tell() >= self._shape.file_bytes_max

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows, which follow those before."""
        self.rows += batch.num_rows
        limit = self._shape.row_group_rows_max
        while batch.num_rows:
            taken = batch.slice(0, limit - self._buffered_rows)
            batch = batch.slice(taken.num_rows)
            self._buffered.append(taken)
            self._buffered_rows += taken.num_rows
            self.buffered_bytes += taken.nbytes
            if self._buffered_rows >= limit or self.buffered_bytes >= ROW_GROUP_BYTES_MAX:
                self.flush()

    def flush(self) -> None:
        """Write the waiting rows as one row group."""
        if not self._buffered:
            return
        table = pa.Table.from_batches(self._buffered)
        self._note_bounds(table)
        if self._writer is None:
            self._open()
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._buffered.clear()
        self._buffered_rows = self.buffered_bytes = 0

    def close(self, root: Path, values: tuple[str | None, ...]) -> DataFile:
        """Finish the file and flush it to the disk."""
        self.flush()
        assert self._writer is not None
        assert self._file is not None
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = self._file.tell()
        self._file.close()
        return DataFile(
            path=self.path.relative_to(root).as_posix(),
            values=values,
            size_bytes=size_bytes,
            rows=self.rows,
            sequence_min=min(self._sequences),
            sequence_max=max(self._sequences),
            timestamp_us_min=min(self._timestamps_us),
            timestamp_us_max=max(self._timestamps_us),
            created_us=self._created_us,
        )

    def abandon(self) -> None:
        """Remove the file, after any error."""
        if self._file is not None:
            with suppress(OSError, pa.ArrowException):
                self._file.close()
        remove(self.path)

    def _open(self) -> None:
        make_directory(self.path.parent)
        self._file = open(self.path, "xb")  # noqa: SIM115  closed by close or abandon
        self._writer = pq.ParquetWriter(
            self._file,
            DATA_SCHEMA,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=_WITH_DICTIONARY,
            write_statistics=_WITH_STATISTICS,
            store_schema=False,
        )

    def _note_bounds(self, rows: pa.Table) -> None:
        for name, seen in (("sequence", self._sequences), ("timestamp", self._timestamps_us)):
            ends = pc.min_max(rows.column(name).cast(pa.int64()))
            seen += [ends["min"].as_py(), ends["max"].as_py()]
            seen[:] = [min(seen), max(seen)]
        if self._created_us is None:
            self._created_us = pc.min(rows.column("stream_created").cast(pa.int64())).as_py()


class PartitionedFiles:
    """The files of one task, by partition values."""

    def __init__(
        self, root: Path, partitioning: Partitioning, names: DraftNames, shape: FileShape
    ) -> None:
        self._root = root
        self._partitioning = partitioning
        self._names = names
        self._shape = shape
        # In the order of their last use.
        self._files: dict[tuple[str | None, ...], ParquetFile] = {}
        self._numbers: dict[tuple[str | None, ...], int] = {}
        self._closed: list[DataFile] = []

    def append(self, batch: pa.RecordBatch) -> None:
        """Sort rows into their files."""
        for values, rows in split_by_values(conformed(batch), self._partitioning):
            file = self._files.pop(values, None) or self._new(values)
            self._files[values] = file
            file.append(rows)
            if file.is_full:
                self._close(values)
        self._keep_within_limits()

    def close(self) -> tuple[DataFile, ...]:
        """Finish all files and flush their names to the disk."""
        for values in list(self._files):
            self._close(values)
        for directory in {(self._root / each.path).parent for each in self._closed}:
            sync(directory)
        return tuple(self._closed)

    def abandon(self) -> None:
        """Remove everything written."""
        for file in self._files.values():
            file.abandon()
        for each in self._closed:
            remove(self._root / each.path)

    def _new(self, values: tuple[str | None, ...]) -> ParquetFile:
        number = self._numbers.get(values, 0)
        self._numbers[values] = number + 1
        path = self._names.path(self._partitioning.directory(values), number)
        return ParquetFile(self._root / path, self._shape)

    def _close(self, values: tuple[str | None, ...]) -> None:
        # Known as a file to remove until it is known as a finished one.
        self._closed.append(self._files[values].close(self._root, values))
        del self._files[values]

    def _keep_within_limits(self) -> None:
        if sum(file.buffered_bytes for file in self._files.values()) > BUFFERED_BYTES_MAX:
            fullest = sorted(self._files.values(), key=lambda file: -file.buffered_bytes)
            for file in fullest[: len(fullest) // 2 + 1]:
                file.flush()
        opened = [values for values, file in self._files.items() if file.is_open]
        for values in opened[: max(0, len(opened) - OPEN_FILES_MAX)]:
            self._close(values)


def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with exactly the columns and types of the files."""
    if batch.schema.equals(DATA_SCHEMA):
        return batch
    columns = [
        batch.column(each.name).cast(each.type)
        if each.name in batch.schema.names
        else pa.nulls(batch.num_rows, each.type)
        for each in DATA_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DATA_SCHEMA)


def with_created(batch: pa.RecordBatch, created_us: int) -> pa.RecordBatch:
    """The rows with the time at which their stream was created."""
    value = pa.scalar(created_us, pa.timestamp("us", tz="UTC"))
    return batch.append_column("stream_created", pa.repeat(value, batch.num_rows))


def split_by_values(
    batch: pa.RecordBatch, partitioning: Partitioning
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows of each combination of partition values, in their order."""
    if not batch.num_rows:
        return
    if not partitioning.columns:
        yield (), batch
        return
    codes, labels = [], []
    for column in partitioning.columns:
        encoded = _encoded(batch, column, partitioning)
        codes.append(encoded.indices)
        labels.append(encoded.dictionary.to_pylist())
    code = codes[0].cast(pa.int64())
    for further, names in zip(codes[1:], labels[1:], strict=True):
        code = pc.add(pc.multiply(code, len(names)), further.cast(pa.int64()))
    ends = pc.min_max(code)
    if ends["min"] == ends["max"]:
        yield _labels_of(ends["min"].as_py(), labels), batch
        return
    order = pc.array_sort_indices(code)
    ordered = batch.take(order)
    runs = pc.run_end_encode(code.take(order))
    start = 0
    for end, value in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield _labels_of(value, labels), ordered.slice(start, end - start)
        start = end


def _labels_of(code: int, labels: list[list[str | None]]) -> tuple[str | None, ...]:
    values: list[str | None] = []
    for names in reversed(labels):
        code, index = divmod(code, len(names))
        values.append(names[index])
    return tuple(reversed(values))


def _encoded(batch: pa.RecordBatch, column: str, partitioning: Partitioning) -> pa.DictionaryArray:
    """One partition column as numbers, and the text that each number stands for."""
    if column == DATE:
        days = batch.column("timestamp").cast(pa.timestamp("us")).cast(pa.date32())
        return _with_texts(days.dictionary_encode(), lambda day: day.isoformat())
    if column == HOUR:
        hours = pc.hour(batch.column("timestamp"))
        return _with_texts(hours.dictionary_encode(), str)
    position = partitioning.token_positions[column]
    subjects = batch.column("subject").dictionary_encode()
    tokens = [
        None if subject is None else token_of(subject, position)
        for subject in subjects.dictionary.to_pylist()
    ]
    by_token = pa.array(tokens, pa.string()).dictionary_encode(null_encoding="encode")
    indices = by_token.indices.take(subjects.indices)
    return pa.DictionaryArray.from_arrays(indices, by_token.dictionary)


def _with_texts(encoded: pa.DictionaryArray, spell: Callable[[Any], str]) -> pa.DictionaryArray:
    texts = [spell(value) for value in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def merge_files(
    root: Path,
    sources: Iterable[str],
    target: Path,
    values: tuple[str | None, ...],
    row_group_rows_max: int,
) -> DataFile:
    """Write the rows of the files `sources`, in this order, into the one file `target`."""
    # Without a limit of size: the group to merge was chosen before.
    merged = ParquetFile(target, FileShape(sys.maxsize, row_group_rows_max))
    try:
        for source in sources:
            with pq.ParquetFile(root / source) as file:
                for batch in file.iter_batches(MERGE_BATCH_ROWS):
                    merged.append(conformed(batch))
        written = merged.close(root, values)
    except BaseException:
        merged.abandon()
        raise
    sync(target.parent)
    return written
