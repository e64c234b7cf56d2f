"""Counting the objects that ended rounds leave behind, with the collector switched off.

An object that ends breaks its cycles, so that reference counts free it. A cycle that is not broken
shows here as one object more for each round.
"""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

ROUNDS: Final = 8
# Rounds before the count begins: caches and tables are filled once.
_WARM_ROUNDS: Final = 2

# The disk of the simulation remembers every change for the case of a power loss, a closed
# connection leaves a record for /connz, and the shadow of a stream knows the newest steps.
_KEPT: Final = (
    "headwater.testing.",
    "headwater.server.connections.closed_clients.",
    "headwater.jetstream.consumers.records.",
)
# Types that closures and bound methods are made of.
_BUILTINS: Final = ("builtins.function", "builtins.cell", "builtins.method")


def left_behind(churn: Callable[[], object]) -> dict[str, int]:
    """The number of our objects that some rounds leave behind, by type. Empty if all is well."""
    for _ in range(_WARM_ROUNDS):
        churn()
    with _collector_off():
        before = _census()
        for _ in range(ROUNDS):
            churn()
        return _growth(before, _census())


async def left_behind_by(churn: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """The number of our objects that awaited rounds leave behind, by type."""
    for _ in range(_WARM_ROUNDS):
        await churn()
    with _collector_off():
        before = _census()
        for _ in range(ROUNDS):
            await churn()
        return _growth(before, _census())


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _census() -> Counter[str]:
    types = Counter(map(type, gc.get_objects()))
    return Counter({f"{kind.__module__}.{kind.__qualname__}": n for kind, n in types.items()})


def _growth(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {
        name: count
        for name, count in (after - before).items()
        # Fewer objects are not one of every other round. A few closures may wait for their turn.
        if (name in _BUILTINS and count >= ROUNDS)
        or (name.startswith("headwater.") and not name.startswith(_KEPT) and count >= ROUNDS // 2)
    }
