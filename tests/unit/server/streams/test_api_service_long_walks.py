"""Requests and publishes that concern very many messages: each lets other clients have their turn.

Slices and steps are so small here that some messages take many turns. A test counts turns, and
never the time that they take.
"""

import json
from typing import Any, NamedTuple

import pytest

from headwater.base import emptying, sliced
from headwater.jetstream.consumers import losses, retention
from headwater.jetstream.streams import removal
from headwater.server.configuration.options import Options
from headwater.store.index import subject_filter
from headwater.store.index import walks as index_walks
from headwater.store.log import file_log as log
from headwater.store.log import memory_log as memory
from headwater.store.log import message_log
from headwater.testing.disk import SimDisk
from tests.kit.long_requests import asker, finish, is_held, pass_turns, pushed, replies, sync
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

COUNT = 24


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced, "SLICE_UNITS_MAX", 1)
    for module in (removal, log, memory, message_log, losses):
        monkeypatch.setattr(module, "PURGED_AT_A_TIME", 2)
    monkeypatch.setattr(index_walks, "STRETCH", 2)
    monkeypatch.setattr(retention, "COUNTED_AT_A_TIME", 2)
    monkeypatch.setattr(subject_filter, "GATHERED_AT_A_TIME", 2)
    monkeypatch.setattr(removal, "IDS_PER_ENTRY_MAX", 4)


class Walk(NamedTuple):
    """A call or publish that takes long: the stream before it, and how many messages it leaves."""

    subject: str
    body: dict[str, Any] | None
    left: int
    config: dict[str, Any] = {}  # noqa: RUF012
    header: bytes = b""
    consumers: tuple[dict[str, Any], ...] = ()


def updated(**config: Any) -> dict[str, Any]:
    return {"name": "S", "subjects": ["s.*"], **config}


UPDATE = "$JS.API.STREAM.UPDATE.S"
BOTH = ({"name": "C", "ack_policy": "explicit"}, {"name": "D", "filter_subject": "s.1"})
INTEREST = {"retention": "interest"}
WALKS = {
    "fewer messages": Walk(UPDATE, updated(max_msgs=1), 1),
    "fewer bytes": Walk(UPDATE, updated(max_bytes=70), 1),
    "fewer of each subject": Walk(UPDATE, updated(max_msgs_per_subject=2), 6),
    "fewer of each subject and fewer messages": Walk(
        UPDATE, updated(max_msgs_per_subject=2, max_msgs=4), 4
    ),
    "everything rolled up": Walk(
        "s.new", None, 1, {"allow_rollup_hdrs": True}, b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"
    ),
    "a subject rolled up": Walk(
        "s.1", None, 17, {"allow_rollup_hdrs": True}, b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
    ),
    "the last consumer of an interest stream": Walk(
        "$JS.API.CONSUMER.DELETE.S.C", None, 0, INTEREST, consumers=BOTH[:1]
    ),
    "one of two consumers of an interest stream": Walk(
        "$JS.API.CONSUMER.DELETE.S.C", None, 8, INTEREST, consumers=BOTH
    ),
    "a consumer that begins again behind all": Walk(
        "$JS.API.CONSUMER.RESET.S.C", {"seq": 100}, 0, INTEREST, consumers=BOTH[:1]
    ),
    "interest from now on": Walk(UPDATE, updated(**INTEREST), 8, consumers=BOTH[1:]),
    "all that was stored": Walk("$JS.API.STREAM.PURGE.S", None, 0),
}


def begun(walk: Walk, storage: str = "file") -> StoredWorld:
    """A server whose stream is ready for a walk."""
    options = Options(jetstream=streaming(sync_always=storage == "always"))
    world = StoredWorld(options).start()
    kind = "memory" if storage == "memory" else "file"
    config = {"storage": kind, "allow_direct": True, **walk.config}
    world.create("S", subjects=["s.*"], **config)
    world.create("OTHER")
    for consumer in walk.consumers:
        body = {"stream_name": "S", "config": {"durable_name": consumer["name"], **consumer}}
        pushed(world.modern(), f"$JS.API.CONSUMER.CREATE.S.{consumer['name']}", body)
        finish(world)
    frames = []
    for number in range(COUNT):
        block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
        sizes = (number % 3, len(block), len(block))
        frames.append(b"HPUB s.%d %d %d\r\n" % sizes + block + b"\r\n")
    world.modern().send(b"".join(frames))
    finish(world)
    return world


def walking(world: StoredWorld, walk: Walk) -> Peer:
    """A client that has asked for something that takes long, of which a part is done."""
    peer = world.modern()
    peer.send(b"SUB done 1\r\n")
    peer.take()
    body = walk.body
    if walk.subject == UPDATE:
        storage = world.request("$JS.API.STREAM.INFO.S")["config"]["storage"]
        body = {**(body or {}), "storage": storage}
    payload = b"" if body is None else json.dumps(body).encode()
    subject, size = walk.subject.encode(), len(walk.header) + len(payload)
    if walk.header:
        line = b"HPUB %b done %d %d\r\n" % (subject, len(walk.header), size)
    else:
        line = b"PUB %b done %d\r\n" % (subject, size)
    peer.push(line + walk.header + payload + b"\r\n")
    for _ in range(4):
        if not is_held(world):
            pass_turns(world, 1)
            sync(world)
    assert is_held(world)
    return peer


def messages(world: StoredWorld) -> int:
    state = world.request("$JS.API.STREAM.INFO.S")["state"]
    assert isinstance(state["messages"], int)
    return state["messages"]


@pytest.mark.parametrize("storage", ["file", "memory", "always"])
@pytest.mark.parametrize("name", WALKS)
def test_others_are_heard_in_between_and_later_requests_see_all_of_it(
    name: str, storage: str
) -> None:
    walk = WALKS[name]
    world = begun(walk, storage)
    other, later = asker(world), world.modern()
    later.send(b"SUB seen 7\r\n")
    peer = walking(world, walk)
    other.push(b"PING\r\n")
    pushed(other, "$JS.API.STREAM.INFO.OTHER")
    later.push(b"PUB $JS.API.STREAM.INFO.S seen 0\r\n\r\n")
    pass_turns(world)
    told = other.take()
    assert b"PONG" in told
    assert b"stream_info_response" in told
    assert b"MSG" not in later.take()
    assert b"MSG done" not in peer.take()
    finish(world)
    answer = peer.take()
    assert b"MSG done" in answer
    assert b'"error"' not in answer
    assert f'"messages":{walk.left},'.encode() in later.take()


@pytest.mark.parametrize("name", WALKS)
def test_what_tells_of_all_streams_tells_no_half_of_it(name: str) -> None:
    walk = WALKS[name]
    world = begun(walk)
    other = asker(world)
    walking(world, walk)
    shown = set()
    for _ in range(200):
        pushed(other, "$JS.API.STREAM.LIST")
        pass_turns(world, 1)
        for told in replies(other):
            if "streams" not in told:
                continue
            states = {each["config"]["name"]: each["state"] for each in told["streams"]}
            shown.add(states["S"]["messages"])
    finish(world)
    stored = COUNT + bool(walk.header)
    assert shown == {stored, walk.left}


@pytest.mark.parametrize("storage", ["file", "always"])
@pytest.mark.parametrize("name", WALKS)
def test_a_server_that_is_killed_has_done_all_of_it_or_nothing(name: str, storage: str) -> None:
    walk = WALKS[name]
    outcomes = set()
    turns, is_over = 0, False
    while not is_over:
        world = begun(walk, storage)
        walking(world, walk)
        pass_turns(world, turns)
        is_over = not is_held(world)
        disk: SimDisk = world.disk
        disk.kill()
        again = StoredWorld(world.node.options, disk).start()
        outcomes.add(messages(again))
        turns += 4
    # The server that comes after does all that a stored message or configuration implies.
    assert outcomes in ({walk.left}, {COUNT, walk.left})


@pytest.mark.parametrize("name", WALKS)
def test_a_server_that_ends_does_the_rest(name: str) -> None:
    walk = WALKS[name]
    world = begun(walk)
    walking(world, walk)
    again = world.after_restart().start()
    assert messages(again) == walk.left


@pytest.mark.parametrize("storage", ["file", "always"])
@pytest.mark.parametrize("name", WALKS)
def test_a_full_disk_leaves_all_of_it_or_nothing(name: str, storage: str) -> None:
    walk = WALKS[name]
    world = begun(walk, storage)
    peer = walking(world, walk)
    world.disk.capacity_bytes = world.disk.used_bytes
    finish(world)
    assert b"MSG done" in peer.take()
    assert messages(world) in (walk.left, COUNT, COUNT + bool(walk.header))


@pytest.mark.parametrize("name", WALKS)
def test_a_disk_that_fails_leaves_all_of_it_or_nothing(name: str) -> None:
    walk = WALKS[name]
    world = begun(walk)
    peer = walking(world, walk)
    world.disk.fail("write", "*/journal*", times=None)
    finish(world)
    assert b"MSG done" in peer.take()
    assert messages(world) == walk.left
    world.disk.heal()
    world.disk.kill()
    again = StoredWorld(world.node.options, world.disk).start()
    assert messages(again) in (walk.left, COUNT)


ROLLED_UP = WALKS["everything rolled up"]


@pytest.mark.parametrize("storage", ["file", "memory", "always"])
def test_publishes_behind_a_roll_up_wait_in_order(storage: str) -> None:
    world = begun(ROLLED_UP, storage)
    other = world.modern()
    other.send(b"SUB acked.* 8\r\nSUB read 9\r\n")
    peer = walking(world, ROLLED_UP)
    other.push(b"PUB s.a acked.1 3\r\nnew\r\n")
    other.push(b"PUB $JS.API.DIRECT.GET.S.s.1 read 0\r\n\r\n")
    other.push(b"PUB s.b acked.2 3\r\nnew\r\n")
    pass_turns(world)
    assert b"MSG" not in other.take()
    finish(world)
    assert f'"seq":{COUNT + 1}}}'.encode() in peer.take()
    told = other.take()
    assert f'"seq":{COUNT + 2}}}'.encode() in told[told.index(b"acked.1") :][:60]
    assert b"404 Message Not Found" in told
    assert f'"seq":{COUNT + 3}}}'.encode() in told[told.index(b"acked.2") :][:60]
    assert messages(world) == 3


def test_roll_ups_and_publishes_that_one_commit_makes_sure_take_effect_in_order() -> None:
    world = begun(ROLLED_UP, "always")
    peer = world.modern()
    peer.send(b"SUB acked.* 8\r\n")
    size = len(ROLLED_UP.header)
    roll_up = b"HPUB s.new acked.1 %d %d\r\n%b\r\n" % (size, size, ROLLED_UP.header)
    for number in range(3):
        peer.push(roll_up)
        peer.push(b"PUB s.a acked.%d 3\r\nnew\r\n" % number)
        pass_turns(world, 1)
    finish(world)
    assert peer.take().count(b"MSG acked") == 6
    assert messages(world) == 2


@pytest.mark.parametrize("storage", ["file", "memory", "always"])
def test_a_publish_that_rolled_up_is_acknowledged_though_the_stream_is_deleted(
    storage: str,
) -> None:
    # A stream with a limit counts its messages that are not visible yet.
    limited = {**ROLLED_UP.config, "max_msgs": 1000}
    world = begun(ROLLED_UP._replace(config=limited), storage)
    other = asker(world)
    peer = walking(world, ROLLED_UP)
    pushed(other, "$JS.API.STREAM.DELETE.S")
    finish(world)
    assert f'"seq":{COUNT + 1}}}'.encode() in peer.take()
    assert replies(other)[0]["success"]
    world.create("S")
    assert messages(world) == 0
    assert world.request("$JS.API.INFO")["storage"] == 0


def test_a_consumer_that_nobody_uses_goes_in_slices() -> None:
    walk = WALKS["the last consumer of an interest stream"]
    consumer = {**BOTH[0], "inactive_threshold": 10**9}
    world = begun(walk._replace(consumers=(consumer,)))
    jetstream = world.node.jetstream
    assert jetstream is not None
    runner = jetstream.runners.of("$G", "S")
    other = asker(world)
    runner.consumers.run_due(
        runner.stream.consumers.find("C"), jetstream.runners.now_ns() + 2 * 10**9
    )
    assert is_held(world)
    other.push(b"PING\r\n")
    pass_turns(world)
    assert b"PONG" in other.take()
    assert is_held(world)
    finish(world)
    assert messages(world) == 0
    assert world.request("$JS.API.CONSUMER.NAMES.S")["consumers"] == []


# --- consumers of the last messages -------------------------------------------------------------


@pytest.mark.parametrize("storage", ["file", "memory", "always"])
def test_a_consumer_of_last_messages_is_placed_in_slices(storage: str) -> None:
    config = {"durable_name": "L", "deliver_policy": "last_per_subject", "filter_subject": "s.*"}
    body = {"stream_name": "S", "config": config}
    walk = Walk("$JS.API.CONSUMER.CREATE.S.L", body, COUNT)
    world = begun(walk, storage)
    other = asker(world)
    peer = walking(world, walk)
    other.push(b"PING\r\nPUB s.2 0\r\n\r\n")
    pass_turns(world)
    assert b"PONG" in other.take()
    assert b"MSG done" not in peer.take()
    finish(world)
    # The publish came after the request, and is one more to come.
    assert b'"num_pending":3' in peer.take()
    assert world.request("$JS.API.CONSUMER.INFO.S.L")["num_pending"] == 4


# --- deleted streams ----------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_what_a_deleted_stream_held_is_freed_in_slices(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emptying, "EMPTIED_AT_A_TIME", 1)
    world = begun(Walk("", None, 0), storage)
    jetstream = world.node.jetstream
    assert jetstream is not None
    names = jetstream.runners.of("$G", "S").stream.log.index.subjects.names
    ids = jetstream.runners.of("$G", "S").stream.dedupe.ids
    other = asker(world)
    pushed(other, "$JS.API.STREAM.DELETE.S")
    pass_turns(world, 1)
    sync(world)
    other.push(b"PING\r\n")
    pass_turns(world, 2)
    told = other.take()
    assert b'"success":true' in told
    assert b"PONG" in told
    assert len(ids) + len(names) > 0
    world.create("S", subjects=["s.*"])
    finish(world)
    assert (names, ids) == ([], [])
    assert messages(world) == 0
