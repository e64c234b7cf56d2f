"""The store's benchmark: its verdicts, and that every scenario runs and measures what it says."""

import gc
from pathlib import Path

import pytest

from benchmarks.store import SCENARIOS, Figure, Settings, main, table

TINY = Settings(
    rounds=1,
    append_messages=2000,
    commits=2,
    messages=2000,
    subjects=2000,
    growth=(1000, 2000),
)


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("rate", [5.0], "msg/s", at_least=5), "met"),
        (Figure("rate", [4.9], "msg/s", at_least=5), "MISSED"),
        (Figure("delay", [5.0], "s", at_most=5), "met"),
        (Figure("delay", [5.1], "s", at_most=5), "MISSED"),
        (Figure("delay", [1.0, 5.0, 9.0], "s", at_most=5), "met"),
        (Figure("count", [5.0], "s"), ""),
    ],
)
def test_an_aim_is_judged_by_the_median_its_bound_included(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


def test_the_table_has_figure_aim_verdict_and_note() -> None:
    shown = table([Figure("rate", [1.0, 2.0, 9.0], "msg/s", at_least=1, note="why")])
    assert shown.splitlines()[1].split() == [
        *("rate", "2.00", "1.00", "9.00", "msg/s", "at", "least", "1.00", "met", "why"),
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_gives_figures(name: str, tmp_path: Path) -> None:
    callbacks = list(gc.callbacks)
    figures = SCENARIOS[name](TINY, str(tmp_path))
    assert figures
    assert all(figure.values for figure in figures)
    assert gc.callbacks == callbacks


def test_an_unknown_scenario_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["apend"])
    assert "no scenario 'apend'" in capsys.readouterr().err
