"""The subjects that are calls, and the required levels in them."""

import pytest

from headwater.jetstream.api.router import OPERATIONS, find_operation
from headwater.jetstream.config.api_level import API_LEVEL, exceeds_level


@pytest.mark.parametrize(
    ("subject", "name", "words"),
    [
        ("INFO", "INFO", []),
        ("STREAM.NAMES", "STREAM.NAMES", []),
        ("STREAM.INFO.S", "STREAM.INFO", ["S"]),
        # A stream may be called like a part of a call.
        ("STREAM.INFO.MSG", "STREAM.INFO", ["MSG"]),
        ("STREAM.MSG.GET.GET", "STREAM.MSG.GET", ["GET"]),
        ("STREAM.LEADER.STEPDOWN.S", "STREAM.LEADER.STEPDOWN", ["S"]),
        ("CONSUMER.CREATE.S", "CONSUMER.CREATE", ["S"]),
        ("CONSUMER.CREATE.S.C.a.b", "CONSUMER.CREATE", ["S", "C", "a", "b"]),
        ("CONSUMER.DURABLE.CREATE.S.C", "CONSUMER.DURABLE.CREATE", ["S", "C"]),
    ],
)
def test_calls(subject: str, name: str, words: list[str]) -> None:
    assert find_operation(subject) == (OPERATIONS[name], words)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "FOO",
        "info",
        "INFO.X",
        "STREAM",
        "STREAM.INFO",
        "STREAM.INFO.S.X",
        "STREAM.MSG.GET",
        "STREAM.NAMES.X",
        "CONSUMER.CREATE",
        "CONSUMER.INFO.S",
        "CONSUMER.DURABLE.CREATE.S",
    ],
)
def test_what_is_no_call(subject: str) -> None:
    assert find_operation(subject) is None


def test_every_kind_of_reply_says_its_type() -> None:
    for operation in OPERATIONS.values():
        assert operation.response().type.endswith("_response")


@pytest.mark.parametrize("value", [b"0", b"-1", b"%d" % API_LEVEL, b"+5", b"005", b"0" * 99])
def test_levels_there_are(value: bytes) -> None:
    assert not exceeds_level(value)


@pytest.mark.parametrize(
    "value",
    [b"%d" % (API_LEVEL + 1), b"9" * 99, b"five", b"1.0", b"0x1", b"5 ", b"+", b"-", b"1_0"],
)
def test_levels_there_are_not(value: bytes) -> None:
    assert exceeds_level(value)
