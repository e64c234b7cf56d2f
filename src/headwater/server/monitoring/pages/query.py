"""The query of a monitoring URL, read as Go's `net/url` and `strconv` read it.

Pairs that are not well formed are dropped in silence; of several values the first counts; a value
that is there and does not parse is refused in the words of nats-server.
"""

import re
from typing import Final, final
from urllib.parse import unquote_plus

from headwater.go.numbers import MAX_INT64, MIN_INT64
from headwater.go.quoting import quote
from headwater.server.monitoring.pages.documents import Refused

MAX_UINT64: Final = 2**64 - 1

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_SIGNED: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Python refuses to convert numbers of thousands of digits; these are out of range long before.
_DIGITS_MAX: Final = 40


@final
class Query:
    """The options of one request."""

    __slots__ = ("_values",)

    def __init__(self, query: str) -> None:
        self._values: dict[str, str] = {}
        for pair in query.split("&"):
            if ";" in pair or _BAD_ESCAPE.search(pair):
                continue
            key, _, value = pair.partition("=")
            self._values.setdefault(unquote_plus(key), unquote_plus(value))

    def text(self, name: str) -> str:
        """The text of a parameter, empty if it is absent."""
        return self._values.get(name, "")

    def boolean(self, name: str) -> bool:
        """A truth value, false if it is absent."""
        value = self.text(name)
        if value in _TRUE:
            return True
        if value in _FALSE or not value:
            return False
        raise _not_a("boolean", name, "ParseBool", value, "invalid syntax")

    def integer(self, name: str) -> int:
        """A signed number, 0 if it is absent."""
        value = self.text(name)
        if not value:
            return 0
        if _SIGNED.fullmatch(value) is None:
            raise _not_a("int", name, "Atoi", value, "invalid syntax")
        parsed = int(value) if len(value) < _DIGITS_MAX else MAX_UINT64
        if not MIN_INT64 <= parsed <= MAX_INT64:
            raise _not_a("int", name, "Atoi", value, "value out of range")
        return parsed

    def unsigned(self, name: str) -> int:
        """A number that is not negative, 0 if it is absent."""
        value = self.text(name)
        if not value:
            return 0
        if _UNSIGNED.fullmatch(value) is None:
            raise _not_a("uint64", name, "ParseUint", value, "invalid syntax")
        if len(value) >= _DIGITS_MAX or int(value) > MAX_UINT64:
            raise _not_a("uint64", name, "ParseUint", value, "value out of range")
        return int(value)

    def subscriptions(self) -> tuple[bool, bool]:
        """Whether subscriptions are wanted, and whether with everything about them."""
        if self.text("subs").lower() == "detail":
            return False, True
        return self.boolean("subs"), False


def _not_a(kind: str, name: str, function: str, value: str, problem: str) -> Refused:
    return Refused(
        f"Error decoding {kind} for '{name}': strconv.{function}: parsing {quote(value)}: {problem}"
    )
