"""Somebody sets the clock: age, time to live and the duplicate window of a stream stay together."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import Options
from headwater.server.streams.runners import DUE_S_MAX
from tests.kit.stored_world import streaming
from tests.kit.stream_world import StreamWorld

HOUR_S = 3600
DAY_AND_HOUR_S = 25 * HOUR_S


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest) -> StreamWorld:
    """Streams AGE, TTL and IDS, in which a message, or its id, counts for an hour."""
    # A client that is not asked whether it is there for as long as a test takes.
    made = StreamWorld(Options(jetstream=streaming(), ping_interval_s=100 * HOUR_S))
    hour_ns = HOUR_S * NS_PER_S
    settings: dict[str, dict[str, object]] = {
        "AGE": {"max_age": hour_ns, "duplicate_window": hour_ns},
        "TTL": {"allow_msg_ttl": True},
        "IDS": {"duplicate_window": hour_ns},
    }
    for name, config in settings.items():
        made.create(name, subjects=[name.lower()], storage=request.param, **config)
    return made


def publish_all(world: StreamWorld) -> None:
    world.publish("age")
    world.publish("ttl", Nats_TTL=f"{HOUR_S}s")
    world.publish("ids", Nats_Msg_Id="one")


def what_counts(world: StreamWorld) -> tuple[int, int, bool]:
    """The number of messages in AGE and in TTL, and whether the id in IDS is known."""
    again = world.publish("ids", Nats_Msg_Id="one", Nats_Expected_Last_Msg_Id="nobody")
    is_known = world.answers[again].get("duplicate", False)
    return world.state("AGE")["messages"], world.state("TTL")["messages"], is_known


def set_clock(world: StreamWorld, seconds: float) -> None:
    world.clock.set_forward_ns += round(seconds * NS_PER_S)


def test_all_three_end_when_the_clock_is_set_forward(world: StreamWorld) -> None:
    publish_all(world)
    assert what_counts(world) == (1, 1, True)
    set_clock(world, DAY_AND_HOUR_S)
    world.advance(DUE_S_MAX)
    assert what_counts(world) == (0, 0, False)


def test_none_ends_when_the_clock_is_set_forward_by_less(world: StreamWorld) -> None:
    publish_all(world)
    set_clock(world, HOUR_S - 2 * DUE_S_MAX)
    world.advance(DUE_S_MAX)
    assert what_counts(world) == (1, 1, True)
    world.advance(DUE_S_MAX + 0.1)
    assert what_counts(world) == (0, 0, False)


def test_none_ends_early_when_the_clock_is_set_back(world: StreamWorld) -> None:
    publish_all(world)
    set_clock(world, -DAY_AND_HOUR_S)
    world.advance(HOUR_S + 1)
    assert what_counts(world) == (1, 1, True)
    world.advance(DAY_AND_HOUR_S)
    assert what_counts(world) == (0, 0, False)


def test_what_came_while_the_clock_was_ahead_keeps_nothing_else_from_ending_together(
    world: StreamWorld,
) -> None:
    """A message stored behind one of tomorrow would expire before that one, and yet stay."""
    set_clock(world, DAY_AND_HOUR_S)
    world.publish("age")
    world.publish("ttl")
    world.publish("ids", Nats_Msg_Id="early")
    set_clock(world, -DAY_AND_HOUR_S)
    publish_all(world)
    world.advance(2 * HOUR_S)
    assert what_counts(world) == (2, 2, True)
    world.advance(DAY_AND_HOUR_S)
    assert what_counts(world) == (0, 1, False)


def test_times_in_a_stream_never_go_back(world: StreamWorld) -> None:
    world.publish("age")
    before = world.state("AGE")["last_ts"]
    set_clock(world, -HOUR_S)
    world.publish("age")
    assert world.state("AGE")["last_ts"] == before
    set_clock(world, HOUR_S)
    world.advance(1)
    world.publish("age")
    assert world.state("AGE")["last_ts"] > before


def test_a_restart_goes_by_the_clock_as_well() -> None:
    world = StreamWorld(Options(jetstream=streaming()))
    world.create("AGE", subjects=["age"], max_age=HOUR_S * NS_PER_S, duplicate_window=NS_PER_S)
    world.publish("age")
    world.node.close_jetstream()
    world.disk.kill()
    after = StreamWorld(world.node.options, world.disk)
    assert after.state("AGE")["messages"] == 1
    set_clock(after, DAY_AND_HOUR_S)
    after.advance(DUE_S_MAX)
    assert after.state("AGE")["messages"] == 0
