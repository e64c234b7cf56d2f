"""Messages leave a stream, some at a time, with all that follows for ids, schedules and consumers.

The reason why messages go is not known here. Nobody may look into the log of the stream or change
it meanwhile; the state of the stream is told as it was before.
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

# The ids of so many messages that go are journalled in one step.
IDS_PER_ENTRY_MAX: Final = 16_384


def deleting(stream: "Stream", sequences: list[int], erase: bool = False) -> Work[None]:
    """Let messages go, one by one; `erase` also overwrites what they held. Raises StoreError."""
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
    """Let messages on matching subjects go. Raises StoreError.

    `before` spares those from that sequence on, `keep` the last so many.
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
    """The entries by which the journal knows the ids of messages that go."""
    ids = stream.dedupe.of_messages(sequences)
    return [removed_ids.encode(ids)] if ids else []


def _deleting_many(
    stream: "Stream", sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
) -> Work[None]:
    """Take messages out of the log, in ascending order, with entries for the journal.

    Ids of messages that are still there may be in the journal too. So those of very many are
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
