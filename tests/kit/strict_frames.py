"""A parser of what a server sends that forgives nothing.

Client libraries are lenient: they split control lines at any white space and skip what they do not
know, so a forged frame goes unnoticed until it does harm. This parser takes a whole number of
frames, each exactly as the protocol writes it, and raises `BrokenFrame` for every other byte.
"""

import json
import re
from typing import Any, Final, NamedTuple

_WORD: Final = re.compile(rb"[^\x00-\x20\x7f]+")
_SIZE: Final = re.compile(rb"0|[1-9][0-9]*")
_ERROR: Final = re.compile(rb"-ERR '[^\x00-\x1f\x7f]*'")
_STATUS_LINE: Final = re.compile(rb"NATS/1\.0(?: [0-9]{3}(?: [^\x00-\x1f\x7f]+)?)?")
_HEADER_LINE: Final = re.compile(rb"[!-9;-~]+:[^\x00-\x1f\x7f]*")
_BARE: Final = (b"PING", b"PONG", b"+OK")
_CRLF: Final = b"\r\n"


class BrokenFrame(AssertionError):
    """Bytes that are no frame."""


class Frame(NamedTuple):
    """One frame; `kind` is its operation, and messages have the rest."""

    kind: str
    subject: bytes = b""
    sid: bytes = b""
    reply: bytes = b""
    header: bytes = b""
    payload: bytes = b""
    info: Any = None


def parse(data: bytes, looks_at_headers: bool = True) -> list[Frame]:
    """All frames in `data`. Raises BrokenFrame.

    Header blocks that clients made may be anything; they are looked at unless told otherwise.
    """
    frames: list[Frame] = []
    position = 0
    while position < len(data):
        frame, position = _next(data, position)
        if looks_at_headers and frame.kind == "HMSG":
            _check_header(frame.header)
        frames.append(frame)
    return frames


def _next(data: bytes, position: int) -> tuple[Frame, int]:
    end = data.find(_CRLF, position)
    line = data[position:end]
    after = end + len(_CRLF)
    if end < 0 or b"\r" in line or b"\n" in line:
        raise BrokenFrame(f"a line without an end: {data[position : position + 200]!r}")
    if line in _BARE:
        return Frame(line.decode()), after
    if line.startswith(b"INFO {"):
        return Frame("INFO", info=json.loads(line[len(b"INFO ") :])), after
    if _ERROR.fullmatch(line):
        return Frame("-ERR", payload=line), after
    return _message(data, line, after)


def _message(data: bytes, line: bytes, begin: int) -> tuple[Frame, int]:
    kind, *words = line.split(b" ")
    size_count = {b"MSG": 1, b"HMSG": 2}.get(kind, 0)
    names, sizes = words[: len(words) - size_count], words[len(words) - size_count :]
    if (
        not size_count
        or len(names) not in (2, 3)
        or not all(map(_WORD.fullmatch, names))
        or not all(map(_SIZE.fullmatch, sizes))
    ):
        raise BrokenFrame(f"no control line: {line!r}")
    subject, sid, *reply = names
    for name in (subject, *reply):
        if b"" in name.split(b".") or {b"*", b">"} & {*name.split(b".")}:
            raise BrokenFrame(f"no subject to publish to in {line!r}")
    end = begin + int(sizes[-1])
    if data[end : end + 2] != _CRLF:
        raise BrokenFrame(f"a payload that does not end after {sizes[-1]!r} bytes: {line!r}")
    header_end = begin + (int(sizes[0]) if size_count == 2 else 0)
    header = data[begin:header_end]
    frame = Frame(
        kind.decode(), subject, sid, b"".join(reply), header, payload=data[header_end:end]
    )
    return frame, end + len(_CRLF)


def _check_header(block: bytes) -> None:
    if not block.endswith(_CRLF + _CRLF):
        raise BrokenFrame(f"a header block without an end: {block!r}")
    status, *lines = block[: -2 * len(_CRLF)].split(_CRLF)
    if not _STATUS_LINE.fullmatch(status) or not all(map(_HEADER_LINE.fullmatch, lines)):
        raise BrokenFrame(f"no header block: {block!r}")
