"""Large containers that are let go of some at a time.

A list or dict of a million entries takes up to a tenth of a second to free, and holds the
interpreter's lock meanwhile, so that a thread of its own would help nobody. Taking the entries out
before the container goes divides that time into steps.

A container must be of no use to anybody any more. The contents of containers are not known here.
"""

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, TypeAlias

from headwater.base.sliced import Work

Container: TypeAlias = "list[Any] | deque[Any] | dict[Any, Any] | set[Any]"

# So many entries are taken out in one step.
EMPTIED_AT_A_TIME: Final = 4096
# Taking so many entries out takes as long as one unit of work.
EMPTIED_PER_UNIT: Final = 2


def emptying(containers: Iterable[Container]) -> Work[None]:
    """Take all entries out, some at a time."""
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
