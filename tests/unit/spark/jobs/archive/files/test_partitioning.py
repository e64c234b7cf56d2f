"""The columns by which an archive is divided, and the names of its directories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.jobs.archive.files.partitioning import (
    NO_VALUE,
    TOKEN_CHARS_MAX,
    Partitioning,
    token_of,
)
from headwater.spark.options import OptionError

NAME_BYTES_MAX = 255


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ((), ()),
        (("date",), ("date",)),
        (("hour",), ("date", "hour")),
        (("date", "hour"), ("date", "hour")),
        (("token:2", "date"), ("token_2", "date")),
        (("token:1", "token:1"), ("token_1",)),
    ],
)
def test_words_become_columns(words: tuple[str, ...], columns: tuple[str, ...]) -> None:
    assert Partitioning.parse(words).columns == columns


@pytest.mark.parametrize("word", ["", "day", "token", "token:0", "token:100", "token:x", "Date"])
def test_an_unknown_word_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(
        OptionError, match=r"^option partition_by=.*allowed are date, hour"
    ) as error:
        Partitioning.parse((word,))
    assert "\n" not in str(error.value)


def test_directories_may_not_nest_without_end() -> None:
    assert len(Partitioning.parse([f"token:{n}" for n in range(1, 6)]).columns) == 5
    with pytest.raises(OptionError, match="partition_by makes 6 levels"):
        Partitioning.parse([f"token:{n}" for n in range(1, 7)])


def test_a_directory_is_spelled_as_hive_does() -> None:
    partitioning = Partitioning.parse(("hour", "token:2"))
    assert partitioning.directory(("2026-11-15", "7", "a/b=c%")) == (
        "date=2026-11-15/hour=7/token_2=a%2Fb%3Dc%25"
    )
    assert partitioning.directory(("2026-11-15", "7", None)).endswith(f"token_2={NO_VALUE}")
    assert Partitioning(()).directory(()) == ""


@pytest.mark.parametrize(
    "directory",
    ["", "date=1", "date=1/hour=2/more=3", "hour=1/date=2", "date/hour=2", "_headwater/x=1"],
)
def test_a_directory_of_something_else_has_no_values(directory: str) -> None:
    assert Partitioning.parse(("hour",)).values(directory) is None


TOKENS = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: "." not in text)


@given(TOKENS)
def test_any_token_becomes_a_name_that_file_systems_take_and_is_read_back(token: str) -> None:
    partitioning = Partitioning(("token_99",))
    value = token_of(token, 0)
    directory = partitioning.directory((value,))
    assert len(directory.encode()) <= NAME_BYTES_MAX
    assert "/" not in directory
    assert "\0" not in directory
    assert value is not None
    if value != NO_VALUE:
        assert partitioning.values(directory) == (value,)


def test_tokens_are_counted_from_zero_here_and_cut_where_they_are_long() -> None:
    assert token_of("a.b.c", 1) == "b"
    assert token_of("a.b", 2) is None
    assert token_of("x" * TOKEN_CHARS_MAX, 0) == "x" * TOKEN_CHARS_MAX
    assert token_of("x" * (TOKEN_CHARS_MAX + 1), 0) == "x" * TOKEN_CHARS_MAX
