"""Long work that is done in slices, so that other work has its turn in between.

Such work is a generator that yields how much it has done since the last time, in units that take
about half a microsecond: a subject that is compared, a message that is taken out. The caller
that drives the generator decides after how many units other work has its turn. The purpose of the
work is not known here.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, Generic, TypeVar, final

R = TypeVar("R")
T = TypeVar("T")

# So much is done in one turn, which takes about two milliseconds: as long as what clients send is
# processed in one, so that a request that takes long costs others no more than a busy client.
SLICE_UNITS_MAX: Final = 4096

Work = Generator[int, None, R]


@final
class Sliced(Generic[R]):
    """Work that is under way. `result` is there when `do_some` says that nothing is left."""

    __slots__ = ("_work", "result")

    def __init__(self, work: Work[R]) -> None:
        self._work = work
        self.result: R

    def do_some(self) -> bool:
        """Do as much as fits into one turn; whether something is left."""
        units = 0
        try:
            while units < SLICE_UNITS_MAX:
                units += next(self._work)
        except StopIteration as end:
            self.result = end.value
            return False
        return True

    def give_up(self) -> None:
        """Leave undone what is left. Nobody who is called by the work itself may ask for that."""
        self._work.close()


def parts_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of a long sequence, in order, each of so many items but for the last."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def at_once(work: Work[R]) -> R:
    """The result of some work, all done at once: no other work has its turn meanwhile."""
    sliced = Sliced(work)
    while sliced.do_some():
        pass
    return sliced.result
