"""The changes of open batches by the publishes of a proposal, for the case that it is refused.

Open batches live in the memory of the server that decides, and follow the log: a batch must not
count messages that never get into it.

    atomic   a batch that got a message in a refused proposal is gone. Its client gets the refusal
             of that message, which ends the batch as any other error in it does
    fast     a batch is again as it was before the proposal. Messages that were refused are a gap,
             which the next message of the batch shows

nats-server does the same when it loses the leadership of a stream: atomic batches are abandoned,
and fast batches go on behind the last message that was stored.
"""

from typing import NamedTuple, final


class FastBatchState(NamedTuple):
    """The state of an open fast batch at some moment."""

    allows_gaps: bool
    ack_every_max: int
    ack_every: int
    # Sequences of the batch: the highest received, stored and acknowledged.
    received: int
    stored: int
    answered: int
    # The stream sequence of the last stored message.
    stored_as: int
    last_ns: int


@final
class BatchChanges:
    """The open batches that a proposal has changed, by id."""

    __slots__ = ("atomic", "fast")

    def __init__(self) -> None:
        # Atomic batches that got a message.
        self.atomic: set[bytes] = set()
        # Fast batches as they were before the proposal; None for a batch that it has opened.
        self.fast: dict[bytes, FastBatchState | None] = {}
