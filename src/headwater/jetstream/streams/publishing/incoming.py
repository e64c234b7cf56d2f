"""Publishes to a stream, as they come in: the input of `decide`."""

from typing import Final, final

from headwater.base.columns import MessageColumns

NO_HEADER: Final = -1


@final
class Incoming(MessageColumns):
    """Publishes to a stream, as parallel lists.

    A payload begins with its header block if the header size is not negative.
    """

    __slots__ = ("header_sizes", "replies", "waits_since_ns")

    COLUMNS = ("subjects", "replies", "header_sizes", "payloads")
    SHARED = ("waits_since_ns",)

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.replies: list[bytes | None] = []
        self.header_sizes: list[int] = []
        self.payloads: list[bytes] = []
        # The time from which on the publishes wait for a quorum; 0 before.
        self.waits_since_ns = 0

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

    def add_stored(
        self,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        """Add messages of a stream, as parallel lists; a header is empty if there is none."""
        if any(headers):
            self.header_sizes += [len(header) or NO_HEADER for header in headers]
            payloads = [*map(bytes.__add__, headers, payloads)]
        else:
            self.header_sizes += [NO_HEADER] * len(headers)
        self.subjects += subjects
        self.replies += replies
        self.payloads += payloads

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
