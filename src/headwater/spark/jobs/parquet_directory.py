"""An archive as plain Parquet files, whose names are the record.

    part-<commit>-<task>-<number>.parquet                  written by one task of one batch
    merged-<commit>-<task>-<number>--<commit>-<task>-<number>.parquet      all from one to the other

Commits are numbered from 0. `_headwater/commit.json` holds the number of the last one, and what the
record holds; it is replaced in one step. What a reader of ours goes by:

- A file of a later commit is not there yet.
- A file that lies within another one's span is replaced by it.
- A listing counts if no compaction removed files meanwhile (`_headwater/compaction.json`).

A plain reader of the directory goes by the names only: it sees no file twice and no half file, for
tasks write under hidden names and the commit renames. It may see a part of the batch that is being
committed, and for the moment between a compaction's renaming and removing, the rows of both.

Must not know: how files are written, Spark.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headwater.spark.jobs.archive_log import (
    ArchiveError,
    BatchCommit,
    DataFile,
    Record,
    Snapshot,
    StoredFile,
)
from headwater.spark.jobs.archive_manifest import Manifest, own_directory
from headwater.spark.jobs.durable_files import (
    HIDDEN,
    locked,
    read_document,
    remove,
    sync,
    write_document,
)

NOTHING_COMMITTED: Final = -1
LISTINGS_MAX: Final = 20

_KEY: Final = r"(\d{10})-(\d{5})-(\d{4})"
_PART: Final = re.compile(rf"part-{_KEY}\.parquet")
_MERGED: Final = re.compile(rf"merged-{_KEY}--{_KEY}\.parquet")
# What `draft_name` in parquet_files makes of a task and a number.
_DRAFT: Final = re.compile(r"\.part-\d+-(\d{5})-(\d{4})-\w+-\w+\.parquet")

Key = tuple[int, int, int]
"""Commit, task, number of the file within the task."""


@dataclass(frozen=True, order=True)
class Span:
    """From which to which key a file reaches; a part reaches from its own to its own."""

    first: Key
    last: Key

    @classmethod
    def of(cls, name: str) -> "Span | None":
        """What a file name says; None for a name that is not of ours."""
        if found := _PART.fullmatch(name):
            key = _key(found.groups())
            return cls(key, key)
        if found := _MERGED.fullmatch(name):
            return cls(_key(found.groups()[:3]), _key(found.groups()[3:]))
        return None

    @property
    def name(self) -> str:
        if self.first == self.last:
            return f"part-{_spelled(self.first)}.parquet"
        return f"merged-{_spelled(self.first)}--{_spelled(self.last)}.parquet"

    def covers(self, other: "Span") -> bool:
        return self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class State:
    """What `commit.json` holds: `batches` is the last one of each query, by its id."""

    commit: int
    batches: dict[str, int]
    reached: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> "State":
        document: dict[str, Any] = read_document(path) or {}
        return cls(
            commit=document.get("commit", NOTHING_COMMITTED),
            batches=document.get("batches", {}),
            reached=document.get("reached", {}),
        )

    def record(self, query: str, created: str) -> Record:
        return Record(self.batches.get(query), self.reached.get(created))

    def after(self, batch: BatchCommit) -> "State":
        """With one more batch; the older ones of its query and stream need not be kept."""
        return State(
            commit=self.commit + 1,
            batches={**self.batches, batch.query: batch.batch},
            reached={**self.reached, batch.reached.created: batch.reached.next_sequence},
        )

    def write(self, path: Path) -> None:
        write_document(
            path, {"commit": self.commit, "batches": self.batches, "reached": self.reached}
        )


@dataclass(frozen=True)
class ParquetSnapshot:
    """What was committed when the directory was listed."""

    files: Sequence[StoredFile]
    state: State

    def next_sequence(self, created: str) -> int | None:
        return self.state.reached.get(created)


class ParquetDirectory:
    """The record of the archive in `root`."""

    draft_prefix = HIDDEN

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self._root = root
        self._partitioning = manifest.partitioning
        self._state_path = own_directory(root) / "commit.json"
        self._compaction_path = own_directory(root) / "compaction.json"
        self._lock_path = own_directory(root) / "commit.lock"

    def prepare(self) -> None:
        # A driver that was thought dead may be committing still.
        with locked(self._lock_path, wait=True):
            commit = State.read(self._state_path).commit
            listed = list(self._listed())
            self._remove([path for path, span in listed if span.last[0] > commit])
            covered = [path for path, _ in _covered(listed)]
            if covered:
                self._count_compaction()
                self._remove(covered)

    def record(self, query: str, created: str) -> Record:
        return State.read(self._state_path).record(query, created)

    def commit(self, batch: BatchCommit) -> bool:
        with locked(self._lock_path, wait=True):
            state = State.read(self._state_path)
            if state.record(batch.query, batch.reached.created).holds(batch):
                self.discard(batch.files)
                return False
            self._publish(batch.files, state.commit + 1)
            state.after(batch).write(self._state_path)
        return True

    def discard(self, files: Sequence[DataFile]) -> None:
        for each in files:
            remove(self._root / each.path)

    def snapshot(self) -> Snapshot:
        for _ in range(LISTINGS_MAX):
            before = self._compactions()
            state = State.read(self._state_path)
            listed = [(path, span) for path, span in self._listed() if span.last[0] <= state.commit]
            covered = {path for path, _ in _covered(listed)}
            files = [
                stored
                for path, span in listed
                if path not in covered and (stored := self._stored(path, span)) is not None
            ]
            # A later commit may be merged with earlier ones: then those are not seen any more.
            is_same = State.read(self._state_path).commit == state.commit
            if is_same and self._compactions() == before:
                return ParquetSnapshot(files, state)
        raise ArchiveError(
            f"the archive in {self._root} changed {LISTINGS_MAX} times while it was listed:"
            " try again, or archive in the format delta"
        )

    def replace(self, covered: Sequence[StoredFile], merged: DataFile) -> bool:
        spans = [span for each in covered if (span := Span.of(Path(each.path).name)) is not None]
        directory = (self._root / merged.path).parent
        if not all((self._root / each.path).exists() for each in covered):
            remove(self._root / merged.path)
            return False
        span = Span(min(each.first for each in spans), max(each.last for each in spans))
        os.replace(self._root / merged.path, directory / span.name)
        sync(directory)
        # Whoever lists the directory from here on finds the merged file, and needs no other.
        self._count_compaction()
        self._remove([self._root / each.path for each in covered])
        return True

    def expire(self, replaced_age_s: float) -> int:
        # What is replaced is removed at once: names are all that tells a plain reader.
        return 0

    def orphans(self) -> list[Path]:
        return [
            Path(directory, name)
            for directory, names in self._directories()
            for name in names
            if name.startswith(HIDDEN) and name.endswith(".parquet")
        ]

    def _publish(self, files: Sequence[DataFile], commit: int) -> None:
        directories = set()
        for each in files:
            draft = self._root / each.path
            found = _DRAFT.fullmatch(draft.name)
            if found is None:
                raise ArchiveError(f"{draft} is not the name of a task's file")
            key = (commit, int(found[1]), int(found[2]))
            os.replace(draft, draft.with_name(Span(key, key).name))
            directories.add(draft.parent)
        for directory in directories:
            sync(directory)

    def _stored(self, path: Path, span: Span) -> StoredFile | None:
        values = self._partitioning.values(_relative(path.parent, self._root))
        if values is None:
            return None
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            # A compaction removes it just now, which the caller will notice.
            return None
        return StoredFile(
            _relative(path, self._root), values, size_bytes, (*span.first, *span.last)
        )

    def _listed(self) -> Iterator[tuple[Path, Span]]:
        for directory, names in self._directories():
            for name in names:
                if (span := Span.of(name)) is not None:
                    yield Path(directory, name), span

    def _directories(self) -> Iterator[tuple[str, list[str]]]:
        for directory, below, names in os.walk(self._root):
            below[:] = sorted(name for name in below if not name.startswith(("_", HIDDEN)))
            yield directory, sorted(names)

    def _compactions(self) -> int:
        document = read_document(self._compaction_path) or {}
        return int(document.get("count", 0))

    def _count_compaction(self) -> None:
        write_document(self._compaction_path, {"count": self._compactions() + 1})

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            remove(path)
        for directory in {path.parent for path in paths}:
            sync(directory)


def _covered(listed: Sequence[tuple[Path, Span]]) -> Iterator[tuple[Path, Span]]:
    """The files that another one of the same directory replaces."""
    widest: tuple[Path, Span] | None = None
    # In this order a file comes after every file that covers it.
    for path, span in sorted(listed, key=lambda each: (each[0].parent, each[1].first, _back(each))):
        if widest is not None and widest[0].parent == path.parent and widest[1].covers(span):
            yield path, span
        else:
            widest = (path, span)


def _back(listed: tuple[Path, Span]) -> tuple[int, ...]:
    return tuple(-number for number in listed[1].last)


def _relative(path: Path, root: Path) -> str:
    relative = path.relative_to(root).as_posix()
    return "" if relative == "." else relative


def _key(texts: Sequence[str]) -> Key:
    commit, task, number = (int(text) for text in texts)
    return commit, task, number


def _spelled(key: Key) -> str:
    return f"{key[0]:010d}-{key[1]:05d}-{key[2]:04d}"
