"""Origins of mirrors and sources as people write them, and as they are shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.shell.origins import details_text, origin_text, parse_origin, pieces
from headwater.cli.shell.settings import SettingsTable
from headwater.cli.streams.settings import SETTINGS

TIME = "2026-01-05T09:30:00Z"


def time_of(text: str) -> str:
    """The API time for the times that these tests write."""
    if text != TIME and not text.startswith("2026"):
        raise ValueError(f"{text!r} is no time")
    return text


def parsed(text: str) -> dict[str, Any]:
    """The origin in a text."""
    return parse_origin(text, time_of)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("ORDERS", {"name": "ORDERS"}),
        ("O, filter = orders.eu.>", {"name": "O", "filter_subject": "orders.eu.>"}),
        ("O,start=100", {"name": "O", "opt_start_seq": 100}),
        (f"O,start={TIME}", {"name": "O", "opt_start_time": TIME}),
        ("O,domain=hub", {"name": "O", "external": {"api": "$JS.hub.API"}}),
        (
            "O,api=JS.hub,deliver=from.hub",
            {"name": "O", "external": {"api": "JS.hub", "deliver": "from.hub"}},
        ),
        (
            "O,transform=a.* b.{{partition(3,1)}}.{{wildcard(1)}},transform=c.>   d.>,start=1",
            {
                "name": "O",
                "subject_transforms": [
                    {"src": "a.*", "dest": "b.{{partition(3,1)}}.{{wildcard(1)}}"},
                    {"src": "c.>", "dest": "d.>"},
                ],
                "opt_start_seq": 1,
            },
        ),
        ('{"name": "O", "opt_start_seq": 7}', {"name": "O", "opt_start_seq": 7}),
    ],
)
def test_an_origin_is_a_name_with_details_or_an_object(text: str, origin: dict[str, Any]) -> None:
    assert parsed(text) == origin


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "does not begin with the name of a stream; write NAME,filter=SUBJECT"),
        ("filter=a", "does not begin with the name of a stream"),
        ("O,", "'' is no detail of an origin; use filter, transform, start"),
        ("O,orders.>", "'orders.>' is no detail of an origin"),
        ("O,filter=", "'filter=' is no detail of an origin"),
        ("O,name=P", "'name=P' is no detail of an origin"),
        ("O,start=1,start=2", "has start twice"),
        ("O,start=soon", "'soon' is no time"),
        ("O,transform=a.>", "write transform=SRC DEST"),
        ("O,domain=hub,api=JS.hub", "has both domain and api"),
        ("O,deliver=x", "has deliver without api or domain"),
        ("{", "is not a JSON object"),
        ('{"name": "O"', "is not a JSON object"),
    ],
)
def test_a_text_that_is_no_origin_is_refused_with_the_right_form(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        parsed(text)


@pytest.mark.parametrize(
    "origin",
    [
        {"name": "O", "opt_start_seq": 1, "opt_start_time": TIME},
        {"name": "O", "consumer": {"name": "C", "deliver_subject": "d"}},
        {"name": "O,P"},
        {"name": "{O"},
        {"name": "a=b"},
        {"name": "O", "filter_subject": "a b"},
        {"name": "O", "external": {"api": "", "deliver": "d"}},
        {"name": "O", "subject_transforms": [{"src": "a", "dest": ""}]},
        {"name": "O", "subject_transforms": [{"src": "a", "dest": "b,c"}]},
    ],
)
def test_an_origin_that_has_no_short_form_is_shown_as_an_object(origin: dict[str, Any]) -> None:
    text = origin_text(origin)
    assert json.loads(text) == origin
    assert parsed(text) == origin


WORDS = st.from_regex(r"[A-Za-z0-9_.$>*-]{1,12}", fullmatch=True)
TRANSFORMS = st.fixed_dictionaries(
    {"src": WORDS, "dest": st.sampled_from(["a.>", "b.{{wildcard(1)}}", "{{partition(3, 1)}}.c"])}
)
ORIGINS = st.fixed_dictionaries(
    {"name": st.text(min_size=1, max_size=8)},
    optional={
        "filter_subject": WORDS | st.text(min_size=1, max_size=6),
        "opt_start_seq": st.integers(1, 2**64 - 1),
        "subject_transforms": st.lists(TRANSFORMS, min_size=1, max_size=3),
        "external": st.fixed_dictionaries({"api": WORDS}, optional={"deliver": WORDS}),
    },
)


@given(ORIGINS)
def test_an_origin_that_is_shown_and_read_again_is_the_same(origin: dict[str, Any]) -> None:
    assert parsed(origin_text(origin)) == origin


@given(st.text(max_size=40))
def test_any_text_is_an_origin_or_a_complaint(text: str) -> None:
    try:
        origin = parsed(text)
    except ValueError:
        origin = {"name": "refused"}
    assert isinstance(origin, dict)


def test_commas_in_braces_do_not_end_a_piece() -> None:
    assert list(pieces("a,b={{f(1,2)}}.{{g(3,4)}},c")) == ["a", "b={{f(1,2)}}.{{g(3,4)}}", "c"]
    assert list(pieces("a{{b,c")) == ["a{{b", "c"]


def test_details_leave_the_name_out() -> None:
    assert details_text({"name": "O", "filter_subject": "a.>"}) == "filter=a.>"
    assert details_text({"name": "O", "consumer": {"name": "C"}}) == '{"consumer": {"name": "C"}}'
    assert details_text({"name": "O"}) == ""


def test_a_difference_shows_origins_as_they_are_written() -> None:
    table: SettingsTable = SETTINGS
    sources = [{"name": "A"}, {"name": "B", "filter_subject": "b.>"}]
    assert table.value_text("sources", sources) == "A; B,filter=b.>"
    assert table.value_text("mirror", {"name": "A", "opt_start_seq": 3}) == "A,start=3"
