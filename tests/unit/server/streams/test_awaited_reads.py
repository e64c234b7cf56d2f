"""A read waits a little for the sequence its reader has seen, and is then refused."""

import json
from functools import partial
from typing import Any, Final

import pytest

from headwater.server.configuration.options import Options
from headwater.server.streams.awaited_reads import WAIT_S_MAX, AwaitedReads
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import ManualClock, ManualScheduler, Peer

LONGER_S: Final = WAIT_S_MAX + 0.001
NOT_COMPLETE: Final = b"NATS/1.0 412 Min Last Sequence\r\nNats-Session-Sequence: 0\r\n\r\n"


# --- reads of one stream --------------------------------------------------------------------------


def test_a_read_is_answered_when_its_sequence_is_visible() -> None:
    reads, answered = AwaitedReads(ManualScheduler(ManualClock())), list[int]()
    for sequence in (5, 3, 4):
        reads.add(sequence, partial(answered.append, sequence))
    reads.advance(2)
    assert answered == []
    reads.advance(4)
    assert answered == [3, 4]
    reads.advance(9)
    assert answered == [3, 4, 5]


def test_a_read_is_answered_once_when_it_has_waited() -> None:
    scheduler = ManualScheduler(ManualClock())
    reads, answered = AwaitedReads(scheduler), list[str]()
    reads.add(5, lambda: answered.append("early"))
    scheduler.advance(WAIT_S_MAX / 2)
    reads.add(5, lambda: answered.append("late"))
    scheduler.advance(WAIT_S_MAX / 2)
    assert answered == ["early"]
    reads.answer_all()
    assert answered == ["early", "late"]
    assert scheduler.waiting == 0


# --- in a server ----------------------------------------------------------------------------------


def ask(peer: Peer, subject: str, **request: Any) -> bytes:
    body = json.dumps(request).encode()
    return peer.ask(b"PUB %b inbox %d\r\n%b\r\n" % (subject.encode(), len(body), body))


@pytest.fixture
def world() -> StoredWorld:
    """A server that waits for the disk, with a stream to read from."""
    world = StoredWorld(Options(jetstream=streaming(sync_always=True))).start()
    world.create("S", allow_direct=True)
    world.scheduler.finish_offloaded()
    return world


@pytest.fixture
def reader(world: StoredWorld) -> Peer:
    peer = world.modern()
    peer.send(b"SUB inbox 1\r\n")
    return peer


def test_a_read_waits_for_the_disk(world: StoredWorld, reader: Peer) -> None:
    reader.send(b"PUB s 1\r\nx\r\n")
    assert ask(reader, "$JS.API.DIRECT.GET.S", seq=1, min_last_seq=1) == b""
    assert ask(reader, "$JS.API.DIRECT.GET.S.s", min_last_seq=1) == b""
    world.scheduler.finish_offloaded()
    world.settle()
    seen = reader.take()
    assert seen.count(b"Nats-Sequence: 1\r\n") == 2
    assert seen.count(b"Nats-Session-Sequence: 1\r\n") == 2


@pytest.mark.parametrize("subject", ["$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.s"])
def test_a_read_that_has_waited_is_refused(world: StoredWorld, reader: Peer, subject: str) -> None:
    request = {"min_last_seq": 1} if subject.endswith(".s") else {"seq": 1, "min_last_seq": 1}
    assert ask(reader, subject, **request) == b""
    world.advance(LONGER_S)
    assert NOT_COMPLETE in reader.take()


def test_a_read_by_the_api_is_refused_with_a_code(world: StoredWorld, reader: Peer) -> None:
    assert ask(reader, "$JS.API.STREAM.MSG.GET.S", seq=1, min_last_seq=1) == b""
    world.advance(LONGER_S)
    reply = reader.take()
    assert b"Nats-Session-Sequence: 0\r\n" in reply
    assert b'{"code":412,"err_code":10180,"description":"min last sequence"}' in reply


def test_a_session_read_that_asks_for_too_high_a_level_carries_the_mark(reader: Peer) -> None:
    block = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    body = b'{"seq":1,"min_last_seq":1}'
    sizes = b"%d %d" % (len(block), len(block) + len(body))
    reply = reader.ask(b"HPUB $JS.API.DIRECT.GET.S inbox %b\r\n%b%b\r\n" % (sizes, block, body))
    assert b"NATS/1.0 412 Required Api Level\r\nNats-Session-Sequence: 0\r\n\r\n" in reply


def test_nobody_answers_for_a_stream_that_is_not_read_directly(
    world: StoredWorld, reader: Peer
) -> None:
    world.create("T")
    reply = ask(reader, "$JS.API.DIRECT.GET.T", seq=1, min_last_seq=1)
    assert b"NATS/1.0 503" in reply, "at once"


def test_a_deleted_stream_is_not_waited_for(world: StoredWorld, reader: Peer) -> None:
    assert ask(reader, "$JS.API.DIRECT.GET.S", seq=1, min_last_seq=1) == b""
    assert ask(reader, "$JS.API.STREAM.DELETE.S") == b""
    world.scheduler.finish_offloaded()
    assert NOT_COMPLETE in reader.take()
    world.advance(LONGER_S)
