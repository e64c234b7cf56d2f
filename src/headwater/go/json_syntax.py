"""The grammar of JSON as in Go's `encoding/json`: the end of a value, or the error in it.

Clients see these texts and offsets, so they have to equal those of the Go that nats-server 2.15 is
built with. Values are not kept: a body of a megabyte costs one pass and one byte per open bracket.
This module does not know the meaning of a value; `json` does.

A pass in Python costs a microsecond for each byte. So msgspec passes over arrays and objects first;
only those that msgspec refuses are read token by token, for the text of the refusal, and only up to
`CAREFUL_BYTES_MAX`.
"""

import json
import re
from typing import Final

import msgspec

from headwater.go.quoting import quote

DEPTH_MAX: Final = 10_000
# A body whose syntax msgspec refuses is read token by token up to this size, which takes 20 ms. The
# refusal of a longer body does not tell the place in Go's words.
CAREFUL_BYTES_MAX: Final = 16 * 1024
TOO_LONG: Final = "invalid syntax in a long value"

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_STRING: Final = re.compile(
    rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
)
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHORT_UNICODE_ESCAPE: Final = re.compile(rb"\\u[0-9a-fA-F]{0,4}")
# Escapes of half a character, and bytes that are not UTF-8.
_NO_UNICODE: Final = re.compile("[\ud800-\udfff]")
_VALUE: Final = msgspec.json.Decoder(msgspec.Raw)
_TRAILING: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_LITERALS: Final = {ord("n"): b"null", ord("t"): b"true", ord("f"): b"false"}
_UNICODE_ESCAPE_SIZE: Final = 6
_REPLACEMENT: Final = "\ufffd"

_OBJECT: Final = ord("{")
_ARRAY: Final = ord("[")
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_COLON: Final = ord(":")
_CLOSERS: Final = {_OBJECT: ord("}"), _ARRAY: ord("]")}
_AFTER: Final = {_OBJECT: "after object key:value pair", _ARRAY: "after array element"}


class JsonSyntaxError(ValueError):
    """The bytes are not JSON; `offset` is the number of bytes read when that became clear."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.offset = offset


class JsonTruncated(ValueError):
    """The bytes end in the middle of a value."""


def skip_space(body: bytes, start: int) -> int:
    """The position of the next byte that is not white space."""
    match = _SPACE.match(body, start)
    return match.end() if match else start


def value_end(body: bytes, start: int) -> int:
    """The position after the value that begins at `start`."""
    if body[start : start + 1] in (b"{", b"["):
        end = _container_end(body, start)
        if end is not None:
            return end
        if len(body) - start > CAREFUL_BYTES_MAX:
            raise JsonSyntaxError(TOO_LONG, len(body))
    return careful_value_end(body, start)


def _container_end(body: bytes, start: int) -> int | None:
    """The position after an array or object; None if msgspec finds it invalid.

    All that msgspec accepts as JSON is JSON for Go too. It tells the end of a value only by the
    trailing bytes, counted with the first of them.
    """
    try:
        _VALUE.decode(memoryview(body)[start:])
        behind = len(body)
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            return None
        behind = start + int(trailing[1]) - 1
    except RecursionError:
        return None
    # There may be space between the value and the trailing bytes.
    return max(body.rfind(b"}", start, behind), body.rfind(b"]", start, behind)) + 1


def careful_value_end(body: bytes, start: int) -> int:
    brackets = bytearray()
    position = start
    while True:
        first = _byte_at(body, position)
        if first in _CLOSERS:
            if len(brackets) == DEPTH_MAX:
                raise JsonSyntaxError("exceeded max depth", position + 1)
            position = skip_space(body, position + 1)
            if _byte_at(body, position) != _CLOSERS[first]:
                brackets.append(first)
                position = _next_element(body, position, brackets)
                continue
            position += 1
        else:
            position = _scalar_end(body, position)
        position, is_complete = _close(body, position, brackets)
        if is_complete:
            return position
        position = _next_element(body, position, brackets)


def check_end(body: bytes, position: int) -> None:
    """Refuse anything but white space from `position` on."""
    position = skip_space(body, position)
    if position < len(body):
        raise _bad_character(body, position, "after top-level value")


def _close(body: bytes, position: int, brackets: bytearray) -> tuple[int, bool]:
    """Leave every container that ends here. Returns whether none is open, else passes a comma."""
    while brackets:
        position = skip_space(body, position)
        byte = _byte_at(body, position)
        if byte == _COMMA:
            return skip_space(body, position + 1), False
        if byte != _CLOSERS[brackets[-1]]:
            raise _bad_character(body, position, _AFTER[brackets[-1]])
        brackets.pop()
        position += 1
    return position, True


def _next_element(body: bytes, position: int, brackets: bytearray) -> int:
    """The position of the next value in the innermost container: in an object after its key."""
    if brackets[-1] == _ARRAY:
        return position
    if _byte_at(body, position) != _QUOTE:
        raise _bad_character(body, position, "looking for beginning of object key string")
    position = skip_space(body, string_end(body, position))
    if _byte_at(body, position) != _COLON:
        raise _bad_character(body, position, "after object key")
    return skip_space(body, position + 1)


def _scalar_end(body: bytes, start: int) -> int:
    first = body[start]
    if first == _QUOTE:
        return string_end(body, start)
    if first in _LITERALS:
        return _literal_end(body, start, _LITERALS[first])
    if first in b"-0123456789":
        return _number_end(body, start)
    raise _bad_character(body, start, "looking for beginning of value")


def _literal_end(body: bytes, start: int, literal: bytes) -> int:
    for place, wanted in enumerate(literal, start):
        if _byte_at(body, place) != wanted:
            where = f"in literal {literal.decode()} (expecting {_quoted_rune(chr(wanted))})"
            raise _bad_character(body, place, where)
    return start + len(literal)


def _number_end(body: bytes, start: int) -> int:
    match = _NUMBER.match(body, start)
    if match is None:
        raise _missing_digit(body, start + 1)
    end = match.end()
    following = body[end : end + 1]
    if following == b"." and match[1] is None and match[2] is None:
        raise _missing_digit(body, end + 1)
    if following in (b"e", b"E") and match[2] is None:
        has_sign = body[end + 1 : end + 2] in (b"+", b"-")
        raise _missing_digit(body, end + 1 + has_sign)
    return end


def _missing_digit(body: bytes, position: int) -> ValueError:
    if position >= len(body):
        return JsonTruncated()
    return _bad_character(body, position, "in numeric literal")


def string_end(body: bytes, start: int) -> int:
    """The position after the string that begins at `start`."""
    match = _STRING.match(body, start)
    if match is not None:
        return match.end()
    # The first error decides the text.
    position = start + 1
    while True:
        plain = _PLAIN.match(body, position)
        position = plain.end() if plain else position
        if _byte_at(body, position) != ord("\\"):
            raise _bad_character(body, position, "in string")
        escape = _byte_at(body, position + 1)
        if escape == ord("u"):
            position = _unicode_escape_end(body, position)
        elif escape in b'"\\/bfnrt':
            position += 2
        else:
            raise _bad_escape(body, position, 2)


def _unicode_escape_end(body: bytes, start: int) -> int:
    match = _SHORT_UNICODE_ESCAPE.match(body, start)
    end = match.end() if match else start
    if end - start < _UNICODE_ESCAPE_SIZE:
        _byte_at(body, end)
        raise _bad_escape(body, start, _UNICODE_ESCAPE_SIZE)
    return end


def _byte_at(body: bytes, position: int) -> int:
    if position >= len(body):
        raise JsonTruncated
    return body[position]


def _bad_character(body: bytes, position: int, where: str) -> JsonSyntaxError:
    rune = _rune_at(body, position)
    size = len(rune.encode("utf-8", "surrogateescape"))
    return JsonSyntaxError(f"invalid character {_quoted_rune(rune)} {where}", position + size)


def _bad_escape(body: bytes, position: int, size: int) -> JsonSyntaxError:
    data = body[position : position + size]
    text = data.decode("utf-8", "surrogateescape")
    is_plain = text.isprintable() and "`" not in text and " " not in text
    shown = f"`{text}`" if is_plain else quote(text)
    return JsonSyntaxError(f"invalid escape sequence {shown} in string", position + len(data))


def _rune_at(body: bytes, position: int) -> str:
    """The character that begins at `position`, or the byte as a lone surrogate."""
    return body[position : position + 4].decode("utf-8", "surrogateescape")[0]


def _quoted_rune(rune: str) -> str:
    if rune == "'":
        return "'\\''"
    return "'" + ('"' if rune == '"' else quote(rune)[1:-1]) + "'"


def unquote(literal: bytes) -> str:
    """The text of a valid string literal; bytes that are not Unicode become U+FFFD."""
    # In long literals a sequence of invalid bytes is replaced as a whole.
    errors = "surrogateescape" if len(literal) <= CAREFUL_BYTES_MAX else "replace"
    text = literal[1:-1].decode("utf-8", errors)
    if "\\" in text:
        text = json.loads(f'"{text}"')
    return text if text.isascii() else _NO_UNICODE.sub(_REPLACEMENT, text)
