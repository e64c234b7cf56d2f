"""Lags are put together, written down, and shown as a line for a person."""

import pytest

from headwater.client.link.reads.lag import Lag


@pytest.mark.parametrize(
    ("lag", "line"),
    [
        (Lag(), "lag 0"),
        (Lag(1500, 1200, 3_500_000, 12.4), "lag 1,200 messages, 3.3 MiB, 12 s"),
        (Lag(10, 10, 900, 0.2), "lag 10 messages, 900 B, 0 s"),
        (Lag(10, 10, 2048, 7200.0), "lag 10 messages, 2.0 KiB, 7,200 s"),
        (Lag(10, 10, 5 << 30, 1.0), "lag 10 messages, 5.0 GiB, 1 s"),
        # A stream that is too busy to be counted.
        (Lag(10_000, None, None, 3.0), "lag 10,000 sequences, 3 s"),
    ],
)
def test_a_lag_is_a_line(lag: Lag, line: str) -> None:
    assert str(lag) == line
    assert Lag.from_json(lag.to_json()) == lag


def test_lags_add_up_and_what_one_does_not_know_nobody_knows() -> None:
    assert Lag(2, 1, 9, 1.0) + Lag(3, 2, 10, 4.0) == Lag(5, 3, 19, 4.0)
    assert Lag(2, 1, 9, 1.0) + Lag(3, None, None, 0.5) == Lag(5, None, None, 1.0)
    assert Lag(2, None, None, 1.0).to_json() == {"behind": 2, "behindSeconds": 1.0}
