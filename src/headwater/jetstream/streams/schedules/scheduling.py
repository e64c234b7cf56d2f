"""The schedules of a stream, and the messages that they publish.

The schedules and their times follow from the visible messages: `note` is called for each message in
order, and `forget` for removed ones. Time zone data belong to the machine; two servers with
different data may disagree on the time of a schedule, until one of them publishes a copy, which has
the next time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from headwater.base.clock import NS_PER_MS
from headwater.go.times import parse_time
from headwater.jetstream import header_names as names
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.schedules.schedule import (
    Copy,
    Due,
    ScheduleError,
    ZoneFinder,
    copy_to_publish,
    schedule_of,
)
from headwater.jetstream.streams.schedules.table import ScheduleTable
from headwater.store.errors import DamagedMessageError
from headwater.store.log.message_log import MessageLog
from headwater.subjects.grammar import has_wildcard
from headwater.wire.headers import value_of

# A client that stores a schedule in the past has this time to take it back.
GRACE_NS: Final = 250 * NS_PER_MS


@final
class Scheduling:
    """The schedules of one stream."""

    __slots__ = ("_find_zone", "table")

    def __init__(self, find_zone: ZoneFinder) -> None:
        self._find_zone = find_zone
        self.table = ScheduleTable()

    # --- the schedules -------------------------------------------------------------------------

    def note(self, sequence: int, subject: bytes, header: bytes, timestamp_ns: int) -> None:
        """Process a visible message: a schedule, a copy of one, or the end of one."""
        if names.SCHEDULE not in header:
            # A plain message on its subject ends a schedule.
            self.table.remove_subject(subject)
            return
        due = self._due(header, timestamp_ns, timestamp_ns)
        if due is not None:
            self.table.put(subject, sequence, max(due.time_ns, timestamp_ns + GRACE_NS))
        elif not value_of(header, names.SCHEDULER):
            self.table.remove_subject(subject)
        self._note_next(header)

    def note_all(
        self,
        sequences: Sequence[int],
        subjects: Sequence[bytes],
        headers: Sequence[bytes],
        timestamps_ns: Sequence[int],
    ) -> None:
        """Process visible messages in order."""
        for message in zip(sequences, subjects, headers, timestamps_ns, strict=True):
            self.note(*message)

    def _note_next(self, header: bytes) -> None:
        """Take the next time of a schedule from its copy."""
        scheduler = value_of(header, names.SCHEDULER)
        following = value_of(header, names.SCHEDULE_NEXT)
        if not scheduler or not following or following == names.SCHEDULE_NEXT_PURGE:
            return
        try:
            self.table.move(scheduler, parse_time(following.decode(errors="replace")))
        except ValueError:
            return

    def _due(self, header: bytes, last_ns: int, now_ns: int) -> Due | None:
        """The next time of the schedule in a header, if there is one."""
        try:
            schedule = schedule_of(header, self._find_zone)
            return None if schedule is None else schedule.next_after(last_ns, now_ns)
        except (ApiError, ScheduleError):
            return None

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop the schedules of removed messages."""
        if len(self.table):
            for sequence in sequences:
                self.table.remove(sequence)

    def forget_purged(self, log: MessageLog, pattern: bytes) -> None:
        """Drop the schedules of removed messages on matching subjects."""
        if not len(self.table):
            return
        if has_wildcard(pattern):
            sequences = [sequence for _, sequence, _ in self.table.entries()]
        else:
            found = self.table.sequence_of(pattern)
            sequences = [] if found is None else [found]
        self.forget(sequence for sequence in sequences if not log.index.has(sequence))

    def skip_missed(self, log: MessageLog, now_ns: int) -> None:
        """Move repeating schedules to their next time from now; missed times are not made up."""
        for subject, sequence, due_ns in self.table.entries():
            message = log.get(sequence)
            if message is None or due_ns > now_ns:
                continue
            due = self._due(message.header, due_ns, now_ns)
            if due is not None and due.repeats:
                self.table.move(subject, due.time_ns)

    def entries(self) -> list[tuple[bytes, int, int]]:
        """Subject, sequence and due time of every schedule, by sequence."""
        return self.table.entries()

    # --- the copies ----------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """When the next schedule is due; 0 for never."""
        return self.table.next_due_ns() or 0

    def take_due(
        self,
        log: MessageLog,
        now_ns: int,
        last_of: Callable[[bytes], tuple[bytes, bytes] | None],
        unreadable: list[int],
    ) -> list[tuple[int, Copy]]:
        """Take the due schedules. Returns their copies with the sequence of each schedule.

        A schedule is not due again before its copy is visible or `give_back` is called. `last_of`
        returns the header and body of the last message of a subject. Schedules that cannot be read
        before their messages are repaired are added to `unreadable`.
        """
        copies = []
        for sequence, subject, due_ns in self.table.take_due(now_ns):
            try:
                message = log.get(sequence)
                if message is None:
                    continue
                copy = copy_to_publish(
                    subject,
                    message.header,
                    message.payload,
                    due_ns,
                    now_ns,
                    self._find_zone,
                    last_of,
                )
            except DamagedMessageError:
                unreadable.append(sequence)
                continue
            if copy is not None:
                copies.append((sequence, copy))
        return copies

    def give_back(self, sequences: Iterable[int]) -> None:
        """Make schedules due again whose copies were refused."""
        self.table.land(sequences)

    def give_back_copies(self, headers: Iterable[bytes]) -> None:
        """Make schedules due again whose copies, with these headers, are forgotten."""
        for header in headers:
            scheduler = value_of(header, names.SCHEDULER) if names.SCHEDULER in header else None
            sequence = self.table.sequence_of(scheduler) if scheduler else None
            if sequence is not None:
                self.table.land([sequence])
