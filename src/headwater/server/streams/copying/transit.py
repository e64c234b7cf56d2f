"""The parts of one origin that are on their way into the stream.

A part is on its way from the moment at which it is handed to the stream until it is applied or
refused. The position of an origin takes it into account only then. So a request for more messages
has to wait for the parts of all runners that have copied the same place into the stream, and not
only for those of the runner that asks: an update of a source replaces its runner while parts are on
their way.
"""

from collections.abc import Callable
from typing import final

from headwater.base.invariants import check


@final
class Transit:
    """The number of parts on their way, and the call that waits until there are none."""

    __slots__ = ("_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        self._waiting: Callable[[], object] | None = None

    def begin_part(self) -> None:
        """Count a part that is handed to the stream."""
        self.count += 1

    def end_part(self) -> None:
        """Count a part no more that is applied or refused."""
        check(self.count > 0, "a part that ends was on its way")
        self.count -= 1
        if not self.count and self._waiting is not None:
            call, self._waiting = self._waiting, None
            call()

    def when_empty(self, call: Callable[[], object]) -> None:
        """Call `call` as soon as no part is on its way. A later call replaces this one."""
        if self.count:
            self._waiting = call
        else:
            call()

    def wait_no_more(self) -> None:
        """Forget the call that waits."""
        self._waiting = None
