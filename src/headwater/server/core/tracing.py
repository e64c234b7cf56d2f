"""Protocol tracing: operations of clients and frames to them as log lines, without secrets.

<<- [PUB foo 2]          ->> [MSG foo 1 2]          <-> [DELSUB 1]
<<- MSG_PAYLOAD: ["hi"]  ->> MSG_PAYLOAD: ["hi"]
"""

from typing import Final, final

import msgspec

from headwater.base.errors import PeerError
from headwater.go.quoting import quote_bytes
from headwater.server.configuration.options import Options
from headwater.server.core.client import Client, Subscription
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
from headwater.wire.info import decode_object

_SECRETS: Final = frozenset({"pass", "auth_token", "jwt", "sig", "nkey"})
_REDACTED: Final = "[REDACTED]"
_IN: Final = "<<-"
_OUT: Final = "->>"
_LINE_END_BYTES: Final = 2


@final
class Tracer:
    """Writes trace lines for clients that are `traced`; it is called for no others."""

    __slots__ = ("_log", "_options")

    def __init__(self, log: Log, options: Options) -> None:
        self._log = log
        self._options = options

    def wants(self, client: Client) -> bool:
        """Whether the protocol of a client is logged."""
        return self._log.trace_on and (self._options.trace_verbose or not client.is_system)

    def received(self, client: Client, segment: Segment) -> None:
        """Log operations that a client sent."""
        if isinstance(segment, Run):
            segment = segment.as_publishes()
        if not isinstance(segment, Publishes):
            line = _control(segment)
            if line:
                self._write(client, _IN, line)
            return
        for position, payload in enumerate(segment.payloads):
            header_size = segment.header_sizes[position]
            operation = "PUB" if header_size < 0 else "HPUB"
            words = _joined(
                segment.subjects[position], segment.replies[position], segment.sizes[position]
            )
            self._write(client, _IN, f"[{operation} {words}]")
            self._payload(client, _IN, header_size, payload)

    def told(self, client: Client, data: bytes) -> None:
        """The server says something that is not a message."""
        for line in data.split(b"\r\n")[:-1]:
            if line.startswith(b"-ERR "):
                self._write(client, _OUT, f"[-ERR {_text(line[6:-1])}]")
            elif not line.startswith(b"INFO "):
                self._write(client, _OUT, f"[{_text(line.lstrip(b'+'))}]")

    def delivered(self, client: Client, line: bytes, header_size: int, payload: bytes) -> None:
        """A message goes to a client."""
        self._write(client, _OUT, f"[{_text(line[:-_LINE_END_BYTES])}]")
        self._payload(client, _OUT, header_size, payload)

    def unsubscribed(self, subscription: Subscription) -> None:
        """A subscription has ended."""
        self._write(subscription.client, "<->", f"[DELSUB {_text(subscription.sid)}]")

    def _payload(self, client: Client, direction: str, header_size: int, payload: bytes) -> None:
        if self._options.trace_headers:
            payload = payload[: max(header_size - 2 * _LINE_END_BYTES, 0)]
        if not payload:
            return
        limit = self._options.max_traced_msg_len
        if 0 < limit < len(payload):
            shown = quote_bytes(payload[:limit])[:-1] + '..."'
        else:
            shown = quote_bytes(payload)
        self._write(client, direction, f"MSG_PAYLOAD: [{shown}]")

    def _write(self, client: Client, direction: str, text: str) -> None:
        self._log.trace(f"{client.label} - {direction} {text}")


def _control(segment: Segment) -> str:
    if isinstance(segment, Connect):
        return f"[CONNECT {_without_secrets(segment.document)}]"
    if isinstance(segment, Subscribe):
        return f"[SUB {_joined(segment.subject, segment.queue, segment.sid)}]"
    if isinstance(segment, Unsubscribe):
        limit = b"%d" % segment.limit if segment.limit > 0 else None
        return f"[UNSUB {_joined(segment.sid, limit)}]"
    if isinstance(segment, Ping):
        return "[PING]"
    if isinstance(segment, Pong):
        return "[PONG]"
    return ""


def _without_secrets(document: bytes) -> str:
    """A CONNECT document by what it means, so that no spelling of a key gets a secret through."""
    try:
        fields = decode_object(document)
    except PeerError:
        return _REDACTED
    for key in fields:
        if key.lower() in _SECRETS:
            fields[key] = _REDACTED
    return msgspec.json.encode(fields).decode()


def _joined(*fields: bytes | None) -> str:
    return " ".join(_text(field) for field in fields if field is not None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
