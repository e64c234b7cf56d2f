"""Requests about a stream that wait for their turn there."""

from collections.abc import Callable
from typing import final

from headwater.base.sliced import Work
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record


@final
class Request:
    """A request about a stream, which waits for its turn there.

    `decide` does long work in slices, and returns the proposal of a change; None if the request was
    answered without one. `refuse` answers a request that is not decided because the stream ends or
    its log has failed. `is_foreseen` says whether it can be decided while entries are in flight;
    otherwise it waits until they are applied. A request that `adds_messages` waits as publishes do.
    """

    __slots__ = ("adds_messages", "decide", "is_foreseen", "refuse")

    def __init__(
        self,
        decide: Callable[[], Work[Proposal[Record] | None]],
        refuse: Callable[[ApiError], object],
        is_foreseen: Callable[[], bool] = lambda: False,
        adds_messages: bool = False,
    ) -> None:
        self.decide = decide
        self.refuse = refuse
        self.is_foreseen = is_foreseen
        self.adds_messages = adds_messages


def refuse_nothing(_: ApiError) -> None:
    """Send no answer: no client waits for one."""
