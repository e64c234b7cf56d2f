"""An outage is a duration: how long a loop tries again, how it pauses, what it says."""

import logging

import pytest

from headwater.client.link.errors import ConnectionLostError, LinkError, NoRespondersError
from headwater.client.link.login import START_PATIENCE_S, Login
from headwater.client.link.outage import (
    ANSWERED_PATIENCE_S,
    LINE_AFTER_S,
    LINE_EVERY_S,
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    Outage,
)

LOST = ConnectionLostError("the connection to the server was lost")
NOBODY = NoRespondersError("nobody listens")


class Clock:
    """A clock that only the pauses move, and the pauses."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses_s: list[float] = []

    def now(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.now_s += seconds


def fail(until: Outage, times: int, error: LinkError = LOST) -> None:
    for _ in range(times):
        until.pause(error)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def outage(clock: Clock, login: Login) -> Outage:
    return Outage(login, clock.now, clock.wait)


def test_a_loop_tries_again_until_the_outage_has_lasted_for_its_timeout(clock: Clock) -> None:
    until = outage(clock, Login(outage_timeout_s=60.0))
    with pytest.raises(ConnectionLostError):
        fail(until, 1000)
    assert clock.now_s == 1060.0


def test_the_first_try_again_comes_at_once_and_pauses_double_up_to_a_limit(clock: Clock) -> None:
    until = outage(clock, Login())
    for _ in range(8):
        until.pause(LOST)
    assert clock.pauses_s[:3] == [PAUSE_S_MIN, 2 * PAUSE_S_MIN, 4 * PAUSE_S_MIN]
    assert clock.pauses_s[-1] == PAUSE_S_MAX


def test_no_patience_raises_the_first_failure(clock: Clock) -> None:
    with pytest.raises(ConnectionLostError):
        outage(clock, Login(outage_timeout_s=0.0)).pause(LOST)
    assert clock.pauses_s == []


def test_retries_limit_the_tries_within_the_timeout(clock: Clock) -> None:
    until = outage(clock, Login(retries=2))
    until.pause(LOST)
    until.pause(LOST)
    with pytest.raises(ConnectionLostError):
        until.pause(LOST)


def test_a_success_ends_the_outage_and_the_next_one_has_its_own_time(clock: Clock) -> None:
    until = outage(clock, Login(outage_timeout_s=1.0))
    for _ in range(3):
        until.pause(LOST)
    clock.now_s += 0.9
    assert until.has_begun
    until.end()
    assert not until.has_begun
    until.pause(LOST)


def test_an_outage_has_a_line_in_the_log_now_and_then_and_one_for_its_end(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    until = outage(clock, Login("nats://ann:hunter2@127.0.0.1:4222", outage_timeout_s=300.0))
    with caplog.at_level(logging.WARNING, "headwater.spark"):
        while clock.now_s < 1000 + LINE_AFTER_S:
            assert caplog.messages == []
            until.pause(LOST)
        while clock.now_s < 1000 + LINE_EVERY_S:
            until.pause(LOST)
        until.end()
        until.end()
    first, last = caplog.messages
    assert first.startswith("the server at nats://127.0.0.1:4222 is away for 1 s: the connection")
    assert "hunter2" not in caplog.text
    assert last == "the server at nats://127.0.0.1:4222 answers again after 31 s"


def test_a_blip_has_no_line(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    until = outage(clock, Login())
    until.pause(LOST)
    until.pause(LOST)
    until.end()
    assert caplog.messages == []


def test_a_job_that_starts_waits_only_a_moment() -> None:
    assert Login().at_start.outage_timeout_s == START_PATIENCE_S
    assert Login(outage_timeout_s=0.0).at_start.outage_timeout_s == 0.0


def test_answers_of_a_server_are_borne_for_a_short_while_only(clock: Clock) -> None:
    until = outage(clock, Login(outage_timeout_s=300.0))
    with pytest.raises(NoRespondersError):
        fail(until, 1000, NOBODY)
    assert clock.now_s == 1000.0 + ANSWERED_PATIENCE_S


def test_an_answer_after_an_outage_is_borne_from_the_first_answer_on(clock: Clock) -> None:
    until = outage(clock, Login(outage_timeout_s=300.0))
    while clock.now_s < 1100.0:
        until.pause(LOST)
    answered_s = clock.now_s
    with pytest.raises(NoRespondersError):
        fail(until, 1000, NOBODY)
    assert clock.now_s == answered_s + ANSWERED_PATIENCE_S


def test_answers_with_a_lost_connection_or_a_success_between_them_do_not_add_up(
    clock: Clock,
) -> None:
    until = outage(clock, Login(outage_timeout_s=300.0))
    for _ in range(8):
        until.pause(NOBODY)
        clock.wait(ANSWERED_PATIENCE_S)
        until.pause(LOST)
    for _ in range(100):
        until.pause(NOBODY)
        clock.wait(ANSWERED_PATIENCE_S)
        until.end()
    assert clock.now_s > (8 + 100) * ANSWERED_PATIENCE_S
