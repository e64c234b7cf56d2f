"""The messages of a log, as limits, roll-ups and the checks of publishes ask for them."""

from collections.abc import Callable
from typing import Final, final

from headwater.jetstream.streams.limits import Uncommitted
from headwater.store.log.message_log import MessageLog

_NONE: Final = 0


@final
class LogMessages:
    """The messages of a log without those that are not yet visible."""

    __slots__ = ("_log", "_uncommitted")

    def __init__(self, log: MessageLog, uncommitted: Callable[[], Uncommitted]) -> None:
        self._log = log
        self._uncommitted = uncommitted

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._log.messages - self._uncommitted().messages

    @property
    def byte_count(self) -> int:
        """The sum of their sizes."""
        return self._log.byte_count - self._uncommitted().byte_count

    @property
    def last_sequence(self) -> int:
        """The last sequence that was assigned."""
        return min(self._uncommitted().first - 1, self._log.last_sequence)

    def count_of(self, subject: bytes) -> int:
        """The number of messages of a subject."""
        hidden = self._uncommitted().by_subject.get(subject, 0)
        return self._log.subject_extent(subject)[2] - hidden

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        """The first messages of a subject, which has at least `count`."""
        found = [self._log.subject_extent(subject)[0]]
        for _ in range(count - 1):
            found.append(self.next_of(subject, found[-1] + 1))
        return found

    def next_of(self, subject: bytes, sequence: int) -> int:
        """The first message of a subject from a sequence on; 0 if there is none."""
        return self._shown(self._log.next_sequence_of((subject,), sequence))

    def first_from(self, sequence: int) -> int:
        """The first message from a sequence on; 0 if there is none."""
        log = self._log
        return self._shown(log.index.next_message(max(sequence, log.first_sequence)))

    def size_of(self, sequence: int) -> int:
        """The size of a message."""
        return self._log.size_of(sequence)

    def subject_of(self, sequence: int) -> bytes:
        """The subject of a message."""
        return self._log.subject_of(sequence)

    def has(self, sequence: int) -> bool:
        """Whether there is a message with a sequence."""
        return sequence < self._uncommitted().first and self._log.index.has(sequence)

    def last_of(self, subject: bytes, up_to: int | None = None) -> int:
        """The last message of a subject, at or before a sequence; 0 if there is none."""
        return self._log.last_sequence_of((subject,), self._end(up_to))

    def last_sequence_of(self, pattern: bytes, up_to: int | None = None) -> int:
        """The last message on matching subjects, at or before a sequence; 0 if there is none."""
        return self._log.last_sequence_of((pattern,), self._end(up_to))

    def content_at(self, sequence: int) -> tuple[bytes, bytes] | None:
        """The header and body of a message, if it can be read."""
        message = self._log.get(sequence)
        return None if message is None else (message.header, message.payload)

    def subjects_like(self, pattern: bytes) -> set[bytes]:
        """The subjects that match a pattern and have messages."""
        return {*filter(self.count_of, self._log.subject_counts(pattern))}

    def bytes_of(self, subject: bytes, begin: int, end: int) -> int:
        """The size of the messages of a subject from one sequence to another."""
        sid = self._log.index.subjects.ids.get(subject)
        end = min(end, self._uncommitted().first)
        return 0 if sid is None else self._log.index.bytes_of_subject(sid, begin, end)

    def _shown(self, sequence: int) -> int:
        return sequence if sequence < self._uncommitted().first else _NONE

    def _end(self, up_to: int | None) -> int:
        end = self.last_sequence
        return end if up_to is None else min(end, up_to)
