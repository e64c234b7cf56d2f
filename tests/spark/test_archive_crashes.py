"""Whatever effect a crash cuts off: each message is archived exactly once, and nothing is left."""

import itertools
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headwater.spark.jobs.archive.manifest import OWN_DIRECTORY
from headwater.spark.jobs.archive.opening import open_log
from tests.spark.archive_crashes import (
    CREATED,
    GUARDED,
    MESSAGES,
    Place,
    Trap,
    crash_points,
    messages,
    run,
    run_in_child,
)
from tests.spark.plain_readers import READERS

EXPECTED = messages(1, MESSAGES).to_pylist()
# Tests next to each other, so that several cores take less time.
SHARES = 2


def archived(place: Place) -> list[dict[str, object]]:
    """The rows of the archive by its own record, in the order of sequences."""
    files = open_log(place.root, place.manifest).snapshot().files
    rows = []
    for each in files:
        content = pq.read_table(place.root / each.path, partitioning=None).to_pylist()
        assert [row["sequence"] for row in content] == sorted(row["sequence"] for row in content)
        rows += content
    return sorted(rows, key=lambda row: row["sequence"])


def assert_plain_readers_agree(place: Place) -> None:
    """Programs that know nothing of the project read the messages that the log records."""
    if not is_archive(place):
        return
    recorded = [row["sequence"] for row in archived(place)]
    for name, read in READERS[place.format].items():
        assert read(place.root) == recorded, name


def is_archive(place: Place) -> bool:
    if not (place.root / OWN_DIRECTORY / "archive.json").exists():
        return False
    return place.format == "parquet" or DeltaTable.is_deltatable(str(place.root))


def left_behind(place: Place) -> list[Path]:
    return open_log(place.root, place.manifest).orphans()


def new_place(tmp_path: Path, format: str) -> Place:
    root = tmp_path / "archive"
    return Place(root, root / OWN_DIRECTORY / "checkpoint", format)


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_run_that_is_not_killed_archives_everything_in_few_files(
    tmp_path: Path, format: str
) -> None:
    place = new_place(tmp_path, format)
    assert run_in_child(place)
    assert archived(place) == EXPECTED
    assert left_behind(place) == []
    # One of each token.
    snapshot = open_log(place.root, place.manifest).snapshot()
    assert len(snapshot.files) == 2
    assert snapshot.next_sequence(CREATED) == MESSAGES + 1


@pytest.mark.parametrize("share", range(SHARES))
def test_after_a_crash_at_any_effect_a_delta_archive_is_completed(
    tmp_path: Path, share: int
) -> None:
    def place(deadly: int) -> Place:
        return new_place(tmp_path / str(deadly), "delta")

    points = 0
    for killed in crash_points(place, share + 1, SHARES):
        assert_plain_readers_agree(killed)
        run(killed)
        assert archived(killed) == EXPECTED
        assert_plain_readers_agree(killed)
        points += 1
    assert points >= 20


@pytest.mark.parametrize("share", range(SHARES))
def test_after_a_crash_at_any_effect_a_parquet_archive_is_completed(
    tmp_path: Path, share: int
) -> None:
    def place(deadly: int) -> Place:
        return new_place(tmp_path / str(deadly), "parquet")

    points = 0
    for killed in crash_points(place, share + 1, SHARES):
        # The archive that the crash left is a correct beginning of the expected one.
        if is_archive(killed):
            partial = archived(killed)
            assert partial == EXPECTED[: len(partial)]
        assert_plain_readers_agree(killed)
        run(killed)
        assert archived(killed) == EXPECTED
        assert_plain_readers_agree(killed)
        points += 1
    assert points >= 20


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_run_may_crash_again_and_again(tmp_path: Path, format: str) -> None:
    place = new_place(tmp_path, format)
    # Later each time, or the runs would not get anywhere.
    for deadly in itertools.count(5, 9):
        if run_in_child(place, deadly):
            break
    assert archived(place) == EXPECTED


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_plain_readers_agree_with_the_record_at_every_effect_of_commits_and_compactions(
    tmp_path: Path, format: str
) -> None:
    place = new_place(tmp_path, format)
    points = 0

    class Watch(Trap):
        """Looks at the archive as others do, before each effect of a run."""

        is_looking = False

        def step(self) -> None:
            nonlocal points
            if not self.is_looking:
                self.is_looking = True
                assert_plain_readers_agree(place)
                self.is_looking = False
                points += 1

    with pytest.MonkeyPatch.context() as patch:
        # To be put back as they are: the trap sets its own.
        for owner, name in GUARDED:
            patch.setattr(owner, name, getattr(owner, name))
        Watch(0).set()
        run(place)
    assert archived(place) == EXPECTED
    assert points >= 20
