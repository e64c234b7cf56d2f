"""A cursor over packed numbers, in nats-server's encoding."""

from typing import final

from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.s2 import read_varint


@final
class Cursor:
    """Reads numbers one after the other. Raises BackupError, naming `what` they are, at the end."""

    __slots__ = ("_what", "data", "offset")

    def __init__(self, data: bytes, offset: int, what: str) -> None:
        self.data = data
        self.offset = offset
        self._what = what

    def number(self) -> int:
        """The next unsigned number of 64 bits."""
        value, offset = read_varint(self.data, self.offset, len(self.data))
        if offset < 0:
            raise self._cut_short()
        self.offset = offset
        return value

    def signed(self) -> int:
        """The next signed number of 64 bits."""
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def skip(self, count: int) -> None:
        """Skip numbers, signed or not."""
        for _ in range(count):
            self.number()

    def pass_over(self, size: int) -> None:
        """Skip bytes."""
        self.offset += size
        if self.offset > len(self.data):
            raise self._cut_short()

    def _cut_short(self) -> BackupError:
        return BackupError(f"{self._what} is cut short")
