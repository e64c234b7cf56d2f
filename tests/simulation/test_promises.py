"""Promises of docs/consistency.md that a short story of whole servers shows."""

import pytest

from tests.kit.reading_cluster import Reading


@pytest.mark.parametrize("through", ["s1", "s2", "s3"])
def test_a_consumer_counts_everything_that_was_acked_before_its_creation(through: str) -> None:
    world = Reading("default")
    for number in range(4):
        world.put(f"s{number % 3 + 1}", str(number))
    config = {"durable_name": "C", "ack_policy": "explicit"}
    reply = world.call(
        through, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config}
    )
    assert reply["num_pending"] == 4


def test_a_sequential_mirror_shows_a_prefix_and_never_goes_back_across_its_leaders() -> None:
    world = Reading("weak")
    body = {"subjects": [], "mirror": {"name": "S"}, "read_consistency": "strong"}
    assert "error" not in world.create("s1", "M", **body)
    shown: list[int] = []
    for number in range(1, 7):
        world.put("s1", str(number))
        if number % 2 == 0:
            world.call("s2", "STREAM.LEADER.STEPDOWN.M")
        for _ in range(4):
            answers = [world.last(name, "DIRECT.GET.M.s.a") for name in world.nodes]
            shown += [int(each) for each in answers if each.isdigit() and "404" not in each]
            world.quiet(0.3)
    assert shown == sorted(shown)
    assert shown[-1] == 6


def answers_across_a_cut(level: str) -> list[str]:
    """The answers of a mirror: through a server of its next leader, and then through the leader
    before it, which is cut off."""
    world = Reading("weak")
    body = {"subjects": [], "mirror": {"name": "S"}, "read_consistency": level}
    assert "error" not in world.create("s1", "M", **body)
    world.put("s1", "1")
    world.quiet(3.0)
    old = world.call("s1", "STREAM.INFO.M")["cluster"]["leader"]
    world.isolate(old)
    world.quiet(5.0)
    other = world.other_than(old)
    world.put(other, "2")
    world.quiet(3.0)
    return [world.last(name, "DIRECT.GET.M.s.a") for name in (other, old)]


def test_the_leader_before_of_a_sequential_mirror_answers_nothing() -> None:
    assert answers_across_a_cut("strong") == ["2", "503"]


def test_without_the_rule_of_sequential_mirrors_answers_go_back() -> None:
    assert answers_across_a_cut("weak") == ["2", "1"]
