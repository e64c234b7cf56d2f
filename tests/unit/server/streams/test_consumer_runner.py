"""Consumers between broker, clock and disk: deliveries, their times, and clean ends."""

import gc
import json
from errno import EIO
from typing import Any, Final

import pytest

from headwater.jetstream import error_codes
from headwater.jetstream.consumers.delivery import TURN_MESSAGES_MAX
from headwater.runtime.upkeep import begin_journal_rewrite
from headwater.server.configuration.options import Options
from headwater.server.core.accounts import Account
from headwater.server.core.out_buffers import UNREAD_LOOK_S
from headwater.server.streams.consumer_runner import (
    DUE_MAX,
    JOURNAL_S_MAX,
)
from headwater.server.streams.due_times import STALE_MAX
from headwater.server.streams.runner import StreamRunner
from headwater.store.log.file_log import FileLog
from tests.kit.consumer_world import (
    API,
    NS,
    ConsumerWorld,
    ack_line,
    frames_in,
    numbers,
    pull_line,
)
from tests.kit.stored_world import streaming
from tests.kit.world import Peer

JOURNAL: Final = "*/%24G%2FS/journal*"
SEGMENT: Final = "*/%24G%2FS/segment*"
MIB: Final = 1 << 20
# The bytes that one client may leave unread in these tests; consumers wait at a quarter of them.
MAX_PENDING: Final = 8 * MIB
PAYLOAD: Final = b"p" * 5000


@pytest.fixture
def world() -> ConsumerWorld:
    """A stream S for which nobody waits for the disk."""
    return ConsumerWorld().with_stream()


def tight() -> ConsumerWorld:
    """A server that ends clients which do not read eight megabytes."""
    settings = streaming(max_file_bytes=1 << 28)
    return ConsumerWorld(Options(max_pending=MAX_PENDING, jetstream=settings)).with_stream()


def receiver(world: ConsumerWorld, *subscriptions: str) -> Peer:
    """One more client, which listens."""
    peer = world.modern()
    for sid, subscription in enumerate(subscriptions, 1):
        peer.send(f"SUB {subscription} {sid}\r\n".encode())
    peer.take()
    return peer


def account_of(world: ConsumerWorld) -> Account:
    return world.node.accounts.default


# --- pulls --------------------------------------------------------------------------------------


def test_all_pulls_of_a_turn_wait_in_line_before_anyone_is_served(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.publish(4)
    first, second = receiver(world, "one"), receiver(world, "two")
    first.push(pull_line("C", "one", batch=2))
    second.push(pull_line("C", "two", batch=2))
    world.settle()
    assert numbers(world.taken(first)) == [1, 3]
    assert numbers(world.taken(second)) == [2, 4]


def test_what_was_published_in_the_turn_of_a_pull_is_there_for_it(world: ConsumerWorld) -> None:
    world.consumer("C")
    got = world.say(b"PUB s.a 1\r\nx\r\n" + pull_line("C", batch=1, no_wait=True))
    assert numbers(got) == [1]


def test_who_waits_gets_what_is_published_later(world: ConsumerWorld) -> None:
    world.consumer("C", filter_subject="s.a")
    assert world.pull("C", batch=2) == []
    world.publish(1, "s.b")
    assert world.taken() == []
    world.publish(3, "s.a")
    assert numbers(world.taken()) == [2, 3]


def test_a_pull_at_nobody_and_without_a_reply(world: ConsumerWorld) -> None:
    world.consumer("C")
    assert [frame.status for frame in world.pull("X", batch=1)] == ["503"]
    world.caller.send(f"PUB {API}CONSUMER.MSG.NEXT.S.C 1\r\n5\r\n".encode())
    assert world.info("C")["num_waiting"] == 0


@pytest.mark.parametrize(
    ("asked", "statuses"),
    [
        ({"batch": 1 << 62}, []),
        ({"batch": 1 << 62, "expires": 1 << 62}, []),
        ({"batch": 1, "expires": (1 << 63) - 1, "idle_heartbeat": 1 << 61}, []),
        ({"batch": -(1 << 62)}, []),
        ({"batch": 1, "max_bytes": -(1 << 62)}, []),
        ({"batch": 1, "idle_heartbeat": -5}, []),
        ({"batch": 1, "expires": -1}, ["408 Request Timeout"]),
        ({"batch": 1, "expires": -(1 << 63)}, ["408 Request Timeout"]),
        ({"batch": 1, "expires": -(1 << 63), "no_wait": True}, ["408 Request Timeout"]),
        ({"batch": 1 << 70}, ["400 Bad Request"]),
        ({"expires": -(1 << 70)}, ["400 Bad Request"]),
    ],
)
def test_requests_with_numbers_out_of_all_proportion(
    world: ConsumerWorld, asked: dict[str, Any], statuses: list[str]
) -> None:
    world.consumer("C", ack_policy="none")
    told = world.pull("C", **asked)
    world.advance(0.1)
    told += world.taken()
    assert [" ".join(frame.status.split()[:3]) for frame in told] == statuses
    world.publish(1)
    assert len(world.taken()) == (not statuses)
    assert world.complaints == []


def test_no_more_wait_than_may(world: ConsumerWorld) -> None:
    world.consumer("C", max_waiting=2)
    told = [world.pull("C", f"inbox.{number}", batch=1) for number in range(4)]
    assert [[frame.status for frame in each] for each in told] == [
        [],
        [],
        ["409 Exceeded MaxWaiting"],
        ["409 Exceeded MaxWaiting"],
    ]


# --- receivers that do not keep up --------------------------------------------------------------


def fill(world: ConsumerWorld, messages: int = 4000) -> None:
    for _ in range(messages // 100):
        world.publish(100, payload=PAYLOAD)


def read_all(world: ConsumerWorld, peer: Peer) -> list[int]:
    """The messages that a peer gets after it begins to read."""
    peer.connection.start_reading()
    world.advance(1)
    return numbers(world.taken(peer))


@pytest.mark.parametrize("group", ["", "g"])
def test_a_receiver_that_does_not_read_is_waited_for_and_gets_everything(group: str) -> None:
    world = tight()
    slow = receiver(world, f"push {group}".strip())
    fill(world)
    slow.connection.stop_reading()
    world.consumer("C", deliver_subject="push", deliver_group=group, max_ack_pending=-1)
    world.advance(1)
    assert MAX_PENDING // 4 < slow.connection.buffered_bytes() < MAX_PENDING // 2
    assert read_all(world, slow) == [*range(1, 4001)]
    assert slow.reason == ""


def test_it_is_waited_for_also_with_what_is_published_meanwhile() -> None:
    world = tight()
    slow = receiver(world, "push")
    world.consumer("C", deliver_subject="push", ack_policy="none")
    slow.connection.stop_reading()
    fill(world)
    assert slow.connection.buffered_bytes() < MAX_PENDING // 2
    assert read_all(world, slow) == [*range(1, 4001)]
    assert slow.reason == ""


def test_acknowledging_does_not_bring_more_to_who_has_not_read() -> None:
    world = tight()
    slow = receiver(world, "push")
    fill(world)
    slow.connection.stop_reading()
    world.consumer("C", deliver_subject="push", max_ack_pending=-1)
    world.advance(1)
    unread = slow.connection.buffered_bytes()
    for sequence in range(1, 101):
        slow.send(ack_line(f"$JS.ACK.S.C.1.{sequence}.{sequence}.1.1"))
    world.advance(UNREAD_LOOK_S * 10)
    assert slow.connection.buffered_bytes() == unread
    assert read_all(world, slow) == [*range(1, 4001)]


def test_pulls_of_who_does_not_read_wait() -> None:
    world = tight()
    slow = receiver(world, "in.*")
    fill(world)
    slow.connection.stop_reading()
    world.consumer("C", ack_policy="none")
    for number in range(40):
        slow.send(pull_line("C", f"in.{number}", batch=100))
    world.advance(1)
    assert slow.connection.buffered_bytes() < MAX_PENDING // 2
    assert read_all(world, slow) == [*range(1, 4001)]
    assert slow.reason == ""


def test_who_does_not_read_holds_up_nobody_else() -> None:
    world = tight()
    slow, quick = receiver(world, "slow"), receiver(world, "quick")
    fill(world)
    slow.connection.stop_reading()
    world.consumer("A", deliver_subject="slow", ack_policy="none")
    world.consumer("B", deliver_subject="quick", ack_policy="none")
    world.advance(1)
    assert numbers(world.taken(quick)) == [*range(1, 4001)]


def test_heartbeats_and_ends_come_also_while_messages_are_waited_with() -> None:
    world = tight()
    slow = receiver(world, "in")
    fill(world)
    slow.connection.stop_reading()
    world.consumer("C", ack_policy="none")
    slow.send(pull_line("C", "in", batch=10_000, expires=2 * NS, idle_heartbeat=NS // 2))
    world.advance(3)
    slow.connection.start_reading()
    told = [frame.status for frame in world.taken(slow) if not frame.reply]
    assert told[:3] == ["100 Idle Heartbeat"] * 3
    assert told[-1] == "408 Request Timeout"


def test_a_consumer_sends_a_bounded_part_in_a_turn(world: ConsumerWorld) -> None:
    """Between two parts of one consumer, other consumers send theirs."""
    for _ in range(5):
        world.publish(1000)
    both = receiver(world, "a", "b")
    for name in ("A", "B"):
        world.consumer(name, ack_policy="none")
    both.send(pull_line("A", "a", batch=5000) + pull_line("B", "b", batch=5000))
    sids = [frame.sid for frame in world.taken(both)]
    assert len(sids) == 10_000
    turns = [sids[place : place + TURN_MESSAGES_MAX] for place in (0, TURN_MESSAGES_MAX)]
    assert turns == [["1"] * TURN_MESSAGES_MAX, ["2"] * TURN_MESSAGES_MAX]


def test_acknowledging_brings_no_second_part_in_a_turn(world: ConsumerWorld) -> None:
    for _ in range(5):
        world.publish(1000)
    world.consumer("C", max_ack_pending=-1)
    peer = receiver(world, "in")
    peer.push(pull_line("C", "in", batch=5000))
    world.node.broker.turn.complete()
    assert len(world.taken(peer)) == TURN_MESSAGES_MAX
    for sequence in range(1, 20):
        peer.push(ack_line(f"$JS.ACK.S.C.1.{sequence}.{sequence}.1.1"))
        world.node.broker.turn.complete()
    assert world.taken(peer) == []
    world.settle()
    assert len(world.taken(peer)) == 5000 - TURN_MESSAGES_MAX


# --- interest -----------------------------------------------------------------------------------


def is_bound(world: ConsumerWorld, name: str = "C") -> bool:
    return bool(world.info(name).get("push_bound"))


def test_pushing_begins_when_somebody_listens_to_just_that_subject(world: ConsumerWorld) -> None:
    world.consumer("C", deliver_subject="push.here")
    world.publish(2)
    wide = receiver(world, "push.>", "push.*")
    assert not is_bound(world)
    assert world.taken(wide) == []
    exact = receiver(world)
    exact.send(b"SUB push.here 1\r\n")
    assert is_bound(world)
    assert numbers(world.taken(exact)) == [1, 2]
    # Once the consumer pushes, every listener gets the messages.
    assert sorted(numbers(world.taken(wide))) == [1, 1, 2, 2]


@pytest.mark.parametrize("leave", ["UNSUB", "limit", "disconnect"])
def test_pushing_ends_when_nobody_listens_any_more(world: ConsumerWorld, leave: str) -> None:
    world.consumer("C", deliver_subject="push")
    peer = receiver(world, "push")
    assert is_bound(world)
    if leave == "UNSUB":
        peer.send(b"UNSUB 1\r\n")
    elif leave == "limit":
        peer.send(b"UNSUB 1 1\r\n")
        world.publish(1)
    else:
        peer.connection.leave()
        world.settle()
    assert not is_bound(world)
    before = world.info("C")["delivered"]["consumer_seq"]
    world.publish(3)
    assert world.info("C")["delivered"]["consumer_seq"] == before
    other = receiver(world)
    other.send(b"SUB push 1\r\n")
    assert numbers(world.taken(other))[-3:] == [*range(before + 1, before + 4)]


def test_a_group_is_bound_by_its_members_only(world: ConsumerWorld) -> None:
    world.consumer("C", deliver_subject="push", deliver_group="g")
    receiver(world, "push", "push other")
    assert not is_bound(world)
    member = receiver(world, "push g")
    assert is_bound(world)
    member.connection.leave()
    world.settle()
    assert not is_bound(world)


def test_with_two_receivers_the_first_one_to_go_changes_nothing(world: ConsumerWorld) -> None:
    world.consumer("C", deliver_subject="push")
    first, second = receiver(world, "push"), receiver(world, "push")
    first.connection.leave()
    world.settle()
    world.publish(2)
    assert numbers(world.taken(second)) == [1, 2]


def test_where_messages_are_pushed_to_can_be_changed(world: ConsumerWorld) -> None:
    world.consumer("C", deliver_subject="old")
    old, new = receiver(world, "old"), receiver(world, "new")
    world.publish(1)
    assert numbers(world.taken(old)) == [1]
    old.send(b"UNSUB 1\r\n")
    world.consumer("C", deliver_subject="new")
    world.publish(1)
    assert world.taken(old) == []
    assert numbers(world.taken(new)) == [1, 2]
    assert [*account_of(world).watched] == [b"new"]
    new.connection.leave()
    world.settle()
    assert not is_bound(world)


def test_a_consumer_of_the_same_name_has_nothing_of_the_one_before(world: ConsumerWorld) -> None:
    """Deliveries planned for the deleted consumer do not happen to the new one."""
    receiver(world, "old")
    for _ in range(3):
        world.publish(1000)
    world.caller.push(create_line("C", deliver_subject="old"))
    world.caller.push(f"PUB {API}CONSUMER.DELETE.S.C inbox.1 0\r\n\r\n".encode())
    world.caller.push(create_line("C", deliver_subject="new"))
    world.settle()
    assert world.info("C")["delivered"]["consumer_seq"] == 0
    new = receiver(world)
    new.send(b"SUB new 1\r\n")
    assert numbers(world.taken(new)) == [*range(1, 1001)]
    assert [*account_of(world).watched] == [b"new"]


def create_line(name: str, **config: Any) -> bytes:
    """A request to make a consumer, as a client sends it."""
    chosen = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    body = json.dumps({"stream_name": "S", "config": chosen})
    return f"PUB {API}CONSUMER.CREATE.S.{name} inbox.1 {len(body)}\r\n{body}\r\n".encode()


# --- time ---------------------------------------------------------------------------------------


def test_one_timer_is_enough_for_all(world: ConsumerWorld) -> None:
    world.advance(1)
    before = world.scheduler.waiting
    for number in range(50):
        world.consumer(f"C{number}")
        world.pull(f"C{number}", f"inbox.{number}", batch=1, expires=(50 - number) * NS)
    world.advance(JOURNAL_S_MAX)
    assert world.scheduler.waiting == before + 1
    world.advance(50)
    told = [frame.subject for frame in world.taken() if frame.status]
    assert told == [f"inbox.{number}" for number in range(49, -1, -1)]
    assert world.scheduler.waiting <= before + 1


def test_what_is_due_for_many_at_once_is_done_in_several_turns(world: ConsumerWorld) -> None:
    count = DUE_MAX * 2 + 1
    for number in range(count):
        world.consumer(f"C{number}")
        world.pull(f"C{number}", f"inbox.{number}", batch=1, expires=NS)
    peer = receiver(world)
    world.clock.passed_ns += 2 * NS
    world.scheduler.fire_due()
    peer.send(b"PING\r\n")
    assert len(world.taken()) == DUE_MAX
    world.advance(0.1)
    assert len(world.taken()) == count - DUE_MAX


def test_messages_come_again_when_they_are_not_acknowledged(world: ConsumerWorld) -> None:
    world.consumer("C", ack_wait=2 * NS)
    world.publish(2)
    first, _ = world.pull("C", batch=10)
    world.caller.send(ack_line(first.reply))
    world.advance(1.9)
    assert world.taken() == []
    world.advance(0.2)
    assert [frame.reply.split(".")[4:6] for frame in world.taken()] == [["2", "2"]]


def test_who_is_not_used_any_more_ends_and_that_is_told(world: ConsumerWorld) -> None:
    listener = receiver(world, "$JS.EVENT.ADVISORY.CONSUMER.>")
    world.consumer("C", durable_name=None, inactive_threshold=5 * NS)
    world.advance(4)
    world.pull("C", batch=1, expires=NS)
    world.advance(5)
    assert "error" not in world.info("C"), "it was used"
    world.taken(listener)
    world.advance(3)
    assert world.info("C")["error"]["err_code"] == error_codes.CONSUMER_NOT_FOUND.err_code
    told = world.taken(listener)
    assert [frame.subject for frame in told] == ["$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C"]
    assert json.loads(told[0].payload)["action"] == "delete"


def test_one_that_is_pushed_ends_some_time_after_its_receiver(world: ConsumerWorld) -> None:
    peer = receiver(world, "push")
    world.consumer("C", durable_name=None, deliver_subject="push", inactive_threshold=5 * NS)
    world.advance(60)
    assert is_bound(world)
    peer.connection.leave()
    world.advance(4)
    assert "error" not in world.info("C")
    world.advance(2)
    assert "error" in world.info("C")
    assert account_of(world).watched == {}


def test_entries_of_timers_that_do_not_count_do_not_pile_up(world: ConsumerWorld) -> None:
    world.consumer("C", ack_policy="none")
    for _ in range(10 * STALE_MAX):
        world.pull("C", batch=1, expires=3600 * NS)
        world.publish(1)
    timers = world.jetstream.runners.consumer_timers
    assert timers.entries <= STALE_MAX + 2


# --- the end ------------------------------------------------------------------------------------


def test_those_who_wait_are_told_that_a_consumer_is_deleted(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.pull("C", "inbox.7", batch=3)
    assert world.delete("C")["success"] is True
    assert [(frame.subject, frame.status) for frame in world.taken()] == [
        ("inbox.7", "409 Consumer Deleted")
    ]


def test_those_who_wait_are_told_that_a_stream_is_deleted(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.pull("C", batch=3)
    assert world.request(f"{API}STREAM.DELETE.S")["success"] is True
    assert [frame.status for frame in world.taken()] == ["409 Consumer Deleted"]


def test_those_who_wait_are_told_that_the_server_ends(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.pull("C", batch=3)
    world.jetstream.end_consumers()
    (told,) = world.taken()
    assert told.status == "409 Server Shutdown"
    assert "Nats-Pending-Messages: 3" in told.header


def test_consumers_leave_nothing_behind(world: ConsumerWorld) -> None:
    """Deleted consumers leave no timer, watcher or subscription, nor themselves."""
    peer = receiver(world, "push")

    def cycle() -> None:
        world.consumer("E", durable_name=None, inactive_threshold=3600 * NS)
        world.consumer("P", deliver_subject="push", idle_heartbeat=NS, flow_control=True)
        world.publish(1)
        world.pull("E", batch=9, expires=3600 * NS)
        world.delete("E")
        world.delete("P")
        world.advance(JOURNAL_S_MAX)

    cycle()
    account, timers = account_of(world), world.jetstream.runners.consumer_timers
    subscriptions, waiting = account.index.count, world.scheduler.waiting
    for _ in range(1000):
        cycle()
    peer.take()
    assert account.index.count == subscriptions
    assert world.scheduler.waiting <= waiting + 1
    assert account.watched == {}
    assert timers.planned == {}
    assert timers.entries <= STALE_MAX
    runner = world.runner()
    assert (runner._going_on, runner._asked) == (set(), {})
    assert not world.stream().consumers.has_unwritten


def test_streams_with_consumers_leave_nothing_behind() -> None:
    world = ConsumerWorld()
    receiver(world, "push")

    def cycle() -> None:
        world.with_stream(max_age=10**15)
        world.consumer("E", durable_name=None, inactive_threshold=3600 * NS)
        world.consumer("P", deliver_subject="push")
        world.publish(1)
        world.pull("E", batch=9, expires=3600 * NS)
        world.request(f"{API}STREAM.DELETE.S")
        world.advance(JOURNAL_S_MAX)

    cycle()
    account = account_of(world)
    subscriptions, waiting = account.index.count, world.scheduler.waiting
    for _ in range(8 * STALE_MAX):
        cycle()
    world.advance(1)
    assert account.index.count == subscriptions
    assert world.scheduler.waiting <= waiting + 1
    assert account.watched == {}
    assert world.jetstream.runners.timers.entries == 0
    gc.collect()
    living = sum(isinstance(each, StreamRunner) for each in gc.get_objects())
    assert living <= 2 * STALE_MAX


# --- the server as its own client ---------------------------------------------------------------


@pytest.mark.parametrize("call", ["STREAM.DELETE.S", "CONSUMER.DELETE.S.C", "CONSUMER.DELETE.S.D"])
def test_a_reply_that_is_a_call_is_answered_when_its_sender_is_done(
    world: ConsumerWorld, call: str
) -> None:
    for name in ("C", "D", "E", "F"):
        world.consumer(name)
    world.publish(5)
    got = world.pull("F", batch=2)
    for name in ("C", "D", "E"):
        world.caller.push(pull_line(name, f"{API}{call}", batch=9, no_wait=True))
        world.caller.push(pull_line(name, f"{API}{call}", batch=9, max_bytes=1))
    for frame in got:
        world.caller.push(ack_line(frame.reply, reply=f"{API}{call}"))
    world.settle()
    world.sync()
    world.advance(1)
    assert world.complaints == []
    streams = world.jetstream.accounts["$G"].streams
    assert ("S" in streams) == call.startswith("CONSUMER")
    if "S" in streams:
        assert call.rpartition(".")[2] not in world.stream().consumers.by_name
        assert "E" in world.stream().consumers.by_name


@pytest.mark.parametrize("end", ["delete", "shutdown"])
def test_an_end_that_is_told_to_the_api_itself(world: ConsumerWorld, end: str) -> None:
    for name in ("C", "D", "E"):
        world.consumer(name)
        world.pull(name, f"{API}CONSUMER.DELETE.S.D", batch=1)
    if end == "delete":
        assert world.request(f"{API}STREAM.DELETE.S")["success"] is True
    else:
        world.jetstream.end_consumers()
        world.node.close_jetstream()
    world.settle()
    assert world.complaints == []


def test_a_message_is_no_call_whatever_its_subject(world: ConsumerWorld) -> None:
    """Consumers deliver under the subject of the message, to whatever the client named."""
    world.with_stream("T", subjects=["12345678.STREAM.DELETE.S", "12345678STREAM.DELETE.S"])
    world.consumer("C", "T")
    for subject in ("12345678.STREAM.DELETE.S", "12345678STREAM.DELETE.S"):
        world.publish(1, subject, b"")
    world.pull("C", f"{API}anything", "T", batch=2)
    assert world.info("C", "T")["num_ack_pending"] == 2
    assert "S" in world.jetstream.accounts["$G"].streams


# --- the journal and the disk -------------------------------------------------------------------


def test_acknowledgements_nobody_waits_for_are_written_soon(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.publish(2)
    (frame, _) = world.pull("C", batch=2)
    world.advance(JOURNAL_S_MAX)
    world.caller.send(ack_line(frame.reply))
    consumers = world.stream().consumers
    assert consumers.has_unwritten
    world.advance(JOURNAL_S_MAX)
    assert not consumers.has_unwritten
    world.disk.kill()
    revived = ConsumerWorld(world.node.options, world.disk)
    info = revived.info("C")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (1, 1)


def test_many_turns_have_one_flush(world: ConsumerWorld) -> None:
    world.consumer("C")
    world.publish(50)
    got = world.pull("C", batch=50)
    world.advance(1)
    before = world.scheduler.waiting
    for frame in got:
        world.caller.send(ack_line(frame.reply))
    assert world.scheduler.waiting == before + 1


def test_a_journal_that_can_not_be_written_costs_neither_client_nor_process(
    world: ConsumerWorld,
) -> None:
    world.consumer("C", ack_wait=NS)
    world.consumer("D", durable_name=None, inactive_threshold=NS)
    world.publish(200)
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    seen = []
    for _ in range(50):
        got = world.pull("C", batch=1)
        seen += numbers(got)
        world.caller.send(b"".join(ack_line(frame.reply) for frame in got))
        world.advance(JOURNAL_S_MAX)
    world.advance(10)
    assert seen == [*range(1, 51)], "what is stored can be read"
    assert world.caller.reason == ""
    assert len(world.complaints) == 1
    assert not world.stream().consumers.has_unwritten, "what can not be written is not kept"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_change_that_can_not_be_written_is_not_confirmed(
    world: ConsumerWorld, is_known: bool
) -> None:
    world.consumer("C")
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    if is_known:
        world.publish(1)
        world.pull("C", batch=1)
        world.advance(JOURNAL_S_MAX)
        assert world.stream().log.offline
    failed = error_codes.STREAM_STORE_FAILED.err_code
    assert world.delete("C")["error"]["err_code"] == failed
    assert len(world.complaints) == 1
    config = {"name": "N", "durable_name": "N", "ack_policy": "explicit"}
    reply = world.request(f"{API}CONSUMER.CREATE.S.N", {"stream_name": "S", "config": config})
    assert reply["error"]["err_code"] == failed
    world.disk.heal()
    world.disk.kill()
    revived = ConsumerWorld(world.node.options, world.disk)
    assert [*revived.stream().consumers.by_name] == ["C"]


def test_a_message_that_can_not_be_read_costs_neither_client_nor_process(
    world: ConsumerWorld,
) -> None:
    world.consumer("C")
    world.publish(3, payload=PAYLOAD)
    world.advance(1)
    world.disk.fail("read", SEGMENT, times=None)
    world.pull("C", batch=3)
    world.advance(1)
    assert world.caller.reason == ""
    assert world.caller.ask(b"PING\r\n").startswith(b"PONG\r\n")


def test_a_journal_is_written_anew_while_consumers_work(world: ConsumerWorld) -> None:
    """Changes that are made during the rewriting are in the new journal too."""
    for name, policy in (("C", "explicit"), ("D", "all"), ("E", "explicit")):
        world.consumer(name, ack_policy=policy)

    def work(turns: int) -> None:
        for _ in range(turns):
            world.publish(1)
            for name in ("C", "D"):
                (frame,) = world.pull(name, batch=1)
                world.caller.send(ack_line(frame.reply))
            world.advance(JOURNAL_S_MAX)

    work(100)
    log = world.stream().log
    assert isinstance(log, FileLog)
    rewrite = begin_journal_rewrite(log)
    while step := rewrite.next_step():
        work(1)
        step()
        work(1)
    world.delete("E")
    assert rewrite.finish()
    work(10)
    before = [world.info(name)["ack_floor"]["stream_seq"] for name in ("C", "D")]
    world.disk.kill()
    revived = ConsumerWorld(world.node.options, world.disk)
    assert [*revived.stream().consumers.by_name] == ["C", "D"]
    assert [revived.info(name)["ack_floor"]["stream_seq"] for name in ("C", "D")] == before
    assert before == [revived.stream().log.last_sequence] * 2
    assert len(revived.stream().log.entries) < 100


def test_a_thousand_consumers_come_back(world: ConsumerWorld) -> None:
    world.publish(3)
    for number in range(1000):
        world.consumer(f"C{number}")
    for number in range(0, 1000, 100):
        frames = world.pull(f"C{number}", batch=3)
        world.caller.send(ack_line(frames[0].reply))
    world.settle()
    world.node.close_jetstream()
    world.disk.kill()
    revived = ConsumerWorld(world.node.options, world.disk)
    consumers = revived.stream().consumers
    assert len(consumers) == 1000
    for number in range(0, 1000, 50):
        info = revived.info(f"C{number}")
        expected = (2, 1) if number % 100 == 0 else (0, 0)
        assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == expected
    assert numbers(revived.pull("C1", batch=3)) == [1, 2, 3]


def test_one_that_is_pushed_goes_on_after_a_restart(world: ConsumerWorld) -> None:
    world.consumer("C", deliver_subject="push")
    receiver(world, "push")
    world.publish(2)
    world.advance(JOURNAL_S_MAX)
    world.disk.kill()
    revived = ConsumerWorld(world.node.options, world.disk)
    revived.publish(1)
    assert not is_bound(revived)
    peer = receiver(revived)
    peer.send(b"SUB push 1\r\n")
    assert numbers(frames_in(peer.take())) == [3]
