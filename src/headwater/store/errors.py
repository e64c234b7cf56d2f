"""The operating errors of the store: the disk, or a file on it, made an operation impossible.

The text of each says what to do next. Layers above the store import them from
`headwater.store.log.message_log`, whose methods raise them.
"""

from headwater.base.errors import OperatingError


class StoreError(OperatingError):
    """The disk, or what is on it, made something impossible; the text says what to do."""


class DamagedMessageError(StoreError):
    """A message of a replica that cannot be read here until it has come from another replica."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"message {sequence} cannot be read until it has come from another server")
        self.sequence = sequence


class OfflineError(StoreError):
    """A stream whose disk failed: it can be read, and written again after a restart."""


class DiskFullError(StoreError):
    """There is no room on the disk: nothing has changed, and it may be tried again."""
