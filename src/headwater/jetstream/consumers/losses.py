"""The records that follow for a consumer when messages leave its stream.

They follow from the state of the consumer and of the stream, and every replica finds the same: they
are written to the journal and never proposed. `has` says whether the stream has a message.
"""

from bisect import bisect_left
from collections.abc import Callable

from headwater.jetstream.consumers.effects import REMOVED_REASON, Terminated
from headwater.jetstream.consumers.records import Dropped, Forgotten
from headwater.jetstream.consumers.state import ConsumerState
from headwater.store.log.message_log import PURGED_AT_A_TIME

Has = Callable[[int], bool]


def after_removal(
    name: str, state: ConsumerState, sequences: list[int], has: Has
) -> tuple[Dropped | None, list[Terminated]]:
    """The record that follows from the removal of messages, and the events that tell of it."""
    pending, redelivered = state.pending, state.redelivered
    if len(sequences) > PURGED_AT_A_TIME:
        # `sequences` is ascending; the messages that the state knows are probably fewer.
        gone = [each for each in state.missing(has) if _is_among(sequences, each)]
    else:
        gone = [each for each in sequences if each in pending or each in redelivered]
    events = [
        Terminated(pending[each], each, redelivered.get(each, 0) + 1, REMOVED_REASON)
        for each in gone
        if each in pending
    ]
    return (Dropped(name, gone) if gone else None), events


def after_partial_purge(name: str, state: ConsumerState, has: Has) -> Dropped | None:
    """The record that follows from a purge of some of its messages, without advisories."""
    gone = state.missing(has)
    return Dropped(name, gone) if gone else None


def after_purge(
    name: str, state: ConsumerState, first_sequence: int, now_ns: int, has: Has
) -> Forgotten | Dropped | None:
    """The record that follows from a purge of all its messages before a sequence."""
    unsettled = state.unsettled_up_to(first_sequence - 1)
    if any(map(has, unsettled)):
        # The remaining messages are on subjects of an earlier filter.
        return after_partial_purge(name, state, has)
    has_passed = min(state.delivered_stream, state.floor_stream) >= first_sequence - 1
    is_settled = state.pending or state.floor_consumer == state.delivered_consumer
    if has_passed and is_settled and not unsettled:
        return None
    return Forgotten(name, first_sequence, now_ns)


def _is_among(ascending: list[int], sequence: int) -> bool:
    at = bisect_left(ascending, sequence)
    return at < len(ascending) and ascending[at] == sequence
