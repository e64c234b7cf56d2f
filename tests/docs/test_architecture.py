"""The walks that docs/architecture.md draws pass files and methods that are there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "src" / "headwater"
DOCUMENT: Final = ROOT / "docs" / "architecture.md"

# A step of a walk: the file, and the names that are called there, before two blanks and a remark.
STEP: Final = re.compile(r"^ *([a-z_]+/[\w/]+\.py)(?: +(\S+(?: \S+)*))?(?:  .*)?$")
FOLDER: Final = re.compile(r"^ *([a-z_]+/[\w/]+/) ")


def walks(document: str) -> list[str]:
    """The drawings below the heading of the walks."""
    section = document.partition("## Five walks")[2].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", section, re.DOTALL)


def missing_places(drawing: str) -> Iterator[str]:
    """The files, folders and definitions of a drawing that are not there."""
    for line in drawing.splitlines():
        folder = FOLDER.match(line)
        if folder and not (PACKAGE / folder[1]).is_dir():
            yield folder[1]
        step = STEP.match(line)
        if not step:
            continue
        path = PACKAGE / step[1]
        if not path.is_file():
            yield step[1]
            continue
        source = path.read_text()
        for name in re.split(r"[, ]+", step[2] or ""):
            last = name.rpartition(".")[2]
            if last and not re.search(rf"\b(?:def|class) {last}\b", source):
                yield f"{step[1]}: {name}"


def test_every_walk_is_drawn() -> None:
    assert len(walks(DOCUMENT.read_text())) == 5


def test_every_step_of_a_walk_is_there() -> None:
    found = [place for walk in walks(DOCUMENT.read_text()) for place in missing_places(walk)]
    assert found == []


def test_a_step_that_is_gone_is_found() -> None:
    drawing = "server/node.py     open_jetstream, fly   up\nserver/no.py   start\nserver/none/  x\n"
    assert [*missing_places(drawing)] == ["server/node.py: fly", "server/no.py", "server/none/"]
