"""Text in double quotes as Go's `%q` prints it: clients compare error texts and log lines."""

from typing import Final

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_FIRST_LONE_BYTE: Final = 0xDC80
_LAST_LONE_BYTE: Final = 0xDCFF


def quote(text: str) -> str:
    """Quote a text, in which lone surrogates stand for bytes that were not UTF-8."""
    return '"' + "".join(map(_quoted, text)) + '"'


def quote_bytes(data: bytes) -> str:
    """Quote bytes that a peer sent."""
    return quote(data.decode("utf-8", "surrogateescape"))


def _quoted(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if _FIRST_LONE_BYTE <= code <= _LAST_LONE_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
