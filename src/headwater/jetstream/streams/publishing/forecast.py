"""A forecast: the content of a stream after all decided records have taken effect.

Incoming messages remove others: by limits, by roll-ups, by the end of a schedule. The removal takes
place when they are applied; but a publish in the same turn, or before the last ones are synced to
disk, has to be checked as if it had taken place. A forecast starts from the visible messages, gets
each message that will follow, and determines which ones will be removed by then.

It computes the result of `Stream.apply` by the same functions, without applying anything: limits
see a forecast as they see a log. Only streams that remove messages need a forecast.
"""

from bisect import bisect_left
from collections import Counter
from typing import Final, final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.effects import Purge
from headwater.jetstream.streams.limits import beyond_limits
from headwater.store.log.message_log import MessageLog
from headwater.subjects.grammar import has_wildcard, matches

# Above this number, the purged messages of a subject are not noted one by one.
DROPPED_SINGLY_MAX: Final = 256

_NONE: Final = 0


@final
class _State:
    """The numbers of a forecast."""

    __slots__ = ("byte_count", "counts", "floor", "floors", "messages")

    def __init__(
        self,
        messages: int,
        byte_count: int,
        counts: dict[bytes, int],
        floor: int,
        floors: dict[bytes, int],
    ) -> None:
        self.messages = messages
        self.byte_count = byte_count
        # By subject, as far as a caller asked for it.
        self.counts = counts
        # All messages before this sequence will be removed.
        self.floor = floor
        # For subjects with a purge of very many messages: the end of the purged range.
        self.floors = floors


@final
class Forecast:
    """The messages of a log that will stay, and those that will be added."""

    __slots__ = (
        "_coming",
        "_coming_of",
        "_config",
        "_done",
        "_front",
        "_gone",
        "_hidden",
        "_last",
        "_log",
        "_order",
        "_searched",
        "_state",
    )

    def __init__(self, log: MessageLog, config: StreamConfig) -> None:
        self._log = log
        self._config = config
        self._state = _State(log.messages, log.byte_count, {}, 0, {})
        # The number of messages in the log that are not visible yet, by subject.
        self._hidden: Counter[bytes] = Counter()
        # Messages that the log does not have yet: the subject and size by sequence; all sequences
        # in order; and those of each subject.
        self._coming: dict[int, tuple[bytes, int]] = {}
        self._order: list[int] = []
        self._coming_of: dict[bytes, list[int]] = {}
        # The last message that was added.
        self._last = 0
        self._gone: set[int] = set()
        # No message that stays is before these: of the whole stream, and of a subject.
        self._front = 0
        self._searched: dict[bytes, int] = {}
        # An undo log: the sequences of added messages, those of removed ones as negative numbers,
        # and states that were replaced.
        self._done: list[int | _State] = []

    def hide(self, first: int, subjects: list[bytes]) -> None:
        """Exclude messages of the log that are not visible. First call; `add` follows for each."""
        state = self._state
        state.messages -= len(subjects)
        state.byte_count -= sum(map(self._log.size_of, range(first, first + len(subjects))))
        self._hidden.update(subjects)

    def follow(self, subjects: list[bytes]) -> None:
        """Note that the log has got messages since; `add` follows for each."""
        self._hidden.update(subjects)

    # --- the content to come -------------------------------------------------------------------

    @property
    def messages(self) -> int:
        """The number of messages that will be there."""
        return self._state.messages

    @property
    def byte_count(self) -> int:
        """The bytes that they will count."""
        return self._state.byte_count

    def has(self, sequence: int) -> bool:
        """Whether a message will stay. For another sequence: whether nothing removes it."""
        state = self._state
        if sequence < state.floor or sequence in self._gone:
            return False
        if not state.floors or not (sequence in self._coming or self._log.index.has(sequence)):
            return True
        return sequence >= state.floors.get(self._subject_of(sequence), 0)

    def count_of(self, subject: bytes) -> int:
        """The number of messages of a subject that will be there."""
        counts = self._state.counts
        if subject not in counts:
            known = self._log.subject_extent(subject)[2] - self._hidden[subject]
            counts[subject] = 0 if self._state.floor else known
        return counts[subject]

    def oldest_size_of(self, subject: bytes) -> int:
        """The size of the oldest message of a subject; 0 without one."""
        oldest = self._oldest_from(subject, 0)
        return self.size_of(oldest) if oldest else 0

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        """The first messages of a subject that will stay; there must be so many."""
        found: list[int] = []
        for _ in range(count):
            found.append(self._oldest_from(subject, found[-1] + 1 if found else 0))
        return found

    def first_from(self, sequence: int) -> int:
        """The first message from a sequence on that will stay; 0 if there is none."""
        index, start = self._log.index, max(sequence, self._front, self._state.floor)
        found = index.next_message(start)
        while found and not self.has(found):
            found = index.next_message(found + 1)
        found = found or self._first_coming(self._order, start)
        if sequence <= self._front:
            self._front = found
        return found

    def size_of(self, sequence: int) -> int:
        """The size of a message that is there or will be."""
        coming = self._coming.get(sequence)
        return self._log.size_of(sequence) if coming is None else coming[1]

    # --- changes -------------------------------------------------------------------------------

    def add(self, sequence: int, subject: bytes, size: int) -> None:
        """Add a message, and remove those beyond the limits."""
        state = self._state
        state.counts[subject] = self.count_of(subject) + 1
        state.messages += 1
        state.byte_count += size
        if sequence > self._log.last_sequence:
            self._coming[sequence] = (subject, size)
            self._order.append(sequence)
            self._coming_of.setdefault(subject, []).append(sequence)
        self._last = sequence
        self._done.append(sequence)
        for gone in beyond_limits(self, self._config, (subject,)):
            self._remove(gone)

    def purge(self, purges: list[Purge]) -> None:
        """Remove the messages that a message replaces."""
        for subject, before in purges:
            if subject is None:
                self._purge_all(before)
            elif has_wildcard(subject):
                for each in self._subjects_like(subject):
                    self._purge_subject(each, before)
            else:
                self._purge_subject(subject, before)

    def mark(self) -> int:
        """A point to which `go_back` can return."""
        return len(self._done)

    def go_back(self, mark: int) -> None:
        """Undo all changes since a mark."""
        while len(self._done) > mark:
            done = self._done.pop()
            if isinstance(done, _State):
                self._state = done
                # A search may have begun at the floor that is undone here.
                self._front = _NONE
                self._searched.clear()
            elif done < 0:
                self._undo_removal(-done)
            else:
                self._undo_add(done)
        self._last = _NONE

    def settle(self) -> None:
        """Make all changes so far permanent."""
        self._done.clear()

    # --- how changes are computed --------------------------------------------------------------

    def _remove(self, sequence: int) -> None:
        state = self._state
        self._gone.add(sequence)
        state.messages -= 1
        state.byte_count -= self.size_of(sequence)
        subject = self._subject_of(sequence)
        state.counts[subject] = self.count_of(subject) - 1
        self._done.append(-sequence)

    def _undo_removal(self, sequence: int) -> None:
        state, subject = self._state, self._subject_of(sequence)
        self._gone.discard(sequence)
        state.messages += 1
        state.byte_count += self.size_of(sequence)
        state.counts[subject] += 1
        self._front = min(self._front, sequence)
        self._searched[subject] = min(self._searched.get(subject, 0), sequence)

    def _undo_add(self, sequence: int) -> None:
        state = self._state
        subject, size = self._coming.pop(sequence)
        sequences = self._coming_of[subject]
        sequences.pop()
        if not sequences:
            del self._coming_of[subject]
        self._order.pop()
        state.messages -= 1
        state.byte_count -= size
        state.counts[subject] -= 1

    def _purge_all(self, before: int) -> None:
        """Remove all messages but the one that purges, if it was stored at all."""
        self._done.append(self._state)
        purger = self._state = _State(0, 0, {}, before, {})
        if self._last == before and self.has(before):
            purger.messages = 1
            purger.byte_count = self.size_of(before)
            purger.counts[self._subject_of(before)] = 1

    def _purge_subject(self, subject: bytes, before: int) -> None:
        if self.count_of(subject) > DROPPED_SINGLY_MAX:
            self._purge_many(subject, before)
            return
        oldest = self._oldest_from(subject, 0)
        while 0 < oldest < before:
            self._remove(oldest)
            oldest = self._oldest_from(subject, 0)

    def _purge_many(self, subject: bytes, before: int) -> None:
        """Remove very many messages of a subject, without noting each of them."""
        state, count = self._state, self.count_of(subject)
        size = self._bytes_of(subject, before) if self._config.max_bytes > 0 else 0
        is_purger = (
            self._last == before and self.has(before) and self._subject_of(before) == subject
        )
        left = int(is_purger)
        self._done.append(state)
        self._state = _State(
            state.messages - count + left,
            state.byte_count - size,
            {**state.counts, subject: left},
            state.floor,
            {**state.floors, subject: before},
        )

    def _bytes_of(self, subject: bytes, before: int) -> int:
        """The size of the messages of a subject before a sequence that stay so far."""
        sid = self._log.index.subjects.ids.get(subject)
        begin = max(self._state.floor, self._state.floors.get(subject, 0))
        size = 0 if sid is None else self._log.index.bytes_of_subject(sid, begin, before)
        coming = [each for each in self._coming_of.get(subject, ()) if begin <= each < before]
        size += sum(self._coming[each][1] for each in coming)
        return size - sum(
            self.size_of(each)
            for each in self._gone
            if begin <= each < before and self._subject_of(each) == subject
        )

    def _oldest_from(self, subject: bytes, sequence: int) -> int:
        """The first message of a subject from a sequence on that stays; 0 if there is none."""
        index = self._log.index
        sid = index.subjects.ids.get(subject)
        searched = self._searched.get(subject, 0)
        floor = max(self._state.floor, self._state.floors.get(subject, 0))
        start = max(sequence, searched, floor)
        found = _NONE if sid is None else index.next_of_subject(sid, start)
        while found and sid is not None and not self.has(found):
            found = index.next_of_subject(sid, found + 1)
        if not found:
            found = self._first_coming(self._coming_of.get(subject, []), start)
        if sequence <= searched:
            self._searched[subject] = found
        return found

    def _first_coming(self, sequences: list[int], start: int) -> int:
        for position in range(bisect_left(sequences, start), len(sequences)):
            if self.has(sequences[position]):
                return sequences[position]
        return _NONE

    def _subjects_like(self, pattern: bytes) -> set[bytes]:
        coming = {subject for subject in self._coming_of if matches(pattern, subject)}
        return coming.union(self._log.subject_counts(pattern))

    def _subject_of(self, sequence: int) -> bytes:
        coming = self._coming.get(sequence)
        return self._log.subject_of(sequence) if coming is None else coming[0]
