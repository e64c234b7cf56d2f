"""Linearizable reads: the leader looks at its lease behind the read, and a batch is of one moment.

Each defence is also taken out, to show that its test would miss it.
"""

import json
from collections.abc import Callable

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.streams.stream import Stream
from headwater.server.configuration.options import Options
from headwater.server.core.accounts import Account
from headwater.server.streams import direct_reads
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.confirmation import Confirmation
from headwater.server.streams.direct_reads import DirectReads
from headwater.store.log.message_log import StoredMessage
from tests.kit.consumer_world import frames_in
from tests.kit.reading_cluster import LEASE_S, Reading
from tests.kit.stored_world import StoredWorld, streaming

# More patterns than are looked up in one turn, some times over.
PATTERNS = 1_000


def read_in_a_pause(patch: pytest.MonkeyPatch, world: Reading, call: str) -> str:
    """The answer of a leader whose process is paused for a lease after it has read the bytes."""
    world.put("s1", "one")
    leader = world.leader
    read = Stream.last_message

    def read_and_pause(self: Stream, pattern: bytes) -> StoredMessage | None:
        found = read(self, pattern)
        world.clock.passed_ns += round(LEASE_S * NS_PER_S)
        return found

    with patch.context() as paused:
        paused.setattr(Stream, "last_message", read_and_pause)
        if call.startswith("STREAM"):
            (frame,) = world.ask(leader, call, {"last_by_subj": "s.a"})
            answer = json.loads(frame.payload)
            return "refused" if "error" in answer else "one"
        status = world.last(leader, call)
        return "refused" if status.startswith("503") else status


CALLS = ["DIRECT_LEADER.GET.S.s.a", "DIRECT.GET.S.s.a", "STREAM.MSG.GET.S"]


@pytest.mark.parametrize("call", CALLS)
def test_linearizable_the_lease_is_checked_behind_the_read(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_in_a_pause(monkeypatch, Reading(), call) == "refused"


@pytest.mark.parametrize("call", CALLS)
def test_a_lease_that_is_checked_before_the_read_is_missed(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Confirmation, "holds", lambda self: True)
    assert read_in_a_pause(monkeypatch, Reading(), call) == "one"


# --- a batch at one applied index ---------------------------------------------------------------


def last_of_each(write: Callable[[StoredWorld], bytes]) -> list[str]:
    """The subjects in the answer of a read of all subjects, amid which messages are published."""
    world = StoredWorld(Options(jetstream=streaming())).start()
    world.create("S", subjects=["s.>"], max_msgs_per_subject=1, read_consistency="strong")
    writer = world.modern()
    subjects = [f"s.{number:04}" for number in range(PATTERNS)]
    writer.send("".join(f"PUB {each} 1\r\nx\r\n" for each in subjects).encode())
    reader = world.modern()
    reader.send(b"SUB in 1\r\n")
    reader.take()
    patterns = [f"s.{number:04}" if number % 2 else f"*.{number:04}" for number in range(PATTERNS)]
    body = json.dumps({"multi_last": patterns}).encode()
    request = b"PUB $JS.API.DIRECT_LEADER.GET.S in %d\r\n%b\r\n" % (len(body), body)
    # The message is taken in when the read has begun, and before its last part.
    reader.send(request + write(world))
    found = [each.header for each in frames_in(reader.take()) if each.payload]
    return [header.split("Nats-Subject: ")[1].split("\r\n")[0] for header in found]


def overwrite_all(world: StoredWorld) -> bytes:
    """Another message for each subject."""
    return "".join(f"PUB s.{number:04} 1\r\ny\r\n" for number in range(PATTERNS)).encode()


def test_linearizable_a_batch_is_answered_at_one_applied_index() -> None:
    assert len(last_of_each(overwrite_all)) == PATTERNS


def test_a_batch_that_is_read_while_the_stream_changes_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct_reads, "is_many", lambda body: False)
    assert len(last_of_each(overwrite_all)) < PATTERNS


@pytest.mark.parametrize(
    "body", [{"next_by_subj": "s.>", "batch": 1_000_000}, {"seq": 1, "batch": 1_000_000}]
)
def test_a_batch_that_is_gathered_first_is_limited(
    body: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.jetstream.api.message_get.GATHERED_MESSAGES_MAX", 3)
    world = StoredWorld(Options(jetstream=streaming())).start()
    world.create("S", subjects=["s.>"], read_consistency="strong")
    client = world.modern()
    client.send(b"PUB s.a 1\r\nx\r\n" * 5 + b"SUB in 1\r\n")
    client.take()
    data = json.dumps(body).encode()
    client.send(b"PUB $JS.API.DIRECT_LEADER.GET.S in %d\r\n%b\r\n" % (len(data), data))
    *messages, end = frames_in(client.take())
    assert [each.payload for each in messages] == [b"x"] * 3
    assert "Nats-Num-Pending: 2" in end.header


# --- the wait of a session ----------------------------------------------------------------------


def test_a_session_that_is_not_waited_for_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for is_waited_for in (True, False):
        world = Reading("weak")
        world.put("s1", "one")
        follower = next(name for name in world.nodes if name != world.leader)
        asker = world.client(follower, headers=True)
        asker.take()
        body = json.dumps({"last_by_subj": "s.a", "min_last_seq": 2}).encode()
        with monkeypatch.context() as patch:
            if not is_waited_for:
                patch.setattr(AwaitedReads, "add", lambda self, sequence, answer: answer())
            asker.send(b"SUB z 1\r\nPUB $JS.API.DIRECT.GET.S z %d\r\n%b\r\n" % (len(body), body))
            world.put("s1", "two")
        (frame,) = frames_in(asker.take())
        answers.append(frame.status or frame.payload.decode())
    assert answers == ["two", "412 Min Last Sequence"]


# --- reads that come together -------------------------------------------------------------------


def read_together(world: Reading, name: str, call: str = "DIRECT") -> list[str]:
    """The answers to two reads of the last message of a subject that come in one piece."""
    asker = world.client(name, headers=True, no_responders=True)
    asker.take()
    line = f"PUB $JS.API.{call}.GET.S.s.a {{}} 0\r\n\r\n"
    asker.send(f"SUB in.* 1\r\n{line.format('in.1')}{line.format('in.2')}".encode())
    world.quiet(0.2)
    return [each.status[:3] or each.payload.decode() for each in frames_in(asker.take())]


@pytest.mark.parametrize("call", ["DIRECT", "DIRECT_LEADER"])
@pytest.mark.parametrize("is_led_here", [True, False])
def test_linearizable_reads_that_come_together_need_a_lease(is_led_here: bool, call: str) -> None:
    world = Reading()
    world.put("s1", "one")
    leader = world.leader
    name = leader if is_led_here else world.other_than(leader)
    assert read_together(world, name, call) == ["one", "one"]
    # The leader goes on, and its later entries grant nothing.
    world.node(leader).grant_leases(0)
    world.quiet(LEASE_S)
    assert read_together(world, name, call) == ["503", "503"]


def test_linearizable_reads_by_the_leader_take_as_many_calls_as_weak_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Reading("weak")
    world.put("s1", "one")
    answered: list[str] = []
    answer = DirectReads.answer_lasts

    def note(
        reads: DirectReads, account: Account, subjects: list[bytes], replies: list[bytes]
    ) -> list[int] | None:
        unanswered = answer(reads, account, subjects, replies)
        answered.append("together" if unanswered == [] else "each")
        return unanswered

    monkeypatch.setattr(DirectReads, "answer_lasts", note)
    for call in ("DIRECT", "DIRECT_LEADER"):
        assert read_together(world, world.leader, call) == ["one", "one"]
    assert answered == ["together", "together"]


@pytest.mark.parametrize("call", ["DIRECT", "DIRECT_LEADER"])
def test_linearizable_reads_that_come_together_are_checked_behind_the_read(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Reading()
    world.put("s1", "one")
    leader = world.leader
    read = Stream.last_message

    def read_and_pause(self: Stream, pattern: bytes) -> StoredMessage | None:
        found = read(self, pattern)
        world.clock.passed_ns += round(LEASE_S * NS_PER_S)
        return found

    monkeypatch.setattr(Stream, "last_message", read_and_pause)
    assert read_together(world, leader, call) == ["503", "503"]
