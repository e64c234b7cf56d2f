"""Publishes to a stream, as they come in: the input of `decide`."""

from collections.abc import Iterator
from typing import final


@final
class Incoming:
    """Publishes to a stream, as parallel lists.

    A payload begins with its header block if the header size is not negative.
    """

    __slots__ = ("header_sizes", "payloads", "replies", "subjects")

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes | None] = []
        self.header_sizes: list[int] = []
        self.payloads: list[bytes] = []

    def __len__(self) -> int:
        return len(self.subjects)

    def parts(self, count_max: int) -> "Iterator[Incoming]":
        """The publishes in order, at most `count_max` at a time."""
        if len(self) <= count_max:
            yield self
            return
        for begin in range(0, len(self), count_max):
            yield self._between(begin, begin + count_max)

    def split_at(self, position: int) -> "tuple[Incoming, Incoming]":
        """The publishes before a position, and those from it on."""
        return self._between(0, position), self._between(position, len(self))

    def _between(self, begin: int, end: int) -> "Incoming":
        part = Incoming()
        part.subjects = self.subjects[begin:end]
        part.replies = self.replies[begin:end]
        part.header_sizes = self.header_sizes[begin:end]
        part.payloads = self.payloads[begin:end]
        return part

    def parted(self) -> tuple[list[bytes], list[bytes]]:
        """The header blocks, empty for a publish without one, and the bodies."""
        if max(self.header_sizes) < 0:
            return [b""] * len(self.payloads), self.payloads
        pairs = [*zip(self.payloads, self.header_sizes, strict=True)]
        return (
            [payload[:size] if size > 0 else b"" for payload, size in pairs],
            [payload[size:] if size > 0 else payload for payload, size in pairs],
        )

    def add(self, subject: bytes, reply: bytes | None, header_size: int, payload: bytes) -> None:
        """Add a publish."""
        self.subjects.append(subject)
        self.replies.append(reply)
        self.header_sizes.append(header_size)
        self.payloads.append(payload)

    def add_all(
        self,
        subjects: list[bytes],
        replies: list[bytes | None],
        header_sizes: list[int],
        payloads: list[bytes],
    ) -> None:
        """Add publishes, as parallel lists."""
        self.subjects += subjects
        self.replies += replies
        self.header_sizes += header_sizes
        self.payloads += payloads
