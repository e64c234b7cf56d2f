"""A long answer leaves others their turn, and waits for a reader who is behind."""

import json
from typing import Any

from headwater.server.configuration.options import Options
from headwater.server.core.out_buffers import UNREAD_LOOK_S
from headwater.server.streams.many_replies import SLICE_REPLIES_MAX
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

COUNT = 3 * SLICE_REPLIES_MAX


def filled(count: int = COUNT, body: bytes = b"", **options: Any) -> StoredWorld:
    world = StoredWorld(Options(jetstream=streaming(max_file_bytes=1 << 24), **options)).start()
    world.create("S", allow_direct=True)
    publish = b"PUB s %d\r\n%b\r\n" % (len(body), body)
    world.modern().ask(publish * count)
    return world


def asking(world: StoredWorld, count: int = COUNT) -> Peer:
    """A reader who has asked for all of it."""
    reader = world.modern()
    body = json.dumps({"seq": 1, "batch": count, "max_bytes": 1 << 30}).encode()
    reader.send(b"SUB inbox 9\r\n")
    reader.push(b"PUB $JS.API.DIRECT.GET.S inbox %d\r\n%b\r\n" % (len(body), body))
    return reader


def received(reader: Peer) -> int:
    return reader.connection.received.count(b"HMSG inbox")


def test_others_have_their_turn_in_between() -> None:
    world = filled()
    reader = asking(world)
    reader.push(b"PING\r\n")
    world.settle()
    before = bytes(reader.connection.received).partition(b"PONG")[0]
    assert before.count(b"HMSG inbox") <= SLICE_REPLIES_MAX
    # One more message is the end of the batch.
    assert received(reader) == COUNT + 1


def test_who_does_not_read_is_waited_for() -> None:
    payload = bytes(10_000)
    world = filled(count=100, body=payload, max_pending=400_000)
    reader = asking(world, 100)
    reader.connection.stop_reading()
    world.settle()
    world.advance(1.0)
    assert not reader.connection.ended
    assert reader.connection.buffered_bytes() < 400_000
    for _ in range(10):
        reader.connection.start_reading()
        reader.connection.stop_reading()
        world.advance(UNREAD_LOOK_S)
    reader.connection.start_reading()
    assert received(reader) == 101
    assert not reader.connection.ended


def test_the_rest_is_not_read_when_nobody_listens_any_more() -> None:
    world = filled()
    reader = asking(world)
    reader.push(b"UNSUB 9\r\n")
    world.settle()
    assert received(reader) <= SLICE_REPLIES_MAX


def test_the_rest_ends_with_its_stream() -> None:
    world = filled()
    other = world.modern()
    reader = asking(world)
    other.push(b"PUB $JS.API.STREAM.DELETE.S 0\r\n\r\n")
    world.scheduler.run_turn()
    sent = received(reader)
    world.finish_checks()
    assert received(reader) <= sent + SLICE_REPLIES_MAX < COUNT
    assert not reader.connection.ended


def test_a_disk_that_can_not_be_read_is_told() -> None:
    world = filled(count=3)
    world.disk.fail("read", "*/segment*", times=None)
    reader = asking(world)
    world.settle()
    assert b"NATS/1.0 500 Message Not Readable" in reader.connection.received
    assert not reader.connection.ended
