"""The grammar's relations against brute force over every short subject of a small alphabet."""

import itertools
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from headwater.subjects.grammar import (
    collide,
    has_wildcard,
    is_subset,
    is_valid_literal,
    is_valid_pattern,
    matches,
)

TOKENS = (b"a", b"b", b"cc")
WILD = (*TOKENS, b"*")
DEPTH_MAX = 4

# Deep enough to tell any two patterns of depth 3 apart: `>` may stand for two tokens or more.
SUBJECTS = [
    b".".join(tokens)
    for depth in range(1, DEPTH_MAX + 1)
    for tokens in itertools.product(TOKENS, repeat=depth)
]
PATTERNS = [
    b".".join((*tokens, last))
    for depth in range(DEPTH_MAX - 1)
    for tokens in itertools.product(WILD, repeat=depth)
    for last in (*WILD, b">")
]


def matches_plainly(pattern: list[bytes], subject: list[bytes]) -> bool:
    if not pattern or not subject:
        return pattern == subject
    if pattern == [b">"]:
        return True
    return pattern[0] in (b"*", subject[0]) and matches_plainly(pattern[1:], subject[1:])


@cache
def language(pattern: bytes) -> frozenset[bytes]:
    tokens = pattern.split(b".")
    return frozenset(s for s in SUBJECTS if matches_plainly(tokens, s.split(b".")))


def test_matching_is_what_the_plain_matcher_says() -> None:
    for pattern in PATTERNS:
        assert {s for s in SUBJECTS if matches(pattern, s)} == language(pattern), pattern


def test_a_subset_is_a_subset_of_what_matches() -> None:
    for inner, outer in itertools.product(PATTERNS, repeat=2):
        # `*.>` and `>` differ by the subjects of one token, so depth 4 shows every difference.
        assert is_subset(inner, outer) == (language(inner) <= language(outer)), (inner, outer)


def test_patterns_collide_when_something_matches_both() -> None:
    for left, right in itertools.product(PATTERNS, repeat=2):
        common = language(left) & language(right)
        assert collide(left, right) == bool(common), (left, right)


raw = st.binary(max_size=12) | st.lists(
    st.sampled_from([b"", b"a", b"*", b">", b"a*", b">b", b"*>"]), max_size=5
).map(b".".join)


@given(raw)
def test_validity_by_its_definition(subject: bytes) -> None:
    tokens = subject.split(b".")
    pattern = all(tokens) and b">" not in tokens[:-1]
    assert is_valid_pattern(subject) == pattern
    if pattern:
        assert has_wildcard(subject) == (b"*" in tokens or b">" in tokens)
        assert is_valid_literal(subject) == (not has_wildcard(subject))
    else:
        assert not is_valid_literal(subject)


@given(raw.filter(is_valid_pattern))
def test_every_pattern_covers_and_meets_itself(pattern: bytes) -> None:
    assert matches(pattern, pattern)
    assert is_subset(pattern, pattern)
    assert collide(pattern, pattern)
