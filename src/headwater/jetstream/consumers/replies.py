"""The reply subjects of delivered messages, as numbers that are written when somebody needs bytes.

A stream of the same server that copies the messages needs the numbers alone, and writing and
reading the subjects would be half of its work.
"""

from collections.abc import Iterator, Sequence
from typing import overload


class Replies(Sequence[bytes]):
    """The reply subjects of messages that are delivered for the first time.

    `number` is that of the first message among all that the consumer has delivered, `pending` the
    number of messages behind it.
    """

    __slots__ = ("number", "pending", "prefix", "sequences", "timestamps_ns")

    def __init__(
        self,
        prefix: bytes,
        sequences: list[int],
        timestamps_ns: list[int],
        number: int,
        pending: int,
    ) -> None:
        self.prefix = prefix
        self.sequences = sequences
        self.timestamps_ns = timestamps_ns
        self.number = number
        self.pending = pending

    @property
    def consumer(self) -> bytes:
        """The name of the consumer."""
        return self.prefix.rsplit(b".", 2)[-2]

    def __len__(self) -> int:
        return len(self.sequences)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> "Replies": ...

    def __getitem__(self, index: int | slice) -> "bytes | Replies":
        if isinstance(index, slice):
            begin = index.indices(len(self))[0]
            return Replies(
                self.prefix,
                self.sequences[index],
                self.timestamps_ns[index],
                self.number + begin,
                self.pending - begin,
            )
        place = range(len(self))[index]
        numbers = self.sequences[place], self.number + place, self.timestamps_ns[place]
        return b"%b1.%d.%d.%d.%d" % (self.prefix, *numbers, self.pending - place)

    def __iter__(self) -> Iterator[bytes]:
        number, pending = self.number, self.pending
        for place, (sequence, stored_ns) in enumerate(
            zip(self.sequences, self.timestamps_ns, strict=True)
        ):
            numbers = sequence, number + place, stored_ns, pending - place
            yield b"%b1.%d.%d.%d.%d" % (self.prefix, *numbers)
