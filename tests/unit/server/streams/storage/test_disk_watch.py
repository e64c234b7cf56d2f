"""A full disk: refused requests, requests that still work, and the way back to normal."""

import json
from errno import ENOSPC
from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.advisories import OUT_OF_STORAGE_SUBJECT
from headwater.server.configuration.options import Options
from headwater.server.streams.storage.disk_watch import LOOK_S
from tests.kit.stored_world import streaming
from tests.kit.stream_world import (
    AHEAD,
    JOURNAL,
    SEGMENT,
    STORE_FAILED,
    StreamWorld,
    error_code,
)

SYNCED = {"interval": False, "always": True}
BODY = bytes(1000)


def options(**settings: Any) -> Options:
    return Options(jetstream=streaming(max_file_bytes=1 << 22, **settings))


@pytest.fixture(params=SYNCED)
def world(request: pytest.FixtureRequest) -> StreamWorld:
    """A stream S with a few messages, whose acks wait for the disk or do not."""
    made = StreamWorld(options(sync_always=SYNCED[request.param]))
    made.create("S", subjects=["s.>"], duplicate_window=NS_PER_S)
    for _ in range(3):
        made.publish("s.a", BODY)
        made.sync()
    return made


def fill(world: StreamWorld, left_bytes: int = 0) -> None:
    """Leave this much free room on the disk, beside the reserve of the server."""
    world.disk.capacity_bytes = world.disk.used_bytes + left_bytes


def make_room(world: StreamWorld) -> None:
    world.disk.capacity_bytes = None


def ask(world: StreamWorld, operation: str, body: object = None) -> Any:
    number = world.call(operation, body)
    world.sync()
    return world.answers[number]


def publish(world: StreamWorld, body: bytes = BODY) -> int:
    """The code of the error that a publish is answered with; 0 for none."""
    number = world.publish("s.a", body)
    world.sync()
    return world.errors(number)[0]


def restarted(world: StreamWorld) -> StreamWorld:
    world.disk.kill()
    return StreamWorld(world.node.options, world.disk)


def test_a_publish_that_is_refused_is_not_there_after_a_restart(world: StreamWorld) -> None:
    fill(world)
    assert publish(world) == STORE_FAILED
    assert world.state()["messages"] == 3
    for after in (restarted(world), restarted(world)):
        assert after.state()["last_seq"] == 3


def test_publishes_are_taken_again_when_there_is_room(world: StreamWorld) -> None:
    fill(world)
    assert [publish(world) for _ in range(3)] == [STORE_FAILED] * 3
    world.advance(10 * LOOK_S)
    assert publish(world) == STORE_FAILED
    make_room(world)
    world.advance(LOOK_S)
    assert publish(world) == 0
    assert world.state()["last_seq"] == 4
    assert restarted(world).state()["messages"] == 4


def test_messages_can_be_deleted_and_purged_while_the_disk_is_full(world: StreamWorld) -> None:
    fill(world)
    assert publish(world) == STORE_FAILED
    assert ask(world, "STREAM.MSG.DELETE.S", {"seq": 2})["success"]
    assert world.state()["messages"] == 2
    assert ask(world, "STREAM.PURGE.S")["purged"] == 2
    assert world.state()["messages"] == 0
    after = restarted(world)
    assert (after.state()["messages"], after.state()["last_seq"]) == (0, 3)


def test_a_purge_alone_is_enough_to_go_on(world: StreamWorld) -> None:
    """The room that a purge gives back is all the room that comes."""
    for _ in range(1100):
        world.push("s.b", BODY)
    world.settle()
    world.sync()
    fill(world)
    assert publish(world) == STORE_FAILED
    assert ask(world, "STREAM.PURGE.S")["success"]
    world.advance(LOOK_S)
    assert publish(world) == 0


def test_a_publish_that_met_the_end_at_the_write_ahead_file_is_refused_and_not_there() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"])
    world.publish("s.a", BODY)
    world.sync()
    full = world.disk.fail("write", AHEAD, code=ENOSPC, times=None)
    assert publish(world) == STORE_FAILED
    assert world.state()["last_seq"] == 1
    world.disk.heal(full)
    world.advance(LOOK_S)
    assert publish(world) == 0
    assert world.state()["last_seq"] == 2
    after = world.after_power_loss()
    assert (after.state()["messages"], after.state()["last_seq"]) == (2, 2)


def test_a_full_disk_is_given_what_the_write_ahead_file_has_taken_of_it() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"])
    for _ in range(100):
        world.push("s.a", BODY)
    world.settle()
    world.sync()
    fill(world)
    assert publish(world) == STORE_FAILED
    world.sync()
    world.advance(LOOK_S)
    assert publish(world) == 0
    assert world.after_power_loss().state()["messages"] == 101


def test_an_entry_that_is_on_the_disk_waits_until_there_is_room_for_it_elsewhere() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"], allow_atomic=True)
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    # Also what the reserve has left is used up.
    fault = world.disk.fail("write", SEGMENT, code=ENOSPC, times=None)
    publishes = [world.push("s.a", b"x"), world.push("s.a", b"x", **batch)]
    world.settle()
    world.sync()
    for _ in range(3):
        assert not world.answers.keys() & {*publishes}
        assert world.state()["last_seq"] == 0
        world.advance(LOOK_S)
    world.disk.heal(fault)
    world.advance(LOOK_S)
    assert world.errors(*publishes) == [0, 0]
    assert world.answers[publishes[1]]["seq"] == 2
    assert publish(world) == 0
    assert world.after_power_loss().state()["last_seq"] == 3


def test_an_entry_that_is_on_the_disk_may_use_the_reserve() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"])
    world.disk.fail("write", SEGMENT, code=ENOSPC)
    number = world.push("s.a", b"x")
    world.settle()
    world.sync()
    assert world.errors(number) == [0]


def test_a_message_too_large_for_the_room_there_is_keeps_nobody_from_writing(
    world: StreamWorld,
) -> None:
    world.advance(1)
    fill(world, left_bytes=100_000)
    large = bytes(200_000)
    for _ in range(5):
        assert publish(world, large) == STORE_FAILED
        assert publish(world) == 0
    assert world.health().status == "ok"
    assert world.complaints == []


def test_what_was_acknowledged_in_memory_is_written_on_a_full_disk() -> None:
    world = StreamWorld(options())
    world.create("S", subjects=["s.>"], persist_mode="async")
    publish(world)
    world.advance(1)
    fill(world)
    assert [publish(world) for _ in range(4)] == [0] * 4, "before any of them is written"
    world.advance(LOOK_S)
    assert world.state()["messages"] == 5
    assert publish(world) == STORE_FAILED
    assert restarted(world).state()["messages"] == 5


def test_age_goes_on_while_the_disk_is_full_and_makes_room() -> None:
    world = StreamWorld(options())
    world.create("S", subjects=["s.>"], max_age=5 * NS_PER_S, duplicate_window=NS_PER_S)
    for _ in range(1100):
        world.push("s.b", BODY)
    world.settle()
    fill(world)
    assert publish(world) == STORE_FAILED
    world.advance(5 + LOOK_S)
    assert world.state()["messages"] == 0
    assert publish(world) == 0


# --- consumers ------------------------------------------------------------------------------------


def consuming(**config: Any) -> StreamWorld:
    world = StreamWorld(options())
    world.create("S", subjects=["s.>"], **config)
    create = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    ask(world, "CONSUMER.DURABLE.CREATE.S.C", create)
    for _ in range(4):
        world.publish("s.a", BODY)
    return world


def consume(world: StreamWorld, count: int) -> None:
    """Pull messages and acknowledge them."""
    reader = world.modern()
    pull = b"SUB got 5\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C got %d\r\n%d\r\n"
    received = reader.ask(pull % (len(str(count)), count))
    acks = [line.split()[3] for line in received.split(b"\r\n") if line.startswith(b"MSG s.a")]
    assert len(acks) == count
    for ack in acks:
        reader.send(b"PUB %b 4\r\n+ACK\r\n" % ack)
    world.advance(0.1)


def consumer_info(world: StreamWorld) -> tuple[int, int, int]:
    info = ask(world, "CONSUMER.INFO.S.C")
    return info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"], info["num_pending"]


def test_consumers_go_on_while_there_is_no_room_and_are_remembered_when_there_is() -> None:
    world = consuming()
    consume(world, 1)
    fault = world.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    fill(world)
    consume(world, 2)
    assert consumer_info(world) == (3, 3, 1)
    assert world.complaints == [line for line in world.complaints if "no space left" in line]
    world.disk.heal(fault)
    make_room(world)
    world.advance(LOOK_S)
    consume(world, 1)
    assert consumer_info(world) == (4, 4, 0)
    assert consumer_info(restarted(world)) == (4, 4, 0)


def test_a_kill_before_there_is_room_repeats_deliveries_and_loses_none() -> None:
    world = consuming()
    consume(world, 1)
    world.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    consume(world, 2)
    world.disk.heal()
    assert consumer_info(restarted(world)) == (1, 1, 3)


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_work_queue_lets_go_of_what_was_acknowledged_while_there_was_no_room(
    has_reserve: bool,
) -> None:
    world = consuming(retention="workqueue")
    fill(world)
    if not has_reserve:
        world.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    consume(world, 3)
    assert world.state()["messages"] == 1
    before_room = world.disk.clone(1)
    before_room.heal()
    before_room.kill()
    assert StreamWorld(options(), before_room).state()["messages"] == (1 if has_reserve else 4)
    world.disk.heal()
    make_room(world)
    publish(world)
    world.advance(2 * LOOK_S)
    left = world.state()["messages"]
    after = restarted(world)
    assert after.state()["messages"] == left
    assert consumer_info(after)[:2] == (3, 3)
    assert after.state()["first_seq"] == 4


# --- health, log and advisories -------------------------------------------------------------------


def test_health_and_the_log_say_since_when_and_what_to_do(world: StreamWorld) -> None:
    fill(world)
    publish(world)
    health = world.health()
    assert (health.status, health.status_code) == ("unavailable", 503)
    assert "no space left on the disk since 2026-01-02T03:04:05" in health.error
    assert "purge or delete messages or streams, or make room on the disk" in health.error
    world.advance(5)
    publish(world)
    assert world.health().error == health.error
    assert len(world.complaints) == 1
    assert "no space left on the disk since" in world.complaints[0]
    make_room(world)
    world.advance(LOOK_S)
    assert world.health().status == "ok"
    assert any("there is room on the disk again" in line for line in world.log_lines)


def test_a_refused_publish_says_what_to_do(world: StreamWorld) -> None:
    fill(world)
    number = world.publish("s.a", BODY)
    world.sync()
    again = world.publish("s.a", BODY)
    assert "no space left on the disk" in world.answers[number]["error"]["description"]
    assert "make room on the disk" in world.answers[again]["error"]["description"]


def test_an_advisory_tells_once_of_each_time_that_the_disk_is_full(world: StreamWorld) -> None:
    listener = world.modern()
    listener.send(b"SUB %b 7\r\n" % OUT_OF_STORAGE_SUBJECT.encode())
    for _ in range(2):
        fill(world)
        publish(world)
        publish(world)
        world.advance(3 * LOOK_S)
        make_room(world)
        world.advance(3 * LOOK_S)
    lines = bytes(listener.connection.received).split(b"\r\n")
    told = [json.loads(line) for line in lines if line.startswith(b"{")]
    advisories = [document for document in told if "reason" in document]
    assert len(advisories) == 2
    assert advisories[0]["type"] == "io.nats.jetstream.advisory.v1.server_out_of_space"
    assert advisories[0]["server"] == world.node.name
    assert advisories[0]["since"].startswith("2026-01-02T03:04:05")
    assert "make room on the disk" in advisories[0]["reason"]


# --- starting -------------------------------------------------------------------------------------


def test_a_server_that_starts_on_a_full_disk_takes_messages_when_there_is_room(
    world: StreamWorld,
) -> None:
    fill(world)
    publish(world)
    # The reserve may have been used, and is set aside again as soon as there is room for it.
    world.advance(2 * LOOK_S)
    fill(world)
    after = restarted(world)
    assert after.state()["messages"] == 3
    assert publish(after) == STORE_FAILED
    assert after.health().status == "unavailable"
    deleted = ask(after, "STREAM.MSG.DELETE.S", {"seq": 1, "no_erase": True})
    # Without a reserve, an entry of the write-ahead file finds no room, and is refused.
    assert deleted.get("success") or error_code(deleted) == STORE_FAILED
    make_room(after)
    after.advance(LOOK_S)
    assert publish(after) == 0
    assert after.health().status == "ok"
