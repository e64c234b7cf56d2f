"""Republishing: stored messages that are sent on under another subject."""

from typing import final

from headwater.base.entropy import Entropy
from headwater.go.times import format_time
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.subjects.grammar import is_valid_literal
from headwater.subjects.transform import SubjectTransform
from headwater.wire.headers import one_line, with_lines


@final
class Republisher:
    """The `republish` rule of a stream."""

    __slots__ = ("_headers_only", "_name", "_transform")

    def __init__(self, name: bytes, transform: SubjectTransform, headers_only: bool) -> None:
        self._name = name
        self._transform = transform
        self._headers_only = headers_only

    @classmethod
    def of(cls, config: StreamConfig) -> "Republisher | None":
        """The republisher of a stream, if any. Raises TransformError if its rule is unsafe."""
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
        entropy: Entropy,
    ) -> tuple[bytes, bytes, bytes] | None:
        """The subject, header and body to send on; None if the subject does not match.

        `last` is the sequence of the previous message on the subject, by which subscribers see that
        they missed one.
        """
        target = self._transform.apply(subject, entropy)
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
