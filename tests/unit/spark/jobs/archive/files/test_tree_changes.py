"""Files come and go in one step, for a reader that lists a tree and knows nothing else."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.spark.jobs.archive.files import tree_changes
from headwater.spark.jobs.archive.files.tree_changes import TreeChange, swap_directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def draft(root: Path, name: str) -> Path:
    return put(root / "_own" / name, name)


def content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*.parquet"))
        if path.is_file()
    }


def seen_at_each_effect(
    root: Path, change: TreeChange, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, str]]:
    """The rows that a reader finds before each effect of a change, and after the last."""
    seen = []

    def watched(action: Callable[..., object]) -> Callable[..., object]:
        def watch(*args: object, **options: object) -> object:
            seen.append(content(root))
            return action(*args, **options)

        return watch

    for owner, name in (
        (os, "link"),
        (os, "replace"),
        (os, "unlink"),
        (shutil, "rmtree"),
        (tree_changes, "exchange"),
    ):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    change.make()
    monkeypatch.undo()
    return [*seen, content(root)]


def test_a_reader_sees_the_files_before_or_the_files_after_and_nothing_between(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [put(root / "d=1" / name, name) for name in ("a.parquet", "b.parquet", "c.parquet")]
    other = put(root / "d=1" / "h=2" / "e.parquet", "e")
    change = TreeChange(
        root,
        [
            (draft(root, "x"), root / "d=1" / "ab.parquet"),
            (draft(root, "y"), root / "d=1" / "h=3" / "y.parquet"),
        ],
        old[:2],
    )
    before = content(root)
    seen = seen_at_each_effect(root, change, monkeypatch)
    after = {
        "d=1/ab.parquet": "x",
        "d=1/c.parquet": "c.parquet",
        "d=1/h=2/e.parquet": "e",
        "d=1/h=3/y.parquet": "y",
    }
    assert seen[-1] == after
    assert all(each in (before, after) for each in seen)
    assert len(seen) > 5
    assert other.read_text() == "e"
    assert not swap_directory(root).exists()
    assert list((root / "_own").iterdir()) == []


def test_a_directory_that_was_not_there_appears_with_all_its_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    additions = [(draft(root, name), root / "d=1" / f"{name}.parquet") for name in ("x", "y")]
    seen = seen_at_each_effect(root, TreeChange(root, additions), monkeypatch)
    assert seen[-1] == {"d=1/x.parquet": "x", "d=1/y.parquet": "y"}
    assert all(each in ({}, seen[-1]) for each in seen)


@pytest.mark.parametrize("lacking", ["exchange", "links"])
def test_a_system_that_cannot_exchange_or_link_adds_before_it_removes(
    root: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    old = [put(root / "d=1" / name, name) for name in ("a.parquet", "b.parquet")]

    def refuse(*args: object) -> bool:
        if lacking == "links":
            raise PermissionError
        return False

    monkeypatch.setattr(tree_changes, "exchange", refuse)
    if lacking == "links":
        monkeypatch.setattr(os, "link", refuse)
    at_removal: list[dict[str, str]] = []
    final = root / "d=1" / "ab.parquet"
    TreeChange(root, [(draft(root, "x"), final)], old).make(
        lambda: at_removal.append(content(root))
    )
    assert len(at_removal[0]) == 3
    assert content(root) == {"d=1/ab.parquet": "x"}
    assert not swap_directory(root).exists()


def test_files_in_the_root_and_in_several_directories_come_one_by_one(root: Path) -> None:
    additions = [
        (draft(root, "x"), root / "x.parquet"),
        (draft(root, "y"), root / "d=1" / "y.parquet"),
        (draft(root, "z"), root / "d=2" / "z.parquet"),
    ]
    TreeChange(root, additions).make()
    assert content(root) == {"x.parquet": "x", "d=1/y.parquet": "y", "d=2/z.parquet": "z"}
