"""An archive as a DataFrame: one snapshot of it, unaffected by later commits and compactions.

Spark reads the very files of the snapshot, so a Delta table needs none of Delta's jars. Partition
columns come from the names of the directories, as Spark reads them from any partitioned table, with
the archive's own types: a token `007` stays a text. Filters on them leave out whole directories,
filters on sequence and timestamp whole groups of rows.

The files of a snapshot stay: in a Delta table for as long as the archive job keeps merged files
(`replaced_age_s`), in a Parquet archive until a compaction merges them; a read that has not opened
them yet then fails instead of returning wrong rows.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headwater.spark.jobs.archive.files.parquet_files import DATA_SCHEMA, table_schema
from headwater.spark.jobs.archive.files.partitioning import (
    DATE,
    HOUR,
    TOKEN_CHARS_MAX,
    Partitioning,
)
from headwater.spark.jobs.archive.log import StoredFile
from headwater.spark.jobs.archive.manifest import Manifest, read_manifest
from headwater.spark.jobs.archive.opening import open_log


def read_archive(
    spark: SparkSession,
    path: str,
    first_sequence: int | None = None,
    last_sequence: int | None = None,
) -> DataFrame:
    """The messages of the archive in the directory `path` now, or those within the bounds."""
    root = Path(path).absolute()
    manifest = read_manifest(root, "archive")
    files = open_log(root, manifest).snapshot().files
    first, last = first_sequence or 0, last_sequence or 2**63 - 1
    wanted = [
        each
        for each in files
        if each.sequences is None or (each.sequences[0] <= last and first <= each.sequences[1])
    ]
    frame = read_files(spark, root, manifest, wanted)
    if first_sequence is not None:
        frame = frame.where(f.col("sequence") >= first_sequence)
    if last_sequence is not None:
        frame = frame.where(f.col("sequence") <= last_sequence)
    return frame


def read_files(
    spark: SparkSession, root: Path, manifest: Manifest, files: Sequence[StoredFile]
) -> DataFrame:
    """These files of an archive, with its partition columns."""
    partitioning = manifest.partitioning
    schema = archive_schema(partitioning)
    if not files:
        return spark.createDataFrame([], schema)
    paths = [str(root / each.path) for each in files]
    if all(_is_in_its_place(each, partitioning) for each in files):
        return spark.read.option("basePath", str(root)).schema(schema).parquet(*paths)
    # Another tool has written files of the Delta table to places of its own.
    frame = spark.read.option("recursiveFileLookup", "true").schema(_data_schema()).parquet(*paths)
    return with_partition_columns(frame, partitioning)


def archive_schema(partitioning: Partitioning) -> StructType:
    """The columns of an archive as a Spark schema."""
    return from_arrow_schema(table_schema(partitioning))


def with_partition_columns(frame: DataFrame, partitioning: Partitioning) -> DataFrame:
    """Rows of an archive's columns with the partition columns that the archive has for them."""
    return frame.select(
        *DATA_SCHEMA.names, *(_computed(name, partitioning) for name in partitioning.columns)
    )


def _computed(column: str, partitioning: Partitioning) -> Column:
    # From the seconds, not by Spark's time functions, which use the session's zone.
    seconds = f.unix_seconds("timestamp")
    if column == DATE:
        return f.date_from_unix_date(f.floor(seconds / 86_400).cast("int")).alias(DATE)
    if column == HOUR:
        return f.pmod(f.floor(seconds / 3_600), f.lit(24)).cast("int").alias(HOUR)
    position = partitioning.token_positions[column]
    token = f.get(f.split("subject", r"\."), f.lit(position))
    return f.substring(token, 1, TOKEN_CHARS_MAX).alias(column)


def _is_in_its_place(file: StoredFile, partitioning: Partitioning) -> bool:
    return file.path.rpartition("/")[0] == partitioning.directory(file.values)


def _data_schema() -> StructType:
    return from_arrow_schema(DATA_SCHEMA)
