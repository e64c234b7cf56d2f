"""Rows that cannot be messages of their target go to another stream, with the reason.

A dead letter has the payload of its row, and headers that tell the rest:

    Headwater-Reason       why, in one line
    Headwater-Stream       the stream it was meant for
    Headwater-Subject      the subject it was meant for, bytes that no header can have as \\xNN
    Headwater-Write        query, batch and partition
    Headwater-Bytes        of the payload, if it was cut because no message can be so large

It has the id of its row, and the rules for rows that an earlier attempt may have written hold for
letters too: they are put under the lease of their attempt, a second attempt searches for existing
ones, and the driver decides on those of another partition (`markers`, `batch_commit`).

Knows neither Spark nor Arrow.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from headwater.client.link.api import ApiClient
from headwater.client.link.errors import ApiRefusedError, LinkError
from headwater.client.link.publisher import MAX_PAYLOAD_BYTES, NotServedError
from headwater.spark.write.tail import Tail

# Longer reasons and subjects are cut.
TEXT_CHARS_MAX: Final = 500


@dataclass(frozen=True)
class DeadLetterBox:
    """A stream for dead letters, and the subject of all letters from one target."""

    stream: str
    subject: str
    # The stream's own limit, headers included; 0 if it has none.
    message_bytes_max: int = 0


def letter_subject(patterns: Sequence[str], target: str) -> str:
    """A subject of a stream with these patterns: the target's name replaces wildcards."""
    return ".".join(target if token in ("*", ">") else token for token in patterns[0].split("."))


@dataclass(frozen=True, slots=True)
class _Letter:
    row_id: bytes
    subject: bytes
    payload: bytes
    reason: str


@final
class DeadLetters:
    """The waiting dead letters of one partition, and the search for existing ones before a put."""

    def __init__(self, api: ApiClient, box: DeadLetterBox, target: str, write: str) -> None:
        self._api = api
        self._box = box
        self._target = target
        self._write = write
        self._waiting: deque[_Letter] = deque()
        self.tail: Tail | None = None

    def __len__(self) -> int:
        """The number of waiting letters."""
        return len(self._waiting)

    @property
    def stream(self) -> str:
        return self._box.stream

    def add(self, row_id: bytes, subject: bytes, payload: bytes, reason: str) -> None:
        """Add a letter."""
        self._waiting.append(_Letter(row_id, subject, payload, reason))

    def put_next(self) -> None:
        """Put the first waiting letter, unless the last search found it, and wait for its ack.

        Raises LinkError; then the letter still waits, and may have been put.
        """
        letter = self._waiting[0]
        if self.tail is None or self.tail.to_write([letter.row_id]):
            self._put(letter.row_id, letter.subject, letter.payload, letter.reason)
        self._waiting.popleft()

    def _put(self, row_id: bytes, subject: bytes, payload: bytes, reason: str) -> None:
        size_max = int(self._api.connection.info.get("max_payload", MAX_PAYLOAD_BYTES))
        if self._box.message_bytes_max:
            size_max = min(size_max, self._box.message_bytes_max)
        header = self._header(row_id, subject, reason)
        if len(header) + len(payload) > size_max:
            header = self._header(
                row_id, subject, reason, b"Headwater-Bytes: %d\r\n" % len(payload)
            )
            payload = payload[: max(0, size_max - len(header))]
        try:
            self._api.publish(self._box.subject, payload, header)
        except ApiRefusedError as error:
            kind = NotServedError if error.is_passing else LinkError
            raise kind(f"the dead-letter stream {self._box.stream} refuses: {error}") from None

    def _header(self, row_id: bytes, subject: bytes, reason: str, more: bytes = b"") -> bytes:
        pairs = (
            (b"Nats-Msg-Id", row_id),
            (b"Headwater-Reason", _line(reason)),
            (b"Headwater-Stream", _line(self._target)),
            (b"Headwater-Subject", _line(subject.decode(errors="backslashreplace"))),
            (b"Headwater-Write", _line(self._write)),
        )
        lines = b"".join([b"%b: %b\r\n" % pair for pair in pairs])
        return b"NATS/1.0\r\n%b%b\r\n" % (lines, more)


def _line(text: str) -> bytes:
    """A text in the form that a header may have."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[:TEXT_CHARS_MAX]
    )
    return shown.encode()
