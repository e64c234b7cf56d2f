"""Acknowledgements from the broker to consumers: their senders, and the answers."""

from errno import EIO
from typing import Any, Final

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.server.configuration.options import (
    AccountOptions,
    Options,
    Permissions,
    SubjectPermission,
    UserOptions,
)
from headwater.server.streams.consumer_runner import JOURNAL_S_MAX
from tests.kit.consumer_world import ConsumerWorld, Frame, ack_line, numbers, pull_line
from tests.kit.stored_world import streaming
from tests.kit.world import Peer

AHEAD: Final = "*/ahead-*"
JOURNAL: Final = "*/%24G%2FS/journal*"
SEQUENCE_MAX: Final = (1 << 64) - 1


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld().with_stream()


def always() -> ConsumerWorld:
    """A stream S for which everything waits for the disk."""
    made = ConsumerWorld(Options(jetstream=streaming(sync_always=True)))
    made.with_stream()
    made.sync()
    return made


def got(world: ConsumerWorld, count: int = 1, **config: Any) -> list[Frame]:
    """A consumer C has delivered messages."""
    world.consumer("C", **config)
    world.publish(count)
    world.sync()
    frames = world.pull("C", batch=count)
    world.advance(JOURNAL_S_MAX)
    world.sync()
    assert len(frames) == count
    return frames


def pending(world: ConsumerWorld, name: str = "C", stream: str = "S") -> int:
    count: int = world.info(name, stream)["num_ack_pending"]
    return count


def answers(frames: list[Frame]) -> list[str]:
    return [frame.subject for frame in frames]


# --- answers and the disk -----------------------------------------------------------------------


def test_an_ack_is_answered_when_it_is_in_the_journal(world: ConsumerWorld) -> None:
    (frame,) = got(world)
    answer = world.say(ack_line(frame.reply, reply="inbox.a"))
    assert [(each.subject, each.payload) for each in answer] == [("inbox.a", b"")]
    assert not world.stream().consumers.has_unwritten
    world.disk.kill()
    assert pending(ConsumerWorld(world.node.options, world.disk)) == 0


def test_where_the_disk_has_to_be_sure_an_ack_is_answered_after_the_commit() -> None:
    world = always()
    (frame,) = got(world)
    assert world.say(ack_line(frame.reply, reply="inbox.a")) == []
    world.sync()
    assert answers(world.taken()) == ["inbox.a"]
    world.disk.power_loss("strict")
    assert pending(ConsumerWorld(world.node.options, world.disk)) == 0


def test_an_ack_that_repeats_one_on_its_way_to_the_disk_waits_for_it_too() -> None:
    world = always()
    (frame,) = got(world)
    assert world.say(ack_line(frame.reply, reply="inbox.a")) == []
    assert world.say(ack_line(frame.reply, reply="inbox.b")) == []
    world.sync()
    assert sorted(answers(world.taken())) == ["inbox.a", "inbox.b"]


def test_an_ack_is_never_answered_when_the_sync_fails() -> None:
    world = always()
    (frame,) = got(world)
    world.disk.fail("sync", AHEAD, code=EIO)
    assert world.say(ack_line(frame.reply, reply="inbox.a")) == []
    world.sync()
    world.advance(60)
    assert world.say(ack_line(frame.reply, reply="inbox.b")) == []
    world.sync()
    assert world.taken() == []
    assert world.caller.reason == ""


def test_an_ack_is_never_answered_when_the_journal_can_not_be_written(
    world: ConsumerWorld,
) -> None:
    first, second = got(world, 2)
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    assert world.say(ack_line(first.reply, reply="inbox.a")) == []
    assert world.stream().log.offline
    assert world.say(ack_line(second.reply, reply="inbox.b")) == []
    world.disk.heal()
    world.disk.kill()
    assert pending(ConsumerWorld(world.node.options, world.disk)) == 2


def test_an_ack_of_a_work_queue_that_can_not_be_written_is_not_answered() -> None:
    world = ConsumerWorld().with_stream(retention="workqueue")
    (frame,) = got(world)
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    assert world.say(ack_line(frame.reply, reply="inbox.a")) == []
    assert world.caller.reason == ""
    assert len(world.complaints) == 1


def test_of_a_stream_in_memory_an_ack_is_answered_at_once() -> None:
    world = ConsumerWorld().with_stream(storage="memory")
    (frame,) = got(world)
    assert answers(world.say(ack_line(frame.reply, reply="inbox.a"))) == ["inbox.a"]


# --- whose they are -----------------------------------------------------------------------------


def test_acks_of_many_consumers_come_in_one_read(world: ConsumerWorld) -> None:
    world.with_stream("T")
    frames = []
    for stream in ("S", "T"):
        world.publish(3, f"{stream.lower()}.a")
        for name in ("A", "B"):
            world.consumer(name, stream)
            frames += world.pull(name, "inbox.1", stream, batch=3)
    mixed = frames[::2] + frames[1::2]
    payloads = [b"", b"+ACK", b"+OK", b"+WPI", b"-NAK", b"+TERM why"]
    data = b"".join(
        ack_line(frame.reply, payloads[place % 6], f"inbox.{place}")
        for place, frame in enumerate(mixed)
    )
    told = world.say(data)
    expected = {f"inbox.{place}" for place in range(12)}
    assert {frame.subject for frame in told if not frame.reply} == expected
    left = sum(pending(world, name, stream) for stream in ("S", "T") for name in ("A", "B"))
    assert left == 4, "those that are put off or wanted again"


def test_an_ack_is_taken_in_before_what_comes_after_it(world: ConsumerWorld) -> None:
    world.consumer("C", max_ack_pending=1)
    world.publish(2)
    (frame,) = world.pull("C", batch=1)
    both = ack_line(frame.reply) + pull_line("C", batch=1, no_wait=True)
    assert numbers(world.say(both)) == [2]


def test_an_ack_among_publishes_and_the_other_way_round(world: ConsumerWorld) -> None:
    frames = got(world, 3)
    publish = b"PUB s.b 1\r\nx\r\n"
    data = publish.join(ack_line(frame.reply) for frame in frames)
    world.caller.send(publish + data + publish)
    assert pending(world) == 0
    assert world.stream().log.messages == 7


def test_the_longer_form_of_the_subject_names_account_and_domain(world: ConsumerWorld) -> None:
    (frame,) = got(world)
    numbers_ = frame.reply.removeprefix("$JS.ACK.S.C.")
    for home in ("_.OTHERACC", "hub.OTHERACC"):
        told = world.say(ack_line(f"$JS.ACK.{home}.S.C.{numbers_}.x", reply="inbox.a"))
        assert [each.status for each in told] == ["503"]
    assert pending(world) == 1


# --- acks nobody takes --------------------------------------------------------------------------

NOBODYS: Final = [
    "$JS.ACK.S.X.1.1.1.1.1",
    "$JS.ACK.X.C.1.1.1.1.1",
    "$JS.ACK.S.N.1.1.1.1.1",
    "$JS.ACK.S.C",
    "$JS.ACK.S.C.1.1.1.1",
    "$JS.ACK.S.C.1.1.1.1.1.1",
    "$JS.ACK.x",
]


@pytest.mark.parametrize("subject", NOBODYS)
def test_an_ack_nobody_takes_has_no_responder(world: ConsumerWorld, subject: str) -> None:
    world.consumer("N", ack_policy="none")
    got(world)
    (told,) = world.say(ack_line(subject, reply="inbox.a"))
    assert (told.subject, told.status, told.payload) == ("inbox.a", "503", b"")
    assert f"\r\nNats-Subject: {subject}\r\n" in told.header
    assert world.say(ack_line(subject)) == []
    assert pending(world) == 1


def test_who_does_not_want_to_know_is_not_told(world: ConsumerWorld) -> None:
    peer = world.modern(no_responders=False)
    peer.send(b"SUB box 1\r\n")
    assert world.say(ack_line(NOBODYS[0], reply="box"), peer) == []


def test_acks_some_of_which_nobody_takes(world: ConsumerWorld) -> None:
    frames = got(world, 2)
    data = [ack_line(frame.reply, reply="inbox.good") for frame in frames]
    data.insert(1, ack_line(NOBODYS[0], reply="inbox.bad"))
    told = {frame.subject: frame.status for frame in world.say(b"".join(data))}
    assert told == {"inbox.good": "", "inbox.bad": "503"}
    assert pending(world) == 0


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xc3", b"\xed\xa0\x80"])
def test_subjects_that_are_no_text(world: ConsumerWorld, name: bytes) -> None:
    got(world)
    for subject in (
        b"$JS.ACK.S.%b.1.1.1.1.1",
        b"$JS.ACK.%b.C.1.1.1.1.1",
        b"$JS.FC.S.%b.x",
        b"$JS.FC.%b.C.x",
        b"$JS.API.CONSUMER.MSG.NEXT.S.%b",
    ):
        world.caller.take()
        world.caller.send(b"PUB %b inbox.a 0\r\n\r\n" % (subject % name))
        assert b"503\r\nNats-Subject: %b" % (subject % name) in world.caller.take()
    assert pending(world) == 1


# --- forged ones --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers_",
    [
        f"1.{SEQUENCE_MAX}.1.1.1",
        f"1.{SEQUENCE_MAX * 10}.1.1.1",
        f"1.{'9' * 400}.1.1.1",
        "1.0.0.0.0",
        "1.-1.1.1.1",
        "1.x.1.1.1",
        "1.+1.1.1.1",
        "1.1e0.1.1.1",
        "1.3.3.1.1",
    ],
)
@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize("payload", [b"+ACK", b"-NAK", b"+TERM", b"+WPI"])
def test_an_ack_of_what_was_not_delivered_changes_nothing(
    world: ConsumerWorld, numbers_: str, policy: str, payload: bytes
) -> None:
    world.consumer("C", ack_policy=policy)
    world.publish(5)
    world.pull("C", batch=2)
    world.caller.send(ack_line(f"$JS.ACK.S.C.{numbers_}", payload, "inbox.a"))
    info = world.info("C")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (2, 0)
    assert info["num_pending"] == 3
    assert world.complaints == []


def test_many_acks_up_to_a_forged_number_acknowledge_what_was_delivered(
    world: ConsumerWorld,
) -> None:
    world.consumer("C", ack_policy="all")
    world.publish(5)
    world.pull("C", batch=2)
    world.caller.send(ack_line(f"$JS.ACK.S.C.1.2.{10**18}.1.1"))
    info = world.info("C")
    assert info["ack_floor"]["consumer_seq"] == 2
    assert numbers(world.pull("C", batch=5)) == [3, 4, 5]


@pytest.mark.parametrize(
    "said",
    [
        b'{"delay": %d}' % (1 << 62),
        b'{"delay": %d}' % ((1 << 63) - 1),
        b'{"delay": %d}' % -(1 << 63),
        b'{"delay": %d}' % 10**30,
        b"2562047h47m16.854775807s",
        b"-2562047h",
        b'{"delay": "x"}',
        b"{",
        b"\xff",
    ],
)
def test_a_message_can_be_put_off_by_any_time(world: ConsumerWorld, said: bytes) -> None:
    (frame,) = got(world)
    world.caller.send(ack_line(frame.reply, b"-NAK " + said))
    world.advance(1)
    assert world.caller.reason == ""
    assert pending(world) == 1
    world.disk.kill()
    assert pending(ConsumerWorld(world.node.options, world.disk)) == 1


# --- permissions --------------------------------------------------------------------------------


def guarded() -> ConsumerWorld:
    """Two accounts with JetStream; in the first, one user may not acknowledge."""
    rules = Permissions(publish=SubjectPermission(deny=("$JS.ACK.>",)))
    first = (
        UserOptions(username="a", password="p", account_name="A"),
        UserOptions(username="mute", password="p", account_name="A", permissions=rules),
    )
    second = (UserOptions(username="b", password="p", account_name="B"),)
    limits = AccountLimits()
    accounts = (
        AccountOptions(name="A", users=first, jetstream=limits),
        AccountOptions(name="B", users=second, jetstream=limits),
    )
    options = Options(accounts=accounts, no_auth_user="a", jetstream=streaming())
    return ConsumerWorld(options).with_stream()


def user(world: ConsumerWorld, name: str) -> Peer:
    peer = world.modern(user=name, password="p")
    peer.send(b"SUB box 1\r\n")
    peer.take()
    return peer


def test_who_may_not_publish_to_it_can_not_acknowledge() -> None:
    world = guarded()
    (frame,) = got(world)
    told = user(world, "mute").ask(ack_line(frame.reply, reply="box"))
    assert b"Permissions Violation for Publish" in told
    assert pending(world) == 1


def test_an_account_does_not_acknowledge_for_another() -> None:
    world = guarded()
    (frame,) = got(world)
    stranger = user(world, "b")
    assert [each.status for each in world.say(ack_line(frame.reply, reply="box"), stranger)] == [
        "503"
    ]
    assert [each.status for each in world.pull("C", "box", peer=stranger, batch=1)] == ["503"]
    assert pending(world) == 1


def test_an_ack_can_not_be_answered_to_another_ack(world: ConsumerWorld) -> None:
    """A client cannot make the server acknowledge in its place."""
    first, second = got(world, 2)
    told = world.caller.ask(ack_line(first.reply, reply=second.reply))
    assert b"Permissions Violation for Publish with Reply" in told
    assert pending(world) == 2
