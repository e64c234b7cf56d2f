"""The parts of an archive in any format: files, and a record of the committed batches.

Two formats keep the record, `delta_log` as a Delta table and `parquet_directory` in the names of
plain Parquet files. Both follow these rules:

- A batch of a query is committed once. The record holds, by query, the last batch committed.
- Batches join without a gap or an overlap: each starts at the sequence where the record ends.
- The record is read together with the files, so that a snapshot has the sequence up to which it is
  complete. The highest archived sequence would not do: messages that were filtered out or deleted
  at the end of a batch are not in any file, and yet need not be read again.

Knows neither Spark nor Arrow nor Delta.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.base.errors import OperatingError


class ArchiveError(OperatingError):
    """The archive cannot be continued, or read."""


@dataclass(frozen=True)
class Reached:
    """The progress in a stream: the first sequence that was not read.

    `created` distinguishes the stream from another one of its name that was created later.
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
    # When the stream of these messages was created; None for files without it.
    created_us: int | None = None


@dataclass(frozen=True)
class DraftPlace:
    """The place of files, and the ending of their names, before they are part of the archive."""

    folder: str
    ending: str

    def path(self, directory: str, stem: str) -> str:
        """The path, relative to the archive, of a draft of a file that belongs in `directory`."""
        return "/".join(part for part in (self.folder, directory, stem + self.ending) if part)


@dataclass(frozen=True)
class StoredFile:
    """A file of a snapshot. Files of one directory follow each other in the order of `order`.

    `sequences` are the lowest and the highest in the file, if the record has them.
    """

    path: str
    values: tuple[str | None, ...]
    size_bytes: int
    order: tuple[int, ...]
    sequences: tuple[int, int] | None = None


@dataclass(frozen=True)
class BatchCommit:
    """A batch whose files are all written.

    `started` is the end of the previous batch; None for the first of a query.
    """

    query: str
    batch: int
    started: Reached | None
    reached: Reached
    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class Record:
    """The committed state of one query and one stream."""

    batch: int | None
    next_sequence: int | None

    def holds(self, commit: BatchCommit) -> bool:
        """Whether the batch is committed already. Raises ArchiveError if it cannot follow."""
        if self.batch is not None and commit.batch <= self.batch:
            # An equal batch ends at the same sequence; otherwise it is another batch.
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
    """An archive at one moment. Later commits do not change it."""

    @property
    def files(self) -> Sequence[StoredFile]:
        """All files of the snapshot."""

    def next_sequence(self, created: str) -> int | None:
        """The end of the archive of the stream created then; None if it has no messages of it."""


class ArchiveLog(Protocol):
    """The record of one archive."""

    drafts: DraftPlace

    def prepare(self) -> None:
        """Create missing files, and complete the work that a crash has interrupted."""

    def record(self, query: str, created: str) -> Record:
        """The committed state."""

    def commit(self, batch: BatchCommit) -> bool:
        """Make the batch part of the archive. Returns False, and removes its files, if it was."""

    def discard(self, files: Sequence[DataFile]) -> None:
        """Remove written files that will not be committed."""

    def snapshot(self) -> Snapshot:
        """The committed state now."""

    def replace(self, covered: Sequence[StoredFile], merged: DataFile) -> bool:
        """Replace the files that `merged` was made of by it.

        Returns False, and removes `merged`, if not all of them exist any more.
        """

    def expire(self, replaced_age_s: float) -> int:
        """Remove files that were replaced that long ago, and the log of such old states.

        Returns the number of data files.
        """

    def orphans(self) -> list[Path]:
        """Files that a task or a compaction may have left behind, or is writing now."""
