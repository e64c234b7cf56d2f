"""Each promise of docs/consistency.md has tests, and each test that the page names is there."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "consistency.md").read_text("utf-8")
PROMISES: Final = PAGE.partition("## The tests of each promise")[2].partition("\n## ")[0]
ROWS: Final = re.findall(r"^\| (?!---|the promise)(.+?) \| (.+?) \|$", PROMISES, re.MULTILINE)
TESTS: Final = sorted({name for _, tests in ROWS for name in re.findall(r"`(.+?)`", tests)})


def names_in(path: Path) -> set[str]:
    """The tests of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows_of(heading: str) -> list[str]:
    """The first two cells of the rows of the table below a heading of the page."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [line.split("|")[1].strip().strip("*") for line in lines]


def test_every_promise_names_its_tests() -> None:
    assert len(ROWS) > 40
    for promise, tests in ROWS:
        assert re.findall(r"`(.+?)`", tests), promise


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_a_promise_names_is_there(name: str) -> None:
    path, _, function = name.partition("::")
    there = ROOT / "tests" / path
    assert there.is_file()
    assert not function or function in names_in(there)


@pytest.mark.parametrize(
    ("heading", "prefix"), [("Messages", "one replica"), ("Replicated streams", "replicas")]
)
def test_every_row_about_writes_is_a_promise(heading: str, prefix: str) -> None:
    promises = [promise for promise, _ in ROWS]
    for row in rows_of(heading):
        words = row.split(", ")
        word = words[1] if row.startswith("any") else words[0].partition(" ")[0]
        assert any(each.startswith(f"{prefix}, {word}") for each in promises), row


def test_every_level_of_reads_is_a_promise() -> None:
    promises = " ".join(promise for promise, _ in ROWS)
    for level in ("leader get", "weak", "session", "sequential", "linearizable"):
        assert f"reads, {level}" in promises
