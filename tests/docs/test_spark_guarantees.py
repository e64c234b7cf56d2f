"""Every promise of the guide names tests, and the tests are there."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "spark.md"
LINK = re.compile(r"\[([^]]+)\]\((\S+/(test_\w+)\.py)\)")
# The last column of every table of promises.
EVIDENCE = "| shown by |"


def promises() -> list[str]:
    """The rows of all tables of promises."""
    found: list[str] = []
    is_inside = False
    for line in GUIDE.read_text("utf-8").splitlines():
        if line.endswith(EVIDENCE):
            is_inside = True
        elif not line.startswith("|"):
            is_inside = False
        elif is_inside and not line.startswith("|---"):
            found.append(line)
    return found


def test_reads_writes_outages_jobs_and_places_have_promises() -> None:
    assert len(promises()) >= 25


@pytest.mark.parametrize("promise", promises(), ids=lambda row: row[2:60])
def test_a_promise_names_tests_that_are_there(promise: str) -> None:
    links = LINK.findall(promise)
    assert links
    for text, place, module in links:
        source = (GUIDE.parent / place).resolve().read_text("utf-8")
        # A link to a test names it; one to a whole file has a text of its own.
        name = text.strip("`")
        wanted = f"\ndef {name}(" if name.startswith("test_") and name != module else "\ndef test_"
        assert wanted in source, name
