"""Ranges of sequences that a read asks for, and the columns of messages that it yields.

Must not know: ways of reading, connections.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Final, Self, final

from headwater.base.columns import StoredColumns
from headwater.client.link.errors import LinkError

CHUNK_ROWS: Final = 10_000
"""The messages of one chunk: the size of a batch of rows in Arrow."""

CHUNK_BYTES: Final = 4 << 20
"""A chunk of large messages ends before it has all its rows; one message may be larger."""


class StreamReplacedError(LinkError):
    """The stream is not the one it was: deleted and made again under the same name."""


class IncompleteError(LinkError):
    """A message that was on its way did not arrive; another attempt may succeed."""


class BehindError(IncompleteError):
    """The server that answered is behind what a session has read or written."""

    def __init__(self, stream: str, sequence: int) -> None:
        super().__init__(f"no server that answers has stream {stream} up to sequence {sequence}")
        self.stream = stream
        self.sequence = sequence

    def __reduce__(self) -> tuple[type["BehindError"], tuple[str, int]]:
        return type(self), (self.stream, self.sequence)


@dataclass(frozen=True)
class SequenceRange:
    """Sequences from `first` to `last`, both included; empty if `last` is below `first`.

    A read of an open range also gives messages behind `last`, namely those that it meets on its way
    to the end of the range: at least the next one, if the range itself holds nothing. So a message
    that is replaced again and again, and is never where it was when the range was chosen, is met.
    """

    first: int
    last: int
    is_open: bool = False

    def starting_at(self, first: int) -> "SequenceRange":
        """The rest of the range, from a sequence on."""
        return replace(self, first=first)


@final
class Columns(StoredColumns):
    """One chunk of messages.

    A header is also empty for a message whose block says nothing, which not every way of reading
    can tell from none. A read without payloads may know how large they are: `payload_bytes`,
    otherwise empty.
    """

    __slots__ = ("payload_bytes",)

    COLUMNS = (*StoredColumns.COLUMNS, "payload_bytes")

    def __init__(
        self,
        subjects: list[bytes],
        sequences: list[int],
        timestamps_ns: list[int],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        self.subjects = subjects
        self.sequences = sequences
        self.timestamps_ns = timestamps_ns
        self.headers = headers
        self.payloads = payloads
        self.payload_bytes: list[int] = []

    @classmethod
    def empty(cls) -> Self:
        return cls([], [], [], [], [])

    def between(self, wanted: SequenceRange) -> "Columns":
        """Those of the range."""
        begin = bisect_left(self.sequences, wanted.first)
        end = len(self) if wanted.is_open else bisect_right(self.sequences, wanted.last)
        return self if begin == 0 and end == len(self) else self.part(begin, end)


@final
class Gathering:
    """Messages that are gathered into chunks of a good size."""

    __slots__ = ("_bytes", "_columns")

    def __init__(self) -> None:
        self._columns = Columns.empty()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def is_full(self) -> bool:
        return len(self._columns) >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES

    def add(self, columns: Columns) -> None:
        self._bytes += sum(map(len, columns.payloads)) + sum(map(len, columns.headers))
        if len(self._columns):
            self._columns.extend(columns)
        else:
            self._columns = columns

    def drain(self) -> Columns:
        """Remove and return the messages that were added."""
        columns = self._columns
        self._columns = Columns.empty()
        self._bytes = 0
        return columns
