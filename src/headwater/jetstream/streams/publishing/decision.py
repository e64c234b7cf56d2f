"""What goes into a stream's `decide`, and what comes out."""

from collections.abc import Iterator
from typing import final

from headwater.jetstream.records import Passed, Published, Record


@final
class Incoming:
    """Publishes on their way into a stream, as parallel lists.

    A payload begins with its header block where the header size is not negative.
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
        """The same publishes in order, no more than that at a time."""
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
        """Header blocks, empty where there is none, and bodies."""
        if max(self.header_sizes) < 0:
            return [b""] * len(self.payloads), self.payloads
        pairs = [*zip(self.payloads, self.header_sizes, strict=True)]
        return (
            [payload[:size] if size > 0 else b"" for payload, size in pairs],
            [payload[size:] if size > 0 else payload for payload, size in pairs],
        )

    def add(self, subject: bytes, reply: bytes | None, header_size: int, payload: bytes) -> None:
        """One more publish."""
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
        """More publishes, as parallel lists."""
        self.subjects += subjects
        self.replies += replies
        self.header_sizes += header_sizes
        self.payloads += payloads


@final
class Decision:
    """What is to be recorded, and what is to be sent once it is as durable as it must be.

    Replies are parallel lists. `republished` are messages with a header block, as subject, header
    and body; they go out before the replies.

    `rests_on` tells of each reply up to which sequence everything has to be stored for it to be
    true; it may be left out where there is one record, which is stored or not.
    """

    __slots__ = ("abandoned", "records", "replies", "reply_subjects", "republished", "rests_on")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.reply_subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.rests_on: list[int] = []
        self.republished: list[tuple[bytes, bytes, bytes]] = []
        # Atomic batches that were given up: id, and why.
        self.abandoned: list[tuple[bytes, str]] = []

    @property
    def has_messages(self) -> bool:
        """Whether anything has to be written into the log."""
        return any(isinstance(record, Published | Passed) for record in self.records)

    def reply(self, subject: bytes, payload: bytes, rests_on: int = 0) -> None:
        """One more reply."""
        self.reply_subjects.append(subject)
        self.replies.append(payload)
        self.rests_on.append(rests_on)

    def refuse_after(self, sequence: int, refusal: bytes) -> None:
        """Nothing is stored after a sequence: have refused all that rests on more than that."""
        rests_on = self.rests_on if len(self.rests_on) == len(self.replies) else None
        self.replies = [
            reply if rests_on is not None and rests_on[number] <= sequence else refusal
            for number, reply in enumerate(self.replies)
        ]
        # Which of them are stored is not known, and nobody relies on their being sent.
        self.republished = []
