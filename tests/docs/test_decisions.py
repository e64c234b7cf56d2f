"""Each decision in docs/adr has a number of its own, which its heading repeats."""

from pathlib import Path
from typing import Final

DECISIONS: Final = Path(__file__).resolve().parents[2] / "docs" / "adr"


def test_decisions_are_numbered_from_one_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in DECISIONS.glob("*.md"))
    assert numbers == [*range(1, len(numbers) + 1)]


def test_headings_have_the_numbers_of_their_files() -> None:
    wrong = [
        path.name
        for path in DECISIONS.glob("*.md")
        if not path.read_text().startswith(f"# {int(path.name[:4])}. ")
    ]
    assert wrong == []
