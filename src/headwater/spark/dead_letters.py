"""Rows that cannot be messages of their target go to another stream, with the reason.

A dead letter has the payload of its row, and headers that tell the rest:

    Headwater-Reason       why, in one line
    Headwater-Stream       the stream it was meant for
    Headwater-Subject      the subject it was meant for, bytes that no header can have as \\xNN
    Headwater-Write        query, batch and partition
    Headwater-Bytes        of the payload, if it was cut because no message can be so large

It has the id of its row, so that a second attempt within the duplicate window adds none; after it,
a batch that is run again writes its dead letters again.

Knows neither Spark nor Arrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from headwater.spark.link.api import JetStream
from headwater.spark.link.publisher import MAX_PAYLOAD_BYTES

# A reason and a subject are longer only where somebody wants them to be.
TEXT_CHARS_MAX: Final = 500


@dataclass(frozen=True)
class DeadLetterBox:
    """A stream for dead letters, and the subject of all letters from one target."""

    stream: str
    subject: str
    # The stream's own limit, headers included; 0 if it has none.
    message_bytes_max: int = 0


def letter_subject(patterns: Sequence[str], target: str) -> str:
    """A subject of a stream that takes these: the target's name stands for any token."""
    return ".".join(target if token in ("*", ">") else token for token in patterns[0].split("."))


@final
class DeadLetters:
    """Puts the dead letters of one partition."""

    def __init__(self, api: JetStream, box: DeadLetterBox, target: str, write: str) -> None:
        self._api = api
        self._box = box
        self._target = target
        self._write = write
        self.count = 0

    def put(self, row_id: bytes, subject: bytes, payload: bytes, reason: str) -> None:
        """One letter, acknowledged. Raises LinkError."""
        size_max = int(self._api.connection.info.get("max_payload", MAX_PAYLOAD_BYTES))
        if self._box.message_bytes_max:
            size_max = min(size_max, self._box.message_bytes_max)
        header = self._header(row_id, subject, reason)
        if len(header) + len(payload) > size_max:
            header = self._header(
                row_id, subject, reason, b"Headwater-Bytes: %d\r\n" % len(payload)
            )
            payload = payload[: max(0, size_max - len(header))]
        self._api.publish(self._box.subject, payload, header)
        self.count += 1

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
    """What a header may hold of a text."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[:TEXT_CHARS_MAX]
    )
    return shown.encode()
