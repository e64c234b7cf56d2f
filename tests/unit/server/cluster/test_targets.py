"""The times at which other servers are dialled."""

import pytest

from headwater.server.cluster.handshake import Credentials
from headwater.server.cluster.targets import (
    Target,
    delay_s,
    is_reported,
    may_retry,
    renewal_delay_s,
)
from tests.kit.world import SeededEntropy


@pytest.mark.parametrize(
    ("failures", "with_backoff", "least_s"),
    [(1, False, 1), (9, False, 1), (1, True, 1), (2, True, 2), (5, True, 16), (90, True, 30)],
)
def test_the_time_between_attempts(failures: int, with_backoff: bool, least_s: float) -> None:
    wait_s = delay_s(failures, with_backoff, SeededEntropy())
    assert least_s <= wait_s <= least_s + 0.1


def test_an_open_connection_is_renewed_within_tens_of_milliseconds() -> None:
    entropy = SeededEntropy()
    waits_s = [renewal_delay_s(entropy) for _ in range(100)]
    assert 0 < min(waits_s) < max(waits_s) <= 0.03


@pytest.mark.parametrize(
    ("is_configured", "failures", "retries", "again"),
    [(True, 99, 0, True), (False, 0, 0, True), (False, 1, 0, False), (False, 3, 3, True)],
)
def test_a_configured_route_is_never_given_up(
    is_configured: bool, failures: int, retries: int, again: bool
) -> None:
    target = Target("h", 1, Credentials(), is_configured)
    assert may_retry(target, failures, retries) is again


def test_a_failure_is_reported_at_first_and_then_now_and_again() -> None:
    assert [count for count in range(1, 11) if is_reported(count, 4)] == [1, 4, 8]


def test_addresses() -> None:
    assert Target("::1", 6222, None, is_configured=False).address == "[::1]:6222"
    assert Target("h", 1, Credentials(), is_configured=False).address == "h:1"
