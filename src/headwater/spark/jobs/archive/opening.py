"""The record of an archive, opened by the format that the archive's manifest names."""

from pathlib import Path

from headwater.spark.jobs.archive.log import ArchiveLog
from headwater.spark.jobs.archive.manifest import Manifest


def open_log(root: Path, manifest: Manifest) -> ArchiveLog:
    """The record of the archive in the directory `root`."""
    # Each brings libraries that the other does not need.
    if manifest.format == "delta":
        from headwater.spark.jobs.archive.files.delta_log import DeltaLog

        return DeltaLog(root, manifest)
    from headwater.spark.jobs.archive.files.parquet_directory import ParquetDirectory

    return ParquetDirectory(root, manifest)
