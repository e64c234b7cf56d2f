"""Each rule of leases has a scenario that happens otherwise without it."""

from pathlib import Path

import pytest

from tests.kit.lease_defences import DEFENCES, Defence
from tests.scenarios import raft_script

FOLDER = Path(__file__).parent / "raft"


def happens(scenario: str) -> bool:
    """Whether a scenario happens as it is written."""
    written = (FOLDER / f"{scenario}.txt").read_text()
    return raft_script.run(written) == written


@pytest.mark.parametrize("defence", DEFENCES.values(), ids=DEFENCES)
def test_a_rule_that_is_taken_out_is_missed(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert happens(defence.scenario)
    defence.take_out(monkeypatch)
    assert not happens(defence.scenario)
