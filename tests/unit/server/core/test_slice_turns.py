"""Of all long tasks, one has a slice in each turn of the loop."""

from collections.abc import Callable

import pytest

from headwater.server.core.slice_turns import SliceTurns
from tests.kit.world import ManualClock, ManualScheduler


def test_one_slice_of_one_of_them_is_done_in_a_turn() -> None:
    scheduler = ManualScheduler(ManualClock())
    turns = SliceTurns(scheduler)
    done: list[str] = []

    def work(name: str, slices: int) -> Callable[[], None]:
        def do() -> None:
            done.append(name)
            scheduler.call_soon(lambda: done.append("others"))
            if slices > 1:
                turns.add(work(name, slices - 1))

        return do

    for name in ("a", "b", "c"):
        turns.add(work(name, 2))
    scheduler.run_turns()
    assert [name for name in done if name != "others"] == ["a", "b", "c"] * 2
    assert done == ["a", "others", "b", "others", "c", "others"] * 2


def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    scheduler = ManualScheduler(ManualClock())
    turns = SliceTurns(scheduler)
    done: list[str] = []

    def fail() -> None:
        raise ValueError("wrong")

    turns.add(fail)
    turns.add(lambda: done.append("next"))
    with pytest.raises(ValueError, match="wrong"):
        scheduler.run_turns()
    scheduler.run_turns()
    assert done == ["next"]
