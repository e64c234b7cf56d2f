"""The messages of a stream as they will be, laid over the messages that its log has.

Messages that are proposed, or that a turn has accepted, are not in the log. A publish is checked as
if they were, with all their effects: limits, roll-ups and purges (`effects`). The changes lie in
dictionaries over the log, which is never copied and never changed.

Each change can be undone, newest first (`go_back`, `retreat`), and dropped once the log has made
it, oldest first (`commit_oldest`): the messages as they will be are the same before and after.
"""

from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, final

from headwater.base.invariants import InvariantViolation, check
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Record, Removed, Skipped
from headwater.jetstream.streams.effects import (
    BeyondLimits,
    Effect,
    Purge,
    Shown,
    effects_of,
    effects_of_messages,
    may_roll_up,
)
from headwater.jetstream.streams.foreseeable import FORESEEN_SINGLY_MAX, is_whole_purge
from headwater.jetstream.streams.limits import SizeRule, beyond_limits, has_limits
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.message_log import ALL_SUBJECTS
from headwater.subjects.grammar import has_wildcard, matches

# Above this number, the purged messages of a subject are not noted one by one.
DROPPED_SINGLY_MAX: Final = 256
# Removed messages that a search for the last message of a pattern passes one by one.
PASSED_MAX: Final = 64

_NONE: Final = 0


def removes_messages(config: StreamConfig) -> bool:
    """Whether the messages of a stream remove others."""
    return has_limits(config) or may_roll_up(config)


# A message that the log does not have yet: its subject, size, header and body.
Message: TypeAlias = tuple[bytes, int, bytes, bytes]


class _Gone(NamedTuple):
    """One message is removed."""

    sequence: int
    subject: bytes
    size: int


class _GoneBefore(NamedTuple):
    """Very many messages of a subject are removed."""

    subject: bytes
    messages: int
    size: int
    # The sequence before which the messages of the subject were gone already.
    floor: int


class _Emptied(NamedTuple):
    """All messages are removed but the one that purges, if there is one."""

    purger: int


# A sequence stands for the message that was added with it.
_Change: TypeAlias = int | _Gone | _GoneBefore | _Emptied


@final
class _Layer:
    """Changes over the messages of a log, or over no messages."""

    __slots__ = (
        "added",
        "added_bytes",
        "added_of",
        "base",
        "floors",
        "front",
        "gone",
        "gone_bytes",
        "gone_messages",
        "gone_of",
        "last",
        "searched",
    )

    def __init__(self, base: LogMessages | None) -> None:
        self.base = base
        # Messages by sequence in ascending order, the sequences of each subject, and the last one.
        self.added: dict[int, Message] = {}
        self.added_of: dict[bytes, list[int]] = {}
        self.added_bytes = 0
        self.last = _NONE
        # Removed messages: their sequences, and for subjects with a purge of very many messages the
        # end of the purged range; how many, of each subject, and their bytes.
        self.gone: set[int] = set()
        self.floors: dict[bytes, int] = {}
        self.gone_messages = 0
        self.gone_of: dict[bytes, int] = {}
        self.gone_bytes = 0
        # No message is before these: of all, and of a subject.
        self.front = 0
        self.searched: dict[bytes, int] = {}

    # --- the messages --------------------------------------------------------------------------

    @property
    def messages(self) -> int:
        below = 0 if self.base is None else self.base.messages
        return below + len(self.added) - self.gone_messages

    @property
    def byte_count(self) -> int:
        below = 0 if self.base is None else self.base.byte_count
        return below + self.added_bytes - self.gone_bytes

    def count_of(self, subject: bytes) -> int:
        below = 0 if self.base is None else self.base.count_of(subject)
        return below + len(self.added_of.get(subject, ())) - self.gone_of.get(subject, 0)

    def has(self, sequence: int) -> bool:
        if sequence in self.gone:
            return False
        if sequence not in self.added and (self.base is None or not self.base.has(sequence)):
            return False
        return not self.floors or sequence >= self.floors.get(self.subject_of(sequence), 0)

    def subject_of(self, sequence: int) -> bytes:
        added = self.added.get(sequence)
        return self._base().subject_of(sequence) if added is None else added[0]

    def size_of(self, sequence: int) -> int:
        added = self.added.get(sequence)
        return self._base().size_of(sequence) if added is None else added[1]

    def first_from(self, sequence: int) -> int:
        start = max(sequence, self.front)
        found = _NONE if self.base is None else self.base.first_from(start)
        while found and not self.has(found) and self.base is not None:
            found = self.base.first_from(found + 1)
        if not found and self.added:
            found = max(start, next(iter(self.added)))
            while found <= self.last and not (found in self.added and self.has(found)):
                found += 1
            found = found if found <= self.last else _NONE
        if sequence <= self.front:
            self.front = found
        return found

    def oldest_from(self, subject: bytes, sequence: int) -> int:
        """The first message of a subject from a sequence on; 0 without one."""
        searched = self.searched.get(subject, 0)
        start = max(sequence, searched, self.floors.get(subject, 0))
        found = _NONE if self.base is None else self.base.next_of(subject, start)
        while found and not self.has(found) and self.base is not None:
            found = self.base.next_of(subject, found + 1)
        if not found:
            added = self.added_of.get(subject, ())
            later = islice(added, bisect_left(added, start), None)
            found = next(filter(self.has, later), _NONE)
        if sequence <= searched:
            self.searched[subject] = found
        return found

    def last_of(self, subject: bytes) -> int:
        for sequence in reversed(self.added_of.get(subject, ())):
            if self.has(sequence):
                return sequence
        if self.base is None:
            return _NONE
        found, floor = self.base.last_of(subject), self.floors.get(subject, 0)
        while found >= floor and found in self.gone:
            found = self.base.last_of(subject, found - 1)
        return found if found >= floor else _NONE

    def last_like(self, pattern: bytes) -> int:
        """The last message of all subjects that match a pattern with wildcards."""
        for sequence, (subject, _, _, _) in reversed(self.added.items()):
            if matches(pattern, subject) and self.has(sequence):
                return sequence
        if self.base is None:
            return _NONE
        found = self.base.last_sequence_of(pattern)
        for _ in range(PASSED_MAX):
            if not found or self.has(found):
                return found
            found = self.base.last_sequence_of(pattern, found - 1)
        return max(map(self.last_of, self.base.subjects_like(pattern)), default=_NONE)

    def content_at(self, sequence: int) -> tuple[bytes, bytes] | None:
        added = self.added.get(sequence)
        return self._base().content_at(sequence) if added is None else added[2:]

    def subjects_like(self, pattern: bytes) -> set[bytes]:
        found = {subject for subject in self.added_of if matches(pattern, subject)}
        if self.base is not None:
            found |= self.base.subjects_like(pattern)
        return {subject for subject in found if self.count_of(subject)}

    def _base(self) -> LogMessages:
        if self.base is None:
            raise InvariantViolation("this message is not there")
        return self.base

    # --- changes -------------------------------------------------------------------------------

    def add(self, sequence: int, message: Message) -> None:
        subject, size, _, _ = self.added[sequence] = message
        self.last = sequence
        self.added_bytes += size
        sequences = self.added_of.get(subject)
        if sequences is None:
            self.added_of[subject] = [sequence]
        else:
            sequences.append(sequence)

    def drop_added(self, sequence: int, position: int) -> None:
        """Drop an added message: the first of its subject (0), or the last (-1)."""
        subject, size, _, _ = self.added.pop(sequence)
        self.added_bytes -= size
        sequences = self.added_of[subject]
        check(sequences.pop(position) == sequence, "messages are dropped in order")
        if not sequences:
            del self.added_of[subject]

    def count_gone(self, subject: bytes, count: int, size: int) -> None:
        """Count removed messages, or no longer count them if the numbers are negative."""
        self.gone_messages += count
        self.gone_bytes += size
        left = self.gone_of.get(subject, 0) + count
        if left:
            self.gone_of[subject] = left
        else:
            self.gone_of.pop(subject, None)

    def bytes_before(self, subject: bytes, before: int) -> int:
        """The size of the messages of a subject before a sequence."""
        begin = self.floors.get(subject, 0)
        size = 0 if self.base is None else self.base.bytes_of(subject, begin, before)
        added = [each for each in self.added_of.get(subject, ()) if begin <= each < before]
        size += sum(map(self.size_of, added))
        gone = [each for each in self.gone if begin <= each < before]
        return size - sum(self.size_of(each) for each in gone if self.subject_of(each) == subject)

    def undo(self, change: int | _Gone | _GoneBefore) -> None:
        if isinstance(change, int):
            self.drop_added(change, -1)
            self.last = next(reversed(self.added), _NONE)
        elif isinstance(change, _Gone):
            self.gone.discard(change.sequence)
            self.count_gone(change.subject, -1, -change.size)
            self.front = min(self.front, change.sequence)
            self._search_from(change.subject, change.sequence)
        else:
            self.count_gone(change.subject, -change.messages, -change.size)
            self._set_floor(change.subject, change.floor)
            self.front = _NONE
            self.searched.pop(change.subject, None)

    def commit(self, change: int | _Gone | _GoneBefore) -> None:
        """Drop a change that the log has made."""
        if isinstance(change, int):
            self.drop_added(change, 0)
        elif isinstance(change, _Gone):
            self.gone.discard(change.sequence)
            self.count_gone(change.subject, -1, -change.size)
        else:
            self.count_gone(change.subject, -change.messages, -change.size)
            if change.subject not in self.gone_of:
                self.floors.pop(change.subject, None)

    def _search_from(self, subject: bytes, sequence: int) -> None:
        if self.searched.get(subject, 0) > sequence:
            self.searched[subject] = sequence

    def _set_floor(self, subject: bytes, floor: int) -> None:
        if floor:
            self.floors[subject] = floor
        else:
            self.floors.pop(subject, None)


@final
class Foreseen:
    """The messages of a stream after proposed records and the messages of a turn."""

    __slots__ = ("_base", "_config", "_layers", "_records", "_top", "_turn", "removes")

    def __init__(self, base: LogMessages, config: StreamConfig, removes: bool) -> None:
        self._base = base
        self._config = config
        self.removes = removes
        # A purge of all messages begins a layer over nothing, on top of the one that it empties.
        self._top = _Layer(base)
        self._layers = [self._top]
        # The changes of each record, oldest first, and those of the turn.
        self._records: deque[list[_Change]] = deque()
        self._turn: list[_Change] = []

    @property
    def only_adds(self) -> bool:
        """Whether no message is removed, and none can be."""
        return not self.removes and len(self._layers) == 1 and not self._top.gone_messages

    # --- the messages as they will be ----------------------------------------------------------

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._top.messages

    @property
    def byte_count(self) -> int:
        """The sum of their sizes; counted for streams with a limit of bytes only."""
        return self._top.byte_count

    def count_of(self, subject: bytes) -> int:
        """The number of messages of a subject."""
        return self._top.count_of(subject)

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        """The first messages of a subject, which has at least `count`."""
        found: list[int] = []
        for _ in range(count):
            found.append(self._top.oldest_from(subject, found[-1] + 1 if found else 0))
        return found

    def first_from(self, sequence: int) -> int:
        """The first message from a sequence on; 0 without one."""
        return self._top.first_from(sequence)

    def size_of(self, sequence: int) -> int:
        """The size of a message."""
        return self._top.size_of(sequence)

    def has(self, sequence: int) -> bool:
        """Whether there is a message with a sequence."""
        return self._top.has(sequence)

    def last_sequence_of(self, pattern: bytes) -> int:
        """The last sequence of a subject, or of all that match a pattern; 0 without a message."""
        if has_wildcard(pattern):
            return self._top.last_like(pattern)
        return self._top.last_of(pattern)

    def content_of(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """The header and body of the last message of a subject, if it has one."""
        sequence = self._top.last_of(subject)
        return self._top.content_at(sequence) if sequence else None

    def subjects_like(self, pattern: bytes) -> set[bytes]:
        """The subjects that match a pattern and have messages."""
        return self._top.subjects_like(pattern)

    def has_since(self, sequence: int, subject: bytes | None = None) -> bool:
        """Whether messages were added from a sequence on, of all subjects or of one."""
        if subject is None:
            return self._top.last >= sequence
        added = self._top.added_of.get(subject)
        return added is not None and added[-1] >= sequence

    # --- records -------------------------------------------------------------------------------

    def configure(self, config: StreamConfig) -> None:
        """Have records from now on take effect by a configuration."""
        self._config = config
        self.removes = removes_messages(config)

    def follow(self, record: Record, size: SizeRule) -> None:
        """Add a record that was proposed behind those before it, and whose effects are foreseen
        (`foreseeable`)."""
        check(not self._turn, "records follow records, not the messages of a turn")
        if isinstance(record, Published):
            self._follow_messages(record, size)
        elif isinstance(record, Skipped):
            for effect in effects_of(record, self, self._config):
                self._carry_out(effect)
        elif isinstance(record, Removed):
            for sequence in filter(self.has, record.sequences):
                self._remove(sequence)
        elif isinstance(record, Purged):
            self._follow_purge(record)
        elif isinstance(record, Configured):
            self._follow_limits()
        self._records.append(self._turn)
        self._turn = []

    def pass_by(self) -> None:
        """Add a record whose effects are not foreseen: publishes wait for its commit."""
        self._records.append([])

    def _follow_purge(self, record: Purged) -> None:
        last = max(self._base.last_sequence, *(layer.last for layer in self._layers))
        if is_whole_purge(record, last):
            if record.pattern == ALL_SUBJECTS:
                self._empty(_NONE)
            else:
                self._purge_subject(record.pattern, last + 1)
            return
        found = self._sequences_like(record.pattern, record.before or last + 1)
        for sequence in found[: max(len(found) - record.keep, 0)]:
            self._remove(sequence)

    def _sequences_like(self, pattern: bytes, end: int) -> list[int]:
        """The messages on matching subjects before a sequence, in order."""
        top, found = self._top, []
        if pattern == ALL_SUBJECTS:
            sequence = top.first_from(0)
            while 0 < sequence < end:
                found.append(sequence)
                sequence = top.first_from(sequence + 1)
            return found
        for subject in top.subjects_like(pattern) if has_wildcard(pattern) else (pattern,):
            sequence = top.oldest_from(subject, 0)
            while 0 < sequence < end:
                found.append(sequence)
                sequence = top.oldest_from(subject, sequence + 1)
        return sorted(found)

    def _follow_limits(self) -> None:
        """Remove the messages beyond the limits of a configuration, which begins with them.

        If there are many messages, all of them are within the limits.
        """
        if self.removes and self.messages <= FORESEEN_SINGLY_MAX:
            subjects = sorted(self._top.subjects_like(ALL_SUBJECTS))
            for sequence in beyond_limits(self, self._config, subjects):
                self._remove(sequence)

    def _follow_messages(self, record: Published, size: SizeRule) -> None:
        batch, first = record.batch, record.first_sequence
        columns = zip(batch.subjects, batch.headers, batch.payloads, strict=True)
        messages = [
            (subject, size(subject, header, body), header, body)
            for subject, header, body in columns
        ]
        if not self.removes:
            for sequence, message in enumerate(messages, first):
                self._add(sequence, message)
            return
        for effect in effects_of(record, self, self._config):
            if isinstance(effect, Shown):
                begin, end = effect
                for sequence, message in enumerate(messages[begin:end], first + begin):
                    self._add(sequence, message)
            else:
                self._carry_out(effect)

    def commit_oldest(self) -> None:
        """Drop the oldest record, which the log has made."""
        self.go_back(0)
        for change in self._records.popleft():
            bottom = self._layers[0]
            if not isinstance(change, _Emptied):
                bottom.commit(change)
                continue
            del self._layers[0]
            bottom = self._layers[0]
            bottom.base = self._base
            if change.purger:
                bottom.drop_added(change.purger, 0)

    def retreat(self) -> None:
        """Forget the newest record."""
        self.go_back(0)
        self._turn = self._records.pop()
        self.go_back(0)

    # --- the messages of a turn ----------------------------------------------------------------

    def admit(self, sequence: int, message: Message, purges: list[Purge]) -> None:
        """Add a message of the turn, with its effects."""
        if not self.removes:
            self._top.add(sequence, message)
            self._turn.append(sequence)
            return
        roll_ups = {1: purges} if purges else {}
        for effect in effects_of_messages((message[0],), roll_ups, self, self._config):
            if isinstance(effect, Shown):
                self._add(sequence, message)
            else:
                self._carry_out(effect)

    def skip(self, purges: list[Purge]) -> None:
        """Carry out the purges of a message that is not stored."""
        self._purge(purges)

    def mark(self) -> int:
        """A point in the turn to which `go_back` can return."""
        return len(self._turn)

    def go_back(self, mark: int) -> None:
        """Undo the changes of the turn since a mark."""
        turn = self._turn
        while len(turn) > mark:
            change = turn.pop()
            if isinstance(change, _Emptied):
                self._layers.pop()
                self._top = self._layers[-1]
            else:
                self._top.undo(change)

    # --- changes -------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, BeyondLimits):
            for sequence in effect.sequences:
                self._remove(sequence)
        elif not isinstance(effect, Shown):
            self._purge(effect.purges)

    def _add(self, sequence: int, message: Message) -> None:
        self._top.add(sequence, message)
        self._turn.append(sequence)

    def _remove(self, sequence: int) -> None:
        top = self._top
        change = _Gone(sequence, top.subject_of(sequence), top.size_of(sequence))
        top.gone.add(sequence)
        top.count_gone(change.subject, 1, change.size)
        self._turn.append(change)

    def _purge(self, purges: list[Purge]) -> None:
        for subject, before in purges:
            if subject is None:
                top = self._top
                self._empty(before if top.last == before and top.has(before) else _NONE)
            elif has_wildcard(subject):
                for each in self._top.subjects_like(subject):
                    self._purge_subject(each, before)
            else:
                self._purge_subject(subject, before)

    def _empty(self, purger: int) -> None:
        """Remove all messages but the one that purges, if it is stored at all."""
        message = self._top.added[purger] if purger else None
        self._top = _Layer(None)
        self._layers.append(self._top)
        if message is not None:
            self._top.add(purger, message)
        self._turn.append(_Emptied(purger))

    def _purge_subject(self, subject: bytes, before: int) -> None:
        top = self._top
        if top.count_of(subject) > DROPPED_SINGLY_MAX:
            self._purge_many(subject, before)
            return
        oldest = top.oldest_from(subject, 0)
        while 0 < oldest < before:
            self._remove(oldest)
            oldest = top.oldest_from(subject, 0)

    def _purge_many(self, subject: bytes, before: int) -> None:
        """Remove very many messages of a subject, without noting each of them."""
        top = self._top
        size = top.bytes_before(subject, before) if self._config.max_bytes > 0 else 0
        # All messages of the subject are before that one, but for the one that purges.
        has_purger = top.last == before and top.has(before) and top.subject_of(before) == subject
        count = top.count_of(subject) - has_purger
        self._turn.append(_GoneBefore(subject, count, size, top.floors.get(subject, 0)))
        top.floors[subject] = before
        top.count_gone(subject, count, size)
