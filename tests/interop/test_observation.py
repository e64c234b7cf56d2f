"""The comparison finds what it must find: each kind of planted difference, and nothing else."""

from typing import Any

import pytest

from tests.interop.masks import MASKS, is_positive
from tests.interop.observation import (
    Addition,
    Mask,
    contains_text,
    differences,
    matches,
    unused_masks,
)

SERVER_ID = "N" + "A" * 55
INFO = {
    "server_id": SERVER_ID,
    "version": "2.15.1",
    "git_commit": "abc",
    "go": "go1",
    "port": 4222,
    "client_id": 5,
    "xkey": "X" + "B" * 55,
    "headers": True,
    "max_payload": 1048576,
}
SEEN: dict[str, Any] = {
    "frames": [{"INFO": INFO}, "MSG foo 1 2\r\nhi\r\n"],
    "code": 0,
    "none": None,
}


def planted(**changes: Any) -> dict[str, Any]:
    return {**SEEN, "frames": [{"INFO": {**INFO, **changes}}, SEEN["frames"][1]]}


def places(oracle: Any, subject: Any) -> list[str]:
    return [".".join(difference.path) for difference in differences(oracle, subject, MASKS)]


def test_equal_trees_have_no_difference() -> None:
    assert places(SEEN, planted()) == []


@pytest.mark.parametrize(
    ("subject", "place"),
    [
        pytest.param({**SEEN, "code": 1}, "code", id="a number"),
        pytest.param({**SEEN, "code": False}, "code", id="a truth value for a number"),
        pytest.param({**SEEN, "code": 0.0}, "code", id="a fraction for a whole number"),
        pytest.param({**SEEN, "none": ""}, "none", id="an empty text for nothing"),
        pytest.param(planted(headers=False), "frames.0.INFO.headers", id="a flag in INFO"),
        pytest.param(planted(extra=1), "frames.0.INFO.extra", id="a key too many"),
        pytest.param({**SEEN, "frames": []}, "frames", id="missing frames"),
        pytest.param(
            {**SEEN, "frames": [*SEEN["frames"], "PING\r\n"]}, "frames", id="a frame more"
        ),
        pytest.param({**SEEN, "frames": SEEN["frames"][::-1]}, "frames.0", id="another order"),
        pytest.param({**SEEN, "frames": "MSG"}, "frames", id="a text for a list"),
        pytest.param(
            {**SEEN, "frames": [SEEN["frames"][0], "MSG foo 1 2\nhi\r\n"]},
            "frames.1",
            id="one missing byte",
        ),
    ],
)
def test_a_planted_difference_is_found_at_its_place(subject: Any, place: str) -> None:
    assert place in places(SEEN, subject)
    assert place in places(subject, SEEN)


def test_a_missing_key_is_found() -> None:
    subject = {key: value for key, value in SEEN.items() if key != "code"}
    assert places(SEEN, subject) == ["code"]


def test_a_masked_value_may_differ() -> None:
    assert places(SEEN, planted(server_id="N" + "Z" * 55, client_id=99, version="2.15.7")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server_id", "NSHORT"),
        ("server_id", "X" + "A" * 55),
        ("version", "2.14.9"),
        ("version", "2.15"),
        ("client_id", 0),
        ("client_id", "5"),
        ("client_id", True),
        ("port", 70000),
        ("go", ""),
        ("xkey", None),
    ],
)
def test_a_masked_value_still_has_to_keep_its_predicate_on_both_sides(
    name: str, value: Any
) -> None:
    assert places(SEEN, planted(**{name: value})) == [f"frames.0.INFO.{name}"]
    assert places(planted(**{name: value}), SEEN) == [f"frames.0.INFO.{name}"]


def test_an_addition_is_allowed_to_the_subject_alone() -> None:
    assert places(SEEN, planted(headwater="0.1.0")) == []
    assert places(planted(headwater="0.1.0"), SEEN) == ["frames.0.INFO.headwater"]


def test_an_addition_has_to_keep_its_predicate() -> None:
    assert places(SEEN, planted(headwater="")) == ["frames.0.INFO.headwater"]


def test_an_omission_is_allowed_to_the_subject_alone() -> None:
    fewer = {key: value for key, value in INFO.items() if key not in ("git_commit", "xkey")}
    subject = {**SEEN, "frames": [{"INFO": fewer}, SEEN["frames"][1]]}
    assert places(SEEN, subject) == []
    assert places(subject, SEEN) == ["frames.0.INFO.git_commit", "frames.0.INFO.xkey"]


def test_the_addition_does_not_excuse_a_difference_under_the_same_key() -> None:
    addition = Addition("a", is_positive, "for the test")
    assert differences({"a": 1}, {"a": 2}, [addition]) != []


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("*.b", "a.b", True),
        ("**.b", "b", True),
        ("**.b", "x.0.y.b", True),
        ("**.b", "x.b.y", False),
        ("a.**.b", "a.b", True),
        ("a.**.b", "a.x.y.b", True),
        ("a.**", "a", True),
    ],
)
def test_paths_match_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(tuple(pattern.split(".")), tuple(path.split("."))) is expected


def test_a_mask_that_names_nothing_is_reported() -> None:
    used, unused = (Mask(path, is_positive, "") for path in ("frames.*.INFO.port", "frames.*.PORT"))
    assert unused_masks(SEEN, [used, unused]) == [unused]


def test_texts_are_found_wherever_they_are() -> None:
    assert contains_text(SEEN, "MSG foo")
    assert contains_text(SEEN, "max_payload")
    assert not contains_text(SEEN, "MSG bar")
