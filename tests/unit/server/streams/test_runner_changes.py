"""Changes of a stream and its consumers in flight, and the publishes behind them.

A sync takes until `finish_checks`. The steps come in one turn, or in turns of their own, while
those before them are in flight; the outcome is that of a run in which each waits for the disk.
"""

from typing import Any, Final

import pytest

from tests.kit.stream_world import StreamWorld, json_bytes

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
