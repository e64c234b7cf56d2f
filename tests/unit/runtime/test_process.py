"""Figures of the operating system about this process."""

from headwater.runtime.process import SystemProcess

MIB = 1024 * 1024


def test_memory_is_counted_in_bytes() -> None:
    process = SystemProcess()
    assert process.rss_bytes() > 5 * MIB
    ballast = bytearray(b"x" * 64 * MIB)
    assert process.rss_bytes() > 60 * MIB
    assert len(ballast) == 64 * MIB


def test_work_shows_as_processor_time() -> None:
    process = SystemProcess()
    assert process.cpu_percent() >= 0
    assert sum(range(300_000)) > 0
    assert process.cpu_percent() > 0


def test_there_is_at_least_one_core() -> None:
    assert SystemProcess().cores() >= 1
