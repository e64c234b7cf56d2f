"""Large containers that are freed some entries at a time.

Freeing a list or dict of a million entries takes up to a tenth of a second with the interpreter's
lock held, so another thread would not help. Removing the entries before the container is freed
divides that time into steps.

A container must not be in use any more. This module does not know the contents.
"""

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, TypeAlias

from headwater.base.sliced import Work

Container: TypeAlias = "list[Any] | deque[Any] | dict[Any, Any] | set[Any]"

# The entries that one step removes.
EMPTIED_AT_A_TIME: Final = 4096
# The removal of this many entries takes as long as one unit of work.
EMPTIED_PER_UNIT: Final = 2


def emptying(containers: Iterable[Container]) -> Work[None]:
    """Remove all entries, some at a time."""
    for container in containers:
        while container:
            count = min(len(container), EMPTIED_AT_A_TIME)
            if isinstance(container, list):
                del container[-count:]
            else:
                take = container.popitem if isinstance(container, dict) else container.pop
                for _ in repeat(None, count):
                    take()
            yield 1 + count // EMPTIED_PER_UNIT
