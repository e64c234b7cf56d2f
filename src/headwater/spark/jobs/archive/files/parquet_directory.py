"""An archive as plain Parquet files, whose names are the record.

    part-<commit>-<task>-<number>.parquet                  written by one task of one batch
    merged-<commit>-<task>-<number>--<commit>-<task>-<number>.parquet      all from one to the other

Commits are numbered from 0. `_headwater/commit.json` holds the number of the last one, and the
record. `_headwater/pending.json` holds both for a batch whose files are about to appear, with their
names: the batch is committed at the moment when the last of its files exists, and `commit.json`
follows. Our own reader has these rules:

- A file of a later commit does not count yet.
- A file that lies within another one's span is replaced by it.
- A listing counts if no compaction removed files meanwhile (`_headwater/compaction.json`), and if
  every file it names still existed.

A plain reader knows the names only, with a pattern such as `**/*.parquet`. Tasks write into
`_headwater/drafts` under names with another ending, and the files of a commit or of a compaction
appear in one step if `tree_changes` can do that. So the reader sees no incomplete file, no part of
a batch, and no row twice, even if a process was killed.

Must not know: how files are written, Spark.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from headwater.spark.jobs.archive.files.durable_files import (
    HIDDEN,
    locked,
    read_document,
    remove,
    write_document,
)
from headwater.spark.jobs.archive.files.tree_changes import TreeChange, clear_swap
from headwater.spark.jobs.archive.log import (
    ArchiveError,
    BatchCommit,
    DataFile,
    DraftPlace,
    Record,
    Snapshot,
    StoredFile,
)
from headwater.spark.jobs.archive.manifest import OWN_DIRECTORY, Manifest, own_directory

NOTHING_COMMITTED: Final = -1
LISTINGS_MAX: Final = 20

_KEY: Final = r"(\d{10})-(\d{5})-(\d{4})"
_PART: Final = re.compile(rf"part-{_KEY}\.parquet")
_MERGED: Final = re.compile(rf"merged-{_KEY}--{_KEY}\.parquet")
DRAFTS: Final = DraftPlace(f"{OWN_DIRECTORY}/drafts", ".draft")
# The names that `DraftNames` in parquet_files makes of a task and a number.
_DRAFT: Final = re.compile(r"part-\d+-(\d{5})-(\d{4})-\w+-\w+\.draft")

Key = tuple[int, int, int]
"""Commit, task, number of the file within the task."""


@dataclass(frozen=True, order=True)
class Span:
    """The range of keys of a file; a part has one key."""

    first: Key
    last: Key

    @classmethod
    def of(cls, name: str) -> "Span | None":
        """The span in a file name; None for a name that is not ours."""
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
    """The content of `commit.json`: `batches` is the last one of each query, by its id.

    `files` are those of the commit itself, by their paths, while it is pending.
    """

    commit: int
    batches: dict[str, int]
    reached: dict[str, int]
    files: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "State":
        document: dict[str, Any] = read_document(path) or {}
        return cls(
            commit=document.get("commit", NOTHING_COMMITTED),
            batches=document.get("batches", {}),
            reached=document.get("reached", {}),
            files=tuple(document.get("files", ())),
        )

    def record(self, query: str, created: str) -> Record:
        return Record(self.batches.get(query), self.reached.get(created))

    def after(self, batch: BatchCommit, files: tuple[str, ...]) -> "State":
        """The state with one more batch; older ones of its query and stream need not be kept."""
        return State(
            commit=self.commit + 1,
            batches={**self.batches, batch.query: batch.batch},
            reached={**self.reached, batch.reached.created: batch.reached.next_sequence},
            files=files,
        )

    def write(self, path: Path) -> None:
        write_document(path, asdict(self))


@dataclass(frozen=True)
class ParquetSnapshot:
    """The committed files when the directory was listed."""

    files: Sequence[StoredFile]
    state: State

    def next_sequence(self, created: str) -> int | None:
        return self.state.reached.get(created)


class ParquetDirectory:
    """The record of the archive in `root`."""

    drafts = DRAFTS

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self._root = root
        self._partitioning = manifest.partitioning
        self._state_path = own_directory(root) / "commit.json"
        self._pending_path = own_directory(root) / "pending.json"
        self._compaction_path = own_directory(root) / "compaction.json"
        self._lock_path = own_directory(root) / "commit.lock"

    def prepare(self) -> None:
        # A driver that was assumed dead may still be committing.
        with locked(self._lock_path, wait=True):
            clear_swap(self._root)
            self._remove_empty_directories()
            commit = self._record_state().commit
            listed = list(self._listed())
            early = [path for path, span in listed if span.last[0] > commit]
            TreeChange(self._root, removals=early).make()
            covered = [path for path, _ in _covered(listed)]
            TreeChange(self._root, removals=covered).make(self._count_compaction)

    def record(self, query: str, created: str) -> Record:
        return self._state().record(query, created)

    def commit(self, batch: BatchCommit) -> bool:
        with locked(self._lock_path, wait=True):
            state = self._record_state()
            if state.record(batch.query, batch.reached.created).holds(batch):
                self.discard(batch.files)
                return False
            places = [self._place(each, state.commit + 1) for each in batch.files]
            names = tuple(_relative(final, self._root) for _, final in places)
            state.after(batch, names).write(self._pending_path)
            self._publish(places)
            self._record_state()
        return True

    def discard(self, files: Sequence[DataFile]) -> None:
        for each in files:
            remove(self._root / each.path)

    def snapshot(self) -> Snapshot:
        for _ in range(LISTINGS_MAX):
            before = self._compactions()
            state = self._state()
            listed = [(path, span) for path, span in self._listed() if span.last[0] <= state.commit]
            covered = {path for path, _ in _covered(listed)}
            try:
                files = [
                    stored
                    for path, span in listed
                    if path not in covered and (stored := self._stored(path, span)) is not None
                ]
            except FileNotFoundError:
                # A compaction has removed the file after the listing.
                continue
            # A later commit may be merged with earlier ones, which are not visible then.
            is_same = self._state().commit == state.commit
            if is_same and self._compactions() == before:
                return ParquetSnapshot(files, state)
        raise ArchiveError(
            f"the archive in {self._root} changed {LISTINGS_MAX} times while it was listed:"
            " try again, or archive in the format delta"
        )

    def replace(self, covered: Sequence[StoredFile], merged: DataFile) -> bool:
        spans = [span for each in covered if (span := Span.of(Path(each.path).name)) is not None]
        span = Span(min(each.first for each in spans), max(each.last for each in spans))
        draft, sources = self._root / merged.path, [self._root / each.path for each in covered]
        with locked(self._lock_path, wait=True):
            # A merged batch must not look as if its files had never appeared.
            self._record_state()
            if not all(path.exists() for path in sources):
                remove(draft)
                return False
            final = sources[0].with_name(span.name)
            # A reader that lists the directory after the count finds the merged file.
            TreeChange(self._root, [(draft, final)], sources).make(self._count_compaction)
        return True

    def expire(self, replaced_age_s: float) -> int:
        # Replaced files are removed at once: a plain reader knows only names.
        return 0

    def orphans(self) -> list[Path]:
        # Former versions wrote drafts under hidden names among the files.
        hidden = [
            Path(directory, name)
            for directory, names in self._directories()
            for name in names
            if name.startswith(HIDDEN) and name.endswith(".parquet")
        ]
        return hidden + sorted((self._root / DRAFTS.folder).rglob("*" + DRAFTS.ending))

    def _place(self, file: DataFile, commit: int) -> tuple[Path, Path]:
        """The draft of a file, and its final path."""
        draft = self._root / file.path
        found = _DRAFT.fullmatch(draft.name)
        if found is None:
            raise ArchiveError(f"{draft} is not the name of a task's file")
        key = (commit, int(found[1]), int(found[2]))
        directory = self._root / self._partitioning.directory(file.values)
        return draft, directory / Span(key, key).name

    def _publish(self, places: Sequence[tuple[Path, Path]]) -> None:
        """Let the files of a batch appear, which commits the batch."""
        TreeChange(self._root, additions=places).make()

    def _state(self) -> State:
        """The last commit, even if `commit.json` does not have it yet."""
        # In this order: a pending state may become the committed one in between, not the reverse.
        pending = State.read(self._pending_path)
        state = State.read(self._state_path)
        if pending.commit != state.commit + 1:
            return state
        return pending if all((self._root / path).exists() for path in pending.files) else state

    def _record_state(self) -> State:
        """The last commit, after writing it to `commit.json`. Only under the lock."""
        state = replace(self._state(), files=())
        if state.commit != State.read(self._state_path).commit:
            state.write(self._state_path)
        remove(self._pending_path)
        return state

    def _remove_empty_directories(self) -> None:
        """Remove directories of drafts that are all part of the archive now."""
        for directory, _, _ in os.walk(self._root / DRAFTS.folder, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def _stored(self, path: Path, span: Span) -> StoredFile | None:
        values = self._partitioning.values(_relative(path.parent, self._root))
        if values is None:
            return None
        return StoredFile(
            _relative(path, self._root), values, path.stat().st_size, (*span.first, *span.last)
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
