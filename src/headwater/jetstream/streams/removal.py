"""The removal of messages from a stream, some at a time, with their ids, schedules and consumers.

A removal queues its entry of the journal, together with the records of consumers that have caused
it or follow from it, and needs no room on the disk. Only an erasure has to be on the disk before it
is made.

No one may read or change the log of the stream during a removal; clients see the state of the
stream as it was before.
"""

from collections.abc import Iterable, Sequence
from typing import Final, final

from headwater.base.sliced import Work, at_once, parts_of
from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.streams import removed_ids
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.effects import Purge
from headwater.jetstream.streams.limits import (
    gathering_beyond_subject_limit,
    gathering_beyond_totals,
)
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.message_log import ALL_SUBJECTS, DELETION_COST, PURGED_AT_A_TIME

# The number of messages whose ids are journalled in one step.
IDS_PER_ENTRY_MAX: Final = 16_384


@final
class Removals:
    """Removes messages of one stream."""

    __slots__ = ("_consumers", "_dedupe", "_scheduling", "_view")

    def __init__(
        self,
        view: StreamView,
        dedupe: DedupeWindow,
        scheduling: Scheduling,
        consumers: Consumers,
    ) -> None:
        self._view = view
        self._dedupe = dedupe
        self._scheduling = scheduling
        self._consumers = consumers

    def remove(self, sequences: list[int]) -> None:
        """Do what `removing` does, at once. Raises StoreError."""
        at_once(self.removing(sequences))

    def removing(self, sequences: list[int], erase: bool = False) -> Work[None]:
        """Remove messages by sequence; `erase` also overwrites their content. Raises StoreError."""
        of_consumers = self._consumers.take_unwritten()
        if erase:
            # The entry of an erasure is withdrawn on a full disk, and these entries are not.
            self._view.log.write_entries(of_consumers)
            of_consumers = []
        if erase or len(sequences) <= PURGED_AT_A_TIME:
            self._view.log.delete(sequences, erase, [*of_consumers, *self.ids_of(sequences)])
            self._scheduling.forget(sequences)
            yield DELETION_COST * len(sequences)
        else:
            with self._view.told_as_it_is():
                sequences = sorted(sequences)
                yield from self._deleting_many(sequences, of_consumers)
            self._scheduling.forget_purged(self._view.log, ALL_SUBJECTS)
        yield from self._consumers.removing(sequences)
        self._consumers.queue_unwritten()

    def purging(self, pattern: bytes, before: int, keep: int, now_ns: int) -> Work[None]:
        """Remove messages on matching subjects. Raises StoreError.

        `before` spares the messages from that sequence on, `keep` spares that number of the last
        ones.
        """
        sequences = yield from self._view.log.gathering_purgeable(pattern, before, keep)
        # The position of a source is in the journal before messages of the source are removed.
        self._consumers.queue_unwritten()
        if len(sequences) <= PURGED_AT_A_TIME:
            self._view.log.delete(sequences, entries=self.ids_of(sequences))
        else:
            with self._view.told_as_it_is():
                yield from self._deleting_many(sequences)
        self._scheduling.forget_purged(self._view.log, pattern)
        yield from self._consumers.purging(pattern, now_ns)
        self._consumers.queue_unwritten()

    def rolling_up(self, purges: list[Purge]) -> Work[None]:
        """Remove the messages that roll-ups replace. Raises StoreError."""
        for subject, before in purges:
            yield from self.purging(ALL_SUBJECTS if subject is None else subject, before, 0, 0)

    def keeping_limits(self, with_subjects: bool = True) -> Work[None]:
        """Remove messages beyond the limits; limits per subject only on request.

        After a crash the rest is removed when the log is opened again. Raises StoreError.
        """
        log, config = self._view.log, self._view.config
        if with_subjects:
            gone = yield from gathering_beyond_subject_limit(log, config)
            if gone:
                yield from self.removing(gone)
        gone = yield from gathering_beyond_totals(log, config)
        if gone:
            yield from self.removing(gone)

    def ids_of(self, sequences: Iterable[int]) -> list[tuple[int, bytes]]:
        """The journal entries with the ids of messages that are about to be removed."""
        ids = self._dedupe.of_messages(sequences)
        return [removed_ids.encode(ids)] if ids else []

    def _deleting_many(
        self, sequences: list[int], entries: Sequence[tuple[int, bytes]] = ()
    ) -> Work[None]:
        """Remove messages, in ascending order, from the log, and write entries to the journal.

        The journal may hold ids of messages that still exist. So the ids of very many messages are
        written beforehand, and only the last of them together with the deletion.
        """
        ids: list[tuple[bytes, int, int]] = []
        for some in parts_of(sequences, PURGED_AT_A_TIME):
            if len(ids) >= IDS_PER_ENTRY_MAX:
                self._view.log.write_entries([removed_ids.encode(ids)])
                ids = []
            ids += self._dedupe.of_messages(some)
            yield len(some)
        of_ids = [removed_ids.encode(ids)] if ids else []
        yield from self._view.log.deleting(sequences, [*entries, *of_ids])
