"""Large containers are emptied some at a time."""

from collections import deque
from collections.abc import Callable

import pytest

from headwater.base import emptying
from headwater.base.emptying import EMPTIED_AT_A_TIME, EMPTIED_PER_UNIT, Container
from headwater.base.sliced import at_once


@pytest.mark.parametrize("count", [EMPTIED_AT_A_TIME, EMPTIED_AT_A_TIME + 1])
@pytest.mark.parametrize(
    "make", [list, deque, set, dict.fromkeys], ids=["list", "deque", "set", "dict"]
)
def test_so_many_entries_go_in_one_step_and_no_more(
    make: Callable[[range], Container], count: int
) -> None:
    container = make(range(count))
    work = emptying.emptying([container])
    assert next(work) <= 1 + EMPTIED_AT_A_TIME // EMPTIED_PER_UNIT
    assert len(container) == count - EMPTIED_AT_A_TIME
    at_once(work)
    assert not container


def test_containers_are_emptied_one_after_the_other() -> None:
    containers: list[Container] = [[1, 2], {}, {3: 4}]
    assert len(list(emptying.emptying(containers))) == 2
    assert containers == [[], {}, {}]
