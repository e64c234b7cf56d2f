"""The record of an archive of plain Parquet files: its names, and the leftovers of a crash."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.jobs.archive.files import tree_changes
from headwater.spark.jobs.archive.files.parquet_directory import (
    DRAFTS,
    ParquetDirectory,
    Span,
    State,
)
from headwater.spark.jobs.archive.log import ArchiveError, BatchCommit, DataFile, Reached
from headwater.spark.jobs.archive.manifest import Manifest, own_directory, settle_manifest

MANIFEST = Manifest("orders", "parquet", ("token_2",), ())
RUN = "run"


@pytest.fixture
def log(tmp_path: Path) -> ParquetDirectory:
    settle_manifest(tmp_path, MANIFEST)
    made = ParquetDirectory(tmp_path, MANIFEST)
    made.prepare()
    return made


def draft(root: Path, token: str, batch: int, task: int = 0, number: int = 0) -> DataFile:
    """A file as a task leaves it; its content does not matter here."""
    name = f"part-{batch:010d}-{task:05d}-{number:04d}-{RUN}-{task}"
    path = root / DRAFTS.path(f"token_2={token}", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{token} {batch} {task} {number}")
    return DataFile(str(path.relative_to(root)), (token,), path.stat().st_size, 1, 1, 1, 1, 1)


def commit(log: ParquetDirectory, batch: int, *files: DataFile) -> bool:
    start = Reached("c1", batch * 10 + 1) if batch else None
    return log.commit(BatchCommit("query", batch, start, Reached("c1", batch * 10 + 11), files))


def names(log: ParquetDirectory) -> list[str]:
    return [Path(each.path).name for each in log.snapshot().files]


def visible(root: Path) -> list[str]:
    """The files that a plain reader of the directory sees."""
    return sorted(path.name for path in root.rglob("*.parquet"))


KEYS = st.tuples(st.integers(0, 10**10 - 1), st.integers(0, 10**5 - 1), st.integers(0, 9999))


@given(KEYS, KEYS)
def test_a_name_says_its_span_and_names_sort_as_spans(
    one: tuple[int, int, int], two: tuple[int, int, int]
) -> None:
    span = Span(min(one, two), max(one, two))
    assert Span.of(span.name) == span
    parts = Span(one, one), Span(two, two)
    assert (parts[0].name < parts[1].name) == (parts[0] < parts[1])


@pytest.mark.parametrize(
    "name", ["", "part.parquet", ".part-0000000000-00000-0000.parquet", "a.txt"]
)
def test_other_names_have_no_span(name: str) -> None:
    assert Span.of(name) is None


def test_nothing_is_seen_before_the_commit_and_everything_after(
    log: ParquetDirectory, tmp_path: Path
) -> None:
    files = draft(tmp_path, "a", 0), draft(tmp_path, "b", 0), draft(tmp_path, "a", 0, task=1)
    assert visible(tmp_path) == []
    assert log.snapshot().next_sequence("c1") is None
    assert commit(log, 0, *files)
    assert visible(tmp_path) == sorted(names(log))
    assert names(log) == [
        "part-0000000000-00000-0000.parquet",
        "part-0000000000-00001-0000.parquet",
        "part-0000000000-00000-0000.parquet",
    ]
    assert log.snapshot().next_sequence("c1") == 11


def test_a_batch_that_comes_again_changes_nothing(log: ParquetDirectory, tmp_path: Path) -> None:
    commit(log, 0, draft(tmp_path, "a", 0))
    again = draft(tmp_path, "a", 0, task=7)
    before = visible(tmp_path)
    assert not commit(log, 0, again)
    assert visible(tmp_path) == before
    assert not (tmp_path / again.path).exists()


def test_a_batch_without_rows_moves_the_record_on(log: ParquetDirectory) -> None:
    assert commit(log, 0)
    assert log.snapshot().next_sequence("c1") == 11
    assert names(log) == []


def test_a_part_of_a_batch_that_was_not_committed_is_not_read_and_then_removed(
    log: ParquetDirectory, tmp_path: Path
) -> None:
    commit(log, 0, draft(tmp_path, "a", 0))
    # A driver that dies between renaming and writing the record leaves this file.
    half = tmp_path / "token_2=a" / "part-0000000001-00000-0000.parquet"
    half.touch()
    assert names(log) == ["part-0000000000-00000-0000.parquet"]
    log.prepare()
    assert not half.exists()
    assert commit(log, 1, draft(tmp_path, "a", 1))
    assert len(names(log)) == 2


def merged_draft(root: Path, token: str) -> DataFile:
    path = root / DRAFTS.path(f"token_2={token}", "merged-x")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("merged")
    return DataFile(str(path.relative_to(root)), (token,), 6, 2, 1, 2, 1, 2)


def test_a_merged_file_takes_the_place_of_its_sources(
    log: ParquetDirectory, tmp_path: Path
) -> None:
    for batch in range(3):
        commit(log, batch, draft(tmp_path, "a", batch))
    assert log.replace(log.snapshot().files[:2], merged_draft(tmp_path, "a"))
    wanted = [
        "merged-0000000000-00000-0000--0000000001-00000-0000.parquet",
        "part-0000000002-00000-0000.parquet",
    ]
    assert names(log) == wanted
    assert visible(tmp_path) == wanted


def test_sources_that_a_crash_left_beside_the_merged_file_are_not_read_and_then_removed(
    log: ParquetDirectory, tmp_path: Path
) -> None:
    for batch in range(2):
        commit(log, batch, draft(tmp_path, "a", batch), draft(tmp_path, "b", batch))
    merged = tmp_path / "token_2=a" / Span((0, 0, 0), (1, 0, 0)).name
    merged.touch()
    assert names(log) == [merged.name, *[f"part-000000000{n}-00000-0000.parquet" for n in (0, 1)]]
    log.prepare()
    assert visible(tmp_path) == sorted(names(log))
    assert len(visible(tmp_path)) == 3


def test_a_merge_of_files_that_are_gone_is_given_up(log: ParquetDirectory, tmp_path: Path) -> None:
    for batch in range(2):
        commit(log, batch, draft(tmp_path, "a", batch))
    files = log.snapshot().files
    (tmp_path / files[0].path).unlink()
    merged = merged_draft(tmp_path, "a")
    assert not log.replace(files, merged)
    assert not (tmp_path / merged.path).exists()


def test_a_listing_during_a_compaction_is_taken_again(
    log: ParquetDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        commit(log, batch, draft(tmp_path, "a", batch))
    walk, listings = ParquetDirectory._directories, []

    def overtaken(self: ParquetDirectory) -> object:
        """The first listing is made of names that a compaction removes while it is made."""
        listing = list(walk(self))
        listings.append(listing)
        if len(listings) == 1:
            files = log.snapshot().files
            assert log.replace(files, merged_draft(tmp_path, "a"))
        return iter(listing)

    monkeypatch.setattr(ParquetDirectory, "_directories", overtaken)
    assert names(log) == ["merged-0000000000-00000-0000--0000000002-00000-0000.parquet"]


def test_an_archive_that_never_stands_still_is_an_error_not_a_guess(
    log: ParquetDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = ParquetDirectory._directories
    batches = iter(range(1000))

    def overtaken(self: ParquetDirectory) -> object:
        commit(log, next(batches))
        return walk(self)

    monkeypatch.setattr(ParquetDirectory, "_directories", overtaken)
    with pytest.raises(ArchiveError, match="changed 20 times while it was listed"):
        log.snapshot()


@pytest.mark.parametrize("has_swap", [True, False])
def test_a_batch_is_committed_when_its_last_file_is_there_whoever_writes_that_down(
    log: ParquetDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_swap: bool
) -> None:
    commit(log, 0, draft(tmp_path, "a", 0))
    if not has_swap:
        monkeypatch.setattr(tree_changes, "exchange", lambda one, other: False)

    class Killed(BaseException):
        pass

    def die(self: State, path: Path) -> None:
        if path.name == "commit.json":
            raise Killed
        write(self, path)

    write = State.write
    monkeypatch.setattr(State, "write", die)
    with pytest.raises(Killed):
        commit(log, 1, draft(tmp_path, "a", 1), draft(tmp_path, "a", 1, task=1))
    assert len(names(log)) == len(visible(tmp_path)) == 3
    assert log.snapshot().next_sequence("c1") == 21
    monkeypatch.undo()
    log.prepare()
    assert log.record("query", "c1").batch == 1
    assert len(names(log)) == len(visible(tmp_path)) == 3


def test_a_draft_of_a_former_version_is_an_orphan(log: ParquetDirectory, tmp_path: Path) -> None:
    commit(log, 0, draft(tmp_path, "a", 0))
    left = tmp_path / "token_2=a" / ".part-0000000001-00000-0000-run-0.parquet"
    left.touch()
    assert log.orphans() == [left]


def test_drafts_are_orphans_and_other_files_are_not(log: ParquetDirectory, tmp_path: Path) -> None:
    commit(log, 0, draft(tmp_path, "a", 0))
    left = draft(tmp_path, "a", 1)
    assert log.orphans() == [tmp_path / left.path]
    assert own_directory(tmp_path).exists()
