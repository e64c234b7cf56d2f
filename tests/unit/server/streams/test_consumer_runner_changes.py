"""A consumer works on while a change of it waits for the disk, as far as the log allows.

The steps of a test come in one turn, and share a sync, which takes until `sync`. Records that are
decided meanwhile come behind the change in the log.
"""

import pytest

from headwater.jetstream.consumers.changes_ahead import Hold
from headwater.server.configuration.options import Options
from headwater.server.streams import consumer_runner
from tests.kit.consumer_world import NS, ConsumerWorld, Frame, ack_line, numbers, pull_line
from tests.kit.stored_world import streaming

DELETED = "409 Consumer Deleted"


@pytest.fixture
def world() -> ConsumerWorld:
    """A work queue with a consumer C; every ack waits for the disk."""
    made = ConsumerWorld(Options(jetstream=streaming(sync_always=True)))
    made.with_stream(retention="workqueue")
    made.consumer("C")
    return made


def publish(subject: str = "s.a", reply: str = "") -> bytes:
    return f"PUB {subject} {reply} 1\r\nx\r\n".encode()


def call(operation: str, body: bytes = b"", reply: str = "inbox.api") -> bytes:
    return b"PUB $JS.API.CONSUMER.%b %b %d\r\n%b\r\n" % (
        operation.encode(),
        reply.encode(),
        len(body),
        body,
    )


def together(world: ConsumerWorld, *lines: bytes) -> list[Frame]:
    """The messages that come of steps of one turn, when the disk has them."""
    world.caller.push(b"".join(lines))
    world.settle()
    world.sync()
    return world.taken()


def deliveries(frames: list[Frame]) -> list[int]:
    return numbers([each for each in frames if each.reply.startswith("$JS.ACK.")])


def fetched(world: ConsumerWorld, name: str, count: int) -> list[Frame]:
    frames = together(world, pull_line(name, batch=count, no_wait=True))
    return [each for each in frames if each.reply]


@pytest.mark.parametrize("hold", [None, Hold.ALL], ids=["as it is", "all steps are held"])
def test_messages_before_a_deletion_are_delivered(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch, hold: Hold | None
) -> None:
    if hold is not None:
        monkeypatch.setattr(consumer_runner, "hold_of", lambda *_: hold)
    pull = pull_line("C", batch=3, expires=30 * NS)
    frames = together(world, pull, publish(), call("DELETE.S.C"), publish())
    assert frames[-1].subject == "inbox.api"
    assert DELETED in [each.status for each in frames]
    expected = [1] if hold is None else []
    assert deliveries(frames) == expected
    world.consumer("D")
    assert numbers(fetched(world, "D", 5)) == [1, 2], "none of them was acknowledged"


@pytest.mark.parametrize("hold", [None, Hold.NONE], ids=["as it is", "no step is held"])
def test_an_acknowledgement_behind_a_deletion_is_not_confirmed(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch, hold: Hold | None
) -> None:
    if hold is not None:
        monkeypatch.setattr(consumer_runner, "hold_of", lambda *_: hold)
    world.publish(1)
    world.sync()
    (first,) = fetched(world, "C", 1)
    frames = together(world, call("DELETE.S.C"), ack_line(first.reply, reply="inbox.ack"))
    confirmed = ["inbox.ack"] if hold is not None else []
    assert [each.subject for each in frames if each.subject == "inbox.ack"] == confirmed
    world.consumer("D")
    assert numbers(fetched(world, "D", 1)) == [1], "its consumer was gone before it"


@pytest.mark.parametrize("hold", [None, Hold.NONE], ids=["as it is", "no step is held"])
def test_a_consumer_delivers_all_messages_from_the_start_of_its_reset(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch, hold: Hold | None
) -> None:
    if hold is not None:
        monkeypatch.setattr(consumer_runner, "hold_of", lambda *_: hold)
    world.publish(2)
    world.sync()
    assert numbers(fetched(world, "C", 2)) == [1, 2]
    pull = pull_line("C", batch=5, expires=30 * NS)
    frames = together(world, pull, publish(), call("RESET.S.C", b'{"seq":1}'))
    assert deliveries(frames) == ([1, 2, 3] if hold is None else [3])


def test_a_consumer_works_on_while_it_is_paused_by_an_entry_in_flight(world: ConsumerWorld) -> None:
    pause = call("PAUSE.S.C", b'{"pause_until":"2030-01-01T00:00:00Z"}')
    pull = pull_line("C", batch=3, expires=30 * NS)
    frames = together(world, pull, publish(), pause, publish())
    assert deliveries(frames) == [1], "the message behind the pause waits for its end"
    assert world.info("C")["paused"]
    frames = together(world, ack_line(_address(frames), reply="inbox.ack"))
    assert [each.subject for each in frames] == ["inbox.ack"]


def _address(frames: list[Frame]) -> str:
    return next(each.reply for each in frames if each.reply.startswith("$JS.ACK."))


def test_other_consumers_work_while_one_is_changed() -> None:
    world = ConsumerWorld(Options(jetstream=streaming(sync_always=True))).with_stream()
    world.consumer("C")
    world.consumer("D")
    world.publish(1)
    world.sync()
    (first,) = fetched(world, "D", 1)
    world.caller.push(call("RESET.S.C"))
    world.caller.push(ack_line(first.reply) + pull_line("D", batch=1, expires=30 * NS))
    world.settle()
    assert world.stream().consumers.find("D").state.pending == {}, "the step was taken"
    world.sync()
    assert world.info("D")["num_ack_pending"] == 0


def test_acknowledgements_that_wait_for_a_change_are_counted(world: ConsumerWorld) -> None:
    world.publish(1)
    world.sync()
    (first,) = fetched(world, "C", 1)
    world.caller.push(call("RESET.S.C") + ack_line(first.reply))
    world.settle()
    runner, consumer = world.runner(), world.stream().consumers.find("C")
    assert runner.holds(consumer)
    assert runner._held_waiting.count == 1
    world.sync()
    assert not runner.holds(consumer)
    assert runner._held_waiting.count == 0


def test_a_consumer_that_nobody_uses_is_removed_beside_publishes(world: ConsumerWorld) -> None:
    world.delete("C")
    world.consumer("E", inactive_threshold=NS)
    world.advance(0.9)
    world.caller.push(publish(reply="inbox.1"))
    world.settle()
    world.advance(1)
    assert len(world.stream().consumers.changes) == 1, "its deletion waits for no publish"
    world.sync()
    assert "E" not in world.stream().consumers.by_name
