"""What an archive consists of, whichever format it has: files, and a record of what is committed.

Two formats keep the record, `delta_log` as a Delta table and `parquet_directory` in the names of
plain Parquet files. The rules are the same for both and stand here:

- A batch of a query is committed once. The record holds, by query, the last batch committed.
- Batches join without a gap or an overlap: each starts at the sequence where the record ends.
- The record is read together with the files, so that a snapshot knows to which sequence it is
  complete. The highest archived sequence would not do: what was filtered out or deleted at the end
  of a batch is not in any file, and yet need not be read again.

Knows neither Spark nor Arrow nor Delta.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.base.errors import OperatingError


class ArchiveError(OperatingError):
    """An archive that can not be gone on with, or read."""


@dataclass(frozen=True)
class Reached:
    """How far a stream has been read: the first sequence that was not.

    `created` tells the stream from another one of the same name, made after it was deleted.
    """

    created: str
    next_sequence: int


@dataclass(frozen=True)
class DataFile:
    """A file that a task or a compaction has written; `path` is relative to the archive."""

    path: str
    values: tuple[str | None, ...]
    size_bytes: int
    rows: int
    sequence_min: int
    sequence_max: int
    timestamp_us_min: int
    timestamp_us_max: int
    # When the stream was made whose messages these are; None of files that do not say.
    created_us: int | None = None


@dataclass(frozen=True)
class DraftPlace:
    """Where files stand, and how their names end, while they are not part of the archive."""

    folder: str
    ending: str

    def path(self, directory: str, stem: str) -> str:
        """The path, relative to the archive, of a draft of a file that belongs in `directory`."""
        return "/".join(part for part in (self.folder, directory, stem + self.ending) if part)


@dataclass(frozen=True)
class StoredFile:
    """A file of a snapshot. Files of one directory follow each other in the order of `order`.

    `sequences` are the lowest and the highest in the file, where the record knows them.
    """

    path: str
    values: tuple[str | None, ...]
    size_bytes: int
    order: tuple[int, ...]
    sequences: tuple[int, int] | None = None


@dataclass(frozen=True)
class BatchCommit:
    """A batch whose files are all written.

    `started` is where the batch before it ended; None for the first of a query.
    """

    query: str
    batch: int
    started: Reached | None
    reached: Reached
    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class Record:
    """What is committed, as far as it concerns one query and one stream."""

    batch: int | None
    next_sequence: int | None

    def holds(self, commit: BatchCommit) -> bool:
        """Whether the batch is committed already. Raises ArchiveError if it cannot follow."""
        if self.batch is not None and commit.batch <= self.batch:
            # The same batch ends where it ended before, or it is not the same batch.
            is_last = commit.batch == self.batch
            reached = commit.reached.next_sequence
            known = self.next_sequence
            if known is not None and (reached != known if is_last else reached > known):
                raise _stale_checkpoint(known, reached)
            return True
        joins = commit.started is None or commit.started.created != commit.reached.created
        started = commit.started.next_sequence if commit.started else 0
        if not joins and self.next_sequence is not None and started != self.next_sequence:
            raise _stale_checkpoint(self.next_sequence, started)
        return False


def _stale_checkpoint(archived: int, offered: int) -> ArchiveError:
    return ArchiveError(
        f"option checkpoint: the archive goes on at sequence {archived}, the checkpoint at"
        f" {offered}: it is not the archive's own, or an old copy;"
        " remove it, and the archive goes on where it ends"
    )


class Snapshot(Protocol):
    """An archive at one moment. What is committed later does not change it."""

    @property
    def files(self) -> Sequence[StoredFile]:
        """All files that belong to it."""

    def next_sequence(self, created: str) -> int | None:
        """Where the archive of the stream made then ends; None if it has nothing of that one."""


class ArchiveLog(Protocol):
    """The record of one archive."""

    drafts: DraftPlace

    def prepare(self) -> None:
        """Create what is missing, and finish what a crash has left half done."""

    def record(self, query: str, created: str) -> Record:
        """What is committed."""

    def commit(self, batch: BatchCommit) -> bool:
        """Make the batch part of the archive; False, and its files removed, if it was already."""

    def discard(self, files: Sequence[DataFile]) -> None:
        """Remove files that were written but will not be committed."""

    def snapshot(self) -> Snapshot:
        """What is committed now."""

    def replace(self, covered: Sequence[StoredFile], merged: DataFile) -> bool:
        """Put `merged` in the place of the files it was made of; False, and it is removed, if
        they are not all there any more."""

    def expire(self, replaced_age_s: float) -> int:
        """Remove files that were replaced so long ago, and what else is needed to read so old a
        state of the archive; how many files of data."""

    def orphans(self) -> list[Path]:
        """Files that a task or a compaction may have left behind, or is writing now."""
