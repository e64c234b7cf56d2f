"""Messages and rules of an older version never become frames that nobody sent.

Older versions took blanks and line ends in some subjects that came in JSON documents and headers.
These tests put a subject of that kind on the disk as they did, past the rules of today.
"""

from typing import Final

import msgspec
import pytest

from headwater.jetstream.config.stream_config import Republish, SubjectTransformConfig
from headwater.jetstream.records import Configured, Published
from headwater.server.core.frame_door import REPORTED_MAX, FrameDoor
from headwater.store.log.message_log import Batch
from tests.kit.consumer_world import ConsumerWorld, pull_line
from tests.kit.strict_frames import Frame, parse
from tests.kit.world import Peer

FORGED: Final = "x 1 2\r\nhi\r\nMSG secret 1 5\r\npwned\r\nMSG y"
BROKEN: Final = ("a b", "a\tb", "a\rb", "a\nb", "", FORGED)


def messages(peer: Peer) -> list[Frame]:
    """The messages that came meanwhile, by a parser that finds every wrong byte."""
    return [frame for frame in parse(peer.take()) if frame.kind in ("MSG", "HMSG")]


def subjects(peer: Peer) -> list[bytes]:
    return [frame.subject for frame in messages(peer)]


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_not_one_word_does_not_pass_and_is_reported(broken: str) -> None:
    door, said = FrameDoor(), list[str]()
    door.report = said.append
    assert door.lets_pass(b"fine", None)
    assert door.lets_pass(b"fine", b"inbox")
    assert not said
    assert not door.lets_pass(broken.encode(), None)
    assert not door.lets_pass(b"fine", broken.encode())
    assert door.withheld == len(said) == 2
    assert not any(character in line for line in said for character in "\r\n\t")


def test_the_log_is_not_filled_with_reports() -> None:
    door, said = FrameDoor(), list[str]()
    door.report = said.append
    for _ in range(REPORTED_MAX + 1):
        door.lets_pass(b"a b", None)
    assert (door.withheld, len(said)) == (REPORTED_MAX + 1, REPORTED_MAX)


def after_restart(world: ConsumerWorld) -> ConsumerWorld:
    """The next server on the same disk."""
    world.node.close_jetstream()
    world.disk.kill()
    return ConsumerWorld(world.node.options, world.disk)


@pytest.mark.parametrize("destination", [f"again.{FORGED}", f"again.{FORGED}.>", "again. .>"])
def test_a_stored_republish_is_set_aside_and_its_stream_goes_on(destination: str) -> None:
    world = ConsumerWorld().with_stream()
    stream = world.stream()
    republish = Republish(src=">" if destination.endswith(">") else "s.a", dest=destination)
    poisoned = msgspec.structs.replace(stream.config, republish=republish)
    record = Configured(poisoned, world.clock.wall_ns())
    stream.append(record)
    stream.apply(record)
    world = after_restart(world)
    (complaint,) = world.complaints
    assert "Stream $G/S: its republish to " in complaint
    assert "\r" not in complaint
    victim = world.modern()
    victim.send(b"SUB > 1\r\n")
    world.publish(2)
    assert subjects(victim) == [b"s.a", b"s.a"]
    assert world.stream().visible_sequence == 2
    # A client that asks for the stream sees the rule as it is stored, and can set it right.
    described = world.request("$JS.API.STREAM.INFO.S")["config"]
    assert described["republish"]["dest"] == destination
    assert world.request("$JS.API.STREAM.UPDATE.S", described)["error"]["err_code"] == 10052
    described["republish"] = {"src": "s.a", "dest": "again.a"}
    assert "error" not in world.request("$JS.API.STREAM.UPDATE.S", described)
    victim.take()
    world.publish(1)
    assert subjects(victim) == [b"s.a", b"again.a"]


def test_a_stored_transform_is_set_aside_and_its_stream_goes_on() -> None:
    world = ConsumerWorld().with_stream()
    stream = world.stream()
    transform = SubjectTransformConfig(src="s.>", dest=f"s.{FORGED}.>")
    poisoned = msgspec.structs.replace(stream.config, subject_transform=transform)
    record = Configured(poisoned, world.clock.wall_ns())
    stream.append(record)
    stream.apply(record)
    world = after_restart(world)
    (complaint,) = world.complaints
    assert "Stream $G/S: its subject transform to " in complaint
    world.publish(1)
    assert world.request("$JS.API.STREAM.MSG.GET.S", {"seq": 1})["message"]["subject"] == "s.a"


def with_stored(*stored: bytes) -> ConsumerWorld:
    """A server whose stream has messages on these subjects."""
    world = ConsumerWorld().with_stream(allow_direct=True)
    stream, count = world.stream(), len(stored)
    batch = Batch([*stored], [b""] * count, [b"x"] * count, [world.clock.wall_ns()] * count)
    record = Published(stream.log.last_sequence + 1, batch)
    stream.append(record)
    stream.apply(record)
    return after_restart(world)


POISONED: Final = f"s.{FORGED}".encode()


@pytest.mark.parametrize("listeners", [b"SUB push 1\r\n", b"SUB push 1\r\nSUB push 2\r\n"])
def test_a_stored_message_is_not_pushed_and_those_around_it_are(listeners: bytes) -> None:
    world = with_stored(b"s.a", POISONED, b"s.b")
    victim = world.modern()
    victim.send(listeners)
    world.consumer("P", deliver_subject="push")
    count = listeners.count(b"SUB")
    assert sorted(subjects(victim)) == sorted([b"s.a", b"s.b"] * count)
    assert any("was not sent" in line for line in world.complaints)


def test_a_stored_message_is_not_given_to_a_pull_and_those_around_it_are() -> None:
    world = with_stored(b"s.a", POISONED, b"s.b")
    world.consumer("C")
    world.caller.take()
    world.caller.send(pull_line("C", batch=3))
    assert subjects(world.caller) == [b"s.a", b"s.b"]


def test_a_stored_message_can_be_read_and_removed() -> None:
    world = with_stored(b"s.a", POISONED, b"s.b")
    shown = world.request("$JS.API.STREAM.MSG.GET.S", {"seq": 2})["message"]
    assert shown["subject"].encode() == POISONED
    world.caller.take()
    body = b'{"seq":2}'
    world.caller.send(b"PUB $JS.API.DIRECT.GET.S inbox.1 %d\r\n%b\r\n" % (len(body), body))
    (direct,) = messages(world.caller)
    named = POISONED.replace(b"\r", b" ").replace(b"\n", b" ")
    assert b"\r\nNats-Subject: %b\r\n" % named in direct.header
    asked = {"filter": POISONED.decode()}
    assert world.request("$JS.API.STREAM.PURGE.S", asked)["purged"] == 1


def test_a_stored_message_is_not_taken_in_by_another_stream_of_a_republish() -> None:
    world = with_stored(POISONED)
    described = world.request("$JS.API.STREAM.INFO.S")["config"]
    described |= {"republish": {"src": ">", "dest": "again.>"}, "max_age": 1_000_000_000}
    described |= {"subject_delete_marker_ttl": 1_000_000_000, "duplicate_window": 100_000_000}
    assert "error" not in world.request("$JS.API.STREAM.UPDATE.S", described)
    world.with_stream("AGAIN", subjects=["again.>"])
    victim = world.modern()
    victim.send(b"SUB > 1\r\n")
    world.advance(5)
    assert all(subject.startswith(b"$JS.EVENT.") for subject in subjects(victim))
    assert world.stream("AGAIN").visible_sequence == 0


def test_the_ack_of_a_publish_is_json_whatever_the_stream_is_called() -> None:
    world = ConsumerWorld()
    name = 'S","seq":7,"x":"'
    assert "error" not in world.request(
        f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": ["s.>"]}
    )
    assert world.request("s.a", {}) == {"stream": name, "seq": 1}
