"""The draft of a turn: messages that were accepted, over the records in flight.

A publish is checked as if those before it were stored, with their sequences, ids and effects. The
messages of an atomic batch are added one by one; if one of them is refused, the draft goes back to
the beginning of the batch.
"""

from typing import NamedTuple, final

from headwater.jetstream.streams.effects import Purge
from headwater.jetstream.streams.foreseen import Foreseen, Message
from headwater.jetstream.streams.look_ahead import LookAhead


class Mark(NamedTuple):
    """A point in a draft."""

    changes: int
    next_sequence: int
    last_id: bytes
    byte_count: int
    ids: int


@final
class Draft:
    """The accepted messages of one turn; the next draft of the look-ahead replaces it."""

    __slots__ = (
        "_batch_began",
        "_ids",
        "_look_ahead",
        "byte_count",
        "last_id",
        "last_ns",
        "messages",
        "next_sequence",
    )

    def __init__(self, look_ahead: LookAhead) -> None:
        self._look_ahead = look_ahead
        # The messages as if all accepted ones were stored.
        self.messages: Foreseen = look_ahead.foreseen()
        self.next_sequence = look_ahead.next_sequence
        # The id of the last message; empty if it had none.
        self.last_id = look_ahead.last_id
        # When the last sequence was given out, as far as records are complete.
        self.last_ns = look_ahead.last_ns
        # The bytes of the messages in flight and of the accepted ones.
        self.byte_count = look_ahead.byte_count
        self._ids: dict[bytes, int] = {}
        # The first sequence of the atomic batch that is being checked.
        self._batch_began = 0

    # --- accepted messages ---------------------------------------------------------------------

    def add(self, message: Message, message_id: bytes, purges: list[Purge]) -> int:
        """Add a message and its effects. Returns its sequence."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        self.last_id = message_id
        if message_id:
            self._note_id(message_id, sequence)
        self.byte_count += message[1]
        self.messages.admit(sequence, message, purges)
        return sequence

    def skip(self, message_id: bytes) -> int:
        """Assign a sequence to a message that is not stored. Returns the sequence."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        self.last_id = message_id
        if message_id:
            self._note_id(message_id, sequence)
        return sequence

    def pass_over(self, sequence: int) -> None:
        """Assign all sequences up to this one to no message."""
        self.next_sequence = sequence + 1
        self.last_id = b""

    def _note_id(self, message_id: bytes, sequence: int) -> None:
        if self._look_ahead.keeps_ids:
            self._ids[message_id] = sequence

    def begin_batch(self) -> Mark:
        """Begin an atomic batch. Returns the point to which `go_back` returns."""
        self._batch_began = self.next_sequence
        changes = self.messages.mark()
        return Mark(changes, self.next_sequence, self.last_id, self.byte_count, len(self._ids))

    def go_back(self, mark: Mark) -> None:
        """Drop the messages since a mark, none of which had an id of another."""
        self.messages.go_back(mark.changes)
        self.next_sequence = mark.next_sequence
        self.last_id = mark.last_id
        self.byte_count = mark.byte_count
        while len(self._ids) > mark.ids:
            self._ids.popitem()

    # --- the content, as if all were stored ----------------------------------------------------

    def find_id(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id; 0 if no such message is within the window."""
        return self._ids.get(message_id) or self._look_ahead.find_id(message_id, now_ns)

    def are_new(self, ids: list[bytes]) -> bool:
        """Whether no id stands here twice or is known already; empty ids do not count."""
        return self._look_ahead.are_new(ids) and self._ids.keys().isdisjoint(ids)

    def has_written(self, subject: bytes) -> bool:
        """Whether the atomic batch has a message of a subject."""
        return self.messages.has_since(self._batch_began, subject)

    @property
    def is_batch_empty(self) -> bool:
        """Whether the atomic batch has no message."""
        return not self.messages.has_since(self._batch_began)
