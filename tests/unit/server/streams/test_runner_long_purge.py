"""A purge that takes long: the stream is held, no client sees half of it, and others go on.

Slices are so small here that a purge of some messages takes many turns.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base import sliced
from headwater.jetstream.api import long_details
from headwater.jetstream.streams import removal
from headwater.server.configuration.options import Options
from headwater.store.log import file_log as log
from headwater.store.log import memory_log as memory
from headwater.store.log import message_log
from headwater.testing.disk import SimDisk
from tests.kit.long_requests import asker, finish, is_held, pass_turns, pushed, replies, sync
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

COUNT = 12
PURGE = b"PUB $JS.API.STREAM.PURGE.S purged 14\r\n" + b'{"filter":"s"}' + b"\r\n"


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced, "SLICE_UNITS_MAX", 1)
    for module in (removal, log, memory, message_log):
        monkeypatch.setattr(module, "PURGED_AT_A_TIME", 2)


@pytest.fixture(params=["file", "memory", "always"])
def world(request: pytest.FixtureRequest) -> StoredWorld:
    options = Options(jetstream=streaming(sync_always=request.param == "always"))
    world = StoredWorld(options).start()
    storage = "memory" if request.param == "memory" else "file"
    world.create("S", subjects=["s", "t"], storage=storage, allow_direct=True)
    world.create("OTHER", storage=storage)
    world.modern().send(b"PUB s 0\r\n\r\n" * COUNT + b"PUB t 0\r\n\r\n")
    finish(world)
    return world


def purging(world: StoredWorld) -> Peer:
    """A client that has asked for a purge, of which a part is done."""
    peer = world.modern()
    peer.send(b"SUB purged 1\r\n")
    peer.take()
    peer.push(PURGE)
    pass_turns(world, 1)
    # The record of the purge has to be on the disk before it is applied.
    sync(world)
    assert is_held(world)
    assert peer.take() == b""
    return peer


def test_others_are_heard_in_between_and_the_purge_is_answered_at_its_end(
    world: StoredWorld,
) -> None:
    other = asker(world)
    peer = purging(world)
    other.push(b"PING\r\n")
    pushed(other, "other", None)
    pushed(other, "$JS.API.STREAM.INFO.OTHER")
    pass_turns(world)
    told = other.take()
    assert b"PONG" in told
    assert b"stream_info_response" in told
    assert b"success" not in peer.take()
    finish(world)
    assert f'"purged":{COUNT}'.encode() in peer.take()


@pytest.mark.parametrize(
    ("subject", "body", "shown"),
    [
        ("STREAM.INFO.S", {"subjects_filter": ">"}, lambda told: told["state"]["subjects"]),
        ("STREAM.INFO.S", None, lambda told: told["state"]["messages"]),
        ("STREAM.MSG.GET.S", {"last_by_subj": "s"}, lambda told: told["error"]["err_code"]),
        ("STREAM.PURGE.S", {"filter": "s"}, lambda told: told["purged"]),
        ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}}, None),
    ],
)
def test_later_requests_of_the_stream_wait_and_see_all_of_it(
    world: StoredWorld, subject: str, body: object, shown: Callable[[Any], object] | None
) -> None:
    other = asker(world)
    purging(world)
    pushed(other, f"$JS.API.{subject}", body)
    pass_turns(world)
    assert replies(other) == []
    finish(world)
    (told,) = replies(other)
    expected = {"STREAM.INFO.S": {"t": 1} if body else 1, "STREAM.MSG.GET.S": 10037}
    if shown is None:
        assert told["num_pending"] == 1
    else:
        assert shown(told) == expected.get(subject, 0)


def test_what_tells_of_all_streams_tells_the_state_before(
    world: StoredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The list has to fit into a slice, however small that is here.
    monkeypatch.setattr(long_details, "DOCUMENT_UNITS", 0)
    monkeypatch.setattr(long_details, "DOCUMENT_BYTES_PER_UNIT", 1 << 30)
    other = asker(world)
    purging(world)
    pushed(other, "$JS.API.STREAM.LIST")
    pass_turns(world)
    (told,) = replies(other)
    messages = {each["config"]["name"]: each["state"]["messages"] for each in told["streams"]}
    assert messages == {"S": COUNT + 1, "OTHER": 0}
    finish(world)


def test_reads_and_publishes_wait_in_order(world: StoredWorld) -> None:
    other = world.modern()
    other.send(b"SUB read.* 9\r\nSUB acked 8\r\n")
    purging(world)
    other.push(b"PUB $JS.API.DIRECT.GET.S.s read.1 0\r\n\r\n")
    other.push(b"PUB s acked 3\r\nnew\r\n")
    other.push(b"PUB $JS.API.DIRECT.GET.S.s read.2 0\r\n\r\n")
    pass_turns(world)
    assert b"MSG" not in other.take()
    finish(world)
    told = other.take()
    assert b"404 Message Not Found" in told[told.index(b"read.1") :][:60]
    assert told.index(b"acked 8") > 0
    assert b'"seq":14' in told
    assert b"Nats-Sequence: 14" in told[told.index(b"read.2") :]


def make_consumer(world: StoredWorld) -> None:
    config = {"name": "C", "ack_policy": "explicit"}
    pushed(world.modern(), "$JS.API.CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    finish(world)


def test_a_consumer_is_given_nothing_of_what_is_being_purged(world: StoredWorld) -> None:
    make_consumer(world)
    reader = world.modern()
    reader.send(b"SUB got 9\r\n")
    purging(world)
    reader.push(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C got 28\r\n{"batch":20,"no_wait":true} \r\n')
    pass_turns(world)
    assert reader.take() == b""
    finish(world)
    told = reader.take()
    assert told.count(b"$JS.ACK.S.C") == 1
    assert b"MSG t 9 $JS.ACK.S.C.1.13." in told


def test_acknowledgements_wait(world: StoredWorld) -> None:
    make_consumer(world)
    reader = world.modern()
    reader.send(b"SUB got 9\r\nSUB sure 8\r\n")
    reader.send(b'PUB $JS.API.CONSUMER.MSG.NEXT.S.C got 28\r\n{"batch":20,"no_wait":true} \r\n')
    acks = re.findall(rb"\$JS\.ACK\.\S+", reader.take())
    assert len(acks) == COUNT + 1
    purging(world)
    reader.push(b"PUB %b sure 0\r\n\r\n" % acks[-1])
    finish(world)
    assert b"MSG sure" in reader.take()
    info = world.request("$JS.API.CONSUMER.INFO.S.C")
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)


def test_a_stream_may_be_deleted_in_the_midst_of_it(world: StoredWorld) -> None:
    other = asker(world)
    peer = purging(world)
    other.push(b"PUB s inbox 0\r\n\r\n")
    pushed(other, "$JS.API.STREAM.DELETE.S")
    pass_turns(world, 1)
    sync(world)
    finish(world)
    assert b'"err_code":10059' in peer.take()
    told = replies(other)
    assert {"type": "io.nats.jetstream.api.v1.stream_delete_response", "success": True} in told
    world.create("S")
    assert world.request("$JS.API.STREAM.INFO.S")["state"]["messages"] == 0


@pytest.mark.parametrize("body", [None, {"subjects_filter": ">"}])
def test_who_waits_for_a_stream_that_is_deleted_sees_nothing_of_it(
    world: StoredWorld, body: object
) -> None:
    other = asker(world)
    purging(world)
    pushed(other, "$JS.API.STREAM.INFO.S", body)
    other.push(b"PUB $JS.API.STREAM.DELETE.S 0\r\n\r\n")
    pass_turns(world, 1)
    sync(world)
    finish(world)
    assert [told["error"]["err_code"] for told in replies(other)] == [10059]


def test_what_a_deleted_stream_held_counts_no_more(world: StoredWorld) -> None:
    other = asker(world)
    purging(world)
    pushed(other, "$JS.API.STREAM.DELETE.S")
    finish(world)
    other.take()
    pushed(other, "$JS.API.INFO")
    finish(world)
    (told,) = replies(other)
    assert (told["memory"], told["storage"]) == (0, 0)


def test_a_server_that_ends_makes_the_rest_of_the_change() -> None:
    world = StoredWorld().start()
    world.create("S")
    world.modern().send(b"PUB s 0\r\n\r\n" * COUNT)
    purging(world)
    again = world.after_restart().start()
    assert again.request("$JS.API.STREAM.INFO.S")["state"]["messages"] == 0


@pytest.mark.parametrize("turns", range(0, 30, 2))
def test_a_server_that_is_killed_has_made_all_of_it_or_nothing(turns: int) -> None:
    world = StoredWorld().start()
    world.create("S")
    world.modern().send(b"PUB s 0\r\n\r\n" * COUNT)
    purging(world)
    pass_turns(world, turns)
    disk: SimDisk = world.disk
    disk.kill()
    again = StoredWorld(world.node.options, disk).start()
    assert again.request("$JS.API.STREAM.INFO.S")["state"]["messages"] in (0, COUNT)


def test_a_disk_that_fails_in_the_midst_of_it_is_told() -> None:
    world = StoredWorld().start()
    world.create("S")
    world.modern().send(b"PUB s 0\r\n\r\n" * COUNT)
    other = asker(world)
    peer = purging(world)
    other.push(b"PUB s inbox 0\r\n\r\n")
    world.disk.fail("write", "*/journal*", times=None)
    finish(world)
    assert b'"err_code":10' in peer.take()
    assert "error" in replies(other)[0]
    disk: SimDisk = world.disk
    disk.heal()
    disk.kill()
    again = StoredWorld(world.node.options, disk).start()
    assert again.request("$JS.API.STREAM.INFO.S")["state"]["messages"] == COUNT


@pytest.mark.parametrize(("size", "is_refused"), [(94, False), (95, True)])
def test_publishes_that_wait_are_bounded(size: int, is_refused: bool) -> None:
    # Subject and reply take six bytes.
    world = StoredWorld(Options(jetstream=streaming(max_buffered_bytes=100))).start()
    world.create("S")
    world.modern().send(b"PUB s 0\r\n\r\n" * COUNT)
    other = asker(world)
    purging(world)
    other.push(b"PUB s inbox %d\r\n%b\r\n" % (size, bytes(size)))
    finish(world)
    (told,) = replies(other)
    assert ("error" in told) == is_refused
    if is_refused:
        assert (told["error"]["code"], told["error"]["err_code"]) == (429, 10167)
    # A publish that comes afterwards is judged again.
    other.send(b"PUB s inbox 1\r\nx\r\n")
    assert "error" not in replies(other)[0]
