"""The removal of messages from a stream, some at a time, with their ids, schedules and consumers.

The reason for a removal is not known here. No one may read or change the log of the stream during a
removal; clients see the state of the stream as it was before.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.sliced import Work, parts_of
from headwater.jetstream.streams import removed_ids
from headwater.store.log.message_log import (
    ALL_SUBJECTS,
    DELETION_COST,
    PURGED_AT_A_TIME,
    DiskFullError,
)

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream

# The number of messages whose ids are journalled in one step.
IDS_PER_ENTRY_MAX: Final = 16_384


def deleting(stream: "Stream", sequences: list[int], erase: bool = False) -> Work[None]:
    """Remove messages by sequence; `erase` also overwrites their content. Raises StoreError."""
    of_consumers = stream.consumers.take_unwritten()
    try:
        if erase or len(sequences) <= PURGED_AT_A_TIME:
            stream.log.delete(sequences, erase, [*of_consumers, *ids_of(stream, sequences)])
            stream.scheduling.forget(sequences)
            yield DELETION_COST * len(sequences)
        else:
            with stream.told_as_it_is():
                sequences = sorted(sequences)
                yield from _deleting_many(stream, sequences, of_consumers)
            stream.scheduling.forget_purged(stream.log, ALL_SUBJECTS)
    except DiskFullError:
        stream.consumers.is_owed |= bool(of_consumers)
        raise
    yield from stream.consumers.removing(sequences)


def purging(stream: "Stream", pattern: bytes, before: int, keep: int, now_ns: int) -> Work[None]:
    """Remove messages on matching subjects. Raises StoreError.

    `before` spares the messages from that sequence on, `keep` spares that number of the last ones.
    """
    sequences = yield from stream.log.gathering_purgeable(pattern, before, keep)
    if len(sequences) <= PURGED_AT_A_TIME:
        stream.log.delete(sequences, entries=ids_of(stream, sequences))
    else:
        with stream.told_as_it_is():
            yield from _deleting_many(stream, sequences)
    stream.scheduling.forget_purged(stream.log, pattern)
    yield from stream.consumers.purging(pattern, now_ns)


def ids_of(stream: "Stream", sequences: Iterable[int]) -> list[tuple[int, bytes]]:
    """The journal entries with the ids of messages that are about to be removed."""
    ids = stream.dedupe.of_messages(sequences)
    return [removed_ids.encode(ids)] if ids else []


def _deleting_many(
    stream: "Stream", sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
) -> Work[None]:
    """Remove messages, in ascending order, from the log, and write entries to the journal.

    The journal may hold ids of messages that still exist. So the ids of very many messages are
    written beforehand, and only the last of them together with the deletion.
    """
    ids: list[tuple[bytes, int, int]] = []
    for some in parts_of(sequences, PURGED_AT_A_TIME):
        if len(ids) >= IDS_PER_ENTRY_MAX:
            stream.log.write_entries([removed_ids.encode(ids)])
            ids = []
        ids += stream.dedupe.of_messages(some)
        yield len(some)
    of_ids = [removed_ids.encode(ids)] if ids else []
    yield from stream.log.deleting(sequences, [*entries, *of_ids])
