"""Messages as parallel lists: the n-th value of each list belongs to the n-th message.

On the path of a message there is no object for it: a turn, a read or a record has lists. Each layer
adds the columns that it needs (the wire reply subjects, the log timestamps) and names them all in
`COLUMNS`. Slicing, picking and joining of columns stands here, once.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self, TypeAlias

# A column of numbers: a list, or an array of the type that its reader has. Quoted because the class
# is generic to type checkers only.
Numbers: TypeAlias = "list[int] | array[int]"


class MessageColumns:
    """The base of all types that hold messages as parallel lists.

    A column has a value for each message, or is empty if no message has one. `SHARED` names the
    attributes that are not columns: they are about all messages, and parts have them too.
    """

    __slots__ = ("payloads", "subjects")

    COLUMNS: ClassVar[tuple[str, ...]] = ("subjects", "payloads")
    SHARED: ClassVar[tuple[str, ...]] = ()

    subjects: list[bytes]
    payloads: list[bytes]

    def __len__(self) -> int:
        return len(self.payloads)

    def part(self, begin: int, end: int) -> Self:
        """The messages from `begin` up to, not including, `end`."""
        part = self.__new__(type(self))
        for name in self.COLUMNS:
            setattr(part, name, getattr(self, name)[begin:end])
        for name in self.SHARED:
            setattr(part, name, getattr(self, name))
        return part

    def picked(self, places: Sequence[int]) -> Self:
        """The messages at some places, which ascend."""
        if len(places) == len(self.payloads):
            return self
        found = self.part(0, 0)
        for name in self.COLUMNS:
            column = getattr(self, name)
            if column:
                setattr(found, name, [column[at] for at in places])
        return found

    def split_at(self, position: int) -> tuple[Self, Self]:
        """The messages before a position, and those from it on."""
        count = len(self.payloads)
        first = self if position == count else self.part(0, position)
        return first, self.part(position, count)

    def parts(self, count_max: int) -> Iterator[Self]:
        """The messages in order, at most `count_max` at a time."""
        count = len(self)
        if count <= count_max:
            yield self
            return
        for begin in range(0, count, count_max):
            yield self.part(begin, begin + count_max)

    def extend(self, others: Self) -> None:
        """Add the messages of others behind these."""
        for name in self.COLUMNS:
            getattr(self, name).extend(getattr(others, name))

    def followed_by(self, later: Self) -> Self:
        """These messages and then others; the lists of both stay as they are."""
        both = self.part(0, len(self))
        both.extend(later)
        return both

    def drop(self, count: int) -> None:
        """Leave out the first `count` messages."""
        for name in self.COLUMNS:
            del getattr(self, name)[:count]

    def cut(self, count: int) -> None:
        """Leave out all messages behind the first `count`."""
        for name in self.COLUMNS:
            del getattr(self, name)[count:]


class StoredColumns(MessageColumns):
    """Messages of a stream in ascending order of sequences, as they were stored.

    A header is the whole block, empty for a message without headers.
    """

    __slots__ = ("headers", "sequences", "timestamps_ns")

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "sequences",
        "subjects",
        "headers",
        "payloads",
        "timestamps_ns",
    )

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.subjects: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.timestamps_ns: list[int] = []
