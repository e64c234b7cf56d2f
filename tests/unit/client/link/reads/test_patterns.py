"""The patterns that a server can be given, and matching by the client where it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.link.reads.patterns import Patterns
from headwater.subjects.grammar import matches

tokens = st.sampled_from(["a", "b", "*", ">"])
subjects = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)
patterns = (
    st.lists(tokens, min_size=1, max_size=3)
    .filter(lambda parts: ">" not in parts[:-1])
    .map(".".join)
)


@pytest.mark.parametrize(
    ("given_patterns", "distinct", "overlap"),
    [
        ((), (), False),
        ((">",), (), False),
        (("a", ">"), (), False),
        (("a", "b", "a"), ("a", "b"), False),
        (("a.*", "a.b", "b.a"), ("a.*", "b.a"), False),
        (("a.>", "a.*", "a"), ("a.>", "a"), False),
        (("a.*", "*.b"), ("a.*", "*.b"), True),
        (("*.b", "c.b", "a.*.c"), ("*.b", "a.*.c"), False),
    ],
)
def test_patterns_inside_others_are_left_out(
    given_patterns: tuple[str, ...], distinct: tuple[str, ...], overlap: bool
) -> None:
    found = Patterns(given_patterns)
    assert (found.distinct, found.overlap) == (distinct, overlap)


@given(st.lists(patterns, max_size=4), st.lists(subjects, max_size=8))
def test_the_same_subjects_match(wanted: list[str], published: list[str]) -> None:
    found = Patterns(tuple(wanted))
    names = [subject.encode() for subject in published]
    expected = [
        place
        for place, name in enumerate(names)
        if not wanted or any(matches(pattern.encode(), name) for pattern in wanted)
    ]
    assert found.places(names) == expected


@given(st.lists(patterns, max_size=4), subjects)
def test_without_overlap_no_subject_matches_two(wanted: list[str], subject: str) -> None:
    found = Patterns(tuple(wanted))
    matching = [each for each in found.distinct if matches(each.encode(), subject.encode())]
    assert found.overlap or len(matching) <= 1
