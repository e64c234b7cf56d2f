"""The grammar of subjects.

A subject is tokens joined by dots. In a pattern the whole token `*` stands for any one token and
the whole last token `>` for one or more; `foo*` or `a>b` are ordinary tokens. Subjects are bytes,
as on the wire; this module knows neither subscribers nor publishers.

A control line of the protocol separates its words by blanks and ends at a line end. The decoder
cuts subjects out of such lines, so no subject from the wire has them. A subject from anywhere else
(a JSON document, a header, a file) may have any character, and has to pass one of two checks before
a frame is made with it. `is_one_word` is the condition for a frame. `has_blank_or_control` is the
condition of the API, which also refuses all control characters, because they are invisible in a
name.
"""

import re
from typing import Final

STAR: Final = b"*"
FULL: Final = b">"
SEPARATOR: Final = b"."

# Bytes that end a word of a control line. A single byte is found much faster by its number.
_TAB: Final = 0x09
_LINE_FEED: Final = 0x0A
_RETURN: Final = 0x0D
_BLANK: Final = 0x20

_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


def is_one_word(subject: bytes) -> bool:
    """Whether a control line can carry `subject`, so that a peer reads exactly one word."""
    return (
        bool(subject)
        and _LINE_FEED not in subject
        and _RETURN not in subject
        and _BLANK not in subject
        and _TAB not in subject
    )


def has_blank_or_control(text: str | bytes) -> bool:
    """Whether a name or subject in a request has characters that the API refuses.

    Bytes that are not UTF-8 are neither blank nor control.
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return _BLANK_OR_CONTROL.search(text) is not None


def is_valid_pattern(subject: bytes) -> bool:
    """Whether `subject` may be subscribed to: no empty token, `>` only at the end."""
    tokens = subject.split(SEPARATOR)
    return b"" not in tokens and FULL not in tokens[:-1]


def is_valid_literal(subject: bytes) -> bool:
    """Whether `subject` may be published to: a pattern without wildcards."""
    tokens = subject.split(SEPARATOR)
    return b"" not in tokens and STAR not in tokens and FULL not in tokens


def has_wildcard(subject: bytes) -> bool:
    """Whether any token is a wildcard."""
    if STAR not in subject and FULL not in subject:
        return False
    tokens = subject.split(SEPARATOR)
    return STAR in tokens or tokens[-1] == FULL


def matches(pattern: bytes, subject: bytes) -> bool:
    """Whether `pattern` covers `subject`; wildcards in `subject` count as plain tokens."""
    if pattern == subject:
        return True
    wanted = pattern.split(SEPARATOR)
    given = subject.split(SEPARATOR)
    if wanted[-1] == FULL:
        if len(given) < len(wanted):
            return False
        wanted.pop()
    elif len(given) != len(wanted):
        return False
    return all(want in (STAR, have) for want, have in zip(wanted, given, strict=False))


def is_subset(inner: bytes, outer: bytes) -> bool:
    """Whether everything that matches `inner` also matches `outer`."""
    inner_tokens = inner.split(SEPARATOR)
    outer_tokens = outer.split(SEPARATOR)
    for position, token in enumerate(outer_tokens):
        if position >= len(inner_tokens):
            return False
        if token == FULL:
            return True
        have = inner_tokens[position]
        if have == FULL or token not in (STAR, have):
            return False
    return len(inner_tokens) == len(outer_tokens)


def collide(left: bytes, right: bytes) -> bool:
    """Whether some subject matches both patterns."""
    left_tokens = left.split(SEPARATOR)
    right_tokens = right.split(SEPARATOR)
    for one, other in zip(left_tokens, right_tokens, strict=False):
        if one == FULL or other == FULL:
            return True
        if one != other and STAR not in (one, other):
            return False
    return len(left_tokens) == len(right_tokens)
