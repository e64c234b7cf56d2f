"""The NATS configuration language: text in, positioned values out.

The language is a relaxed JSON: `key value`, `key: value` and `key = value`; maps, arrays, quoted,
bare and block strings, sizes such as `64MB`, Zulu datetimes, `$variables`, `include file`, and
comments after `#` or `//`. Errors carry nats-server's texts.

Invariants
- Only ConfParseError leaves this module, whatever the bytes are.
- Work and memory are bounded by the size of what was read: nesting, includes and what variables
  multiply to are limited.
- A value is positioned at its key, an array's element at itself, with nats-server's numbers:
  lines from 1, columns in bytes, from 0 on the first line and from 1 on all others.

It must not know any configuration key, and reads files and the environment only through its
arguments.
"""

import hashlib
import json
import posixpath
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import accumulate
from typing import Final, NoReturn, TypeAlias

from headwater.base.errors import OperatingError
from headwater.server.go_text import MAX_INT64, MIN_INT64, format_float, os_error_text

ReadFile: TypeAlias = Callable[[str], bytes]
Scalar: TypeAlias = "str | bool | int | float | datetime"

# Maps, arrays, includes and variables within one another. Real files stay below ten; the limit
# keeps recursion, here and in whoever walks the result, well inside the interpreter's.
NESTING_MAX: Final = 100
# Values in the whole result, counting what variables repeat as often as it is repeated.
VALUES_MAX: Final = 1_000_000
# Include statements followed, counting a file as often as it is included.
INCLUDES_MAX: Final = 1_000

# What nats-server calls space: Unicode's White_Space property.
_SPACE: Final = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*")
_BLANK: Final = re.compile("[\t ]*")
_COMMENT: Final = re.compile("(?:#|//)[^\n\r\0]*")
_BARE_KEY: Final = re.compile(
    "[^=:\0\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
)
_BARE_CHUNK: Final = re.compile(r"[^\\\n\r\0;,\]}\t ']*")
_QUOTED_CHUNK: Final = re.compile(r'[^"\\\0]*')
_DIGITS: Final = re.compile(r"\d*")
_IP_REST: Final = re.compile(r"[\d.:\-]*")
_BLOCK_END: Final = re.compile(r"\0|\n\)(?=[\n\0])")
_INCLUDE_PATH: Final = re.compile(r"[^\n\r\0;}\t ']*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# The character read at the end of the text. A NUL inside the text ends things too.
_END: Final = "\0"
_LINE_ENDS: Final = "\n\r"
_SEPARATORS: Final = "=:"
_NUMBER_ENDS: Final = "\n\r\0};,\t ]"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_BOOLS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SIZE_LETTERS: Final = "kmgtpe"
_SIZES: Final = {"": 1} | {
    letter + ending: base ** (power + 1)
    for power, letter in enumerate(_SIZE_LETTERS)
    for ending, base in (("", 1000), ("b", 1024), ("i", 1024), ("ib", 1024))
}
_NO_INCLUDE_PATH: Final = {
    "[": "start of an array",
    "{": "start of a map",
    "(": "start of a block",
    "-": "start of a number",
    "\\": "escape sequence",
    "\n": "new line",
    "\r": "new line",
}
# Digits stand for themselves, everything else for the character that has to be there.
_DATE_AFTER_YEAR: Final = "00-00T00:00:00Z"
# A bare bcrypt hash looks like a variable; this is how it is told apart.
_BCRYPT_VARIABLE: Final = "2a$"
_ENVIRONMENT_KEY: Final = "pk"


class ConfParseError(OperatingError):
    """The text is not a configuration. The message is nats-server's where it has one."""


class Node:
    """A value and where it was written.

    `value` is a scalar, a list of nodes, or a dict of nodes in the order of the file.
    """

    __slots__ = ("column", "file", "height", "is_variable", "line", "value", "weight")

    def __init__(
        self, value: "Scalar | list[Node] | dict[str, Node]", line: int, column: int, file: str
    ) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.file = file
        # Whether some `$name` referred to it: such keys may have any name.
        self.is_variable = False
        # Containers below this node, and values in it, each as often as it is reachable.
        self.height = 0
        self.weight = 1

    def where(self) -> str:
        """`file:line:column`, as error messages begin."""
        return f"{self.file}:{self.line}:{self.column}"


def parse_file(path: str, read_file: ReadFile, environ: Mapping[str, str]) -> dict[str, Node]:
    """Parse a file and what it includes. `read_file` raises OSError when it can not read."""
    return _Session(read_file, environ).parse_file(path, depth=0)


def parse_text(
    text: bytes, file: str, read_file: ReadFile, environ: Mapping[str, str]
) -> dict[str, Node]:
    """Parse text as if it stood in `file`, to which includes are relative."""
    return _Parser(text, file, _Session(read_file, environ), depth=0).parse()


def digest(root: Mapping[str, Node]) -> str:
    """`sha256:<hex>` over the values alone, equal to what nats-server reports for them."""
    return "sha256:" + hashlib.sha256((_map_json(root) + "\n").encode()).hexdigest()


def _map_json(nodes: Mapping[str, Node]) -> str:
    items = (f"{_string_json(key)}:{_json(node)}" for key, node in sorted(nodes.items()))
    return "{" + ",".join(items) + "}"


def _json(node: Node) -> str:
    value = node.value
    if isinstance(value, dict):
        return _map_json(value)
    if isinstance(value, list):
        return "[" + ",".join(_json(item) for item in value) + "]"
    if isinstance(value, str):
        return _string_json(value)
    if isinstance(value, datetime):
        return f'"{value:%Y-%m-%dT%H:%M:%SZ}"'
    if isinstance(value, float):
        return format_float(value)
    return json.dumps(value)


def _string_json(text: str) -> str:
    encoded = json.dumps(text, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        encoded = encoded.replace(char, f"\\u{ord(char):04x}")
    return encoded


class _Session:
    """What one parse shares with the parses of its includes and variables."""

    __slots__ = ("_includes", "_open_files", "_read_file", "environ", "open_variables")

    def __init__(self, read_file: ReadFile, environ: Mapping[str, str]) -> None:
        self._read_file = read_file
        self._includes = 0
        self._open_files: list[str] = []
        self.environ = environ
        # Environment variables being expanded, to find cycles.
        self.open_variables: set[str] = set()

    def parse_file(self, path: str, depth: int) -> dict[str, Node]:
        """Read and parse one file."""
        self._includes += 1
        if self._includes > INCLUDES_MAX:
            raise ConfParseError(f"more than {INCLUDES_MAX} files are included")
        if path in self._open_files:
            raise ConfParseError(f"include cycle: {' -> '.join([*self._open_files, path])}")
        try:
            text = self._read_file(path)
        except OSError as error:
            raise ConfParseError(os_error_text(error, path)) from error
        except ValueError as error:  # a path the operating system can not even name
            raise ConfParseError(f"open {path}: invalid argument") from error
        self._open_files.append(path)
        try:
            return _Parser(text, path, self, depth).parse()
        finally:
            self._open_files.pop()


class _Text:
    """A cursor over the text that can tell line and column of every position."""

    __slots__ = ("_byte_offsets", "_newlines", "end", "pos", "text")

    def __init__(self, source: bytes) -> None:
        text = source.decode("utf-8", "surrogateescape")
        self.end = len(text)
        self.text = text + _END
        self.pos = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._byte_offsets = (
            None if text.isascii() else list(accumulate(map(_width, text), initial=0))
        )

    def peek(self) -> str:
        """The next character, without taking it."""
        return self.text[self.pos]

    def take(self) -> str:
        """The next character. The end can be taken again and again."""
        char = self.text[self.pos]
        if self.pos < self.end:
            self.pos += 1
        return char

    def match(self, pattern: re.Pattern[str]) -> str:
        """Take what `pattern` matches here; the patterns used all match the empty string."""
        match = pattern.match(self.text, self.pos, self.end)
        if match is None:
            return ""
        self.pos = match.end()
        return match.group()

    def line(self, pos: int) -> int:
        """Line of a position, from 1."""
        return 1 + bisect_left(self._newlines, pos)

    def column(self, pos: int) -> int:
        """Bytes since the newline before `pos`; since the beginning on the first line."""
        passed = bisect_left(self._newlines, pos)
        return self._offset(pos) - (self._offset(self._newlines[passed - 1]) if passed else 0)

    def size(self, start: int, stop: int) -> int:
        """Bytes between two positions."""
        return self._offset(stop) - self._offset(start)

    def _offset(self, pos: int) -> int:
        return pos if self._byte_offsets is None else self._byte_offsets[pos]


def _width(char: str) -> int:
    code = ord(char)
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4


class _Parser:
    """Recursive descent over one text."""

    __slots__ = ("_depth", "_file", "_finished", "_scopes", "_session", "_text")

    def __init__(self, source: bytes, file: str, session: _Session, depth: int) -> None:
        self._text = _Text(source)
        self._file = file
        self._session = session
        self._depth = depth
        # Maps being filled, outermost first: where variables are looked up.
        self._scopes: list[dict[str, Node]] = []
        # Set when the text ended where nats-server tolerates it.
        self._finished = False

    def parse(self) -> dict[str, Node]:
        """The top level map."""
        root: dict[str, Node] = {}
        self._scopes.append(root)
        self._enter()
        self._top_level(root)
        self._leave()
        self._checked(Node(root, 0, 0, self._file))
        return root

    # --- statements ----------------------------------------------------------------------------

    def _top_level(self, into: dict[str, Node]) -> None:
        text = self._text
        while not self._finished:
            text.match(_SPACE)
            if text.match(_COMMENT):
                continue
            char = text.peek()
            if char == "{":
                text.take()
                self._braces(into)
            elif self._at_end(char):
                return
            elif self._entry(into, in_map=False):
                self._top_level_end()

    def _top_level_end(self) -> None:
        text = self._text
        while True:
            text.match(_BLANK)
            if text.match(_COMMENT):
                return
            char = text.take()
            if char in "\n\r\0;,}":
                return
            if char != "/":  # a lone slash counts as blank
                self._fail(
                    "Expected a top-level value to end with a new line, comment or EOF, "
                    f"but got '{_shown(char)}' instead."
                )

    def _braces(self, into: dict[str, Node]) -> None:
        """Braces around top level keys, which group nothing: they are there for JSON."""
        text = self._text
        open_braces = 1
        while open_braces and not self._finished:
            text.match(_SPACE)
            if text.match(_COMMENT):
                continue
            char = text.peek()
            if char == "{":
                text.take()
                open_braces += 1
                continue
            if char == "}":
                text.take()
                open_braces -= 1
            elif self._at_end(char) or not self._entry(into, in_map=False):
                return
            elif self._braced_value_ended():
                continue
            while open_braces and self._closing_brace():
                open_braces -= 1

    def _at_end(self, char: str) -> bool:
        """Whether the text is over where a key could begin; what only looks so is an error."""
        if char not in "/\0":
            return False
        if self._text.pos < self._text.end:
            self._text.take()
            self._fail("Unexpected EOF.")
        self._finished = True
        return True

    def _braced_value_ended(self) -> bool:
        """Whether another key may follow; if not, a closing brace does."""
        text = self._text
        while True:
            text.match(_BLANK)
            if text.match(_COMMENT):
                continue
            if text.peek() == "}":
                return False
            char = text.take()
            if char in "\n\r;,":
                return True
            if char != "/":
                self._fail(
                    "Expected a block-level value to end with a new line, comment or EOF, "
                    f"but got '{_shown(char)}' instead."
                )

    def _closing_brace(self) -> bool:
        """Take the closing brace if it comes now, and say so."""
        text = self._text
        while True:
            text.match(_BLANK)
            if text.match(_COMMENT):
                return False
            char = text.take()
            if char == "}":
                return True
            if char in ";,":
                return False
            if char not in "\n\r/":
                self._fail(
                    f"Expected a block-level to end with a '}}', but got '{_shown(char)}' instead."
                )

    def _entry(self, into: dict[str, Node], *, in_map: bool) -> bool:
        """One key and its value, or one include. False when the text ended after a lone brace."""
        text = self._text
        char = text.peek()
        if char in _SEPARATORS:
            self._fail(f"Unexpected key separator '{char}'" + ("." if in_map else ""))
        quoted = char in "\"'"
        if quoted:
            text.take()
        start = text.pos
        key = self._quoted_key(char, in_map) if quoted else self._bare_key(in_map)
        line, column = text.line(text.pos - quoted), text.column(start)
        if not quoted and key.lower() == "include" and _is_space(text.peek()):
            self._include(into)
            return True
        if not self._value_follows(key, in_map):
            return False
        node = self._value()
        node.line, node.column = line, column
        # Written again, a key moves to where it was written last.
        into.pop(key, None)
        into[key] = node
        return True

    def _quoted_key(self, quote: str, in_map: bool) -> str:
        text = self._text
        start = text.pos
        stop = _first(text.text, quote, start)
        if text.text[stop] != quote:
            text.pos = stop
            if in_map:
                double = "double " if quote == '"' else ""
                self._fail(f"Unexpected EOF processing {double}quoted map key.")
            self._fail("Unexpected EOF.")
        text.pos = stop + 1
        return self._utf8(text.text[start:stop])

    def _bare_key(self, in_map: bool) -> str:
        text = self._text
        if in_map and text.peek() == "/":
            text.take()  # a lone slash before a key counts as blank
        start = text.pos
        text.take()
        text.match(_BARE_KEY)
        if in_map and text.peek() == _END:
            self._fail("Unexpected EOF processing map key.")
        return self._utf8(text.text[start : text.pos])

    def _value_follows(self, key: str, in_map: bool) -> bool:
        """Move to where the value of `key` begins."""
        text = self._text
        text.match(_SPACE)
        if text.peek() in _SEPARATORS:
            text.take()
        elif text.peek() == _END and not in_map:
            if key != "}":
                self._invalid()
            self._finished = True
            return False
        if not in_map:
            return True
        text.match(_SPACE)
        if text.peek() == ",":
            text.take()
            self._fail('Unexpected map value terminator ",".')
        if text.peek() == "}":
            text.take()
            self._fail(f"Expected a value for key '{key}' but found the end of the map")
        return True

    # --- values --------------------------------------------------------------------------------

    def _value(self) -> Node:
        text = self._text
        text.match(_BLANK)
        char = text.peek()
        if char == "[":
            return self._array()
        if char == "{":
            return self._map()
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "(":
            return self._block()
        if char == "-" or char.isdecimal():
            return self._number()
        if char == ".":
            self._fail("Floats must start with a digit")
        if char in _LINE_ENDS:
            text.take()
            self._fail("Expected value but found new line")
        return self._bare(text.pos)

    def _map(self) -> Node:
        text = self._text
        text.take()
        self._enter()
        nodes: dict[str, Node] = {}
        self._scopes.append(nodes)
        while True:
            text.match(_SPACE)
            if text.match(_COMMENT):
                continue
            char = text.peek()
            if char == "}":
                text.take()
                break
            if char == "]":
                self._fail("Unexpected array end ']' processing map.")
            if char == _END:
                self._fail("Unexpected EOF processing map.")
            self._entry(nodes, in_map=True)
            if self._item_ended("}", 'a map value terminator "," or a map terminator "}"', ";,/"):
                break
        self._scopes.pop()
        self._leave()
        return self._checked(self._node_here(nodes))

    def _array(self) -> Node:
        text = self._text
        text.take()
        self._enter()
        nodes: list[Node] = []
        while True:
            text.match(_SPACE)
            if text.match(_COMMENT):
                continue
            char = text.peek()
            if char in ",/":
                self._fail("Unexpected array value terminator ','.")
            if char == "]":
                text.take()
                break
            nodes.append(self._value())
            if self._item_ended(
                "]", 'an array value terminator "," or an array terminator "]"', ",/"
            ):
                break
        self._leave()
        return self._checked(self._node_here(nodes))

    def _item_ended(self, closing: str, expected: str, terminators: str) -> bool:
        """Take what stands between two items; True when it closes the container."""
        text = self._text
        while True:
            text.match(_BLANK)
            if text.match(_COMMENT):
                continue
            char = text.take()
            if char == closing:
                return True
            if char in terminators or char in _LINE_ENDS:
                return False
            self._fail(f"Expected {expected}, but got '{_shown(char)}' instead.")

    def _single_quoted(self) -> Node:
        text = self._text
        text.take()
        start = text.pos
        stop = _first(text.text, "'", start)
        text.pos = stop
        if text.peek() == _END:
            self._unterminated(start)
        node = self._node(self._utf8(text.text[start:stop]), start)
        text.take()
        return node

    def _double_quoted(self) -> Node:
        text = self._text
        text.take()
        start = text.pos
        parts: list[str] = []
        while True:
            parts.append(text.match(_QUOTED_CHUNK))
            if text.peek() == '"':
                break
            if text.peek() == _END:
                self._unterminated(start)
            parts.append(self._escape())
        node = self._node(self._utf8("".join(parts)), start)
        text.take()
        return node

    def _unterminated(self, start: int) -> NoReturn:
        if self._text.pos == start and self._text.pos == self._text.end:
            self._invalid()
        self._fail("Unexpected EOF.")

    def _block(self) -> Node:
        """`(` up to a `)` alone on its line. What lies between is taken as it is."""
        text = self._text
        text.take()
        start = text.pos
        match = _BLOCK_END.search(text.text, start)
        if match is None or match.group() == _END:
            text.pos = match.start() if match else text.end
            self._fail("Unexpected EOF processing block.")
        text.pos = match.end() - 1
        # At the very end of the text nats-server takes the parenthesis for part of the string.
        if match.end() == text.end:
            text.pos = text.end
        node = self._node(self._utf8(text.text[start : text.pos]), start)
        text.take()
        return node

    def _bare(self, start: int) -> Node:
        """A string without quotes from `start`, of which the cursor may have passed some."""
        text = self._text
        parts = [text.text[start : text.pos]]
        escaped = False
        while True:
            parts.append(text.match(_BARE_CHUNK))
            if text.peek() != "\\":
                break
            parts.append(self._escape())
            escaped = True
        word = self._utf8("".join(parts))
        if text.peek() == "'":
            node = self._node(word, start)
            text.take()
            return node
        if not escaped and word.lower() in _BOOLS:
            return self._node(_BOOLS[word.lower()], start)
        if not escaped and word.startswith("$"):
            return self._variable(word[1:], start + 1)
        return self._node(word, start)

    def _escape(self) -> str:
        text = self._text
        text.take()
        char = text.take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char != "x":
            self._fail(
                f"Invalid escape character '{_shown(char)}'. Only the following escape "
                'characters are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        for _ in range(2):
            if text.take() in _LINE_ENDS:
                self._fail("Expected two hexadecimal digits after '\\x', but hit end of line")
        digits = text.text[text.pos - 2 : text.pos]
        if not re.fullmatch("[0-9a-fA-F]{2}", digits):
            self._fail(f"Expected two hexadecimal digits after '\\x', but got '{_shown(digits)}'")
        return bytes.fromhex(digits).decode("utf-8", "surrogateescape")

    # --- numbers -------------------------------------------------------------------------------

    def _number(self) -> Node:
        text = self._text
        start = text.pos
        negative = text.peek() == "-"
        if negative:
            text.take()
            char = text.peek()
            if not char.isdecimal():
                text.take()
                if char == ".":
                    self._fail("Floats must start with a digit, not '.'.")
                self._fail(f"Expected a digit but got '{_shown(char)}'.")
        text.match(_DIGITS)
        char = text.peek()
        if char == ".":
            return self._float_or_address(start)
        if char.lower() in _SIZE_LETTERS and char.isascii():
            return self._size(start)
        if negative or char in _NUMBER_ENDS:
            return self._integer(start)
        text.take()
        if char == "-":
            return self._datetime(start)
        return self._bare(start)

    def _size(self, start: int) -> Node:
        text = self._text
        text.take()
        while text.peek() in "bBiI":
            text.take()
        return self._integer(start) if text.peek() in _NUMBER_ENDS else self._bare(start)

    def _integer(self, start: int) -> Node:
        word = self._text.text[start : self._text.pos]
        digits = word.rstrip("kKmMgGtTpPeEbBiI")
        if not digits.isascii():
            raise ConfParseError(f"expected integer, but got '{word}'")
        unit = _SIZES.get(word[len(digits) :].lower())
        if unit is None:
            raise ConfParseError(f"integer '{word}' has an unknown suffix")
        out_of_range = ConfParseError(f"integer '{word[:40]}' is out of the range")
        if len(digits.lstrip("-0")) > len(str(MAX_INT64)):
            raise out_of_range
        number = int(digits) * unit
        if not MIN_INT64 <= number <= MAX_INT64:
            raise out_of_range
        return self._node(number, start)

    def _float_or_address(self, start: int) -> Node:
        text = self._text
        text.take()
        if not text.match(_DIGITS):
            char = text.take()
            self._fail(f"Floats must have a digit after the '.', but got '{_shown(char)}' instead.")
        if text.peek() == ".":
            text.match(_IP_REST)
            return self._node(text.text[start : text.pos], start)
        word = text.text[start : text.pos]
        if not word.isascii():
            raise ConfParseError(f"expected float, but got '{word}'")
        number = float(word)
        if number in (float("inf"), float("-inf")):
            raise ConfParseError(f"float '{word[:40]}' is out of the range")
        return self._node(number, start)

    def _datetime(self, start: int) -> Node:
        """`2006-01-02T15:04:05Z`, of which the year and its dash have been taken."""
        text = self._text
        if text.size(start, text.pos) != len("2006-"):
            self._fail("All ISO8601 dates must be in full Zulu form.")
        for expected in _DATE_AFTER_YEAR:
            char = text.take()
            if expected == "0":
                if not char.isdecimal():
                    self._fail(
                        f"Expected digit in ISO8601 datetime, but found '{_shown(char)}' instead."
                    )
            elif char != expected:
                self._fail(
                    f"Expected '{expected}' in ISO8601 datetime, "
                    f"but found '{_shown(char)}' instead."
                )
        word = text.text[start : text.pos]
        try:
            if not word.isascii():
                raise ValueError(word)
            moment = datetime.strptime(word, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError as error:
            raise ConfParseError(f"expected Zulu formatted DateTime, but got '{word}'") from error
        return self._node(moment, start)

    # --- variables and includes ----------------------------------------------------------------

    def _variable(self, name: str, start: int) -> Node:
        line = self._text.line(self._text.pos)
        if name.startswith(_BCRYPT_VARIABLE):
            return self._node("$" + name, start)
        for scope in reversed(self._scopes):
            found = scope.get(name)
            if found is not None:
                found.is_variable = True
                return self._reference(found, start)
        try:
            node = self._environment_variable(name)
        except ConfParseError as error:
            raise ConfParseError(
                f"variable reference for '{name}' on line {line} could not be parsed: {error}"
            ) from error
        if node is None:
            raise ConfParseError(f"variable reference for '{name}' on line {line} can not be found")
        return self._reference(_moved(node, line, self._text.column(start), self._file), start)

    def _environment_variable(self, name: str) -> Node | None:
        """The value of an environment variable, which is configuration text itself."""
        if name in self._session.open_variables:
            raise ConfParseError(f"variable reference cycle for '{name}'")
        text = self._session.environ.get(name)
        if text is None:
            return None
        self._session.open_variables.add(name)
        source = f"{_ENVIRONMENT_KEY}={text}".encode("utf-8", "surrogateescape")
        try:
            return _Parser(source, "", self._session, self._depth).parse().get(_ENVIRONMENT_KEY)
        finally:
            self._session.open_variables.discard(name)

    def _reference(self, target: Node, start: int) -> Node:
        node = self._node(target.value, start)
        node.height, node.weight = target.height, target.weight
        return node

    def _include(self, into: dict[str, Node]) -> None:
        name = self._include_path()
        path = posixpath.normpath(f"{posixpath.dirname(self._file) or '.'}/{name}")
        try:
            nodes = self._session.parse_file(path, self._depth)
        except ConfParseError as error:
            raise ConfParseError(f"error parsing include file '{name}', {error}") from error
        into.update(nodes)

    def _include_path(self) -> str:
        text = self._text
        text.match(_BLANK)
        char = text.peek()
        if char in "\"'":
            text.take()
            start = text.pos
            text.pos = _first(text.text, char, start)
            if text.peek() != char:
                double = "double " if char == '"' else ""
                self._fail(f"Unexpected EOF in {double}quoted include")
            text.take()
            return self._utf8(text.text[start : text.pos - 1])
        kinds = _NO_INCLUDE_PATH | ({char: "start of a number"} if char.isdecimal() else {})
        if char in kinds:
            text.take()
            self._fail(f"Expected include value but found {kinds[char]}")
        path = self._utf8(text.match(_INCLUDE_PATH))
        if text.peek() == "'":
            text.take()
        return path

    # --- nodes, limits, errors -----------------------------------------------------------------

    def _node(self, value: "Scalar | list[Node] | dict[str, Node]", start: int) -> Node:
        """A node for what was read from `start` to the cursor."""
        text = self._text
        column = text.column(start)
        if isinstance(value, str):
            # nats-server counts back from the end by what remained after escapes.
            column += text.size(start, text.pos) - len(value.encode("utf-8", "surrogatepass"))
        return Node(value, text.line(text.pos), column, self._file)

    def _node_here(self, value: "list[Node] | dict[str, Node]") -> Node:
        pos = self._text.pos
        return Node(value, self._text.line(pos), self._text.column(pos), self._file)

    def _checked(self, node: Node) -> Node:
        """Sum up a container that is complete, within the limits."""
        value = node.value
        children = list(value.values()) if isinstance(value, dict) else value
        if isinstance(children, list):
            node.height = 1 + max((child.height for child in children), default=0)
            node.weight = 1 + sum(child.weight for child in children)
        if node.height > NESTING_MAX:
            self._too_deep()
        if node.weight > VALUES_MAX:
            self._fail(f"More than {VALUES_MAX} values, variables expanded.")
        return node

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            self._too_deep()

    def _leave(self) -> None:
        self._depth -= 1

    def _too_deep(self) -> NoReturn:
        self._fail(f"Nested more than {NESTING_MAX} levels deep.")

    def _utf8(self, text: str) -> str:
        """Join escaped bytes to characters; nothing that is not text gets into a value."""
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            self._fail("Strings have to be valid UTF-8.")

    def _fail(self, text: str) -> NoReturn:
        line = self._text.line(self._text.pos)
        raise ConfParseError(f"Parse error on line {line}: '{text}'")

    def _invalid(self) -> NoReturn:
        """The text ended after a key."""
        text = self._text
        where = f"{self._file}:{text.line(text.pos)}:{text.column(text.pos)}"
        raise ConfParseError(f"config is invalid ({where})")


def _is_space(char: str) -> bool:
    return _SPACE.fullmatch(char) is not None


def _first(text: str, char: str, start: int) -> int:
    """Position of the first `char` or NUL from `start`; the text ends with a NUL."""
    end = text.index(_END, start)
    found = text.find(char, start, end)
    return end if found < 0 else found


def _moved(node: Node, line: int, column: int, file: str) -> Node:
    """`node` and all in it, positioned where the environment variable was referred to."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _moved(child, line, column, file) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_moved(child, line, column, file) for child in value]
    moved = Node(value, line, column, file)
    moved.height, moved.weight = node.height, node.weight
    return moved


def _shown(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text).replace("\n", "\\n")
