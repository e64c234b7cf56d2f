"""Streams of a server copy each other, and go on behind what they have."""

import pytest

from headwater.server.configuration.options import Options
from tests.kit.copy_world import SETTLING_S, CopyWorld
from tests.kit.stored_world import streaming

SOURCES = [{"name": "O"}]


@pytest.fixture
def world() -> CopyWorld:
    made = CopyWorld()
    made.make("O", subjects=["o.>"])
    made.publish(("o.a", b"1"), ("o.b", b"2"))
    return made


def test_a_mirror_gets_what_is_there_and_what_comes(world: CopyWorld) -> None:
    world.make("M", mirror={"name": "O"})
    world.publish(("o.a", b"3"))
    assert world.contents("M") == world.contents("O")
    assert len(world.contents("M")) == 3


def test_an_aggregate_gets_what_is_there_and_what_comes(world: CopyWorld) -> None:
    world.make("S", sources=SOURCES)
    world.publish(("o.a", b"3"))
    assert world.contents("S") == world.contents("O")


def test_a_filter_leaves_gaps(world: CopyWorld) -> None:
    world.make("M", mirror={"name": "O", "filter_subject": "o.b"})
    world.publish(("o.a", b"3"), ("o.b", b"4"))
    assert world.contents("M") == [(2, "o.b", b"2"), (4, "o.b", b"4")]


def test_messages_with_headers_come_with_them(world: CopyWorld) -> None:
    world.make("M", mirror={"name": "O"})
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    world.caller.send(b"HPUB o.a %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block))
    world.settle()
    message = world.call("STREAM.MSG.GET.M", {"seq": 3})["message"]
    assert message == world.call("STREAM.MSG.GET.O", {"seq": 3})["message"]
    assert message["hdrs"]


@pytest.mark.parametrize("copies", [{"mirror": {"name": "O"}}, {"sources": SOURCES}])
def test_a_restart_doubles_nothing(world: CopyWorld, copies: dict[str, object]) -> None:
    world.make("S", **copies)
    world.node.close_jetstream()
    world.disk.kill()
    next_life = CopyWorld(world.node.options, world.disk)
    next_life.copy()
    next_life.publish(("o.c", b"3"))
    assert next_life.contents("S") == [(1, "o.a", b"1"), (2, "o.b", b"2"), (3, "o.c", b"3")]


def test_an_origin_that_comes_later_is_found() -> None:
    world = CopyWorld()
    world.make("M", mirror={"name": "O"})
    world.copy()
    assert world.mirror("M")["error"]["err_code"] == 10059
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"))
    world.copy(20)
    assert world.contents("M") == [(1, "o", b"1")]
    assert "error" not in world.mirror("M")


def test_a_source_that_is_created_again_is_copied_from_its_beginning(world: CopyWorld) -> None:
    world.make("S", sources=SOURCES)
    world.call("STREAM.DELETE.O")
    world.copy()
    world.make("O", subjects=["o.>"])
    world.publish(("o.new", b"3"))
    world.copy(20)
    assert world.contents("S")[2:] == [(3, "o.new", b"3")]


def test_a_work_queue_lets_go_of_what_is_copied() -> None:
    world = CopyWorld()
    world.make("W", subjects=["w"], retention="workqueue")
    world.make("S", sources=[{"name": "W"}])
    world.publish(("w", b"1"), ("w", b"2"))
    world.copy(SETTLING_S)
    assert world.contents("W") == []
    assert world.contents("S") == [(1, "w", b"1"), (2, "w", b"2")]


def test_a_consumer_that_is_named_feeds_the_stream() -> None:
    world = CopyWorld()
    world.make("W", subjects=["w"], retention="workqueue")
    config = {
        "durable_name": "C",
        "deliver_subject": "feed",
        "ack_policy": "flow_control",
        "flow_control": True,
        "idle_heartbeat": 1_000_000_000,
    }
    answer = world.call("CONSUMER.DURABLE.CREATE.W.C", {"stream_name": "W", "config": config})
    assert "error" not in answer, answer
    named = {"name": "C", "deliver_subject": "feed"}
    world.make("S", sources=[{"name": "W", "consumer": named}])
    world.publish(("w", b"1"), ("w", b"2"))
    world.copy(SETTLING_S)
    assert world.contents("S") == [(1, "w", b"1"), (2, "w", b"2")]
    assert world.contents("W") == []


def test_a_refusal_is_told_and_tried_again(world: CopyWorld) -> None:
    world.make("S", sources=SOURCES, max_msgs=1, discard="new")
    assert world.sources("S")[0]["error"]["err_code"] == 10077
    world.change("S", sources=SOURCES, max_msgs=10, discard="new")
    world.copy(20)
    assert len(world.contents("S")) == 2
    assert "error" not in world.sources("S")[0]


def test_messages_at_the_inbox_of_a_copy_are_checked(world: CopyWorld) -> None:
    world.make("M", mirror={"name": "O"})
    host = world.node.jetstream
    assert host is not None
    [consumer] = host.accounts["$G"].streams["O"].consumers
    inbox = consumer.config.deliver_subject
    for reply in ("x", "$JS.ACK.O.C.1.9.9.9.0", f"$JS.ACK.O.{consumer.name}.1.1.1.1.0"):
        world.caller.send(f"PUB {inbox} {reply} 1\r\nx\r\n".encode())
    world.publish(("o.c", b"3"))
    world.copy(SETTLING_S)
    assert world.contents("M") == world.contents("O")


def test_the_prefix_of_the_own_domain_reaches_the_own_streams() -> None:
    world = CopyWorld(Options(jetstream=streaming(domain="hub", max_file_bytes=1 << 28)))
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"))
    external = {"api": "$JS.hub.API", "deliver": "deliver.hub"}
    world.make("M", mirror={"name": "O", "external": external})
    assert world.contents("M") == [(1, "o", b"1")]
    assert world.mirror("M")["external"] == external
