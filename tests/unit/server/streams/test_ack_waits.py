"""Strong publishes that the quorum does not answer: withdrawn, and stored once at most."""

from typing import Any

import pytest

from headwater.base.sliced import Sliced, Work
from headwater.server.streams.requests import Request, refuse_nothing
from tests.kit.consumer_world import ack_line
from tests.kit.quorum_world import NOT_AVAILABLE, TIMEOUT_MS, UNKNOWN, QuorumWorld


@pytest.fixture
def world() -> QuorumWorld:
    world = QuorumWorld()
    world.say("first")
    world.pass_ms(50)
    assert world.told() == [{"stream": "S", "seq": 1}]
    return world


def test_a_publish_that_its_quorum_does_not_answer_is_unknown(world: QuorumWorld) -> None:
    world.part()
    world.say("x")
    world.pass_ms(TIMEOUT_MS - 100)
    assert world.told() == []
    world.pass_ms(100)
    assert world.told() == [UNKNOWN]


def test_all_publishes_behind_it_are_unknown_too(world: QuorumWorld) -> None:
    world.part()
    world.say("x", 1)
    world.pass_ms(TIMEOUT_MS - 100)
    world.say("y", 2)
    world.say("z", 3)
    world.pass_ms(100)
    assert world.told() == [UNKNOWN] * 3


def test_what_was_withdrawn_has_no_effect(world: QuorumWorld) -> None:
    world.part()
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(TIMEOUT_MS)
    world.told()
    assert world.stream.look_ahead.next_sequence == 2
    world.join()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first")]
    world.publish("s1", "s.a")
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2, b"m")]


def test_a_retry_is_stored_once(world: QuorumWorld) -> None:
    world.part()
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(TIMEOUT_MS)
    world.say("x", Nats_Msg_Id="x")
    world.say("x", Nats_Msg_Id="x")
    assert world.told() == [UNKNOWN]
    world.join()
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(500)
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2, b"x")]


def test_duplicates_of_a_pending_publish_share_its_answer(world: QuorumWorld) -> None:
    world.part()
    world.say("x", 1, Nats_Msg_Id="x")
    world.pass_ms(100)
    world.say("x", 2, Nats_Msg_Id="x")
    assert world.told() == []
    world.pass_ms(TIMEOUT_MS - 100)
    assert world.told() == [UNKNOWN] * 2


def test_duplicates_of_a_publish_that_is_committed_in_time_are_acked() -> None:
    world = QuorumWorld(timeout_ms=60_000)
    world.stall()
    world.say("x", 1, Nats_Msg_Id="x")
    world.say("x", 2, Nats_Msg_Id="x")
    assert world.told() == []
    world.flow()
    world.pass_ms(50)
    replies = world.told()
    assert replies == [{"stream": "S", "seq": 1}, {"stream": "S", "seq": 1, "duplicate": True}]


def test_a_leader_that_is_deposed_answers_at_once() -> None:
    world = QuorumWorld(timeout_ms=60_000)
    world.part()
    world.say("x", 1)
    world.say("y", 2)
    world.quiet()
    assert not world.replica(world.leader).is_leading
    assert world.told() == [UNKNOWN] * 2


def test_the_server_has_a_timeout_for_streams_without_one() -> None:
    world = QuorumWorld(timeout_ms=None)
    world.part()
    world.say("x")
    world.quiet()
    assert world.told() == [UNKNOWN]


def test_a_stream_without_timeout_waits_in_silence() -> None:
    world = QuorumWorld(timeout_ms=0)
    world.part()
    world.say("x")
    world.quiet()
    world.join()
    assert world.told() == []


def test_a_leader_that_leads_again_withdraws_first() -> None:
    world = QuorumWorld(timeout_ms=60_000)
    one, other = world.others
    world.lose(one)
    world.quiet(3.0)
    assert world.replica(world.leader).is_leading
    world.cut(world.leader, other)
    world.say("x", Nats_Msg_Id="x")
    world.quiet()
    assert world.told() == [UNKNOWN]
    # The entry makes its log the longer one, so that no other server can lead.
    world.heal(world.leader, other)
    world.quiet()
    assert world.replica(world.leader).is_leading
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(500)
    assert world.told() == [{"stream": "S", "seq": 1}]
    for name in (world.leader, other):
        assert world.stored(name) == [(1, b"x")]


def test_a_request_behind_a_publish_is_refused(world: QuorumWorld) -> None:
    world.part()
    world.say("x")
    world.ask("STREAM.PURGE.S", number=2)
    world.pass_ms(TIMEOUT_MS)
    unknown, refused = world.told()
    assert unknown == UNKNOWN
    assert refused["error"]["err_code"] == NOT_AVAILABLE
    world.join()
    assert world.stored() == [(1, b"first")]


def test_publishes_behind_a_request_are_unknown_and_the_request_waits(world: QuorumWorld) -> None:
    world.part()
    # A purge of one subject is not foreseen, so publishes behind it are not decided.
    world.ask("STREAM.PURGE.S", {"filter": "s.b"})
    world.pass_ms(100)
    world.say("x", 2)
    world.pass_ms(TIMEOUT_MS)
    assert world.told() == [UNKNOWN]


def consuming(world: QuorumWorld) -> None:
    """Have a consumer deliver the first message, and nothing more."""
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000}
    body = {"stream_name": "S", "config": config}
    world.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    world.pass_ms(100)
    assert "error" not in world.told()[0]


def test_the_steps_of_consumers_are_not_undone(world: QuorumWorld) -> None:
    consuming(world)
    world.part()
    world.say("x")
    world.ask("CONSUMER.MSG.NEXT.S.C", number=2)
    (delivered,) = world.heard()
    assert delivered.payload == b"first"
    world.peer.send(ack_line(delivered.reply))
    world.pass_ms(TIMEOUT_MS)
    world.ask("CONSUMER.MSG.NEXT.S.C", number=3)
    assert [frame.subject for frame in world.heard()] == ["inbox.1"]
    state = world.stream.consumers.by_name["C"].state
    assert (state.delivered_stream, state.floor_stream) == (1, 1)


def test_a_request_that_is_not_decided_yet_is_proposed_behind_the_withdrawal() -> None:
    world = QuorumWorld(timeout_ms=50)
    world.stall()
    world.say("x")
    # A consumer begins at the last message of a subject, not known while one is in flight.
    config = {"durable_name": "D", "ack_policy": "explicit", "deliver_policy": "last_per_subject"}
    config["filter_subject"] = ">"
    world.ask("CONSUMER.DURABLE.CREATE.S.D", {"stream_name": "S", "config": config}, number=2)
    world.pass_ms(50)
    assert world.told() == [UNKNOWN]
    world.flow()
    world.quiet(1.0)
    [created] = world.told()
    assert created["name"] == "D"
    for name in world.nodes:
        state = world.replica(name).stream.consumers.by_name["D"].state
        assert state.delivered_stream == 0


def test_a_double_ack_waits_for_the_quorum() -> None:
    world = QuorumWorld(timeout_ms=50)
    world.say("first")
    world.pass_ms(50)
    world.told()
    consuming(world)
    world.ask("CONSUMER.MSG.NEXT.S.C", number=2)
    (delivered,) = world.heard()
    world.stall()
    world.say("x")
    world.peer.send(ack_line(delivered.reply, reply="inbox.4"))
    world.pass_ms(50)
    assert [frame.subject for frame in world.heard()] == ["inbox.1"]
    world.flow()
    world.pass_ms(50)
    assert [frame.subject for frame in world.heard()] == ["inbox.4"]


def test_batches_are_withdrawn_whole() -> None:
    world = QuorumWorld(allow_atomic=True)
    world.part()
    for number in (1, 2, 3):
        last = {"Nats_Batch_Commit": "1"} if number == 3 else {}
        world.say("x", number, Nats_Batch_Id="b", Nats_Batch_Sequence=str(number), **last)
    world.pass_ms(TIMEOUT_MS)
    answers: list[Any] = [frame.payload for frame in world.heard() if frame.payload]
    assert len(answers) == 1
    world.join()
    for name in world.nodes:
        assert world.stored(name) == []


def test_fast_batches_go_on_behind_the_last_message_that_was_stored() -> None:
    world = QuorumWorld(timeout_ms=50, allow_batched=True)
    world.stall()
    world.peer.send(b"PUB s.a inbox.b.10.fail.1.0.$FI 1\r\nx\r\n")
    world.pass_ms(50)
    assert world.told()[-1] == UNKNOWN
    world.flow()
    world.peer.send(b"PUB s.a inbox.b.10.fail.1.0.$FI 1\r\nx\r\n")
    world.quiet(1.0)
    for name in world.nodes:
        assert world.stored(name) == [(1, b"x")]


def test_a_rollup_that_was_withdrawn_removes_nothing() -> None:
    world = QuorumWorld(allow_rollup_hdrs=True)
    for body in ("one", "two"):
        world.say(body)
    world.pass_ms(50)
    world.part()
    world.say("all", Nats_Rollup="all")
    world.pass_ms(TIMEOUT_MS)
    assert world.told()[-1] == UNKNOWN
    world.join()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"one"), (2, b"two")]


def test_counters_go_on_without_what_was_withdrawn() -> None:
    world = QuorumWorld(allow_msg_counter=True)
    world.say("", Nats_Incr="1")
    world.pass_ms(50)
    world.part()
    world.say("", Nats_Incr="10")
    world.pass_ms(TIMEOUT_MS)
    assert world.told()[-1] == UNKNOWN
    world.join()
    leader = next(name for name in world.nodes if world.replica(name).is_leading)
    world.peer = world.listener(leader, "inbox.>")
    world.say("", Nats_Incr="100")
    world.pass_ms(500)
    assert world.told() == [{"stream": "S", "seq": 2, "val": "101"}]


def test_a_leader_that_is_deposed_amid_a_decision_has_what_was_committed_meanwhile() -> None:
    def endless() -> Work[None]:
        while True:
            yield 1 << 30

    world = QuorumWorld(timeout_ms=60_000)
    world.stall()
    world.say("x")
    world.pass_ms(20)
    runner = world.replica(world.leader).runner
    assert runner is not None
    runner._deciding = (Request(endless, refuse_nothing), Sliced(endless()))
    world.flow()
    world.part()
    world.quiet()
    world.join()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"x")]
