"""Collisions of subjects: nats-server's rules, and the tree against comparing each with each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.config.stream_checks import overlap as config_checks_overlap
from headwater.jetstream.config.stream_checks.overlap import (
    Overlaps,
    TooManySubjects,
    collide,
    is_subset,
)
from headwater.jetstream.config.stream_checks.subjects import with_subjects
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.b", "a.*", True),
        ("a.*", "*.b", True),
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.>", True),
        ("a.*.c", "*.b.*", True),
        ("a.*.c", "*.b.d", False),
        (">", "a.b", True),
        # Only the first character of a token counts, as long as a pattern is concerned.
        ("*a.>", "b.>", True),
        ("*a.*", "b.c", True),
        ("*a", "b", False),
        (">a.*", "b.*", True),
        (">a.*", "b.c", False),
        # A text that is no subject collides with nothing but itself.
        ("a.", "a.*", False),
        ("a.", "a.", True),
        ("", "*", False),
        (">.a", "b", True),
    ],
)
def test_collisions(left: str, right: str, expected: bool) -> None:
    assert collide(left, right) is expected
    assert collide(right, left) is expected


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("a", "a", True),
        ("a.b", "a.*", True),
        ("a.*", "a.b", False),
        ("a.*", "a.*", True),
        ("a.*", "a.*b", False),
        ("a.c", "a.*b", True),
        ("a.>", "a.*", False),
        ("a.>", "a.>", True),
        ("a.*", "a.>", True),
        ("a.b.c", "a.>", True),
        ("a", "a.>", False),
        ("", "a", False),
    ],
)
def test_subsets(inner: str, outer: str, expected: bool) -> None:
    assert is_subset(inner, outer) is expected


TOKENS = st.sampled_from(["a", "b", "c", "*", ">", "*a", ">a", ""])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)


@given(st.lists(SUBJECTS, max_size=8), SUBJECTS)
def test_the_tree_finds_what_comparing_each_finds(subjects: list[str], wanted: str) -> None:
    found = Overlaps(tuple(subjects)).colliding_with(wanted)
    assert sorted(found) == sorted(each for each in subjects if collide(wanted, each))


def test_many_literal_subjects_are_no_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_checks_overlap, "_STEPS_MAX", 10)
    subjects = tuple(f"device.{number}" for number in range(1000))
    overlaps = Overlaps(subjects)
    assert all(list(overlaps.colliding_with(each)) == [each] for each in subjects)


def test_patterns_that_take_too_long_to_compare_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config_checks_overlap, "_STEPS_MAX", 100)
    crossed = (*(f"*.a{number}" for number in range(20)), *(f"b{number}.c" for number in range(20)))
    overlaps = Overlaps(crossed)
    with pytest.raises(TooManySubjects):
        sum(len(list(overlaps.colliding_with(each))) for each in crossed)
    with pytest.raises(ApiError, match="too many subjects to compare"):
        with_subjects(StreamConfig(name="S", subjects=crossed, no_ack=True))
