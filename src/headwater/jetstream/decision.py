"""What goes into a stream's `decide`, and what comes out."""

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

    def add(self, subject: bytes, reply: bytes | None, header_size: int, payload: bytes) -> None:
        """One more publish."""
        self.subjects.append(subject)
        self.replies.append(reply)
        self.header_sizes.append(header_size)
        self.payloads.append(payload)


@final
class Decision:
    """What is to be recorded, and what is to be sent once it is as durable as it must be.

    Replies are parallel lists. `republished` are messages with a header block, as subject, header
    and body; they go out before the replies.
    """

    __slots__ = ("abandoned", "records", "replies", "reply_subjects", "republished")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.reply_subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.republished: list[tuple[bytes, bytes, bytes]] = []
        # Atomic batches that were given up: id, and why.
        self.abandoned: list[tuple[bytes, str]] = []

    @property
    def has_messages(self) -> bool:
        """Whether anything has to be written into the log."""
        return any(isinstance(record, Published | Passed) for record in self.records)

    def reply(self, subject: bytes, payload: bytes) -> None:
        """One more reply."""
        self.reply_subjects.append(subject)
        self.replies.append(payload)
