"""Eventual streams: the leader answers by its own log, and what is lost is its tail alone."""

import json
from errno import ENOSPC

import pytest
from msgspec.structs import replace

from headwater.jetstream.config.stream_config import WriteConsistency
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Configured
from headwater.raft.entry import EntryKind
from headwater.raft.log import RaftLog
from headwater.server.cluster.consensus import compaction
from headwater.server.streams.replica import REST_S, StreamReplica
from headwater.server.streams.replica_tail import keep_lost
from headwater.store.log.file_log import FileLog
from tests.kit.consumer_world import ack_line, frames_in
from tests.kit.eventual_world import TAIL, EventualWorld, acked
from tests.kit.quorum_world import TIMEOUT_MS, UNKNOWN, QuorumWorld


@pytest.fixture
def world() -> EventualWorld:
    return EventualWorld()


def test_publishes_are_acked_with_every_follower_gone(world: EventualWorld) -> None:
    for name in world.others:
        world.lose(name)
    world.quiet()
    world.say("a")
    world.say("b")
    world.pass_ms(50)
    assert world.told() == [acked(2), acked(3)]
    assert [body for _, body in world.stored()] == [b"first", b"a", b"b"]


def test_consumers_receive_with_every_follower_gone(world: EventualWorld) -> None:
    world.consumer(deliver_subject="to.c", deliver_policy="new")
    listener = world.listener(world.leader, "to.c")
    world.part()
    world.quiet()
    world.say("a")
    world.pass_ms(50)
    assert b"\r\na\r\n" in listener.take()


def test_the_leader_stays_in_office_without_a_quorum(world: EventualWorld) -> None:
    world.part()
    world.quiet(30.0)
    assert world.replica(world.leader).is_leading


def test_others_see_committed_messages_only(world: EventualWorld) -> None:
    world.part()
    world.say("a")
    world.pass_ms(50)
    assert len(world.stored()) == 2
    for name in world.others:
        assert world.stored(name) == [(1, b"first")]


def several(*requests: tuple[str, bytes]) -> bytes:
    """Requests of a client that come together, so that they get one place of the log."""
    return b"".join(
        b"PUB %b inbox.1 %d\r\n%b\r\n" % (subject.encode(), len(body), body)
        for subject, body in requests
    )


REMOVAL = "$JS.API.STREAM.MSG.DELETE.S", b'{"seq": 1, "no_erase": true}'


def test_a_copy_sees_no_part_of_a_place_that_may_be_taken_back(world: EventualWorld) -> None:
    for copy in ("M1", "M2", "M3"):
        body = {"name": copy, "num_replicas": 1, "mirror": {"name": "S"}}
        assert "error" not in world.call(world.leader, f"STREAM.CREATE.{copy}", body)
    world.quiet(3.0)
    host = world.nodes[world.leader].jetstream
    assert host is not None
    copies = [host.runners.find("$G", name) for name in ("M1", "M2", "M3")]
    # The servers take turns.
    (log,) = [runner.stream.log for runner in copies if runner is not None]
    assert log.last_sequence == 1
    world.heard()
    world.part()
    world.peer.send(several(("s.a", b"one"), REMOVAL, ("s.a", b"two")))
    world.pass_ms(100)
    assert len(world.told()) == 3
    assert log.last_sequence == 1
    world.join()


def test_a_part_of_a_place_is_taken_back(world: EventualWorld) -> None:
    world.part()
    disk = world.disk_of(world.leader)
    fault = disk.fail("write", "*/segment-*", code=ENOSPC, times=None)
    world.peer.send(several(REMOVAL, ("s.a", b"no room")))
    world.pass_ms(100)
    # The message is removed, and the other one waits.
    assert [each["success"] for each in world.told()] == [True]
    assert world.stored() == []
    world.quiet()
    world.join()
    disk.heal(fault)
    world.quiet()
    assert world.stored() == world.stored(world.new_leader)
    world.check_equal()


def test_the_tail_has_a_limit_and_then_publishes_wait_like_strong_ones() -> None:
    world = EventualWorld(tail=3)
    world.part()
    for number in range(4):
        world.say("x", number)
        world.pass_ms(20)
    assert world.told() == [acked(2), acked(3), acked(4)]
    world.pass_ms(TIMEOUT_MS)
    assert world.told() == [UNKNOWN]
    # The stream has all that was acked, and nothing that is unknown.
    assert world.stored()[1:] == [(2, b"x"), (3, b"x"), (4, b"x")]


def test_a_tail_that_others_get_makes_room() -> None:
    world = EventualWorld(tail=3, timeout_ms=60_000)
    world.stall()
    for number in range(5):
        world.say("x", number)
        world.pass_ms(20)
    assert len(world.told()) == 3
    world.flow()
    world.pass_ms(100)
    assert world.told() == [acked(5), acked(6)]


def test_no_sequence_is_given_twice(world: EventualWorld) -> None:
    world.lose_tail(3)
    new = world.new_leader
    world.hear(new)
    assert world.stored(new) == [(1, b"first"), (2 + TAIL, b"m")]


def test_both_sides_of_a_partition_ack(world: EventualWorld) -> None:
    world.lose_tail(1)
    world.hear(world.new_leader)
    world.say("another")
    world.pass_ms(50)
    assert world.told() == [acked(3)]
    assert world.replica(world.leader).is_leading


def test_a_leader_that_returns_is_as_the_others_are(world: EventualWorld) -> None:
    world.lose_tail(3)
    world.hear(world.new_leader)
    world.join()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2 + TAIL, b"m")]
    world.check_equal()


def test_a_leader_that_returns_has_what_its_tail_had_removed() -> None:
    world = EventualWorld(max_msgs=2)
    world.lose_tail(3)
    assert world.stored() == [(3, b"lost 1"), (4, b"lost 2")]
    world.join()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first")]
    world.check_equal()


def test_a_leader_that_returns_has_what_its_tail_had_rolled_up() -> None:
    world = EventualWorld(allow_rollup_hdrs=True)
    world.part()
    world.say("sum", Nats_Rollup="all")
    world.pass_ms(50)
    assert world.stored() == [(2, b"sum")]
    world.quiet()
    world.join()
    assert world.stored() == [(1, b"first")]
    world.check_equal()


def test_consumers_are_cut_to_what_survived(world: EventualWorld) -> None:
    world.consumer(deliver_subject="to.c")
    listener = world.listener(world.leader, "to.c")
    world.part()
    world.say("lost")
    world.pass_ms(50)
    for frame in frames_in(listener.take()):
        listener.send(ack_line(frame.reply))
    world.pass_ms(50)
    assert world.replica(world.leader).stream.consumers.by_name["C"].state.delivered_stream == 2
    world.join()
    for name in world.nodes:
        consumer = world.replica(name).stream.consumers.by_name["C"]
        assert consumer.state.delivered_stream <= 1
    world.check_equal()


def test_a_stream_in_memory_is_filled_again() -> None:
    world = EventualWorld(storage="memory")
    world.lose_tail(3)
    world.hear(world.new_leader)
    world.join()
    world.hear(world.new_leader)
    for name in world.nodes:
        assert [each for each, _ in world.stored(name)] == [1, 2 + TAIL, 3 + TAIL]


def test_a_lost_tail_is_set_aside_and_told(world: EventualWorld) -> None:
    listener = world.listener(world.leader, "$JS.EVENT.ADVISORY.STREAM.TAIL_LOST.S")
    world.lose_tail(3)
    world.join()
    assert world.tails(world.leader) == [b"lost 0", b"lost 1", b"lost 2"]
    (frame,) = frames_in(listener.take())
    told = json.loads(frame.payload)
    assert (told["first_seq"], told["last_seq"], told["messages"]) == (2, 4, 3)
    assert "/set-aside/tail-" in told["file"]
    for name in world.others:
        assert world.tails(name) == []


def test_the_tail_of_a_leader_that_was_killed_is_set_aside() -> None:
    world = EventualWorld()
    world.part()
    world.say("lost")
    world.pass_ms(50)
    old = world.leader
    world.crash(old, is_power_lost=False)
    world.quiet()
    world.start_server(old)
    for name in world.nodes:
        if name != old:
            world.heal(old, name)
    world.quiet()
    assert world.tails(old) == [b"lost"]


def trim_logs(world: EventualWorld, names: list[str]) -> None:
    """Have the first leader's successors keep few entries, all of which the first leader lacks."""
    new = world.new_leader
    for _ in range(60):
        world.publish(new, "s.b")
    for name in names:
        host = world.nodes[name].jetstream
        assert host is not None
        for _ in range(2):
            host.files.store.sync()
            world.publish(new, "s.b")
        host.files.store.group_commit.secure_frames()
        world.publish(new, "s.b")


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_tail_that_a_snapshot_replaces_is_told(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LOG_ENTRIES_MAX", 20)
    world = EventualWorld(storage=storage)
    listener = world.listener(world.leader, "$JS.EVENT.ADVISORY.STREAM.TAIL_LOST.S")
    world.part()
    for number in range(3):
        world.say(f"lost {number}")
    world.quiet()
    trim_logs(world, world.others)
    world.join()
    world.quiet(3.0)
    assert world.stored(world.leader) == world.stored(world.new_leader)
    (frame,) = frames_in(listener.take())
    told = json.loads(frame.payload)
    assert (told["first_seq"], told["last_seq"], told["messages"]) == (2, 4, 3)
    if storage == "file":
        assert world.tails(world.leader) == [b"lost 0", b"lost 1", b"lost 2"]


def test_messages_that_the_successor_has_are_not_lost(world: EventualWorld) -> None:
    for number in range(3):
        world.say(f"kept {number}")
    world.pass_ms(50)
    stream, host = world.stream, world.nodes[world.leader].jetstream
    assert host is not None
    log = host.files.store.groups[world.replica(world.leader).identity]
    entries = [
        each
        for each in log.entries(log.snapshot.index + 1, log.last_index, 1 << 20)
        if each.kind == EntryKind.DATA
    ]
    assert keep_lost(stream, entries, stream.log) is None
    world.ask("STREAM.MSG.DELETE.S", {"seq": 3, "no_erase": True})
    world.pass_ms(50)
    lost = keep_lost(stream, entries, stream.log)
    assert lost is not None
    assert (lost.first_sequence, lost.last_sequence, lost.messages) == (3, 3, 1)
    assert world.tails(world.leader) == [b"kept 1"]


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power"])
def test_a_leader_that_was_killed_returns_as_the_others_are(is_power_lost: bool) -> None:
    world = EventualWorld()
    world.part()
    world.say("lost")
    world.pass_ms(50)
    assert world.told() == [acked(2)]
    old = world.leader
    world.crash(old, is_power_lost)
    world.quiet()
    world.leader = next(name for name in world.nodes if world.replica(name).is_leading)
    world.hear(world.leader)
    world.start_server(old)
    for name in world.nodes:
        if name != old:
            world.heal(old, name)
    world.quiet()
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2 + TAIL, b"m")]
    world.check_equal()


def test_an_orderly_step_down_loses_nothing(world: EventualWorld) -> None:
    world.stall(to_leader=True, to_others=False)
    for number in range(5):
        world.say(f"kept {number}")
    world.pass_ms(20)
    assert len(world.told()) == 5
    world.flow()
    world.ask("STREAM.LEADER.STEPDOWN.S", number=2)
    world.quiet()
    new = world.new_leader
    world.hear(new)
    # Nothing is passed over either.
    assert [each for each, _ in world.stored(new)] == [1, 2, 3, 4, 5, 6, 7]
    world.check_equal()


def test_a_stop_hands_everything_over(world: EventualWorld) -> None:
    for number in range(5):
        world.say(f"kept {number}")
    world.pass_ms(10)
    world.stop(world.leader)
    world.quiet()
    new = world.new_leader
    world.hear(new)
    assert [each for each, _ in world.stored(new)] == [1, 2, 3, 4, 5, 6, 7]


def change(world: QuorumWorld, level: str) -> None:
    """Have the stream another level of writes."""
    config = world.call(world.leader, "STREAM.INFO.S")["config"]
    body = {**config, "write_consistency": level}
    reply = world.call(world.leader, "STREAM.UPDATE.S", body)
    assert "error" not in reply, reply
    world.heard()


def test_a_change_to_strong_takes_effect_at_its_place(world: EventualWorld) -> None:
    change(world, "strong")
    world.part()
    world.say("x")
    world.pass_ms(TIMEOUT_MS)
    assert world.told() == [UNKNOWN]
    world.quiet()
    # Its leader minds the quorum again.
    assert not world.replica(world.leader).is_leading


def test_a_change_to_eventual_takes_effect_at_its_place() -> None:
    world = QuorumWorld()
    change(world, "eventual")
    world.part()
    world.say("x")
    world.pass_ms(50)
    assert world.told() == [acked(1)]


def test_a_change_that_waits_in_the_log_leaves_the_level_as_it_is(world: EventualWorld) -> None:
    world.stall()
    stream, runner = world.stream, world.replica(world.leader).runner
    assert runner is not None
    strong = replace(stream.config, write_consistency=WriteConsistency.STRONG)
    runner.propose(Proposal([Configured(strong, 1)]))
    world.say("behind")
    world.pass_ms(50)
    # Nobody knows the level of a message behind the change.
    assert world.told() == []
    world.flow()
    world.pass_ms(50)
    assert world.told() == [acked(2)]


def test_what_cannot_be_taken_back_waits_for_the_quorum(world: EventualWorld) -> None:
    world.part()
    world.ask("STREAM.MSG.DELETE.S", {"seq": 1}, number=2)
    world.say("behind")
    world.pass_ms(50)
    assert world.told() == []
    world.pass_ms(TIMEOUT_MS)
    assert world.told() == [UNKNOWN]
    assert world.stored() == [(1, b"first")]


def test_a_message_that_is_removed_and_not_erased_does_not_wait(world: EventualWorld) -> None:
    world.part()
    world.ask("STREAM.MSG.DELETE.S", {"seq": 1, "no_erase": True}, number=2)
    world.pass_ms(50)
    assert [each["success"] for each in world.told()] == [True]
    world.quiet()
    world.join()
    assert world.stored() == [(1, b"first")]
    world.check_equal()


def log_of(world: QuorumWorld) -> RaftLog:
    """The log of the leader's group."""
    consensus = world.nodes[world.leader].consensus
    assert consensus is not None
    node = consensus.node(world.replica(world.leader).identity)
    assert node is not None
    return node.log


def test_a_follower_far_behind_gets_the_tail_of_a_leader_without_a_quorum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "LOG_ENTRIES_MAX", 20)
    world = EventualWorld()
    one, other = world.others
    world.crash(one, is_power_lost=False)
    world.quiet(3.0)
    for _ in range(60):
        world.say("x")
        world.settle()
    world.pass_ms(100)
    host = world.nodes[world.leader].jetstream
    assert host is not None
    for _ in range(2):
        host.files.store.sync()
        world.say("x")
        world.pass_ms(100)
    host.files.store.group_commit.secure_frames()
    world.say("x")
    world.pass_ms(100)
    # The entries that the other server lacks are gone.
    assert log_of(world).snapshot.index > 10
    world.lose(other)
    world.quiet(3.0)
    world.heard()
    world.say("kept")
    world.pass_ms(50)
    (kept,) = world.told()
    assert world.replica(world.leader).is_ahead
    world.start_server(one)
    world.quiet(10.0)
    for name in (world.leader, one):
        assert (kept["seq"], b"kept") in world.stored(name)


def test_without_an_election_a_follower_far_behind_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StreamReplica, "end_tail", lambda replica: None)
    with pytest.raises(AssertionError):
        test_a_follower_far_behind_gets_the_tail_of_a_leader_without_a_quorum(monkeypatch)


def test_a_leader_waits_for_the_quorum_while_its_files_are_put_in_order(
    world: EventualWorld,
) -> None:
    log = world.stream.log
    assert isinstance(log, FileLog)
    world.stall()
    world.say("ahead")
    world.pass_ms(20)
    assert world.told() == [acked(2)]
    log.emptied.are_possible = True
    log.drop_empty_segments()
    world.say("waits")
    world.pass_ms(20)
    assert world.told() == []
    world.flow()
    world.pass_ms(100)
    assert world.told() == [acked(3)]
    world.quiet(REST_S)
    world.stall()
    world.say("ahead again")
    world.pass_ms(20)
    assert world.told() == [acked(4)]


@pytest.mark.parametrize(
    ("storage", "is_power_lost"), [("file", True), ("memory", False)], ids=["power", "memory"]
)
def test_followers_that_have_all_forgotten_confirm_to_the_leader_that_stayed(
    storage: str, is_power_lost: bool
) -> None:
    world = EventualWorld(storage=storage)
    followers = world.others
    for name in followers:
        world.crash(name, is_power_lost)
    world.quiet(3.0)
    world.say("kept")
    world.pass_ms(50)
    assert world.told() == [acked(2)]
    for name in followers:
        world.start_server(name)
    # The time in which others could have come back.
    world.quiet(20.0)
    assert not world.replica(world.leader).is_ahead
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2, b"kept")]
    world.check_equal()


def test_a_deleted_stream_is_forgotten(world: EventualWorld) -> None:
    world.call(world.leader, "STREAM.DELETE.S")
    world.quiet()
    for node in world.nodes.values():
        assert node.consensus is not None
        assert not node.consensus.ahead._machines
