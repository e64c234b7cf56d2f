"""Messages as commands send, receive and count them.

Must not know: click, rich, nats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    """A message as it arrived, or as it is to be sent."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """The messages and bytes that a command has handled so far."""

    messages: int = 0
    data_bytes: int = 0
    seconds: float = 0.0
    dropped: int = 0
    interrupted: bool = False

    def add(self, data: bytes) -> int:
        """Count one message and return its number, from 1."""
        self.messages += 1
        self.data_bytes += len(data)
        return self.messages


@dataclass
class StreamTally(Tally):
    """The answers that streams gave to the messages of a `pub --jetstream`.

    `messages` counts what was sent; each of them is stored, a duplicate, refused or unanswered.
    """

    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    unanswered: int = 0
    # The first and the last sequence that each stream gave to a message.
    sequences: dict[str, tuple[int, int]] = field(default_factory=dict)
    # The first reason for a refusal, and the advice that goes with it.
    reason: str = ""
    advice: str = ""

    def add_stored(self, stream: str, sequence: int) -> None:
        """Count a message that `stream` has stored."""
        self.stored += 1
        first, last = self.sequences.get(stream, (sequence, sequence))
        self.sequences[stream] = (min(first, sequence), max(last, sequence))

    def add_refused(self, reason: str, advice: str) -> None:
        """Count a message that no stream has stored."""
        self.refused += 1
        if not self.reason:
            self.reason, self.advice = reason, advice
