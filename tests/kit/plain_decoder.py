"""A decoder anyone can check by reading it once, to compare the real one with.

It takes a whole stream at a time, looks at nothing twice and is in no hurry. `flat` brings what the
real decoder returns into the same form: one tuple per operation, an error as the last one.
"""

import json
import re
from collections.abc import Iterable

from headwater.wire.batch import (
    NO_HEADERS,
    ClientError,
    Connect,
    Malformed,
    Meaningless,
    Ping,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)
from headwater.wire.decoder import ClientDecoder

Operation = tuple[object, ...]

UNKNOWN = ("ERROR", "Unknown Protocol Operation")
TOO_LARGE = ("ERROR", "Maximum Payload Violation")
# Closed without a word: the log has the details.
SILENT = ("ERROR", "")

_WITH_BLANK = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"-ERR")
_WITHOUT_BLANK = (b"CONNECT", b"PING", b"PONG", b"INFO", b"+OK")


def decode_plainly(stream: bytes, max_payload: int) -> list[Operation]:
    """Every operation of `stream`, up to its unfinished end or its first error."""
    operations: list[Operation] = []
    while stream:
        start = stream.upper()
        names = [n for n in _WITH_BLANK + _WITHOUT_BLANK if start.startswith(n)]
        if not names:
            could_become_one = any(n.startswith(start) for n in _WITH_BLANK + _WITHOUT_BLANK)
            return operations if could_become_one else [*operations, UNKNOWN]
        name = names[0]
        after = stream[len(name) : len(name) + 1]
        if name in _WITH_BLANK and after not in (b"", b" ", b"\t"):
            return [*operations, UNKNOWN]
        line, newline, rest = stream.partition(b"\n")
        if not newline:
            return operations
        arguments = line[len(name) :]
        if name not in (b"PUB", b"HPUB"):
            operations += _control(name, arguments.rstrip(b"\r"))
            stream = rest
        else:
            # A second carriage return would be a part of the size.
            publish = _publish(name, arguments.removesuffix(b"\r"))
            if publish is None:
                return [*operations, SILENT]
            size = int(publish[4].split()[-1])
            if size > max_payload:
                return [*operations, TOO_LARGE]
            end = rest[size : size + 2]
            if end != b"\r\n":
                return operations if b"\r\n".startswith(end) else [*operations, UNKNOWN]
            operations.append((*publish, rest[:size]))
            stream = rest[size + 2 :]
        if operations and operations[-1] == SILENT:
            return operations
    return operations


def _publish(name: bytes, arguments: bytes) -> tuple[str, bytes, bytes | None, int, bytes] | None:
    fields = [field for field in re.split(rb"[ \t]", arguments) if field]
    sizes = 1 if name == b"PUB" else 2
    if len(fields) not in (1 + sizes, 2 + sizes) or b"\r" in arguments:
        return None
    if not all(re.fullmatch(rb"[0-9]{1,9}", token) for token in fields[-sizes:]):
        return None
    header_size = NO_HEADERS if name == b"PUB" else int(fields[-2])
    if header_size > int(fields[-1]):
        return None
    reply = fields[1] if len(fields) == 2 + sizes else None
    if header_size == 0:
        # An empty header block counts as no header.
        header_size, sizes = NO_HEADERS, 1
    return "PUB", fields[0], reply, header_size, b" ".join(fields[-sizes:])


def _control(name: bytes, arguments: bytes) -> list[Operation]:
    fields = [field for field in re.split(rb"[ \t\r]", arguments) if field]
    if name == b"SUB":
        if len(fields) not in (2, 3):
            return [SILENT]
        return [("SUB", fields[0], fields[1] if len(fields) == 3 else None, fields[-1])]
    if name == b"UNSUB":
        if len(fields) not in (1, 2):
            return [SILENT]
        known = len(fields) == 2 and re.fullmatch(rb"[0-9]{1,9}", fields[1])
        return [("UNSUB", fields[0], int(fields[1]) if known else -1)]
    if name == b"INFO" and not _is_object(arguments):
        return [SILENT]
    if name in (b"INFO", b"+OK"):
        return [("MEANINGLESS",)]
    return [
        (name.decode(),)
        if name in (b"PING", b"PONG")
        else (name.decode(), arguments.strip(b" \t\r\n"))
    ]


def _is_object(document: bytes) -> bool:
    try:
        return isinstance(json.loads(document.decode(errors="replace")), dict | None)
    except ValueError:
        return False


def flat(segments: Iterable[Segment]) -> list[Operation]:
    """The operations of the real decoder, message by message."""
    operations: list[Operation] = []
    for segment in segments:
        operations += _flat(segment)
    return operations


def _flat(segment: Segment) -> list[Operation]:
    if isinstance(segment, Publishes):
        return [
            ("PUB", *message)
            for message in zip(
                segment.subjects,
                segment.replies,
                segment.header_sizes,
                segment.sizes,
                segment.payloads,
                strict=True,
            )
        ]
    if isinstance(segment, Run):
        line = ("PUB", segment.subject, segment.reply, segment.header_size, segment.size)
        return [(*line, payload) for payload in segment.payloads]
    if isinstance(segment, Subscribe):
        return [("SUB", segment.subject, segment.queue, segment.sid)]
    if isinstance(segment, Unsubscribe):
        return [("UNSUB", segment.sid, segment.limit)]
    if isinstance(segment, Connect):
        return [("CONNECT", segment.document)]
    if isinstance(segment, ClientError):
        return [("-ERR", segment.text)]
    if isinstance(segment, Malformed):
        return [("ERROR", segment.reply)]
    if isinstance(segment, Meaningless):
        return [("MEANINGLESS",)]
    return [("PING",) if isinstance(segment, Ping) else ("PONG",)]


def feed(decoder: ClientDecoder, data: bytes) -> list[Operation]:
    """One read, going on behind every CONNECT in it."""
    operations = flat(decoder.feed(data))
    while decoder.stopped:
        operations += flat(decoder.feed(b""))
    return operations


def decode(
    pieces: Iterable[bytes], max_control_line: int = 4096, max_payload: int = 1024
) -> list[Operation]:
    """The operations that the real decoder finds in these reads, for a client with headers."""
    decoder = ClientDecoder(max_control_line, max_payload)
    decoder.headers = True
    return [operation for piece in pieces for operation in feed(decoder, piece)]


def one_by_one(stream: bytes) -> list[bytes]:
    """The stream in reads of one byte."""
    return [stream[i : i + 1] for i in range(len(stream))]
