"""Acknowledgements and publishes that concern very many messages let other clients have their turn.

The bounds are so small here that some messages take many turns. A test counts turns, and never the
time that they take.
"""

import re

import pytest

from headwater.base import sliced
from headwater.jetstream.consumers import acknowledging
from headwater.server.configuration.options import Options
from headwater.server.streams.runner import StreamRunner
from headwater.store.index import subject_filter
from headwater.store.log import message_log
from tests.kit.long_requests import asker, finish, is_held, pass_turns, pushed, replies, sync
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

COUNT = 40


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced, "SLICE_UNITS_MAX", 1)
    monkeypatch.setattr(acknowledging, "ACKED_AT_A_TIME", 2)
    monkeypatch.setattr(acknowledging, "ACKED_AT_ONCE_MAX", 8)
    monkeypatch.setattr(subject_filter, "LOOKED_AT_A_TIME", 2)
    monkeypatch.setattr(message_log, "LOOKED_AT_ONCE_MAX", 8)


@pytest.fixture(params=["file", "memory", "always"])
def world(request: pytest.FixtureRequest) -> StoredWorld:
    """A server with a stream that has one message on each of its subjects, and another stream."""
    options = Options(jetstream=streaming(sync_always=request.param == "always"))
    world = StoredWorld(options).start()
    storage = "memory" if request.param == "memory" else "file"
    world.create("S", subjects=["s.>"], storage=storage)
    world.create("OTHER", storage=storage)
    world.modern().send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % each for each in range(COUNT)))
    finish(world)
    return world


def check_others_are_heard(world: StoredWorld, other: Peer) -> None:
    """Another client gets its answers while the stream is held."""
    for _ in range(4):
        if not is_held(world):
            pass_turns(world, 1)
            sync(world)
    assert is_held(world)
    other.push(b"PING\r\n")
    pushed(other, "$JS.API.STREAM.INFO.OTHER")
    pass_turns(world)
    told = other.take()
    assert b"PONG" in told
    assert b"stream_info_response" in told
    assert is_held(world)


# --- acknowledgements of all messages up to one --------------------------------------------------


def create_consumer(world: StoredWorld, **config: object) -> None:
    config = {"durable_name": "C", "ack_policy": "all", "max_ack_pending": -1, **config}
    pushed(world.modern(), "$JS.API.CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    finish(world)


def receiver(world: StoredWorld) -> tuple[Peer, list[bytes]]:
    """A client that has got all messages, and the subjects by which it acknowledges them."""
    peer = asker(world)
    pushed(peer, "$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": COUNT})
    finish(world)
    return peer, re.findall(rb"MSG s\.\S+ 9 (\S+) ", peer.take())


def test_an_ack_of_very_many_messages_is_taken_in_slices(world: StoredWorld) -> None:
    other = asker(world)
    create_consumer(world)
    peer, acks = receiver(world)
    peer.send(b"SUB acked 8\r\n")
    peer.push(b"PUB %b acked 0\r\n\r\n" % acks[-2])
    check_others_are_heard(world, other)
    assert b"MSG acked" not in peer.take()
    finish(world)
    assert b"MSG acked" in peer.take()
    told = world.request("$JS.API.CONSUMER.INFO.S.C")
    assert told["ack_floor"]["stream_seq"] == COUNT - 1
    assert told["num_ack_pending"] == 1


def test_acks_behind_a_long_one_wait_and_are_answered_after_it(world: StoredWorld) -> None:
    create_consumer(world)
    peer, acks = receiver(world)
    peer.send(b"SUB acked.* 8\r\n")
    peer.push(b"PUB %b acked.1 0\r\n\r\n" % acks[-2])
    pass_turns(world, 1)
    peer.push(b"PUB %b acked.2 0\r\n\r\n" % acks[-1])
    finish(world)
    assert re.findall(rb"MSG (acked\.\d)", peer.take()) == [b"acked.1", b"acked.2"]
    assert world.request("$JS.API.CONSUMER.INFO.S.C")["num_ack_pending"] == 0


def test_a_long_ack_counts_for_retention_and_after_a_restart(world: StoredWorld) -> None:
    world.request("$JS.API.STREAM.DELETE.S")
    world.create("S", subjects=["s.>"], retention="interest")
    create_consumer(world)
    world.modern().send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % each for each in range(COUNT)))
    finish(world)
    peer, acks = receiver(world)
    peer.push(b"PUB %b inbox 0\r\n\r\n" % acks[-2])
    finish(world)
    again = world.after_restart().start()
    assert again.request("$JS.API.STREAM.INFO.S")["state"]["messages"] == 1
    assert again.request("$JS.API.CONSUMER.INFO.S.C")["num_ack_pending"] == 1


def test_an_ack_of_one_message_of_very_many_is_taken_at_once(world: StoredWorld) -> None:
    create_consumer(world, ack_policy="explicit")
    peer, acks = receiver(world)
    peer.push(b"PUB %b inbox 0\r\n\r\n" % acks[-1])
    pass_turns(world, 1)
    assert not is_held(world)
    finish(world)
    assert b"MSG inbox" in peer.take()
    assert world.request("$JS.API.CONSUMER.INFO.S.C")["num_ack_pending"] == COUNT - 1


# --- publishes that expect the last sequence of a pattern ----------------------------------------


def expecting(subject: bytes, pattern: bytes, sequence: int, reply: bytes) -> bytes:
    """A publish that is refused unless a pattern has this last sequence."""
    block = (
        b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n"
        b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n\r\n" % (sequence, pattern)
    )
    return b"HPUB %b %b %d %d\r\n%b\r\n" % (subject, reply, len(block), len(block), block)


def publisher(world: StoredWorld) -> Peer:
    peer = world.modern()
    peer.send(b"SUB acked.* 8\r\n")
    peer.take()
    return peer


def test_a_pattern_is_compared_with_very_many_subjects_in_slices(world: StoredWorld) -> None:
    other, peer = asker(world), publisher(world)
    peer.push(b"PUB s.a acked.1 0\r\n\r\n" + expecting(b"s.b", b"s.*.x", COUNT, b"acked.2"))
    peer.push(b"PUB s.c acked.3 0\r\n\r\n")
    check_others_are_heard(world, other)
    assert b"acked.2" not in peer.take()
    finish(world)
    state = world.request("$JS.API.STREAM.INFO.S")["state"]
    assert state["messages"] == COUNT + 3


def test_publishes_around_a_long_comparison_keep_their_order(world: StoredWorld) -> None:
    peer = publisher(world)
    peer.push(
        b"PUB s.a acked.1 0\r\n\r\n"
        + expecting(b"s.b", b"s.*.x", COUNT, b"acked.2")
        + expecting(b"s.c", b"s.*.x", COUNT - 1, b"acked.3")
        + expecting(b"s.d", b"*.7.*", 8, b"acked.4")
        + b"PUB s.e acked.5 0\r\n\r\n"
    )
    finish(world)
    told = re.findall(rb"MSG (acked\.\d) 8 \d+\r\n(.*)\r\n", peer.take())
    assert [subject for subject, _ in told] == [b"acked.%d" % each for each in range(1, 6)]
    sequences = [re.search(rb'"seq":(\d+)', answer) for _, answer in told]
    found = [each and int(each[1]) for each in sequences]
    assert found == [COUNT + 1, COUNT + 2, 0, COUNT + 3, COUNT + 4]
    assert b'"err_code":10071' in told[2][1]


# --- requests that are decided over entries in flight ---------------------------------------------


def decided_behind_a_publish() -> list[int]:
    """Create a consumer over very many subjects, in a turn with a publish before it. Returns the
    numbers of messages that the stream has while the request is being decided."""
    world = StoredWorld(Options(jetstream=streaming(sync_always=True))).start()
    world.create("S", subjects=["s.>"])
    world.modern().send(b"".join(b"PUB s.%d.x 0\r\n\r\n" % each for each in range(COUNT)))
    finish(world)
    assert world.node.jetstream is not None
    stream = world.node.jetstream.accounts["$G"].streams["S"]
    peer, seen = asker(world), list[int]()
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "s.*.x"}
    peer.push(b"PUB s.new.x 0\r\n\r\n")
    pushed(peer, "$JS.API.CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    pass_turns(world, 1)
    assert is_held(world)
    sync(world)
    while not stream.consumers.changes:
        seen.append(stream.log.messages)
        pass_turns(world, 1)
    finish(world)
    assert stream.log.messages == COUNT + 1
    assert replies(peer)[0]["num_pending"] == COUNT + 1
    return seen


def test_a_request_that_is_decided_in_slices_sees_no_entry_applied_meanwhile() -> None:
    seen = decided_behind_a_publish()
    assert len(seen) > COUNT / 8
    assert {*seen} == {COUNT}


def test_a_runner_that_applies_entries_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamRunner, "committed", StreamRunner._advance)
    assert {*decided_behind_a_publish()} != {COUNT}
