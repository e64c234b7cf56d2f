"""Changes of a stream and its consumers in flight, and the publishes behind them.

A sync takes until `finish_checks`. The steps come in one turn, or in turns of their own, while
those before them are in flight; the outcome is that of a run in which each waits for the disk.
"""

import json
import os
import random
from typing import Any, Final

import pytest

from tests.kit.stream_world import STORE_FAILED, StreamWorld, error_code, json_bytes

SEEDS: Final = int(os.environ.get("CHANGE_SEEDS", "30"))
LENGTH: Final = 14
RETENTIONS: Final = ("limits", "workqueue", "interest")

# The subject and the body of a step.
Step = tuple[str, bytes]


def made(**config: Any) -> StreamWorld:
    """A stream S for which every ack waits for the disk."""
    world = StreamWorld()
    world.create("S", subjects=["s.>"], **config)
    return world


def call(operation: str, **body: Any) -> Step:
    return f"$JS.API.{operation}", json_bytes(body) if body else b""


def creation(name: str, **config: Any) -> Step:
    """The request for a consumer."""
    config = {"durable_name": name, "ack_policy": "explicit", **config}
    return call(f"CONSUMER.CREATE.S.{name}", stream_name="S", config=config)


def publish(subject: str) -> Step:
    return subject, b"x"


def outcome(config: dict[str, Any], before: list[Step], steps: list[Step], together: bool) -> Any:
    """The answers to all steps, and the messages that the stream has then."""
    world = made(**config)
    for step in before:
        world.push(*step)
        world.settle()
        world.sync()
    for step in steps:
        world.push(*step)
        world.settle()
        if not together:
            world.sync()
    world.settle()
    world.sync()
    return world.answers, world.state(subjects_filter=">")


# --- interest -----------------------------------------------------------------------------------


def test_a_message_behind_the_creation_of_a_consumer_in_flight_is_stored() -> None:
    world = made(retention="interest")
    created, published = world.push(*creation("C")), world.push(*publish("s.a"))
    world.settle()
    assert world.node.jetstream is not None
    stream = world.node.jetstream.accounts["$G"].streams["S"]
    assert stream.look_ahead.messages == 1, "the message does not wait for the consumer"
    world.sync()
    assert world.errors(created, published) == [0, 0]
    assert world.answers[published]["seq"] == 1
    assert world.state()["messages"] == 1
    assert world.after_power_loss().state()["messages"] == 1


INTEREST: Final[dict[str, tuple[dict[str, Any], list[Step], list[Step]]]] = {
    "the creation of a consumer of other subjects": (
        {},
        [],
        [creation("C", filter_subject="s.b"), publish("s.a"), publish("s.b")],
    ),
    "the creation of a consumer that begins later": (
        {"max_msgs": 1, "discard": "new"},
        [],
        [creation("C", deliver_policy="by_start_sequence", opt_start_seq=3)]
        + [publish("s.a") for _ in range(4)],
    ),
    "the deletion of the last consumer": (
        {"max_msgs": 1, "discard": "new"},
        [creation("C"), publish("s.a")],
        [call("CONSUMER.DELETE.S.C"), publish("s.a"), creation("D"), publish("s.a")],
    ),
    "the deletion of one of two consumers": (
        {"max_msgs": 2, "discard": "new"},
        [creation("C"), creation("D", filter_subject="s.a"), publish("s.a"), publish("s.b")],
        [call("CONSUMER.DELETE.S.C"), publish("s.a"), publish("s.b"), publish("s.a")],
    ),
    "another filter": (
        {"max_msgs": 1, "discard": "new"},
        [creation("C", filter_subject="s.a"), publish("s.a")],
        [creation("C", filter_subject="s.b"), publish("s.a"), publish("s.b"), publish("s.b")],
    ),
    "a reset": (
        {"max_msgs": 2, "discard": "new"},
        [creation("C"), publish("s.a"), publish("s.a")],
        [call("CONSUMER.RESET.S.C", seq=2), publish("s.b"), publish("s.b")],
    ),
    "another retention": (
        {},
        [creation("C", filter_subject="s.a"), publish("s.a"), publish("s.b")],
        [
            call("STREAM.UPDATE.S", name="S", subjects=["s.>"], retention="limits"),
            publish("s.b"),
            publish("s.a"),
        ],
    ),
}


@pytest.mark.parametrize("name", INTEREST)
def test_a_change_of_interest_in_flight_counts_for_the_messages_behind_it(name: str) -> None:
    config, before, steps = INTEREST[name]
    config = {"retention": "interest", **config}
    together = outcome(config, before, steps, together=True)
    assert together == outcome(config, before, steps, together=False)


# --- requests over what is in flight --------------------------------------------------------------


def in_one_sync(world: StreamWorld, steps: list[Step]) -> list[Any]:
    """The answers to steps of one turn, which must share one sync."""
    world.create("T", subjects=["t"])
    world.publish("t")
    numbers = [world.push(*step) for step in steps]
    world.settle()
    world.finish_checks()
    assert not world.answers.keys() & {*numbers}, "the sync of the other stream is over"
    world.finish_checks()
    assert world.errors(*numbers) == [0] * len(numbers)
    return [world.answers[number] for number in numbers]


def test_a_purge_between_publishes_needs_no_commit_of_its_own() -> None:
    world = made()
    steps = [publish("s.a"), call("STREAM.PURGE.S"), publish("s.a")]
    _, purged, last = in_one_sync(world, steps)
    assert (purged["purged"], last["seq"], world.state()["messages"]) == (1, 2, 1)
    assert world.after_power_loss().state()["messages"] == 1


@pytest.mark.parametrize("before", [0, 2000], ids=["few messages", "many messages"])
def test_an_update_between_publishes_needs_no_commit_of_its_own(before: int) -> None:
    world = made(max_msgs=3000)
    for _ in range(before):
        world.push(*publish("s.a"))
    world.settle()
    world.sync()
    update = call("STREAM.UPDATE.S", name="S", subjects=["s.>", "u"], max_msgs=3000)
    _, updated, last = in_one_sync(world, [publish("s.a"), update, publish("s.b")])
    assert updated["config"]["subjects"] == ["s.>", "u"]
    assert (last["seq"], world.state()["messages"]) == (before + 2, before + 2)
    assert world.after_power_loss().state()["messages"] == before + 2


def test_the_limits_of_an_update_in_flight_count_for_the_messages_before_it() -> None:
    world = made()
    update = call("STREAM.UPDATE.S", name="S", subjects=["s.>"], max_msgs=1, discard="new")
    steps = [publish("s.a"), call("STREAM.PURGE.S"), publish("s.a"), update]
    in_one_sync(world, steps)
    assert world.errors(world.publish("s.a")) == [STORE_FAILED]


@pytest.mark.parametrize("retention", RETENTIONS)
def test_the_creation_of_a_consumer_between_publishes_needs_no_commit_of_its_own(
    retention: str,
) -> None:
    world = made(retention=retention)
    if retention == "interest":
        world.push(*creation("B"))
        world.settle()
        world.sync()
    policy = {} if retention == "workqueue" else {"deliver_policy": "new"}
    steps = [publish("s.a"), creation("C", **policy), publish("s.a")]
    _, created, last = in_one_sync(world, steps)
    assert created["num_pending"] == (1 if retention == "workqueue" else 0)
    assert last["seq"] == 2
    asked = world.call("CONSUMER.INFO.S.C")
    world.sync()
    info = world.answers[asked]
    assert info["num_pending"] == (2 if retention == "workqueue" else 1)


REQUESTS: Final[dict[str, Step]] = {
    "its pause": call("CONSUMER.PAUSE.S.C", pause_until="2030-01-01T00:00:00Z"),
    "its unpinning": call("CONSUMER.UNPIN.S.C", group="g"),
    "its reset": call("CONSUMER.RESET.S.C", seq=1),
    "its deletion": call("CONSUMER.DELETE.S.C"),
}
# Messages leave a stream with interest retention by the end and by the reset of a consumer.
REQUESTED: Final = (
    *((retention, name) for retention in ("limits", "workqueue") for name in REQUESTS),
    ("interest", "its pause"),
    ("interest", "its unpinning"),
)


@pytest.mark.parametrize(("retention", "name"), REQUESTED)
def test_a_request_for_a_consumer_between_publishes_needs_no_commit_of_its_own(
    retention: str, name: str
) -> None:
    world = made(retention=retention)
    pinned = {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": 9}
    world.push(*creation("C", **pinned))
    world.settle()
    world.sync()
    answers = in_one_sync(world, [publish("s.a"), REQUESTS[name], publish("s.a")])
    assert [answers[0]["seq"], answers[2]["seq"], world.state()["messages"]] == [1, 2, 2]
    after = world.after_power_loss()
    asked = after.call("CONSUMER.INFO.S.C")
    after.sync()
    assert ("error" in after.answers[asked]) == (name == "its deletion")
    if name == "its pause":
        assert after.answers[asked]["paused"]


CONFIGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"max_msgs": 2, "discard": "new"},
    {"max_msgs_per_subject": 2, "allow_rollup_hdrs": True},
    {"deny_purge": True, "deny_delete": True},
)
STEPS: Final = (
    publish("s.a"),
    publish("s.a"),
    publish("s.b"),
    call("STREAM.PURGE.S"),
    call("STREAM.PURGE.S", filter="s.a"),
    call("STREAM.PURGE.S", filter="s.*", keep=1),
    call("STREAM.PURGE.S", keep=1),
    call("STREAM.PURGE.S", seq=3),
    call("STREAM.PURGE.S", seq=12),
    call("STREAM.PURGE.S", seq=3, keep=1),
    *(call("STREAM.MSG.DELETE.S", seq=sequence) for sequence in (0, 1, 2, 3, 4, 9)),
    call("STREAM.MSG.DELETE.S", seq=2, no_erase=True),
    creation("C"),
    creation("D", filter_subject="s.b"),
    creation("E", deliver_policy="new"),
    creation("F", deliver_policy="by_start_sequence", opt_start_seq=3),
    creation("G", deliver_policy="last"),
    creation("H", deliver_policy="last_per_subject", filter_subject="s.*"),
    call("CONSUMER.DELETE.S.C"),
    call("CONSUMER.RESET.S.C", seq=2),
    call("CONSUMER.RESET.S.D"),
    call("CONSUMER.PAUSE.S.D", pause_until="2020-01-01T00:00:00Z"),
    call("CONSUMER.UNPIN.S.C", group="g"),
    call("CONSUMER.DELETE.S.D"),
    call("STREAM.UPDATE.S", name="S", subjects=["s.>"], max_msgs=3),
    call("STREAM.UPDATE.S", name="S", subjects=["s.>"], description="x"),
    call("STREAM.UPDATE.S", name="S", subjects=["s.>"], max_msgs_per_subject=1),
    call("STREAM.UPDATE.S", name="S", subjects=["s.>"], max_bytes=100),
    call("STREAM.UPDATE.S", name="S", subjects=["s.>", "u"], max_msgs=-1),
)


def choices(seed: int) -> tuple[dict[str, Any], list[Step]]:
    rng = random.Random(seed)
    config = {**rng.choice(CONFIGS), "retention": RETENTIONS[seed % len(RETENTIONS)]}
    return config, rng.choices(STEPS, k=LENGTH)


def kept(config: dict[str, Any], step: Step) -> Step:
    """A step whose request for an update keeps the retention of the stream."""
    if not step[0].startswith("$JS.API.STREAM.UPDATE."):
        return step
    return step[0], json_bytes({**config, **json.loads(step[1])})


@pytest.mark.parametrize("seed", range(SEEDS))
def test_requests_in_flight_have_the_answers_of_requests_one_after_the_other(seed: int) -> None:
    config, steps = choices(seed)
    steps = [kept(config, step) for step in steps]
    assert outcome(config, [], steps, together=True) == outcome(config, [], steps, together=False)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_requests_behind_messages_that_are_withdrawn_are_decided_again(seed: int) -> None:
    """The disk has no room for the messages in flight, and the requests behind them go on without
    them: the answers are those of a run that had never seen the messages."""
    config, steps = choices(seed)
    steps = [kept(config, step) for step in steps]
    before, then = steps[: LENGTH // 2], steps[LENGTH // 2 :]
    world = made(**config)
    for step in before:
        world.push(*step)
        world.settle()
        world.sync()
    world.create("T", subjects=["t"])
    # Entries of S wait for this sync, and are not written meanwhile.
    world.publish("t")
    numbers = [world.push(*step) for step in then]
    assert world.node.jetstream is not None
    runner = world.node.jetstream.runners.find("$G", "S")
    assert runner is not None
    runner.refuse_unwritten(is_final=False)
    world.settle()
    world.sync()
    # Without its consumer, a reset has no answer.
    answers = [world.answers.get(number, {}) for number in numbers]
    left = [number for number, each in enumerate(answers) if error_code(each) != STORE_FAILED]
    alone = [*before, *(then[number] for number in left)]
    theirs, state = outcome(config, alone, [], together=False)
    expected = [theirs.get(len(before) + number, {}) for number in range(1, len(left) + 1)]
    assert [answers[number] for number in left] == expected
    assert world.state(subjects_filter=">") == state
