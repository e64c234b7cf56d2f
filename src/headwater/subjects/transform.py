"""Rules that rewrite subjects: `orders.*.*` to `{{wildcard(2)}}.orders.{{partition(8,1)}}`.

A rule has a source pattern and a destination whose tokens are copied as they are, or are functions
of the tokens that the source's wildcards stand for. `>` at the end of both copies the rest. A rule
is parsed once; applying it is string work on one subject, and `random` needs random numbers.

The texts of errors and all edge cases of the functions are nats-server's. Subjects are bytes.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple, final

from headwater.base.entropy import Entropy
from headwater.base.errors import PeerError
from headwater.base.invariants import InvariantViolation
from headwater.subjects.grammar import (
    FULL,
    SEPARATOR,
    STAR,
    has_blank_or_control,
    is_one_word,
)

_INT32_MAX: Final = (1 << 31) - 1
_INT32_MIN: Final = -(1 << 31)
_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)
_UINT32: Final = 0xFFFFFFFF
_DIGITS_MAX: Final = 4000

_ARGUMENT_SEPARATOR: Final = re.compile(rb",[\t\n\f\r ]*")
_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")

_NOT_ENOUGH: Final = "not enough arguments passed to the function"
_TOO_MANY: Final = "too many arguments passed to the function"
_WRONG_ARGUMENT: Final = "function argument is invalid or in the wrong format"
_UNKNOWN_FUNCTION: Final = "unknown function"
_OUT_OF_RANGE: Final = "wildcard index out of range"
_INVALID_TRANSFORM: Final = "invalid transform"


class TransformError(PeerError):
    """The rule is invalid; `reply` is the text for clients."""


def _bad_destination(reason: str, token: bytes = b"") -> TransformError:
    text = f"invalid mapping destination: {reason}"
    if token:
        text += f" in {token.decode('utf-8', 'replace')}"
    return TransformError(text)


class Function(Enum):
    """The function of a token in the destination."""

    LITERAL = auto()
    WILDCARD = auto()
    PARTITION = auto()
    SPLIT_FROM_LEFT = auto()
    SPLIT_FROM_RIGHT = auto()
    SLICE_FROM_LEFT = auto()
    SLICE_FROM_RIGHT = auto()
    SPLIT = auto()
    LEFT = auto()
    RIGHT = auto()
    RANDOM = auto()


class _Call(NamedTuple):
    """A token of a destination, parsed but not yet bound to a source.

    `wildcards` are numbers of wildcards counted from one.
    """

    function: Function
    wildcards: tuple[int, ...] = ()
    number: int = -1
    text: bytes = b""


def _named(name: bytes) -> re.Pattern[bytes]:
    """A regular expression for a call of `name`; each word may begin with either case."""
    either = b"".join(
        b"[%c%c]" % (letter + 32, letter) if 65 <= letter <= 90 else bytes([letter])
        for letter in name
    )
    return re.compile(rb"\{\{[\t\n\f\r ]*" + either + rb"[\t\n\f\r ]*\(([^\n]*)\)[\t\n\f\r ]*\}\}")


# In the order in which they are tried. Those of the second list take a wildcard and a number.
_WILDCARD: Final = _named(b"Wildcard")
_PARTITION: Final = _named(b"Partition")
_WITH_NUMBER: Final = (
    (_named(b"SplitFromLeft"), Function.SPLIT_FROM_LEFT),
    (_named(b"SplitFromRight"), Function.SPLIT_FROM_RIGHT),
    (_named(b"SliceFromLeft"), Function.SLICE_FROM_LEFT),
    (_named(b"SliceFromRight"), Function.SLICE_FROM_RIGHT),
    (_named(b"Right"), Function.RIGHT),
    (_named(b"Left"), Function.LEFT),
)
_SPLIT: Final = _named(b"Split")
_RANDOM: Final = _named(b"Random")
_KNOWN: Final = (_WILDCARD, _PARTITION, *(each for each, _ in _WITH_NUMBER), _SPLIT, _RANDOM)


def _is_call(token: bytes) -> bool:
    return len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")


def _arguments(pattern: re.Pattern[bytes], token: bytes) -> list[bytes] | None:
    found = pattern.search(token)
    return None if found is None else _ARGUMENT_SEPARATOR.split(found[1])


def _integer(text: bytes, last: int = _INT64_MAX, first: int = _INT64_MIN) -> int | None:
    digits = text.strip(b" ")
    if len(digits) > _DIGITS_MAX or _INTEGER.fullmatch(digits) is None:
        return None
    number = int(digits)
    return number if first <= number <= last else None


def _integer_argument(token: bytes, text: bytes) -> int:
    number = _integer(text)
    if number is None:
        raise _bad_destination(_WRONG_ARGUMENT, token)
    return number


def _size_argument(token: bytes, text: bytes) -> int:
    """A count; too large ones are refused, too small ones wrap around."""
    number = _integer_argument(token, text)
    if number > _INT32_MAX:
        raise _bad_destination(_WRONG_ARGUMENT, token)
    return (number - _INT32_MIN) % (1 << 32) + _INT32_MIN


def _two_arguments(token: bytes, arguments: list[bytes]) -> tuple[bytes, bytes]:
    if len(arguments) < 2:
        raise _bad_destination(_NOT_ENOUGH, token)
    if len(arguments) > 2:
        raise _bad_destination(_TOO_MANY, token)
    return arguments[0], arguments[1]


def _read_token(token: bytes) -> _Call:
    if len(token) > 1 and token[:1] == b"$":
        number = _integer(token[1:]) if b" " not in token else None
        return _Call(Function.LITERAL) if number is None else _Call(Function.WILDCARD, (number,))
    if not _is_call(token):
        return _Call(Function.LITERAL)
    arguments = _arguments(_WILDCARD, token)
    if arguments is not None:
        return _read_wildcard(token, arguments)
    arguments = _arguments(_PARTITION, token)
    if arguments is not None:
        size = _size_argument(token, arguments[0])
        wildcards = tuple(_integer_argument(token, each) for each in arguments[1:])
        return _Call(Function.PARTITION, wildcards, size)
    for pattern, function in _WITH_NUMBER:
        arguments = _arguments(pattern, token)
        if arguments is not None:
            return _read_with_number(token, arguments, function)
    arguments = _arguments(_SPLIT, token)
    if arguments is not None:
        return _read_split(token, arguments)
    arguments = _arguments(_RANDOM, token)
    if arguments is not None:
        if len(arguments) != 1:
            raise _bad_destination(_NOT_ENOUGH, token)
        return _Call(Function.RANDOM, (), _size_argument(token, arguments[0]))
    raise _bad_destination(_UNKNOWN_FUNCTION, token)


def _read_wildcard(token: bytes, arguments: list[bytes]) -> _Call:
    if arguments == [b""]:
        raise _bad_destination(_NOT_ENOUGH, token)
    if len(arguments) > 1:
        raise _bad_destination(_TOO_MANY, token)
    return _Call(Function.WILDCARD, (_integer_argument(token, arguments[0]),))


def _read_with_number(token: bytes, arguments: list[bytes], function: Function) -> _Call:
    first, second = _two_arguments(token, arguments)
    wildcard = _integer_argument(token, first)
    number = _integer(second, _INT32_MAX, _INT32_MIN)
    if number is None:
        raise _bad_destination(_WRONG_ARGUMENT, token)
    return _Call(function, (wildcard,), number)


def _read_split(token: bytes, arguments: list[bytes]) -> _Call:
    first, delimiter = _two_arguments(token, arguments)
    wildcard = _integer_argument(token, first)
    if b" " in delimiter or SEPARATOR in delimiter:
        raise _bad_destination(_WRONG_ARGUMENT, token)
    return _Call(Function.SPLIT, (wildcard,), -1, delimiter)


def _tokens_of_pattern(subject: bytes) -> list[bytes]:
    tokens = subject.split(SEPARATOR)
    if b"" in tokens or FULL in tokens[:-1]:
        raise TransformError("invalid subject")
    return tokens


# --- the functions --------------------------------------------------------------------------------


def _partition(key: bytes, buckets: int) -> bytes:
    """The bucket of a key, by the FNV-1a hash of 32 bits."""
    if buckets == 0:
        return b"0"
    code = 0x811C9DC5
    for byte in key:
        code = (code ^ byte) * 0x01000193 & _UINT32
    return b"%d" % (code % (buckets & _UINT32))


def _split_from_left(token: bytes, position: int) -> bytes:
    if 0 < position < len(token):
        return token[:position] + SEPARATOR + token[position:]
    return token


def _split_from_right(token: bytes, position: int) -> bytes:
    return _split_from_left(token, len(token) - position) if position > 0 else token


def _slice_from_left(token: bytes, size: int) -> bytes:
    if not 0 < size < len(token):
        return token
    return SEPARATOR.join([token[begin : begin + size] for begin in range(0, len(token), size)])


def _slice_from_right(token: bytes, size: int) -> bytes:
    if not 0 < size < len(token):
        return token
    first = len(token) % size or size
    rest = [token[begin : begin + size] for begin in range(first, len(token), size)]
    return SEPARATOR.join([token[:first], *rest])


def _left(token: bytes, size: int) -> bytes:
    return token[:size] if 0 < size < len(token) else token


def _right(token: bytes, size: int) -> bytes:
    return token[-size:] if 0 < size < len(token) else token


def _split(token: bytes, delimiter: bytes) -> bytes:
    parts = token.split(delimiter) if delimiter else _characters(token)
    # nats-server's rule: a single delimiter at the front leaves no empty token, several do.
    unseparated = 1 if not parts[0] else 0
    return b"".join(
        [
            part if position <= unseparated else SEPARATOR + part
            for position, part in enumerate(parts)
            if part
        ]
    )


def _characters(token: bytes) -> list[bytes]:
    text = token.decode("utf-8", "surrogateescape")
    return [character.encode("utf-8", "surrogateescape") for character in text]


_ON_ONE_TOKEN: Final[dict[Function, Callable[[bytes, int], bytes]]] = {
    Function.SPLIT_FROM_LEFT: _split_from_left,
    Function.SPLIT_FROM_RIGHT: _split_from_right,
    Function.SLICE_FROM_LEFT: _slice_from_left,
    Function.SLICE_FROM_RIGHT: _slice_from_right,
    Function.LEFT: _left,
    Function.RIGHT: _right,
}


@final
class SubjectTransform:
    """One rule. Made by `parse`."""

    __slots__ = (
        "_calls",
        "_carries_rest",
        "_fixed",
        "_is_identity",
        "_tokens_min",
        "destination",
        "source",
    )

    def __init__(self, source: bytes, destination: bytes, calls: list[tuple[bytes, _Call]]) -> None:
        """`calls` are the destination's tokens; their wildcards are indexes of source tokens."""
        tokens = source.split(SEPARATOR)
        self.source = source
        self.destination = destination
        self._is_identity = source == FULL == destination
        self._carries_rest = tokens[-1] == FULL
        self._tokens_min = len(tokens)
        self._fixed = [
            (index, token) for index, token in enumerate(tokens) if token not in (STAR, FULL)
        ]
        self._calls = [(token, call) for token, call in calls if token != FULL]

    @classmethod
    def parse(cls, source: bytes, destination: bytes) -> "SubjectTransform":
        """Parse a rule. Raises TransformError.

        An empty source stands for `>`. With an empty destination the rule matches nothing. Every
        rule turns a subject of one word into one word, which can go into a frame without another
        check.
        """
        source = source or FULL
        if not destination:
            return cls(source, destination, [])
        tokens = _tokens_of_pattern(source)
        wanted = _tokens_of_pattern(destination)
        if STAR in wanted or (tokens[-1] == FULL) != (wanted[-1] == FULL):
            raise TransformError("invalid subject")
        wildcards = [index for index, token in enumerate(tokens) if token == STAR]
        if wildcards or tokens[-1] == FULL:
            calls = [_bound(token, _read_token(token), wildcards) for token in wanted]
        else:
            calls = [_bound_to_literal(token, _read_token(token)) for token in wanted]
        for token, call in calls:
            if call.function is Function.LITERAL and not is_one_word(token):
                raise TransformError("invalid subject")
        return cls(source, destination, calls)

    @property
    def is_random(self) -> bool:
        """Whether equal subjects may have different results."""
        return any(call.function is Function.RANDOM for _, call in self._calls)

    def apply(self, subject: bytes, entropy: Entropy | None = None) -> bytes | None:
        """The result for a subject; None if the source does not match it."""
        if self._is_identity:
            return subject
        tokens = subject.split(SEPARATOR)
        if not self.destination or not self._is_about(tokens):
            return None
        made = [
            token if call.function is Function.LITERAL else _called(call, tokens, subject, entropy)
            for token, call in self._calls
        ]
        if self._carries_rest:
            made += tokens[self._tokens_min - 1 :]
        return SEPARATOR.join(made)

    def _is_about(self, tokens: list[bytes]) -> bool:
        extra = len(tokens) - self._tokens_min
        if extra < 0 or (extra and not self._carries_rest):
            return False
        if b"" in tokens or STAR in tokens or FULL in tokens:
            return False
        return all(tokens[index] == token for index, token in self._fixed)


def _bound(token: bytes, call: _Call, wildcards: list[int]) -> tuple[bytes, _Call]:
    indexes = []
    for number in call.wildcards:
        if number > len(wildcards):
            raise _bad_destination(_OUT_OF_RANGE, b"%b: [%d]" % (token, number))
        # Wildcards count from one; lower numbers mean the first token, as in nats-server.
        indexes.append(wildcards[number - 1] if number > 0 else 0)
    return token, call._replace(wildcards=tuple(indexes))


def _bound_to_literal(token: bytes, call: _Call) -> tuple[bytes, _Call]:
    if call.function in (Function.LITERAL, Function.RANDOM, Function.PARTITION):
        return token, call._replace(wildcards=())
    raise _bad_destination(_OUT_OF_RANGE, token)


def _called(call: _Call, tokens: list[bytes], subject: bytes, entropy: Entropy | None) -> bytes:
    function = call.function
    if function is Function.WILDCARD:
        return tokens[call.wildcards[0]]
    if function is Function.PARTITION:
        key = b"".join([tokens[index] for index in call.wildcards]) or subject
        return _partition(key, call.number)
    if function is Function.SPLIT:
        return _split(tokens[call.wildcards[0]], call.text)
    if function is Function.RANDOM:
        if entropy is None:
            raise InvariantViolation("a transform with random in it needs entropy")
        return b"%d" % entropy.below(abs(call.number)) if call.number else b"0"
    return _ON_ONE_TOKEN[function](tokens[call.wildcards[0]], call.number)


def validate_mapping(source: bytes, destination: bytes) -> None:
    """Refuse a rule that a stream's configuration may not have. Raises TransformError.

    The rules are those of `parse` and `check_characters`, with other texts.
    """
    if not destination:
        return
    full_seen = False
    for token in destination.split(SEPARATOR):
        if full_seen or not token:
            raise _bad_destination(_INVALID_TRANSFORM, token)
        full_seen = token == FULL
        if _is_call(token):
            if not any(pattern.search(token) for pattern in _KNOWN):
                raise _bad_destination(_UNKNOWN_FUNCTION, token)
        else:
            _check_characters_of(token)
    SubjectTransform.parse(source, destination)


def check_characters(destination: bytes) -> None:
    """Refuse characters that no configuration may have in a destination. Raises TransformError.

    Calls of functions may contain blanks: only their results become part of a subject.
    """
    for token in destination.split(SEPARATOR):
        if not _is_call(token):
            _check_characters_of(token)


def _check_characters_of(token: bytes) -> None:
    if has_blank_or_control(token):
        raise _bad_destination(_INVALID_TRANSFORM)
