"""Floats are written as Go does."""

import pytest

from headwater.go.numbers import format_float


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100.0, "100"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
    ],
)
def test_floats(number: float, expected: str) -> None:
    assert format_float(number) == expected
