"""Characters to words: the part of the configuration language below maps and arrays.

A Lexer is a cursor over one text. It reads the scalar, key or include path that begins at the
cursor and knows the line and column of every position; the parser decides what may come next.
Columns are counted as nats-server counts them: in bytes, from 0 on the first line and from 1 on
all others.

It must not know about nesting, the values of variables, or files.
"""

import re
from array import array
from bisect import bisect_left
from datetime import datetime
from itertools import accumulate
from typing import Final, NamedTuple, NoReturn, TypeAlias

from headwater.base.errors import OperatingError
from headwater.go.numbers import MAX_INT64, MIN_INT64

Scalar: TypeAlias = str | bool | int | float | datetime

# The character read at the end of the text. A NUL inside the text ends things too.
END: Final = "\0"
LINE_ENDS: Final = "\n\r"
SEPARATORS: Final = "=:"

# White space of nats-server: the characters with Unicode's White_Space property.
_WHITE: Final = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
SPACE: Final = re.compile(f"[{_WHITE}]*")
BLANK: Final = re.compile("[\t ]*")
COMMENT: Final = re.compile("(?:#|//)[^\n\r\0]*")

_BARE_KEY: Final = re.compile(f"[^=:\0{_WHITE}]*")
_BARE_CHUNK: Final = re.compile(r"[^\\\n\r\0;,\]}\t ']*")
_QUOTED_CHUNK: Final = re.compile(r'[^"\\\0]*')
_UP_TO_QUOTE: Final = {"'": re.compile("[^'\0]*"), '"': re.compile('[^"\0]*')}
_DIGITS: Final = re.compile(r"\d*")
_IP_REST: Final = re.compile(r"[\d.:\-]*")
_BLOCK_END: Final = re.compile(r"\0|\n\)(?=[\n\0])")
_INCLUDE_PATH: Final = re.compile(r"[^\n\r\0;}\t ']*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_NUMBER_ENDS: Final = "\n\r\0};,\t ]"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_BOOLS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SIZE_LETTERS: Final = "kmgtpe"
_SIZES: Final = {"": 1} | {
    letter + ending: base ** (power + 1)
    for power, letter in enumerate(_SIZE_LETTERS)
    for ending, base in (("", 1000), ("b", 1024), ("i", 1024), ("ib", 1024))
}
# Zeros stand for digits, everything else for itself.
_DATE_AFTER_YEAR: Final = "00-00T00:00:00Z"
# A bare bcrypt hash looks like a variable; it is told apart by this beginning.
_BCRYPT_BEGINNING: Final = "$2a$"
_NO_INCLUDE_PATH: Final = {
    "[": "start of an array",
    "{": "start of a map",
    "(": "start of a block",
    "-": "start of a number",
    "\\": "escape sequence",
    "\n": "new line",
    "\r": "new line",
}
# Messages quote no more than this of a number that is too long.
_NUMBER_SHOWN_MAX: Final = 40


class ConfParseError(OperatingError):
    """The text is not a configuration. The message is nats-server's where it has one."""


class Variable(NamedTuple):
    """A `$name`, to be looked up."""

    name: str


class Word(NamedTuple):
    """A scalar, or what stands for one, and where."""

    value: Scalar | Variable
    line: int
    column: int


class Lexer:
    """A cursor over one text, and all that can be read without knowing where one is."""

    __slots__ = ("_byte_offsets", "_file", "_newlines", "_text", "end", "pos")

    def __init__(self, source: bytes, file: str) -> None:
        text = source.decode("utf-8", "surrogateescape")
        self._file = file
        self._text = text + END
        self._newlines = array("q", (match.start() for match in re.finditer("\n", text)))
        self._byte_offsets: array[int] | None = None
        if not text.isascii():
            self._byte_offsets = array("q", accumulate(map(_width, text), initial=0))
        self.end = len(text)
        self.pos = 0

    # --- the cursor ----------------------------------------------------------------------------

    def peek(self) -> str:
        """The next character, without taking it."""
        return self._text[self.pos]

    def take(self) -> str:
        """The next character. The end can be taken again and again."""
        char = self._text[self.pos]
        if self.pos < self.end:
            self.pos += 1
        return char

    def match(self, pattern: re.Pattern[str]) -> str:
        """Take what `pattern` matches here, perhaps nothing."""
        match = pattern.match(self._text, self.pos, self.end)
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
        return self._size(self._newlines[passed - 1] if passed else 0, pos)

    def _size(self, start: int, stop: int) -> int:
        """Bytes between two positions."""
        if self._byte_offsets is None:
            return stop - start
        return self._byte_offsets[stop] - self._byte_offsets[start]

    def _seek(self, quote: str) -> None:
        """Go to the next `quote`, or to the end if that comes first."""
        self.match(_UP_TO_QUOTE[quote])

    def _word(self, value: Scalar | Variable, start: int) -> Word:
        """The word that was read from `start` to the cursor."""
        column = self.column(start)
        if isinstance(value, str):
            # nats-server counts back from the end by what remained after escapes.
            column += self._size(start, self.pos) - len(value.encode())
        return Word(value, self.line(self.pos), column)

    # --- errors --------------------------------------------------------------------------------

    def fail(self, text: str) -> NoReturn:
        """Complain about what the cursor has just passed."""
        raise ConfParseError(f"Parse error on line {self.line(self.pos)}: '{text}'")

    def fail_after_key(self) -> NoReturn:
        """Complain that the text ended where a value was due."""
        where = f"{self._file}:{self.line(self.pos)}:{self.column(self.pos)}"
        raise ConfParseError(f"config is invalid ({where})")

    def _utf8(self, text: str) -> str:
        """Join escaped bytes to characters; nothing that is not text gets into a value."""
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            self.fail("Strings have to be valid UTF-8.")

    # --- keys and include paths ----------------------------------------------------------------

    def quoted_key(self, *, in_map: bool) -> str:
        """The key between the quotes at the cursor."""
        quote = self.take()
        start = self.pos
        self._seek(quote)
        if self.peek() != quote:
            double = "double " if quote == '"' else ""
            self.fail(
                f"Unexpected EOF processing {double}quoted map key."
                if in_map
                else "Unexpected EOF."
            )
        key = self._utf8(self._text[start : self.pos])
        self.take()
        return key

    def bare_key(self, *, in_map: bool) -> str:
        """The key at the cursor, up to a space or a separator."""
        start = self.pos
        self.take()
        self.match(_BARE_KEY)
        if in_map and self.peek() == END:
            self.fail("Unexpected EOF processing map key.")
        return self._utf8(self._text[start : self.pos])

    def at_space(self) -> bool:
        """Whether white space comes next."""
        return SPACE.fullmatch(self.peek()) is not None

    def include_path(self) -> str:
        """The path after the word `include`."""
        self.match(BLANK)
        char = self.peek()
        if char in "\"'":
            self.take()
            start = self.pos
            self._seek(char)
            if self.peek() != char:
                double = "double " if char == '"' else ""
                self.fail(f"Unexpected EOF in {double}quoted include")
            path = self._utf8(self._text[start : self.pos])
            self.take()
            return path
        found = "start of a number" if char.isdecimal() else _NO_INCLUDE_PATH.get(char)
        if found:
            self.take()
            self.fail(f"Expected include value but found {found}")
        path = self._utf8(self.match(_INCLUDE_PATH))
        if self.peek() == "'":
            self.take()
        return path

    # --- strings -------------------------------------------------------------------------------

    def scalar(self) -> Word:
        """Whatever is no map and no array."""
        char = self.peek()
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "(":
            return self._block()
        if char == "-" or char.isdecimal():
            return self._number()
        if char == ".":
            self.fail("Floats must start with a digit")
        if char in LINE_ENDS:
            self.take()
            self.fail("Expected value but found new line")
        return self._bare(self.pos)

    def _single_quoted(self) -> Word:
        self.take()
        start = self.pos
        self._seek("'")
        if self.peek() == END:
            self._fail_unterminated(start)
        word = self._word(self._utf8(self._text[start : self.pos]), start)
        self.take()
        return word

    def _double_quoted(self) -> Word:
        self.take()
        start = self.pos
        parts: list[str] = []
        while True:
            parts.append(self.match(_QUOTED_CHUNK))
            if self.peek() == '"':
                break
            if self.peek() == END:
                self._fail_unterminated(start)
            parts.append(self._escape())
        word = self._word(self._utf8("".join(parts)), start)
        self.take()
        return word

    def _fail_unterminated(self, start: int) -> NoReturn:
        if self.pos == start == self.end:
            self.fail_after_key()
        self.fail("Unexpected EOF.")

    def _block(self) -> Word:
        """A block: `(` up to a `)` alone on its line, with the text between them as it is."""
        self.take()
        start = self.pos
        match = _BLOCK_END.search(self._text, start)
        if match is None or match.group() == END:
            self.pos = match.start() if match else self.end
            self.fail("Unexpected EOF processing block.")
        # At the very end of the text nats-server takes the parenthesis for part of the string.
        self.pos = match.end() - (match.end() != self.end)
        word = self._word(self._utf8(self._text[start : self.pos]), start)
        self.take()
        return word

    def _bare(self, start: int) -> Word:
        """A string without quotes from `start`, of which the cursor may have passed some."""
        parts = [self._text[start : self.pos]]
        escaped = False
        while True:
            parts.append(self.match(_BARE_CHUNK))
            if self.peek() != "\\":
                break
            parts.append(self._escape())
            escaped = True
        text = self._utf8("".join(parts))
        if self.peek() == "'":
            word = self._word(text, start)
            self.take()
            return word
        if escaped:
            return self._word(text, start)
        if text.lower() in _BOOLS:
            return self._word(_BOOLS[text.lower()], start)
        if text.startswith("$") and not text.startswith(_BCRYPT_BEGINNING):
            return self._word(Variable(text[1:]), start + 1)
        return self._word(text, start)

    def _escape(self) -> str:
        self.take()
        char = self.take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char != "x":
            self.fail(
                f"Invalid escape character '{shown(char)}'. Only the following escape "
                'characters are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        for _ in range(2):
            if self.take() in LINE_ENDS:
                self.fail("Expected two hexadecimal digits after '\\x', but hit end of line")
        digits = self._text[self.pos - 2 : self.pos]
        if not re.fullmatch("[0-9a-fA-F]{2}", digits):
            self.fail(f"Expected two hexadecimal digits after '\\x', but got '{shown(digits)}'")
        return bytes.fromhex(digits).decode("utf-8", "surrogateescape")

    # --- numbers -------------------------------------------------------------------------------

    def _number(self) -> Word:
        """An integer, size, float, address or datetime; failing those, a bare string."""
        start = self.pos
        negative = self.peek() == "-"
        if negative:
            self.take()
            char = self.peek()
            if not char.isdecimal():
                self.take()
                if char == ".":
                    self.fail("Floats must start with a digit, not '.'.")
                self.fail(f"Expected a digit but got '{shown(char)}'.")
        self.match(_DIGITS)
        char = self.peek()
        if char == ".":
            return self._float_or_address(start)
        if char.isascii() and char.lower() in _SIZE_LETTERS:
            return self._integer_with_size(start)
        if negative or char in _NUMBER_ENDS:
            return self._integer(start)
        self.take()
        return self._datetime(start) if char == "-" else self._bare(start)

    def _integer_with_size(self, start: int) -> Word:
        self.take()
        while self.peek() in "bBiI":
            self.take()
        return self._integer(start) if self.peek() in _NUMBER_ENDS else self._bare(start)

    def _integer(self, start: int) -> Word:
        text = self._text[start : self.pos]
        digits = text.rstrip("kKmMgGtTpPeEbBiI")
        if not digits.isascii():
            raise ConfParseError(f"expected integer, but got '{text}'")
        unit = _SIZES.get(text[len(digits) :].lower())
        if unit is None:
            raise ConfParseError(f"integer '{text}' has an unknown suffix")
        if len(digits.lstrip("-0")) > len(str(MAX_INT64)):
            self._fail_range("integer", text)
        number = int(digits) * unit
        if not MIN_INT64 <= number <= MAX_INT64:
            self._fail_range("integer", text)
        return self._word(number, start)

    def _fail_range(self, kind: str, text: str) -> NoReturn:
        raise ConfParseError(f"{kind} '{text[:_NUMBER_SHOWN_MAX]}' is out of the range")

    def _float_or_address(self, start: int) -> Word:
        self.take()
        if not self.match(_DIGITS):
            char = shown(self.take())
            self.fail(f"Floats must have a digit after the '.', but got '{char}' instead.")
        if self.peek() == ".":
            self.match(_IP_REST)
            return self._word(self._text[start : self.pos], start)
        text = self._text[start : self.pos]
        if not text.isascii():
            raise ConfParseError(f"expected float, but got '{text}'")
        number = float(text)
        if abs(number) == float("inf"):
            self._fail_range("float", text)
        return self._word(number, start)

    def _datetime(self, start: int) -> Word:
        """`2006-01-02T15:04:05Z`, of which the year and its dash have been taken."""
        if self._size(start, self.pos) != len("2006-"):
            self.fail("All ISO8601 dates must be in full Zulu form.")
        for expected in _DATE_AFTER_YEAR:
            char = self.take()
            if expected == "0" and not char.isdecimal():
                self.fail(f"Expected digit in ISO8601 datetime, but found '{shown(char)}' instead.")
            if expected not in ("0", char):
                self.fail(
                    f"Expected '{expected}' in ISO8601 datetime, but found '{shown(char)}' instead."
                )
        text = self._text[start : self.pos]
        try:
            if text.isascii():
                return self._word(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ"), start)
        except ValueError:
            pass
        raise ConfParseError(f"expected Zulu formatted DateTime, but got '{text}'")


def shown(text: str) -> str:
    """Text as error messages show it."""
    return _SURROGATE.sub("\ufffd", text).replace("\n", "\\n")


def _width(char: str) -> int:
    """Bytes of a character in UTF-8, or of a byte that was none."""
    code = ord(char)
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4
