"""The overlay: messages that were accepted and are not in the log yet, laid over the log.

A publish is checked as if those before it were stored: the overlay has their message ids and
sequences, and a forecast has the messages that they will remove. Overlays can be stacked: the
messages of an atomic batch are in an overlay of their own, which is merged into the one below when
all of them are accepted, and otherwise dropped.
"""

from collections.abc import Iterator
from itertools import compress
from typing import Final, final

from headwater.base.invariants import InvariantViolation
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.effects import Purge
from headwater.jetstream.streams.publishing.forecast import Forecast
from headwater.store.log.message_log import MessageLog
from headwater.subjects.grammar import has_wildcard, matches

_NOT_FOUND: Final = 0


@final
class Overlay:
    """Messages above a log, as dictionaries by id and by subject."""

    __slots__ = (
        "_below",
        "_contents",
        "_dedupe",
        "_forecast",
        "_ids",
        "_lasts",
        "_log",
        "_mark",
        "byte_count",
        "last_id",
        "next_sequence",
    )

    def __init__(
        self,
        log: MessageLog,
        dedupe: DedupeWindow,
        last_id: bytes,
        forecast: Forecast | None,
    ) -> None:
        self._log = log
        self._dedupe = dedupe
        # Shared by stacked overlays; None if the stream never removes messages.
        self._forecast = forecast
        self._mark = 0 if forecast is None else forecast.mark()
        self._below: Overlay | None = None
        self.next_sequence = log.last_sequence + 1
        # The message id of the last message; empty if it had none.
        self.last_id = last_id
        self.byte_count = 0
        self._ids: dict[bytes, int] = {}
        self._lasts: dict[bytes, int] = {}
        # The header and body of the last message of a subject.
        self._contents: dict[bytes, tuple[bytes, bytes]] = {}

    def begin(self) -> "Overlay":
        """A new overlay on top of this one."""
        above = Overlay(self._log, self._dedupe, self.last_id, self._forecast)
        above._below = self
        above.next_sequence = self.next_sequence
        above.byte_count = self.byte_count
        return above

    def merged(self) -> "Overlay":
        """Merge this overlay into the one below. Returns that one."""
        below = self._lower()
        below.next_sequence = self.next_sequence
        below.last_id = self.last_id
        below.byte_count = self.byte_count
        below._ids.update(self._ids)
        below._lasts.update(self._lasts)
        below._contents.update(self._contents)
        return below

    def dropped(self) -> "Overlay":
        """Undo this overlay. Returns the one below."""
        if self._forecast is not None:
            self._forecast.go_back(self._mark)
        return self._lower()

    def _lower(self) -> "Overlay":
        if self._below is None:
            raise InvariantViolation("this overlay lies on the log itself")
        return self._below

    # --- accepted messages ---------------------------------------------------------------------

    def add(self, subject: bytes, size: int, message_id: bytes) -> int:
        """Add a message. Returns its sequence."""
        sequence = self.skip_sequence(message_id)
        self._lasts[subject] = sequence
        self.byte_count += size
        if self._forecast is not None:
            self._forecast.add(sequence, subject, size)
        return sequence

    def add_all(self, subjects: list[bytes], sizes: list[int], ids: list[bytes]) -> None:
        """Add messages; an empty id stands for none."""
        begin = self.next_sequence
        self.next_sequence = begin + len(subjects)
        sequences = range(begin, self.next_sequence)
        self.last_id = ids[-1]
        self._ids.update(compress(zip(ids, sequences, strict=True), ids))
        self._lasts.update(zip(subjects, sequences, strict=True))
        self.byte_count += sum(sizes)
        if self._forecast is not None:
            for sequence, subject, size in zip(sequences, subjects, sizes, strict=True):
                self._forecast.add(sequence, subject, size)

    def skip_sequence(self, message_id: bytes) -> int:
        """Assign a sequence to a message that is not stored. Returns the sequence."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        self.last_id = message_id
        if message_id:
            self._ids[message_id] = sequence
        return sequence

    def keep_content(self, subject: bytes, header: bytes, body: bytes) -> None:
        """Keep the header and body of the last message of a subject."""
        self._contents[subject] = (header, body)

    def purge(self, purges: list[Purge]) -> None:
        """Add the purges of an accepted message."""
        if self._forecast is not None:
            self._forecast.purge(purges)

    # --- the content, as if all were stored ----------------------------------------------------

    def find_id(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id; 0 if no such message is within the window."""
        for layer in self._layers():
            found = layer._ids.get(message_id, _NOT_FOUND)
            if found:
                return found
        return self._dedupe.find(message_id, now_ns)

    def are_new(self, ids: list[bytes]) -> bool:
        """Whether no id stands here twice or is known to a layer; empty ids do not count."""
        return self._dedupe.are_new(ids) and all(
            layer._ids.keys().isdisjoint(ids) for layer in self._layers()
        )

    def last_sequence_of(self, pattern: bytes) -> int:
        """The last sequence of a subject, or of all that match a pattern; 0 without a message."""
        if not has_wildcard(pattern):
            return self._last_of(pattern)
        found = self._log.last_sequence_of((pattern,))
        lasts = [self._last_of(subject) for subject in self._subjects_like(pattern)]
        if self._stays(found):
            return max(found, *lasts, _NOT_FOUND)
        # The last message of another subject may stay.
        lasts += filter(self._stays, self._log.last_of_each((pattern,)))
        return max(lasts, default=_NOT_FOUND)

    def content_of(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """The header and body of the last message of a subject, if it has one."""
        sequence = self._last_of(subject)
        if not sequence:
            return None
        for layer in self._layers():
            found = layer._contents.get(subject)
            if found is not None:
                return found
        message = self._log.get(sequence)
        return None if message is None else (message.header, message.payload)

    def has_written(self, subject: bytes) -> bool:
        """Whether this overlay, not one below it, has a message of a subject."""
        return subject in self._lasts

    @property
    def is_empty(self) -> bool:
        """Whether this overlay, not one below it, has no message."""
        return not self._lasts

    def _layers(self) -> "Iterator[Overlay]":
        layer: Overlay | None = self
        while layer is not None:
            yield layer
            layer = layer._below

    def _last_of(self, subject: bytes) -> int:
        for layer in self._layers():
            found = layer._lasts.get(subject, _NOT_FOUND)
            if found:
                break
        else:
            found = self._log.index.subjects.extent(subject)[1]
        # The messages of a subject are removed oldest first: without its last one it has none.
        return found if self._stays(found) else _NOT_FOUND

    def _stays(self, sequence: int) -> bool:
        return self._forecast is None or self._forecast.has(sequence)

    def _subjects_like(self, pattern: bytes) -> set[bytes]:
        return {
            subject
            for layer in self._layers()
            for subject in layer._lasts
            if matches(pattern, subject)
        }
