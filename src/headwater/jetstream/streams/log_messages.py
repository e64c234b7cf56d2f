"""The messages of a log, as limits, roll-ups and the checks of publishes ask for them."""

from typing import Final, final

from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.store.errors import DamagedMessageError
from headwater.store.log.message_log import MessageLog

_NONE: Final = 0
_SEQUENCE_MAX: Final = (1 << 64) - 1


@final
class LogMessages:
    """The messages of a log, without those of a record that come later than others of it."""

    __slots__ = ("_hidden_bytes", "_hidden_from", "_hidden_of", "_log", "hidden")

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        # The messages that are hidden: the first one, the subjects and sizes of all in reverse
        # order, the number of each subject, and their bytes.
        self._hidden_from = _SEQUENCE_MAX
        self.hidden: list[tuple[bytes, int]] = []
        self._hidden_of: dict[bytes, int] = {}
        self._hidden_bytes = 0

    # --- messages that come one after the other ------------------------------------------------

    def hide(self, first: int, subjects: list[bytes]) -> None:
        """Hide the last messages of the log, from `first` on; `show` follows for each of them."""
        sizes = [*map(self._log.size_of, range(first, first + len(subjects)))]
        self._hidden_from = first
        self.hidden = [*zip(reversed(subjects), reversed(sizes), strict=True)]
        self._hidden_bytes = sum(sizes)
        for subject in subjects:
            self._hidden_of[subject] = self._hidden_of.get(subject, 0) + 1

    def show(self, count: int) -> None:
        """Show the oldest hidden messages."""
        self._hidden_from += count
        for _ in range(count):
            subject, size = self.hidden.pop()
            self._hidden_bytes -= size
            self._hidden_of[subject] -= 1

    def show_all(self) -> None:
        """Show all messages."""
        self._hidden_from = _SEQUENCE_MAX
        self.hidden.clear()
        self._hidden_of.clear()
        self._hidden_bytes = 0

    # --- questions -----------------------------------------------------------------------------

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._log.messages - len(self.hidden)

    @property
    def byte_count(self) -> int:
        """The sum of their sizes."""
        return self._log.byte_count - self._hidden_bytes

    @property
    def last_sequence(self) -> int:
        """The last sequence that was assigned."""
        return self._log.last_sequence

    def count_of(self, subject: bytes) -> int:
        """The number of messages of a subject."""
        count = self._log.subject_extent(subject)[2]
        return count - self._hidden_of.get(subject, 0) if self.hidden else count

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        """The first messages of a subject, which has at least `count`."""
        found = [self._log.subject_extent(subject)[0]]
        for _ in range(count - 1):
            found.append(self.next_of(subject, found[-1] + 1))
        return found

    def next_of(self, subject: bytes, sequence: int) -> int:
        """The first message of a subject from a sequence on; 0 without one."""
        return self._shown(self._log.next_sequence_of((subject,), sequence))

    def first_from(self, sequence: int) -> int:
        """The first message from a sequence on; 0 without one."""
        log = self._log
        return self._shown(log.index.next_message(max(sequence, log.first_sequence)))

    def _shown(self, sequence: int) -> int:
        return sequence if sequence < self._hidden_from else _NONE

    def size_of(self, sequence: int) -> int:
        """The size of a message."""
        return self._log.size_of(sequence)

    def subject_of(self, sequence: int) -> bytes:
        """The subject of a message."""
        return self._log.subject_of(sequence)

    def has(self, sequence: int) -> bool:
        """Whether there is a message with a sequence."""
        return self._log.index.has(sequence)

    def last_of(self, subject: bytes, up_to: int | None = None) -> int:
        """The last message of a subject, at or before a sequence; 0 without one."""
        if up_to is None:
            return self._log.subject_extent(subject)[1]
        return self._log.last_sequence_of((subject,), up_to)

    def last_sequence_of(self, pattern: bytes, up_to: int | None = None) -> int:
        """The last message on matching subjects, at or before a sequence; 0 without one."""
        return self._log.last_sequence_of((pattern,), up_to)

    def content_at(self, sequence: int) -> tuple[bytes, bytes] | None:
        """The header and body of a message, if it can be read.

        Raises ApiError if it is to come from another server first: the publish may be tried again.
        """
        try:
            message = self._log.get(sequence)
        except DamagedMessageError:
            raise ApiError.of(error_codes.CLUSTER_NOT_AVAIL) from None
        return None if message is None else (message.header, message.payload)

    def subjects_like(self, pattern: bytes) -> set[bytes]:
        """The subjects that match a pattern and have messages."""
        return {*self._log.subject_counts(pattern)}

    def bytes_of(self, subject: bytes, begin: int, end: int) -> int:
        """The size of the messages of a subject from one sequence to another."""
        sid = self._log.index.subjects.ids.get(subject)
        return 0 if sid is None else self._log.index.bytes_of_subject(sid, begin, end)
