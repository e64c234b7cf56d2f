"""Filters of one consumer do not contain one another, and many are compared in little time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_checks.filters import check_filters
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_checks.overlap import is_subset
from headwater.jetstream.config.stream_checks.subjects import is_valid_subject
from headwater.jetstream.errors import ApiError

TOKENS = st.sampled_from(["a", "b", "*", ">", "*x", "*y", ""])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join).filter(bool)
CONTAINED = error_codes.CONSUMER_OVERLAPPING_SUBJECT_FILTERS.err_code
INVALID = error_codes.STREAM_INVALID_CONFIG.err_code


def refusal(filters: tuple[str, ...]) -> int:
    """The code of the error that refuses filters; 0 if they are accepted."""
    try:
        check_filters(ConsumerConfig(filter_subjects=filters))
    except ApiError as error:
        return error.err_code
    return 0


def expected_refusal(filters: list[str]) -> int:
    """The code expected from a comparison of each filter with each other one."""
    for position, subject in enumerate(filters):
        if not is_valid_subject(subject):
            return INVALID
        others = filters[:position] + filters[position + 1 :]
        if any(is_subset(subject, other) for other in others):
            return CONTAINED
    return 0


@given(st.lists(SUBJECTS, max_size=6))
def test_each_is_compared_with_each(filters: list[str]) -> None:
    assert refusal(tuple(filters)) == expected_refusal(filters)


def test_very_many_plain_filters() -> None:
    filters = tuple(f"s.{number}" for number in range(50_000))
    assert refusal(filters) == 0
    assert refusal((*filters, "s.7")) == CONTAINED


def test_very_many_filters_that_begin_like_wildcards() -> None:
    """Comparing them would take minutes; a client is told so instead."""
    filters = tuple(f"*{number}.{number}" for number in range(20_000))
    with pytest.raises(ApiError) as refused:
        check_filters(ConsumerConfig(filter_subjects=filters))
    assert refused.value.description == "too many subjects to compare"
