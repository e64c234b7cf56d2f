"""Every scenario file is what happens."""

from pathlib import Path

import pytest

from tests.scenarios import script

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = script.run(written)
    if rewrite:
        path.write_text(happened)
    else:
        assert happened == written


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 12


@pytest.mark.parametrize("data", [b"a\r\nb\\n\x00\xff", b"x" * 100, b"{}", b""])
def test_bytes_come_back_as_they_were_written(data: bytes) -> None:
    assert script.unescaped(script.escaped(data)) == data


def test_a_wrong_outcome_is_found() -> None:
    text = "connect a\n  a < nothing like this\n"
    assert script.run(text) != text
    assert script.run(script.run(text)) == script.run(text)
