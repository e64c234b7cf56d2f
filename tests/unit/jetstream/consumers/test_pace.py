"""The pace at which a consumer delivers."""

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import ConsumerConfig, ReplayPolicy
from headwater.jetstream.consumers.pace import Pace, pace_of
from tests.kit.consumer_driver import sequences
from tests.unit.jetstream.consumers.conftest import Consume

MS = 1_000_000


def test_who_is_as_fast_as_possible_keeps_no_pace() -> None:
    assert pace_of(ConsumerConfig(), 1000, 5) is None


# --- so many bytes per second ---------------------------------------------------------------------


def limited(bytes_per_s: int, burst: int = 1000) -> Pace:
    pace = pace_of(ConsumerConfig(rate_limit_bps=bytes_per_s * 8), burst, 0)
    assert pace is not None
    return pace


def test_a_burst_goes_at_once_and_then_the_rate_holds() -> None:
    pace = limited(100)
    now_ns = NS_PER_S
    assert pace.earliest_ns(1, 0, 1000, now_ns) <= now_ns
    pace.sent(0, 1000, now_ns)
    wait_ns = pace.earliest_ns(2, 0, 200, now_ns) - now_ns
    assert 2 * NS_PER_S <= wait_ns <= 2 * NS_PER_S + 2
    assert pace.earliest_ns(2, 0, 200, now_ns + wait_ns) <= now_ns + wait_ns


def test_what_is_larger_than_the_burst_goes_when_the_bucket_is_full() -> None:
    pace = limited(100)
    now_ns = NS_PER_S
    assert pace.earliest_ns(1, 0, 5000, now_ns) <= now_ns
    pace.sent(0, 5000, now_ns)
    assert pace.earliest_ns(2, 0, 1000, now_ns) >= now_ns + 50 * NS_PER_S


def test_idleness_fills_no_more_than_a_burst() -> None:
    pace = limited(100)
    pace.sent(0, 10, NS_PER_S)
    late_ns = 1000 * NS_PER_S
    pace.sent(0, 1000, late_ns)
    assert pace.earliest_ns(3, 0, 1, late_ns) > late_ns


def test_a_rate_limit_holds_messages_until_they_may_go(consume: Consume) -> None:
    driver = consume(max_msg_size=1000)
    driver.create(deliver_subject="D", rate_limit_bps=8 * 1000)
    for _ in range(4):
        driver.publish("S.a", b"x" * 900)
    driver.listen()
    assert sequences(driver.take()) == [1]
    driver.advance(0.5)
    assert not driver.take()
    driver.advance(0.5)
    assert sequences(driver.take()) == [2]
    driver.advance(10)
    assert sequences(driver.take()) == [3, 4]


# --- as the messages came in ----------------------------------------------------------------------


def original(caught_up_at: int) -> Pace:
    config = ConsumerConfig(replay_policy=ReplayPolicy.ORIGINAL)
    pace = pace_of(config, 1000, caught_up_at)
    assert pace is not None
    return pace


def test_the_first_message_goes_at_once_and_distances_are_kept() -> None:
    pace = original(10)
    assert pace.earliest_ns(1, 500 * MS, 1, 9000 * MS) == 9000 * MS
    pace.sent(500 * MS, 1, 9000 * MS)
    assert pace.earliest_ns(2, 700 * MS, 1, 9001 * MS) == 9200 * MS


def test_messages_that_came_together_go_together() -> None:
    pace = original(10)
    pace.sent(500 * MS, 1, 9000 * MS)
    assert pace.earliest_ns(2, 501 * MS, 1, 9000 * MS) == 9000 * MS


def test_what_came_after_it_began_is_not_held_back() -> None:
    pace = original(1)
    pace.sent(500 * MS, 1, 9000 * MS)
    assert pace.earliest_ns(2, 9000 * MS, 1, 9001 * MS) == 9001 * MS


def test_a_replay_keeps_the_distances_of_what_matches(consume: Consume) -> None:
    driver = consume()
    for subject in ("S.a", "S.b", "S.a", "S.a"):
        driver.fill(subject)
        driver.advance(2)
    driver.create(deliver_subject="D", replay_policy=ReplayPolicy.ORIGINAL, filter_subject="S.a")
    driver.listen()
    begin_ns = driver.now_ns
    driver.advance(20)
    got = driver.take()
    assert sequences(got) == [1, 3, 4]
    assert [(each.at_ns - begin_ns) / NS_PER_S for each in got] == [0, 4, 6]
    driver.fill("S.a")
    assert sequences(driver.take()) == [5]


def test_a_replay_is_for_pulls_too(consume: Consume) -> None:
    driver = consume()
    driver.fill("S.a")
    driver.advance(3)
    driver.fill("S.a")
    driver.create(replay_policy=ReplayPolicy.ORIGINAL)
    assert sequences(driver.pull(5, expires=60)) == [1]
    driver.advance(2.9)
    assert sequences(driver.take()) == [1]
    driver.advance(0.1)
    assert sequences(driver.take()) == [2]
