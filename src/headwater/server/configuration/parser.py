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
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NoReturn, TypeAlias

from headwater.go.file_errors import os_error_text
from headwater.go.numbers import format_float
from headwater.server.configuration.lexer import (
    BLANK,
    COMMENT,
    END,
    LINE_ENDS,
    SEPARATORS,
    SPACE,
    ConfParseError,
    Lexer,
    Scalar,
    Variable,
    shown,
)

__all__ = [
    "INCLUDES_MAX",
    "NESTING_MAX",
    "VALUES_MAX",
    "ConfParseError",
    "ReadFile",
    "Value",
    "digest",
    "parse_file",
    "parse_text",
]

ReadFile: TypeAlias = Callable[[str], bytes]

# Maps, arrays, includes and variables within one another. Real files stay below ten; the limit
# keeps recursion, here and in callers that walk the result, well inside the interpreter's.
NESTING_MAX: Final = 100
# Values in the whole result; values that variables repeat count as often as they are repeated.
VALUES_MAX: Final = 1_000_000
# Include statements followed, counting a file as often as it is included.
INCLUDES_MAX: Final = 1_000

# The key an environment variable's text is parsed as the value of.
_ENVIRONMENT_KEY: Final = "pk"


class Value:
    """A value and where it was written.

    `value` is a scalar, a list of nodes, or a dict of nodes in the order of the file.
    """

    __slots__ = ("column", "depth_below", "file", "is_variable", "line", "value", "value_count")

    def __init__(
        self, value: "Scalar | list[Value] | dict[str, Value]", line: int, column: int, file: str
    ) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.file = file
        # Whether a `$name` referred to it: the key of such a value may have any name.
        self.is_variable = False
        # Containers below this node, and values in it, each as often as it is reachable.
        self.depth_below = 0
        self.value_count = 1

    def where(self) -> str:
        """`file:line:column`, as error messages begin."""
        return f"{self.file}:{self.line}:{self.column}"


def parse_file(path: str, read_file: ReadFile, environ: Mapping[str, str]) -> dict[str, Value]:
    """Parse a file and its includes. `read_file` raises OSError for a file it cannot read."""
    return _Session(read_file, environ).parse_file(path, depth=0)


def parse_text(
    text: bytes, file: str, read_file: ReadFile, environ: Mapping[str, str]
) -> dict[str, Value]:
    """Parse text as if it stood in `file`, to which includes are relative."""
    return _Parser(text, file, _Session(read_file, environ), depth=0).parse()


def digest(root: Mapping[str, Value]) -> str:
    """`sha256:<hex>` over the values alone, equal to what nats-server reports for them."""
    return "sha256:" + hashlib.sha256((_map_json(root) + "\n").encode()).hexdigest()


def _map_json(nodes: Mapping[str, Value]) -> str:
    items = (f"{_string_json(key)}:{_json(node)}" for key, node in sorted(nodes.items()))
    return "{" + ",".join(items) + "}"


def _json(node: Value) -> str:
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
    """The state that one parse shares with the parses of its includes and variables."""

    __slots__ = ("_environ", "_includes", "_open_files", "_read_file", "_variables")

    def __init__(self, read_file: ReadFile, environ: Mapping[str, str]) -> None:
        self._read_file = read_file
        self._includes = 0
        self._open_files: list[str] = []
        self._environ = environ
        # Environment variables that have been parsed; None while one is being parsed.
        self._variables: dict[str, Value | None] = {}

    def environment_variable(self, name: str, depth: int) -> Value | None:
        """The value of an environment variable, which is configuration text itself."""
        if name in self._variables:
            known = self._variables[name]
            if known is None:
                raise ConfParseError(f"variable reference cycle for '{name}'")
            return known
        text = self._environ.get(name)
        if text is None:
            return None
        self._variables[name] = None
        source = f"{_ENVIRONMENT_KEY}={text}".encode("utf-8", "surrogateescape")
        node = _Parser(source, f"${name}", self, depth).parse()[_ENVIRONMENT_KEY]
        self._variables[name] = node
        return node

    def parse_file(self, path: str, depth: int) -> dict[str, Value]:
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
        except ValueError as error:  # a path that is no path to the operating system
            raise ConfParseError(f"open {path}: invalid argument") from error
        self._open_files.append(path)
        try:
            return _Parser(text, path, self, depth).parse()
        finally:
            self._open_files.pop()


class _Parser:
    """Recursive descent over one text."""

    __slots__ = ("_depth", "_file", "_finished", "_lexer", "_scopes", "_session")

    def __init__(self, source: bytes, file: str, session: _Session, depth: int) -> None:
        self._lexer = Lexer(source, file)
        self._file = file
        self._session = session
        self._depth = depth
        # Maps being filled, outermost first: where variables are looked up.
        self._scopes: list[dict[str, Value]] = []
        # Set when the text ended where nats-server tolerates it.
        self._finished = False

    def parse(self) -> dict[str, Value]:
        """The top level map."""
        root: dict[str, Value] = {}
        self._scopes.append(root)
        self._enter()
        self._top_level(root)
        self._leave()
        self._container(root)
        return root

    # --- statements ----------------------------------------------------------------------------

    def _top_level(self, into: dict[str, Value]) -> None:
        lexer = self._lexer
        while not self._finished:
            char = self._next_char()
            if char == "{":
                lexer.take()
                self._braces(into)
            elif self._at_end(char):
                return
            elif self._entry(into, in_map=False):
                self._top_level_end()

    def _top_level_end(self) -> None:
        lexer = self._lexer
        while True:
            lexer.match(BLANK)
            if lexer.match(COMMENT):
                return
            char = lexer.take()
            if char in "\n\r\0;,}":
                return
            if char != "/":  # a lone slash counts as blank
                lexer.fail(
                    "Expected a top-level value to end with a new line, comment or EOF, "
                    f"but got '{shown(char)}' instead."
                )

    def _braces(self, into: dict[str, Value]) -> None:
        """Braces around top level keys, which group nothing: they are there for JSON."""
        lexer = self._lexer
        open_braces = 1
        while open_braces and not self._finished:
            char = self._next_char()
            if char == "{":
                lexer.take()
                open_braces += 1
                continue
            if char == "}":
                lexer.take()
                open_braces -= 1
            elif self._at_end(char) or not self._entry(into, in_map=False):
                return
            elif self._braced_value_ended():
                continue
            while open_braces and self._closing_brace():
                open_braces -= 1

    def _next_char(self) -> str:
        """The character behind white space and comments."""
        lexer = self._lexer
        lexer.match(SPACE)
        while lexer.match(COMMENT):
            lexer.match(SPACE)
        return lexer.peek()

    def _at_end(self, char: str) -> bool:
        """Whether the text is over where a key could begin; what only looks so is an error."""
        if char not in "/\0":
            return False
        lexer = self._lexer
        if lexer.pos < lexer.end:
            lexer.take()
            lexer.fail("Unexpected EOF.")
        self._finished = True
        return True

    def _braced_value_ended(self) -> bool:
        """Whether another key may follow; if not, a closing brace does."""
        lexer = self._lexer
        while True:
            lexer.match(BLANK)
            if lexer.match(COMMENT):
                continue
            if lexer.peek() == "}":
                return False
            char = lexer.take()
            if char in "\n\r;,":
                return True
            if char != "/":
                lexer.fail(
                    "Expected a block-level value to end with a new line, comment or EOF, "
                    f"but got '{shown(char)}' instead."
                )

    def _closing_brace(self) -> bool:
        """Take the closing brace if it comes now, and say so."""
        lexer = self._lexer
        while True:
            lexer.match(BLANK)
            if lexer.match(COMMENT):
                return False
            char = lexer.take()
            if char == "}":
                return True
            if char in ";,":
                return False
            if char not in "\n\r/":
                lexer.fail(
                    f"Expected a block-level to end with a '}}', but got '{shown(char)}' instead."
                )

    def _entry(self, into: dict[str, Value], *, in_map: bool) -> bool:
        """One key and its value, or one include. False when the text ended after a lone brace."""
        lexer = self._lexer
        char = lexer.peek()
        if char in SEPARATORS:
            lexer.fail(f"Unexpected key separator '{char}'" + ("." if in_map else ""))
        if char in "\"'":
            column = lexer.column(lexer.pos + 1)
            key = lexer.quoted_key(in_map=in_map)
        else:
            if in_map and char == "/":
                lexer.take()  # a lone slash before a key counts as blank
            column = lexer.column(lexer.pos)
            key = lexer.bare_key(in_map=in_map)
            if key.lower() == "include" and lexer.at_space():
                self._include(into)
                return True
        line = lexer.line(lexer.pos)
        if not self._value_follows(key, in_map):
            return False
        node = self._value()
        node.line, node.column = line, column
        # Written again, a key moves to where it was written last.
        into.pop(key, None)
        into[key] = node
        return True

    def _value_follows(self, key: str, in_map: bool) -> bool:
        """Move to where the value of `key` begins."""
        lexer = self._lexer
        lexer.match(SPACE)
        if lexer.peek() in SEPARATORS:
            lexer.take()
        elif lexer.peek() == END and not in_map:
            if key != "}":
                lexer.fail_after_key()
            self._finished = True
            return False
        if not in_map:
            return True
        lexer.match(SPACE)
        if lexer.peek() == ",":
            lexer.take()
            lexer.fail('Unexpected map value terminator ",".')
        if lexer.peek() == "}":
            lexer.take()
            lexer.fail(f"Expected a value for key '{key}' but found the end of the map")
        return True

    # --- values --------------------------------------------------------------------------------

    def _value(self) -> Value:
        lexer = self._lexer
        lexer.match(BLANK)
        char = lexer.peek()
        if char == "[":
            return self._array()
        if char == "{":
            return self._map()
        value, line, column = lexer.scalar()
        if isinstance(value, Variable):
            return self._variable(value.name, line, column)
        return Value(value, line, column, self._file)

    def _map(self) -> Value:
        lexer = self._lexer
        lexer.take()
        self._enter()
        nodes: dict[str, Value] = {}
        self._scopes.append(nodes)
        while True:
            char = self._next_char()
            if char == "}":
                lexer.take()
                break
            if char == "]":
                lexer.fail("Unexpected array end ']' processing map.")
            if char == END:
                lexer.fail("Unexpected EOF processing map.")
            self._entry(nodes, in_map=True)
            if self._item_ended("}", 'a map value terminator "," or a map terminator "}"', ";,/"):
                break
        self._scopes.pop()
        self._leave()
        return self._container(nodes)

    def _array(self) -> Value:
        lexer = self._lexer
        lexer.take()
        self._enter()
        nodes: list[Value] = []
        while True:
            char = self._next_char()
            if char in ",/":
                lexer.fail("Unexpected array value terminator ','.")
            if char == "]":
                lexer.take()
                break
            nodes.append(self._value())
            if self._item_ended(
                "]", 'an array value terminator "," or an array terminator "]"', ",/"
            ):
                break
        self._leave()
        return self._container(nodes)

    def _item_ended(self, closing: str, expected: str, terminators: str) -> bool:
        """Take what stands between two items; True when it closes the container."""
        lexer = self._lexer
        while True:
            lexer.match(BLANK)
            if lexer.match(COMMENT):
                continue
            char = lexer.take()
            if char == closing:
                return True
            if char in terminators or char in LINE_ENDS:
                return False
            lexer.fail(f"Expected {expected}, but got '{shown(char)}' instead.")

    # --- variables and includes ----------------------------------------------------------------

    def _variable(self, name: str, line: int, column: int) -> Value:
        for scope in reversed(self._scopes):
            target = scope.get(name)
            if target is not None:
                target.is_variable = True
                break
        else:
            try:
                target = self._session.environment_variable(name, self._depth)
            except ConfParseError as error:
                raise ConfParseError(
                    f"variable reference for '{name}' on line {line} could not be parsed: {error}"
                ) from error
        if target is None:
            raise ConfParseError(f"variable reference for '{name}' on line {line} can not be found")
        node = Value(target.value, line, column, self._file)
        node.depth_below, node.value_count = target.depth_below, target.value_count
        return node

    def _include(self, into: dict[str, Value]) -> None:
        name = self._lexer.include_path()
        path = posixpath.normpath(f"{posixpath.dirname(self._file) or '.'}/{name}")
        try:
            nodes = self._session.parse_file(path, self._depth)
        except ConfParseError as error:
            raise ConfParseError(f"error parsing include file '{name}', {error}") from error
        into.update(nodes)

    # --- limits --------------------------------------------------------------------------------

    def _container(self, value: "list[Value] | dict[str, Value]") -> Value:
        """A container that ends at the cursor, within the limits."""
        lexer = self._lexer
        children = value.values() if isinstance(value, dict) else value
        node = Value(value, lexer.line(lexer.pos), lexer.column(lexer.pos), self._file)
        node.depth_below = 1 + max((child.depth_below for child in children), default=0)
        node.value_count = 1 + sum(child.value_count for child in children)
        if node.depth_below > NESTING_MAX:
            self._fail_too_deep()
        if node.value_count > VALUES_MAX:
            lexer.fail(f"More than {VALUES_MAX} values, variables expanded.")
        return node

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            self._fail_too_deep()

    def _leave(self) -> None:
        self._depth -= 1

    def _fail_too_deep(self) -> NoReturn:
        self._lexer.fail(f"Nested more than {NESTING_MAX} levels deep.")
