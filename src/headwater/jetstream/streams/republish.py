"""Messages sent on under another subject once they are stored."""

from typing import final

from headwater.base.entropy import Entropy
from headwater.go.times import format_time
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.subjects.grammar import is_valid_literal
from headwater.subjects.transform import SubjectTransform
from headwater.wire.headers import one_line, with_lines


@final
class Republisher:
    """What a stream's `republish` does with a stored message."""

    __slots__ = ("_headers_only", "_name", "_transform")

    def __init__(self, name: bytes, transform: SubjectTransform, headers_only: bool) -> None:
        self._name = name
        self._transform = transform
        self._headers_only = headers_only

    @classmethod
    def of(cls, config: StreamConfig) -> "Republisher | None":
        """The republisher of a stream, if any. Raises TransformError if its rule cannot be safe."""
        republish = config.republish
        if republish is None:
            return None
        source = republish.src.encode() or b">"
        transform = SubjectTransform.parse(source, republish.dest.encode())
        return cls(config.name.encode(), transform, republish.headers_only)

    def message(
        self,
        subject: bytes,
        header: bytes,
        body: bytes,
        sequence: int,
        last: int,
        now_ns: int,
        dice: Entropy,
    ) -> tuple[bytes, bytes, bytes] | None:
        """Subject, header and body of what is sent on; None if this one is not.

        `last` is the sequence of the message before it on its subject, so that those who only
        listen can see that they missed something.
        """
        target = self._transform.apply(subject, dice)
        if target is None or not is_valid_literal(target):
            return None
        lines = (
            b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n"
            % (self._name, one_line(subject), sequence, format_time(now_ns).encode(), last)
        )
        if self._headers_only:
            lines += b"Nats-Msg-Size: %d\r\n" % len(body)
            body = b""
        return target, with_lines(header, lines), body
