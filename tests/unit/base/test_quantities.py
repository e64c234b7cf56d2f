"""Numbers for people: three digits that count, whatever their size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.quantities import duration_text, number_text, size_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.0, "0"), (0.25, "0.25"), (0.00123, "0.00123"), (0.99949, "0.999"),
     (0.9996, "1"), (12.5, "12.5"), (99.94, "99.9"), (99.95, "100"), (1234, "1,234"),
     (1e7, "10,000,000"), (-1.5, "-1.5"), (1e-12, "0")],
)  # fmt: skip
def test_a_number_has_three_digits_that_count(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (0.25, "0.25 B"), (37, "37 B"), (1023, "1023 B"), (1024, "1.0 KiB"),
     (-1536, "-1.5 KiB"), (1 << 50, "1024.0 TiB")],
)  # fmt: skip
def test_a_size_is_counted_in_powers_of_1024(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (2e-9, "0.002us"), (0.0000125, "12.5us"), (0.25, "250ms"), (0.9999, "1,000ms"),
     (59.96, "60s"), (90, "1.5m"), (7200, "2h"), (86_399, "24h"), (86_400, "1d"),
     (100 * 86_400, "100d"), (-0.5, "-500ms")],
)  # fmt: skip
def test_a_duration_has_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.floats(-1e15, 1e15))
def test_no_text_has_an_exponent(value: float) -> None:
    for text in (number_text(value), size_text(value), duration_text(value)):
        assert "e" not in text.replace("KiB", "")
