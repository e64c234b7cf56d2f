"""Waiting for a cluster: looks until nothing is left to wait for, and shows what is.

Every look has a connection of its own, so that a server which goes away meanwhile ends no wait if
the command knows another one.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

from rich.text import Text

from headwater.base.quantities import duration_text
from headwater.cli.api.client import ApiTarget, AsyncApiClient, CommandRefused, NoAnswer
from headwater.cli.cluster.view import Problems, StreamView
from headwater.cli.connection.failures import Unreachable
from headwater.cli.shell.exits import CommandFailed
from headwater.cli.shell.output import Output
from headwater.cli.shell.tables import one_line

T = TypeVar("T")

LOOK_INTERVAL_S: Final = 0.25
# The cluster has no leader, or the stream is offline: both pass when servers come back.
PASSING_REFUSALS: Final = (10008, 10118)
REASONS_SHOWN_MAX: Final = 5


class Wait:
    """A wait that ends when a look finds nothing outstanding, or after the longest wait."""

    def __init__(self, output: Output, wait_s: float, hidden: bool) -> None:
        self._output = output
        self._wait_s = wait_s
        self._end = time.monotonic() + wait_s
        self._hidden = hidden
        self._shown: list[str] = []
        self._update: Callable[[Text], None] | None = None

    def until(self, look: Callable[[], T], outstanding: Callable[[T], Problems], advice: str) -> T:
        """The first look with nothing outstanding. Raises CommandFailed, with `advice`."""
        with self._display():
            while True:
                failure: CommandFailed | None = None
                left: Problems
                try:
                    found = look()
                    left = outstanding(found)
                    if not left:
                        return found
                except (NoAnswer, Unreachable) as error:
                    failure, left = error, [("server", error.problem)]
                except CommandRefused as error:
                    if error.err_code not in PASSING_REFUSALS:
                        raise
                    failure, left = error, [("cluster", error.problem)]
                self._show(left)
                if time.monotonic() + LOOK_INTERVAL_S > self._end:
                    raise failure or self._too_late(left, advice)
                time.sleep(LOOK_INTERVAL_S)

    def _too_late(self, left: Problems, advice: str) -> CommandFailed:
        reasons = "; ".join(first_few([f"{part}: {reason}" for part, reason in left]))
        return CommandFailed(f"Not done within {duration_text(self._wait_s)}: {reasons}", advice)

    def _display(self) -> AbstractContextManager[object]:
        if self._hidden or not self._output.remarks.is_terminal:
            return nullcontext()
        # A terminal shows the present state in one line, which goes away in the end.
        status = self._output.remarks.status("Waiting")
        self._update = status.update
        return status

    def _show(self, left: Problems) -> None:
        if self._hidden:
            return
        if self._update is not None:
            more = f" (and {len(left) - 1:,} more)" if len(left) > 1 else ""
            # Text, for a string would be read for markup.
            self._update(Text(one_line(f"Waiting for {left[0][0]}: {left[0][1]}{more}")))
            return
        # A log gets a line when other parts are waited for, not for each operation.
        parts = sorted({part for part, _ in left})
        if parts != self._shown:
            self._shown = parts
            self._output.remark(f"Waiting for {', '.join(first_few(parts))}")


def first_few(texts: Sequence[str]) -> list[str]:
    """The first texts, and the number of the others: a cluster can have thousands of streams."""
    shown, more = list(texts[:REASONS_SHOWN_MAX]), len(texts) - REASONS_SHOWN_MAX
    return [*shown, f"and {more:,} more"] if more > 0 else shown


def wait_for_stream(api: ApiTarget, wait: Wait, stream: str) -> StreamView:
    """The stream once it has a leader, all its replicas are current and no change is under way."""

    async def look(calls: AsyncApiClient) -> StreamView:
        return StreamView.of("", await calls.info(stream))

    return wait.until(
        lambda: api.call(look),
        lambda view: [(f"stream {stream}", problem) for problem in view.problems],
        f"The servers go on. Wait longer with: headwater cluster wait-healthy --stream {stream}",
    )
