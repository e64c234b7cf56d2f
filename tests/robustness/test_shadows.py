"""Servers that a crash stops have shadows, which find a record that is not the whole change."""

import pytest

from headwater.testing.disk import SimDisk
from tests.kit.shadow_faults import FAULT, faults_without_a_field
from tests.robustness.stream_steps import ALWAYS, ASYNC, INTERVAL, Level, live, operations


def live_and_die(level: Level) -> None:
    """Have processes end, each at another step of its work."""
    points = operations(level)
    # Behind the deletions, and before the purges.
    for number in points[len(points) // 2 :: 4][:16]:
        disk = SimDisk()
        disk.crash_at(number, "during")
        live(level, disk)
        disk.kill()


@pytest.mark.parametrize("level", [ALWAYS, INTERVAL, ASYNC], ids=lambda level: level.name)
def test_a_field_that_is_not_in_the_bytes_of_a_record_is_found(level: Level) -> None:
    assert FAULT in faults_without_a_field(lambda: live_and_die(level))
