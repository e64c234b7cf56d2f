"""Long work in slices, so that other work has its turn in between.

The work is a generator that yields how much it has done since the last time, in units that take
about half a microsecond, such as the comparison of a subject or the removal of a message. The
caller that drives the generator decides after how many units other work has its turn. This module
does not know the purpose of the work.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, Generic, TypeVar, final

R = TypeVar("R")
T = TypeVar("T")

# The work of one turn takes about two milliseconds, as long as the input of one turn takes to
# process: so a long request costs other clients no more than a busy client does.
SLICE_UNITS_MAX: Final = 4096

Work = Generator[int, None, R]


@final
class Sliced(Generic[R]):
    """Work that is under way. `result` is set when `do_some` returns False."""

    __slots__ = ("_work", "result")

    def __init__(self, work: Work[R]) -> None:
        self._work = work
        self.result: R

    def do_some(self) -> bool:
        """Do as much as fits into one turn. Returns whether work is left."""
        units = 0
        try:
            while units < SLICE_UNITS_MAX:
                units += next(self._work)
        except StopIteration as end:
            self.result = end.value
            return False
        return True

    def give_up(self) -> None:
        """Abandon the rest of the work. Must not be called from within the work itself."""
        self._work.close()


def parts_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of a long sequence, in order, each of `size` items except the last."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def at_once(work: Work[R]) -> R:
    """Do all of the work now, without a turn for other work. Returns the result."""
    sliced = Sliced(work)
    while sliced.do_some():
        pass
    return sliced.result
