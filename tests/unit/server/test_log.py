"""Log lines, as harnesses expect them."""

import re

import pytest

from headwater.server.log import Log
from tests.kit.world import ManualClock


@pytest.fixture
def lines() -> list[bytes]:
    return []


@pytest.fixture
def log(lines: list[bytes]) -> Log:
    return Log(lines.append, ManualClock(), pid=2103)


def test_a_line_has_pid_time_level_and_text(log: Log, lines: list[bytes]) -> None:
    log.utc = True
    log.info("Server is ready")
    assert lines == [b"[2103] 2026/01/02 03:04:05.000000 [INF] Server is ready\n"]


def test_microseconds_are_cut_and_not_rounded(lines: list[bytes]) -> None:
    clock = ManualClock()
    clock.passed_ns = 999_999_999
    log = Log(lines.append, clock, pid=1)
    log.utc = True
    log.info("x")
    assert b" 03:04:05.999999 " in lines[0]


def test_local_time_has_the_same_form(log: Log, lines: list[bytes]) -> None:
    log.info("x")
    assert re.fullmatch(rb"\[2103\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] x\n", lines[0])


def test_the_time_can_be_left_out(log: Log, lines: list[bytes]) -> None:
    log.time_on = False
    log.info("x")
    assert lines == [b"[2103] [INF] x\n"]


def test_levels(log: Log, lines: list[bytes]) -> None:
    log.time_on = False
    for write in (log.info, log.warn, log.error, log.fatal, log.debug, log.trace):
        write("x")
    assert [line.split()[1] for line in lines] == [b"[INF]", b"[WRN]", b"[ERR]", b"[FTL]"]


def test_debug_and_trace_are_written_when_asked_for(log: Log, lines: list[bytes]) -> None:
    log.time_on = False
    log.debug_on = log.trace_on = True
    log.debug("d")
    log.trace("t")
    assert lines == [b"[2103] [DBG] d\n", b"[2103] [TRC] t\n"]


def test_text_that_is_not_ascii(log: Log, lines: list[bytes]) -> None:
    log.time_on = False
    log.info("größe")
    assert lines == ["[2103] [INF] größe\n".encode()]
