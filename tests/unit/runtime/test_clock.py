"""The machine's clocks."""

import time

from headwater.runtime.clock import SystemClock


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_the_wall_clock_is_the_system_s() -> None:
    before = time.time_ns()
    reading = SystemClock().wall_ns()
    assert before <= reading <= time.time_ns()
