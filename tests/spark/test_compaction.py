"""The files that a compaction merges; readers see no other change than the number of files."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.jobs.archive.compaction import Compacted, compact, plan
from headwater.spark.jobs.archive.files import delta_log
from headwater.spark.jobs.archive.files.parquet_files import DraftNames, FileShape, PartitionedFiles
from headwater.spark.jobs.archive.log import (
    ArchiveLog,
    BatchCommit,
    DataFile,
    DraftPlace,
    Reached,
    StoredFile,
)
from headwater.spark.jobs.archive.manifest import Format, Manifest, settle_manifest
from headwater.spark.jobs.archive.opening import open_log
from tests.spark.archive_crashes import messages

TARGET = 1000
SHAPE = FileShape(1 << 20, 50)


def stored(*sizes: int, token: str | None = "a") -> list[StoredFile]:
    return [
        StoredFile(f"{token}/{number}", (token,), size, (number,))
        for number, size in enumerate(sizes)
    ]


def planned(*sizes: int) -> list[list[int]]:
    return [[each.size_bytes for each in group] for group in plan(stored(*sizes), TARGET)]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ((), []),
        ((10,), []),
        ((10, 10), [[10, 10]]),
        ((10, 5), [[10, 5]]),
        ((10, 4), []),  # too little has come to write the 10 again
        ((400, 10, 10, 10), [[10, 10, 10]]),
        ((500, 10, 500, 10), []),  # half the target is large enough, and neighbours stay so
        ((10, 10, 600, 20, 20), [[10, 10], [20, 20]]),
        ((400, 400, 400, 400), [[400, 400], [400, 400]]),  # no more than the target together
    ],
)
def test_neighbours_that_are_small_are_merged(
    sizes: tuple[int, ...], groups: list[list[int]]
) -> None:
    assert planned(*sizes) == groups


def test_files_of_different_partitions_are_no_neighbours() -> None:
    files = [*stored(10, token="a"), *stored(10, token="b"), *stored(10, token=None)]
    assert list(plan(files, TARGET)) == []


@given(st.lists(st.integers(1, 60), max_size=200))
def test_a_row_is_rewritten_a_few_times_only_and_few_small_files_stay(sizes: list[int]) -> None:
    """Files come one by one, with a compaction after each: the worst there is."""
    files: list[tuple[int, int]] = []  # size, and how often its oldest row was written
    for size in sizes:
        files.append((size, 1))
        for group in list(plan(stored(*(each[0] for each in files)), TARGET)):
            first, last = group[0].order[0], group[-1].order[0]
            part = files[first : last + 1]
            merged = sum(each[0] for each in part), max(each[1] for each in part) + 1
            files = [*files[:first], merged, *files[last + 1 :]]
    # log1.5(1000)
    assert max((each[1] for each in files), default=0) <= 20
    assert sum(1 for each in files if each[0] * 2 < TARGET) <= 12 + sum(sizes) // TARGET


# --- in an archive ------------------------------------------------------------------------------


@pytest.fixture(params=["delta", "parquet"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Manifest]:
    format: Format = request.param
    manifest = Manifest("orders", format, ("token_2",), ())
    settle_manifest(tmp_path, manifest)
    open_log(tmp_path, manifest).prepare()
    return tmp_path, manifest


def write(root: Path, log: ArchiveLog, manifest: Manifest, batch: int) -> tuple[DataFile, ...]:
    """The files of a batch of 70 messages; every seventh was deleted."""
    names = DraftNames(log.drafts, "run", batch, 0)
    files = PartitionedFiles(root, manifest.partitioning, names, SHAPE)
    files.append(messages(batch * 70 + 1, batch * 70 + 70))
    return files.close()


def append(root: Path, manifest: Manifest, batch: int) -> None:
    log = open_log(root, manifest)
    start = Reached("c1", batch * 70 + 1) if batch else None
    files = write(root, log, manifest, batch)
    assert log.commit(BatchCommit("query", batch, start, Reached("c1", batch * 70 + 71), files))


def rows(root: Path, files: list[StoredFile]) -> pa.Table:
    tables = [pq.read_table(root / each.path, partitioning=None) for each in files]
    return pa.concat_tables(tables).sort_by("sequence")


def test_rows_their_order_and_the_row_groups_are_kept(archive: tuple[Path, Manifest]) -> None:
    root, manifest = archive
    for batch in range(4):
        append(root, manifest, batch)
    log = open_log(root, manifest)
    before = rows(root, list(log.snapshot().files))
    assert compact(root, log, 1 << 20, 50) == Compacted(files_before=8, files_after=2)
    after = log.snapshot()
    assert rows(root, list(after.files)) == before
    for each in after.files:
        file = pq.ParquetFile(root / each.path)
        sequences = file.read(["sequence"])["sequence"].to_pylist()
        assert sequences == sorted(sequences)
        assert [file.metadata.row_group(n).num_rows for n in range(3)] == [50, 50, 20]
        statistics = file.metadata.row_group(0).column(2).statistics
        assert (statistics.min, statistics.max) == (sequences[0], sequences[49])
    assert after.next_sequence("c1") == 281


def test_a_second_compaction_finds_nothing_to_do(archive: tuple[Path, Manifest]) -> None:
    root, manifest = archive
    for batch in range(3):
        append(root, manifest, batch)
    log = open_log(root, manifest)
    compact(root, log, 1 << 20, 50)
    assert compact(root, log, 1 << 20, 50) == Compacted()


def test_batches_that_are_committed_meanwhile_stay(archive: tuple[Path, Manifest]) -> None:
    root, manifest = archive
    for batch in range(2):
        append(root, manifest, batch)
    log = open_log(root, manifest)

    class Overtaken:
        """The archive's log, with a batch committed just before each merge is."""

        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

        def __init__(self) -> None:
            self.batches = iter(range(2, 100))

        def replace(self, covered: list[StoredFile], merged: DataFile) -> bool:
            append(root, manifest, next(self.batches))
            return log.replace(covered, merged)

    assert compact(root, Overtaken(), 1 << 20, 50) == Compacted(4, 2)  # type: ignore[arg-type]
    assert rows(root, list(log.snapshot().files))["sequence"].to_pylist() == [
        each for each in range(1, 281) if each % 7
    ]


# --- Delta --------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, Manifest]:
    manifest = Manifest("orders", "delta", ("token_2",), ())
    settle_manifest(tmp_path, manifest)
    open_log(tmp_path, manifest).prepare()
    for batch in range(2):
        append(tmp_path, manifest, batch)
    return tmp_path, manifest


def test_two_compactions_of_the_same_files_do_not_double_rows(table: tuple[Path, Manifest]) -> None:
    root, manifest = table
    log = open_log(root, manifest)
    first, second = log.snapshot(), log.snapshot()
    for snapshot in (first, second):
        group = next(iter(plan(snapshot.files, 1 << 20)))
        names = DraftNames(DraftPlace("", ".parquet"), "run", 9, 0)
        files = PartitionedFiles(root, manifest.partitioning, names, SHAPE)
        for each in group:
            content = pq.read_table(root / each.path, partitioning=None)
            for batch in content.combine_chunks().to_batches():
                files.append(batch)
        (merged,) = files.close()
        assert log.replace(group, merged) is (snapshot is first)
        assert (root / merged.path).exists() is (snapshot is first)
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == 120


def test_replaced_files_stay_for_readers_of_older_versions_until_they_expire(
    table: tuple[Path, Manifest],
) -> None:
    root, manifest = table
    log = open_log(root, manifest)
    before = log.snapshot()
    compact(root, log, 1 << 20, 50)
    assert log.orphans() == []
    assert log.expire(replaced_age_s=3600) == 0
    assert rows(root, list(before.files)).num_rows == 120
    assert log.expire(replaced_age_s=0) == 4
    assert not any((root / each.path).exists() for each in before.files)
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == 120


def test_the_log_carries_what_other_readers_skip_files_by(table: tuple[Path, Manifest]) -> None:
    root, _ = table
    actions = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
    by_first = sorted(actions, key=lambda each: (each["min.sequence"], each["partition.token_2"]))
    bounds = [(each["min.sequence"], each["max.sequence"]) for each in by_first]
    assert bounds == [(1, 69), (2, 68), (71, 139), (72, 138)]
    assert [each["num_records"] for each in by_first] == [30, 30, 30, 30]
    assert all(each["min.timestamp"] <= each["max.timestamp"] for each in by_first)


def test_two_drivers_that_commit_the_same_batch_at_once_commit_it_once(
    table: tuple[Path, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, manifest = table
    log = open_log(root, manifest)
    files = write(root, log, manifest, 2)
    original = DeltaTable.create_write_transaction
    rivals = [2]

    def overtaken(table: DeltaTable, *args: object, **kwargs: object) -> None:
        """Between the look at the log and the commit, another driver commits the batch."""
        if rivals:
            append(root, manifest, rivals.pop())
        original(table, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    commit = BatchCommit("query", 2, Reached("c1", 141), Reached("c1", 211), files)
    assert not log.commit(commit)
    assert not any((root / each.path).exists() for each in files)
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == 180


def test_files_of_a_commit_that_failed_after_it_happened_are_not_removed(
    table: tuple[Path, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, manifest = table
    log = open_log(root, manifest)
    files = write(root, log, manifest, 2)
    original = DeltaTable.create_write_transaction

    def failing(*args: object, **kwargs: object) -> None:
        original(*args, **kwargs)  # type: ignore[arg-type]
        raise OSError("the log's checkpoint could not be written")

    commit = BatchCommit("query", 2, Reached("c1", 141), Reached("c1", 211), files)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", failing)
        with pytest.raises(OSError, match="checkpoint"):
            log.commit(commit)
    # Spark aborts the batch now, and replays it after a restart.
    log.discard(files)
    assert not log.commit(commit)
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == 180


def test_the_position_is_part_of_every_later_version(table: tuple[Path, Manifest]) -> None:
    root, manifest = table
    other = DeltaTable(str(root))
    assert other.transaction_version("query") == 1
    other.create_checkpoint()
    assert open_log(root, manifest).snapshot().next_sequence("c1") == 141


def test_entries_of_a_delta_log_go_when_the_versions_they_lead_to_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "LOG_ENTRIES_EXPIRED_MIN", 5)
    manifest = Manifest("orders", "delta", ("token_2",), ())
    settle_manifest(tmp_path, manifest)
    log = open_log(tmp_path, manifest)
    log.prepare()
    for batch in range(8):
        append(tmp_path, manifest, batch)
    entries = tmp_path / "_delta_log"
    before = sorted(path.name for path in entries.glob("*.json"))
    log.expire(3_600.0)
    assert sorted(path.name for path in entries.glob("*.json"))[: len(before)] == before
    record, content = log.record("query", "c1"), rows(tmp_path, list(log.snapshot().files))
    for path in entries.iterdir():
        os.utime(path, (0, 0))
    log.expire(3_600.0)
    assert len(list(entries.glob("*.json"))) < 5
    assert log.record("query", "c1") == record
    assert rows(tmp_path, list(log.snapshot().files)) == content
    append(tmp_path, manifest, 8)
