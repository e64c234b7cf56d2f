"""Protocol tracing: what a client sent, as log lines, without its secrets."""

import re
from typing import Final

from headwater.base.quoting import quote_bytes
from headwater.server.log import Log
from headwater.wire.batch import (
    Connect,
    Ping,
    Pong,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)

_SECRET: Final = re.compile(rb'("(?:pass|auth_token|jwt|sig|nkey)"\s*:\s*)"(?:[^"\\]|\\.)*"', re.I)


def trace_segment(log: Log, label: str, segment: Segment, payload_bytes_max: int) -> None:
    """Log one segment, a line per operation."""
    for line in _lines(segment, payload_bytes_max):
        log.trace(f"{label} - <<- {line}")


def _lines(segment: Segment, payload_bytes_max: int) -> list[str]:
    if isinstance(segment, Publishes):
        lines: list[str] = []
        for position, payload in enumerate(segment.payloads):
            lines += _publish(
                segment.subjects[position],
                segment.replies[position],
                segment.header_sizes[position],
                segment.sizes[position],
                payload,
                payload_bytes_max,
            )
        return lines
    if isinstance(segment, Run):
        return [
            line
            for payload in segment.payloads
            for line in _publish(
                segment.subject,
                segment.reply,
                segment.header_size,
                segment.size,
                payload,
                payload_bytes_max,
            )
        ]
    return _control(segment)


def _control(segment: Segment) -> list[str]:
    if isinstance(segment, Connect):
        document = _SECRET.sub(rb'\1"[REDACTED]"', segment.document)
        return [f"[CONNECT {_text(document)}]"]
    if isinstance(segment, Subscribe):
        return [f"[SUB {_joined(segment.subject, segment.queue, segment.sid)}]"]
    if isinstance(segment, Unsubscribe):
        limit = b"%d" % segment.limit if segment.limit > 0 else None
        return [f"[UNSUB {_joined(segment.sid, limit)}]"]
    if isinstance(segment, Ping):
        return ["[PING]"]
    if isinstance(segment, Pong):
        return ["[PONG]"]
    return []


def _publish(
    subject: bytes,
    reply: bytes | None,
    header_size: int,
    size: bytes,
    payload: bytes,
    payload_bytes_max: int,
) -> list[str]:
    operation = "PUB" if header_size < 0 else "HPUB"
    shown = (
        payload[:payload_bytes_max] + b"..." if 0 < payload_bytes_max < len(payload) else payload
    )
    return [
        f"[{operation} {_joined(subject, reply, size)}]",
        f"MSG_PAYLOAD: [{quote_bytes(shown)}]",
    ]


def _joined(*fields: bytes | None) -> str:
    return " ".join(_text(field) for field in fields if field is not None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
