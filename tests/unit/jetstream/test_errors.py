"""Errors of the API: one list, one module made of it, and places that must all be filled."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import ErrorDocument
from headwater.jetstream.errors import ApiError, ErrorCode

ROOT: Final = Path(__file__).resolve().parents[3]
LIST: Final = ROOT / "src" / "headwater" / "jetstream" / "errors.json"
MODULE: Final = LIST.with_name("error_codes.py")
FIRST_OF_OURS: Final = 10_900


def generator() -> ModuleType:
    path = ROOT / "tools" / "jetstream_errors.py"
    spec = importlib.util.spec_from_file_location("jetstream_errors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> list[dict[str, object]]:
    loaded: list[dict[str, object]] = json.loads(LIST.read_text(encoding="utf-8"))
    return loaded


def test_the_module_is_what_the_generator_makes_of_the_list() -> None:
    assert MODULE.read_text(encoding="utf-8") == generator().module_text(rows())


def test_every_row_is_a_constant() -> None:
    constants = {
        name: value for name, value in vars(error_codes).items() if isinstance(value, ErrorCode)
    }
    expected = {row["name"]: (row["code"], row["err_code"], row["description"]) for row in rows()}
    found = {name: (each.code, each.err_code, each.description) for name, each in constants.items()}
    assert found == expected


def test_numbers_and_names_are_unique() -> None:
    assert len({row["err_code"] for row in rows()}) == len(rows())
    assert len({row["name"] for row in rows()}) == len(rows())


def test_our_own_numbers_are_apart_from_those_of_nats_server() -> None:
    ours = [row["name"] for row in rows() if int(str(row["err_code"])) >= FIRST_OF_OURS]
    assert ours == ["PUBLISH_STATUS_UNKNOWN"]


def test_a_constant_longer_than_a_line_is_broken_as_the_formatter_breaks_it() -> None:
    text = generator().module_text(
        [
            {"name": "A", "code": 400, "err_code": 1, "description": "x"},
            {"name": "B", "code": 400, "err_code": 2, "description": "y" * 68},
            {"name": "C", "code": 400, "err_code": 3, "description": "z" * 90},
            {"name": "D", "code": 400, "err_code": 4, "description": 'with "quotes"'},
        ]
    )
    assert text.endswith(
        'A: Final = ErrorCode(400, 1, "x")\n'
        f'B: Final = ErrorCode(400, 2, "{"y" * 68}")\n'
        f'C: Final = ErrorCode(\n    400,\n    3,\n    "{"z" * 90}",\n)\n'
        "D: Final = ErrorCode(400, 4, 'with \"quotes\"')\n"
    )


def test_an_error_says_what_a_client_is_told() -> None:
    error = ApiError.of(error_codes.STREAM_NOT_FOUND)
    assert (error.code, error.err_code, error.description) == (404, 10059, "stream not found")
    assert error.reply == str(error) == "stream not found"
    document = b'{"code":404,"err_code":10059,"description":"stream not found"}'
    assert write(ErrorDocument.of(error)) == document


def test_places_are_filled_with_what_is_given_and_not_searched_again() -> None:
    error = ApiError.of(
        error_codes.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS, prefix="{subject}", subject="a"
    )
    expected = "stream external delivery prefix {subject} overlaps with stream subject a"
    assert error.description == expected


@pytest.mark.parametrize("places", [{}, {"error": "x"}, {"err": "x", "more": "y"}])
def test_a_place_that_is_not_filled_or_not_there_is_a_bug(places: dict[str, str]) -> None:
    with pytest.raises(InvariantViolation):
        ApiError.of(error_codes.STREAM_INVALID_CONFIG, **places)
