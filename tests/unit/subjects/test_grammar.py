"""Subjects by example. tests/properties/test_grammar.py has the general statements."""

import pytest

from headwater.subjects.grammar import (
    collide,
    has_blank_or_control,
    has_wildcard,
    is_one_word,
    is_subset,
    is_valid_literal,
    is_valid_pattern,
    matches,
)


@pytest.mark.parametrize(
    "subject",
    [
        b"foo", b"foo.bar", b"*", b">", b"foo.*", b"*.bar", b"foo.>", b"*.*.>",
        # Wildcards are whole tokens; anything else is an ordinary one.
        b"foo*", b"f*o.b*r", b"foo>", b">foo", b"foo.>bar", b"**", b">>", b"foo.*bar.>",
        b"$SYS.REQ", b"_INBOX.abc", b"\xff\xfe", "größe.日本".encode(), b"a\x00b",
    ],
)  # fmt: skip
def test_patterns(subject: bytes) -> None:
    assert is_valid_pattern(subject)


@pytest.mark.parametrize(
    "subject",
    [b"", b".", b"..", b".foo", b"foo.", b"foo..bar", b"foo.>.bar", b">.foo", b">.>", b"foo.>."],
)
def test_no_patterns(subject: bytes) -> None:
    assert not is_valid_pattern(subject)
    assert not is_valid_literal(subject)


@pytest.mark.parametrize(
    ("subject", "literal"),
    [
        (b"foo", True),
        (b"foo.bar.baz", True),
        (b"foo*", True),
        (b"foo.b>r", True),
        (b"**.>>", True),
        (b"*", False),
        (b">", False),
        (b"foo.*", False),
        (b"foo.*.bar", False),
        (b"foo.>", False),
    ],
)
def test_literals_have_no_wildcard_token(subject: bytes, literal: bool) -> None:
    assert is_valid_literal(subject) is literal
    assert has_wildcard(subject) is not literal


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"foo", [b"foo"], [b"fo", b"fooo", b"foo.bar", b"bar", b""]),
        (b"*", [b"foo", b"*", b">"], [b"foo.bar", b"foo.bar.baz"]),
        (b"foo.*", [b"foo.bar", b"foo.*", b"foo.>"], [b"foo", b"foo.bar.baz", b"fo.bar"]),
        (b"*.bar", [b"foo.bar", b"*.bar"], [b"bar", b"foo.bar.bar", b"foo.baz"]),
        (b"foo.*.baz", [b"foo.bar.baz"], [b"foo.baz", b"foo.bar.bar.baz"]),
        (b">", [b"foo", b"foo.bar", b"*", b">"], []),
        (b"foo.>", [b"foo.bar", b"foo.bar.baz", b"foo.>"], [b"foo", b"fo.bar"]),
        (b"*.>", [b"foo.bar", b"a.b.c"], [b"foo"]),
        (b"foo*", [b"foo*"], [b"foobar", b"foo"]),
        (b"a>b", [b"a>b"], [b"axb", b"a"]),
    ],
)
def test_matching(pattern: bytes, yes: list[bytes], no: list[bytes]) -> None:
    assert [subject for subject in yes if not matches(pattern, subject)] == []
    assert [subject for subject in no if matches(pattern, subject)] == []


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (b"foo.bar", b"foo.bar", True),
        (b"foo.bar", b"foo.*", True),
        (b"foo.bar", b">", True),
        (b"foo.*", b"foo.*", True),
        (b"foo.*", b"foo.>", True),
        (b"foo.>", b"foo.>", True),
        (b"foo.>", b">", True),
        (b"foo.*.>", b"foo.>", True),
        (b"*.bar", b"*.*", True),
        (b"foo.*", b"foo.bar", False),
        (b"foo.>", b"foo.*", False),
        (b"foo.>", b"foo.*.>", False),
        (b">", b"*", False),
        (b">", b"*.>", False),
        (b"foo", b"foo.>", False),
        (b"foo.bar", b"foo", False),
        (b"foo", b"foo.bar", False),
        (b"v1.*", b"v1.>", True),
    ],
)
def test_subsets(inner: bytes, outer: bytes, expected: bool) -> None:
    assert is_subset(inner, outer) is expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (b"foo", b"foo", True),
        (b"foo", b"bar", False),
        (b"foo.*", b"*.bar", True),
        (b"foo.*", b"bar.*", False),
        (b"foo.>", b"*.bar.baz", True),
        (b"foo.>", b"foo", False),
        (b"foo.*", b"foo", False),
        (b"*.*", b"foo.bar.baz", False),
        (b">", b"a.b.c", True),
        (b"a.*.c", b"a.b.>", True),
        (b"a.b.>", b"a.b", False),
        (b"a.>", b"a.*.>", True),
    ],
)
def test_collisions(left: bytes, right: bytes, expected: bool) -> None:
    assert collide(left, right) is expected
    assert collide(right, left) is expected


@pytest.mark.parametrize("code", range(256))
def test_one_word_is_what_no_reader_of_a_control_line_ends_early(code: int) -> None:
    character = bytes([code])
    for subject in (character, b"a" + character, character + b"a", b"a." + character + b".b"):
        assert is_one_word(subject) == (character not in b" \t\r\n")
    assert has_blank_or_control(character) == (code <= 0x20 or code == 0x7F)
    assert has_blank_or_control(f"a{chr(code)}b") == (code <= 0x20 or code == 0x7F)


def test_nothing_is_not_a_word() -> None:
    assert not is_one_word(b"")
