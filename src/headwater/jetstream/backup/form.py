"""The common interface of the forms of backups."""

from enum import Enum
from typing import Protocol

import msgspec

from headwater.jetstream.backup.consumers import BackedUpConsumers
from headwater.jetstream.backup.filling import Filler


class Progress(Enum):
    """The result of a step."""

    # More input is needed.
    NEEDS_INPUT = "needs input"
    # More work is left.
    BUSY = "busy"
    # `beginning` is known: the caller has to pass a log that begins there.
    WANTS_LOG = "wants log"
    # Everything is in the log.
    COMPLETE = "complete"


class Beginning(msgspec.Struct, frozen=True):
    """Facts that are known before the first message."""

    first_sequence: int
    # The size of the messages, as far as the backup has it.
    byte_count: int = 0


class Form(Protocol):
    """A form of backups."""

    beginning: Beginning | None
    # Made of the log that the caller passed.
    filler: Filler | None
    # When the stream was created; 0 if the backup does not have it.
    created_ns: int
    # The consumers that were read so far.
    consumers: BackedUpConsumers

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        ...

    def step(self, now_ns: int) -> Progress:
        """Do some work. Raises BackupError, or StoreError."""
        ...

    def finish(self) -> None:
        """Raises BackupError if the input ends too early here."""
        ...
