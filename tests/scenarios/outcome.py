"""The outcome of a step as text: the lines, messages, statuses and documents of clients."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

INBOX_SID: Final = b"inbox"
EVENTS: Final = b"$JS.EVENT."

_SHOWN_INFO: Final = frozenset(
    {
        "acc_is_sys",
        "auth_required",
        "connect_info",
        "headers",
        "ldm",
        "max_payload",
        "remote_account",
    }
)
_REPEATED: Final = re.compile(r"\{(\d+)\*(.)\}")
_LONG_BYTES: Final = 40
_ACK_TOKENS: Final = 9


@dataclass(frozen=True)
class Message:
    """A MSG or an HMSG, taken apart."""

    subject: bytes
    sid: bytes
    reply: bytes
    header: bytes
    payload: bytes

    @property
    def sequence(self) -> int:
        """The sequence in its stream; 0 for a message that no consumer has delivered."""
        tokens = self.reply.split(b".")
        return int(tokens[5]) if len(tokens) == _ACK_TOKENS else 0


@dataclass(frozen=True)
class Line:
    """A line of the outcome; a document is shown behind the text, as far as it is asked for."""

    text: str
    document: dict[str, Any] | None = None


class Shapes:
    """The documents that a scenario names in the outcome of a step, by the text before them."""

    def __init__(self, outcome: Sequence[str]) -> None:
        self._lines = list(outcome)

    def shown(self, line: Line) -> str:
        """The line, with the fields of its document that the scenario names."""
        if line.document is None:
            return line.text
        shape = self._next(line.text)
        document = line.document
        if shape is not None:
            document = _part_of(document, shape)
            if "error" in line.document and "error" not in shape:
                document["error"] = line.document["error"]
        return line.text + json.dumps(document, separators=(",", ":"), ensure_ascii=False)

    def _next(self, text: str) -> dict[str, Any] | None:
        for at, line in enumerate(self._lines):
            if line.startswith(text + "{"):
                del self._lines[at]
                try:
                    found: dict[str, Any] = json.loads(line.removeprefix(text))
                except ValueError:
                    return None
                return found
        return None


def _part_of(value: Any, shape: Any) -> Any:
    if isinstance(value, dict) and isinstance(shape, dict):
        return {key: _part_of(value[key], part) for key, part in shape.items() if key in value}
    if isinstance(value, list) and isinstance(shape, list) and shape:
        shapes = itertools.chain(shape, itertools.repeat(shape[-1]))
        return [_part_of(part, wanted) for part, wanted in zip(value, shapes, strict=False)]
    return value


def line_of(frame: bytes) -> Line:
    """The outcome that one line or message of a client is shown as."""
    if not frame.startswith((b"MSG ", b"HMSG ")):
        return Line(escaped(frame))
    message = parsed(frame)
    if message.subject.startswith(EVENTS):
        return Line(f"{message.subject.decode()} ", json.loads(message.payload))
    if message.sid != INBOX_SID:
        return Line(escaped(frame))
    if message.sequence:
        return Line(_delivery(message))
    if message.header:
        return _with_header(message)
    if message.payload.startswith(b"{"):
        return Line("", json.loads(message.payload))
    return Line(_quoted(message.payload))


def parsed(frame: bytes) -> Message:
    """A message of the frames that `frames` yields."""
    line, _, body = frame.partition(b"\r\n")
    verb, subject, sid, *rest = line.split(b" ")
    sizes = 2 if verb == b"HMSG" else 1
    reply = rest[0] if len(rest) > sizes else b""
    header_size = int(rest[-2]) if sizes == 2 else 0
    return Message(subject, sid, reply, body[:header_size], body[header_size:])


def _delivery(message: Message) -> str:
    deliveries, sequence, _, _, pending = message.reply.split(b".")[4:]
    figures = f"message {int(sequence)}, delivery {int(deliveries)}, {int(pending)} pending"
    return f"{message.subject.decode()} {_quoted(message.payload)} ({figures})"


def _with_header(message: Message) -> Line:
    first, *lines = message.header.decode().removesuffix("\r\n\r\n").split("\r\n")
    status = first.removeprefix("NATS/1.0").strip()
    fields = dict(line.split(": ", 1) for line in lines)
    text = " ".join(filter(None, (status, _quoted(message.payload) if message.payload else "")))
    return Line(f"{text} ", fields) if fields else Line(text)


def _quoted(payload: bytes) -> str:
    return f'"{escaped(payload)}"'


def frames(data: bytes) -> Iterator[bytes]:
    """The bytes of a client, cut into lines and messages without the CRLF behind each."""
    while data:
        line, _, rest = data.partition(b"\r\n")
        if line.startswith((b"MSG ", b"HMSG ")):
            size = int(line.rsplit(b" ", 1)[1])
            yield line + b"\r\n" + rest[:size]
            data = rest[size + 2 :]
        else:
            yield _shortened_info(line) if line.startswith(b"INFO ") else line
            data = rest


def _shortened_info(line: bytes) -> bytes:
    said = msgspec.json.decode(line[5:])
    return b"INFO " + msgspec.json.encode({k: v for k, v in said.items() if k in _SHOWN_INFO})


def unescaped(text: str) -> bytes:
    """Bytes as they are written in a scenario."""
    full = _REPEATED.sub(lambda match: match[2] * int(match[1]), text)
    return full.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")


def escaped(data: bytes) -> str:
    """Bytes as a scenario writes them."""
    runs = [(char, len(list(run))) for char, run in itertools.groupby(_one_line(data))]
    return "".join(
        f"{{{count}*{char}}}" if count > _LONG_BYTES else char * count for char, count in runs
    )


def _one_line(data: bytes) -> str:
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")
