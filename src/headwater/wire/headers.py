"""Header blocks as bytes: find, add, replace and drop lines without parsing the rest.

A block is a version line, header lines and an empty line, each ended by CRLF:

    NATS/1.0\r\nName: value\r\n\r\n

Stored messages carry their block unparsed, and readers compare it byte for byte, so the functions
here change exactly the bytes that nats-server changes. An empty block is a message without headers.
Blocks come from clients unchecked: functions here may not fail on a malformed block, and only have
to find nothing in it.

Names are matched exactly, at the start of a line; the first line of a name counts. This module
knows no header by name.
"""

from collections.abc import Iterable
from typing import Final

VERSION: Final = b"NATS/1.0"

_CRLF: Final = b"\r\n"
_VERSION_LINE: Final = VERSION + _CRLF
# Not longer than a block without a header: nothing is left in it.
_EMPTY_BLOCK_BYTES: Final = len(_VERSION_LINE + _CRLF)
_TRIMMED: Final = b" \t\r\n"
# As numbers: a single byte is found in bytes several times faster by its number.
_LINE_FEED: Final = 0x0A
_RETURN: Final = 0x0D


def one_line(value: bytes) -> bytes:
    """A value that cannot end its line: line ends in it become blanks."""
    if _RETURN in value or _LINE_FEED in value:
        return value.replace(b"\r", b" ").replace(b"\n", b" ")
    return value


def value_of(block: bytes, name: bytes) -> bytes | None:
    """The value of the first header of this name, blanks before it left out; None without one."""
    if name not in block:
        return None
    line = block.find(b"\r\n" + name + b":")
    if line < 0:
        return None
    begin = line + len(name) + 3
    end = block.find(_CRLF, begin)
    return (block[begin:end] if end >= 0 else block[begin:]).lstrip(b" ")


def with_value(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with one more header at its end.

    The value cannot end its line: line ends in it become blanks, and blanks around it are removed.
    """
    before = block[:-2] if len(block) > len(_CRLF) else _VERSION_LINE
    return b"%b%b: %b\r\n\r\n" % (before, name, one_line(value).strip(_TRIMMED))


def with_lines(block: bytes, lines: bytes) -> bytes:
    """The block with finished lines (`Name: value` and CRLF each) at its end."""
    before = block[:-2] if len(block) > len(_CRLF) else _VERSION_LINE
    return b"%b%b\r\n" % (before, lines)


def replaced(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with another value for the first header of this name, or with one more header.

    A blank between the colon and the old value stays, and none is added.
    """
    line = block.find(b"\r\n" + name + b":")
    if line < 0:
        return with_lines(block, b"%b: %b\r\n" % (name, value))
    begin = line + len(name) + 3
    if block[begin : begin + 1] == b" ":
        begin += 1
    end = block.find(b"\r", begin)
    return block[:begin] + value + block[end:] if end >= 0 else block


def without(block: bytes, name: bytes) -> bytes:
    """The block without any header of this name; empty if that leaves no header."""
    needle = b"\r\n" + name + b":"
    line = block.find(needle)
    while line >= 0:
        end = block.find(_CRLF, line + len(needle))
        if end < 0:
            return block
        block = block[:line] + block[end:]
        if len(block) <= _EMPTY_BLOCK_BYTES:
            return b""
        line = block.find(needle, line)
    return block


def without_prefix(block: bytes, prefix: bytes) -> bytes:
    """The block without the lines that begin with `prefix`; empty if that leaves no header."""
    needle = b"\n" + prefix
    line = block.find(needle)
    while line >= 0:
        end = block.find(_CRLF, line + len(needle))
        if end < 0:
            return block
        block = block[: line + 1] + block[end + 2 :]
        if len(block) <= _EMPTY_BLOCK_BYTES:
            return b""
        line = block.find(needle, line)
    return block


def without_status(block: bytes) -> bytes:
    """The block with a bare version line, as streams keep it; empty if that leaves no header."""
    end = block.find(b"\r")
    if end <= len(VERSION) or not block.startswith(VERSION):
        return block
    block = VERSION + block[end:]
    return block if len(block) != _EMPTY_BLOCK_BYTES else b""


def status_block(code: int, text: str, pairs: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The block of a status: `NATS/1.0 404 Message Not Found`, then headers.

    Text and values may repeat words of a client; none of them can end its line.
    """
    lines = b"".join([b"%b: %b\r\n" % (name, one_line(value)) for name, value in pairs])
    status = f" {code} {text}" if text else f" {code}"
    return b"%b%b\r\n%b\r\n" % (VERSION, one_line(status.encode()), lines)
