"""Compaction: small files of an archive are merged into larger ones.

Every batch leaves at least one file per partition value; a stream that is archived every few
seconds would leave thousands a day. A compaction merges neighbours: files of one directory that
follow each other, so that the order of sequences inside files stays.

The groups are chosen so that a row is rewritten a few times only, however often a compaction runs:
a file joins those after it when they are together at least half as large as itself. Each time a row
is rewritten its file has grown by half; after some ten times it has the target size, and is left
alone. So a directory keeps a handful of small files at its end, never many.

Must not know: the formats, Spark.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from headwater.spark.jobs.archive.files.parquet_files import merge_files
from headwater.spark.jobs.archive.log import ArchiveLog, StoredFile
from headwater.spark.jobs.progress import SILENT, Progress


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0

    def __add__(self, other: "Compacted") -> "Compacted":
        return Compacted(
            self.files_before + other.files_before, self.files_after + other.files_after
        )


def compact(
    root: Path,
    log: ArchiveLog,
    file_bytes_target: int,
    row_group_rows_max: int,
    progress: Progress = SILENT,
) -> Compacted:
    """Merge small files. Batches may be committed meanwhile; another compaction may not run."""
    done = Compacted()
    groups = list(plan(log.snapshot().files, file_bytes_target))
    if groups:
        progress.stage("compaction", sum(len(group) for group in groups))
    for group in groups:
        directory = group[0].path.rpartition("/")[0]
        target = root / log.drafts.path(directory, f"merged-{uuid.uuid4().hex}")
        sources = [each.path for each in group]
        merged = merge_files(root, sources, target, group[0].values, row_group_rows_max)
        if log.replace(group, merged):
            done += Compacted(len(group), 1)
        progress.advance(len(group))
    return done


def plan(files: Iterable[StoredFile], file_bytes_target: int) -> Iterator[Sequence[StoredFile]]:
    """The groups of files to merge, each of at least two."""
    in_order = sorted(files, key=lambda each: (_place(each), each.order))
    for _, members in groupby(in_order, key=_place):
        for run in _runs(members, file_bytes_target):
            group = _worth_merging(run)
            if len(group) > 1:
                yield group


def _runs(files: Iterable[StoredFile], file_bytes_target: int) -> Iterator[list[StoredFile]]:
    """Neighbours that fit into one file together; a file of half the size is large enough."""
    run: list[StoredFile] = []
    run_bytes = 0
    for each in files:
        is_large = each.size_bytes * 2 >= file_bytes_target
        if run and (is_large or run_bytes + each.size_bytes > file_bytes_target):
            yield run
            run, run_bytes = [], 0
        if not is_large:
            run.append(each)
            run_bytes += each.size_bytes
    if run:
        yield run


def _worth_merging(run: list[StoredFile]) -> list[StoredFile]:
    """The longest end of `run` whose first file is at most twice as large as the rest."""
    rest_bytes = sum(each.size_bytes for each in run)
    for index, each in enumerate(run):
        rest_bytes -= each.size_bytes
        if each.size_bytes <= 2 * rest_bytes:
            return run[index:]
    return []


def _place(file: StoredFile) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in file.values)
