"""How backups can be laid out: what is common to all forms."""

from enum import Enum
from typing import Protocol

import msgspec

from headwater.jetstream.backup.consumers import BackedUpConsumers
from headwater.jetstream.backup.filling import Filler


class Progress(Enum):
    """What a step came to."""

    # More bytes have to be fed.
    HUNGRY = "hungry"
    # There is more to do.
    BUSY = "busy"
    # `beginning` is known: a log that begins there has to be given.
    WANTS_LOG = "wants log"
    # Everything is in the log.
    COMPLETE = "complete"


class Beginning(msgspec.Struct, frozen=True):
    """What is known before the first message."""

    first_sequence: int
    # What the messages count, as far as the backup says.
    byte_count: int = 0


class Form(Protocol):
    """How a backup is laid out."""

    beginning: Beginning | None
    # Made of the log that was wanted.
    filler: Filler | None
    # When the stream was made, as far as a backup says; 0 if it does not.
    created_ns: int
    # Those that were met so far.
    consumers: BackedUpConsumers

    def feed(self, data: bytes) -> None:
        """Take bytes in."""
        ...

    def step(self, now_ns: int) -> Progress:
        """Do some work. Raises BackupError, or StoreError."""
        ...

    def finish(self) -> None:
        """No more is to come. Raises BackupError where that is too early."""
        ...
