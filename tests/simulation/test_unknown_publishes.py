"""Publishes without an answer of their quorum, in whole clusters: unknown, and stored once at most.

A seed is replayed by `SEEDS=seed:42 python -m pytest tests/simulation/test_unknown_publishes.py`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.checker.history import Publish
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.streams.stream import Stream
from headwater.raft import leader as raft_leader
from headwater.raft.node import RaftNode
from headwater.testing import Episode, FaultPlan, World, seeds
from headwater.testing.faults import HalfOpen, Partition, Pause, Slow
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import ack_line, frames_in
from tests.kit.quorum_world import TIMEOUT_MS, UNKNOWN, QuorumWorld
from tests.simulation.replicated_scenario import ReplicatedScenario, Shape

# --- any number of servers stopped ----------------------------------------------------------------

REPLICAS_MAX = 5
STOPPED = [
    (replicas, stopped) for replicas in range(2, REPLICAS_MAX + 1) for stopped in range(replicas)
]
ACK = b'{"stream":"S","seq":1}'
PULL = {"batch": 8, "expires": 20_000_000_000}


def stopped_world(replicas: int, stopped: int) -> tuple[QuorumWorld, list[str]]:
    """A stream with a waiting pull, some of whose followers were killed."""
    world = QuorumWorld(count=replicas)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    world.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    world.pass_ms(100)
    assert "error" not in world.told()[0]
    world.ask("CONSUMER.MSG.NEXT.S.C", PULL, number=2)
    gone = world.others[:stopped]
    for name in gone:
        world.crash(name, is_power_lost=False)
    return world, gone


@pytest.mark.parametrize(("replicas", "stopped"), STOPPED)
def test_a_publish_is_acked_and_delivered_while_a_quorum_runs_and_unknown_otherwise(
    replicas: int, stopped: int
) -> None:
    """With four replicas that is with one server down, and not with two."""
    world, gone = stopped_world(replicas, stopped)
    has_quorum = replicas - stopped >= replicas // 2 + 1
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(TIMEOUT_MS - 100)
    heard = world.heard()
    if has_quorum:
        assert sorted(frame.payload for frame in heard) == [b"x", ACK]
    else:
        assert heard == []
        world.pass_ms(100)
        assert world.told() == [UNKNOWN]
    for name in gone:
        world.start_server(name)
    world.quiet()
    before = [world.stored(name) for name in world.nodes]
    assert all(each == before[0] for each in before), before
    assert len(before[0]) == 1 if has_quorum else len(before[0]) <= 1
    leader = next(name for name in world.nodes if world.replica(name).is_leading)
    world.peer = world.listener(leader, "inbox.>")
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(500)
    [answer] = [frame for frame in world.heard() if frame.subject == "inbox.1"]
    assert b"error" not in answer.payload
    for name in world.nodes:
        assert world.stored(name) == [(1, b"x")]


def test_one_replica_is_its_own_quorum_and_publishes_have_no_responders_without_it() -> None:
    world = AgreeingCluster(2)
    world.create("s1", "S", num_replicas=1)
    info = world.call("s1", "STREAM.INFO.S")
    home = info["cluster"]["leader"]
    peer = world.client(world.other_than(home))
    lines = b"SUB inbox.1 1\r\nPUB s.a inbox.1 1\r\nx\r\n"
    peer.take()
    peer.send(lines)
    world.quiet(0.5)
    assert [frame.payload for frame in frames_in(peer.take())] == [ACK]
    world.crash(home, is_power_lost=False)
    world.quiet()
    peer.send(b"PUB s.a inbox.1 1\r\nx\r\n")
    world.quiet(0.5)
    assert [frame.status for frame in frames_in(peer.take())] == ["503"]


# --- each defence taken out -----------------------------------------------------------------------


def withdrawn_behind_a_confirmation() -> None:
    """Followers have confirmed the publish, and do not have the withdrawal yet."""
    world = QuorumWorld(timeout_ms=50)
    world.stall(to_others=False)
    world.say("x")
    world.pass_ms(20)
    world.stall(to_leader=False)
    world.pass_ms(60)
    assert world.told() == [UNKNOWN]
    world.flow(to_others=False)
    world.pass_ms(50)
    world.flow(to_leader=False)
    world.quiet(1.0)
    for name in world.nodes:
        assert world.stored(name) == []


def repeated_behind_a_withdrawal() -> None:
    """A client publishes again under the id of a publish that was withdrawn."""
    world = QuorumWorld(timeout_ms=50)
    world.stall()
    world.say("x", Nats_Msg_Id="x")
    world.pass_ms(50)
    assert world.told() == [UNKNOWN]
    world.say("x", Nats_Msg_Id="x")
    world.flow()
    world.quiet(1.0)
    assert world.told() == [{"stream": "S", "seq": 1}]
    for name in world.nodes:
        assert world.stored(name) == [(1, b"x")]


def doubled_while_pending() -> None:
    """A client publishes again under the id of a publish that waits, and that is withdrawn."""
    world = QuorumWorld(timeout_ms=50)
    world.stall()
    world.say("x", 1, Nats_Msg_Id="x")
    world.say("x", 2, Nats_Msg_Id="x")
    world.pass_ms(50)
    world.flow()
    world.quiet(1.0)
    acked = [reply for reply in world.told() if "error" not in reply]
    for name in world.nodes:
        assert len(world.stored(name)) == len(acked), "an ack stands for a message"


def led_again() -> None:
    """A leader that told a publisher that it does not know leads again."""
    world = QuorumWorld(timeout_ms=60_000)
    one, other = world.others
    world.lose(one)
    world.quiet(3.0)
    world.cut(world.leader, other)
    world.say("x", Nats_Msg_Id="x")
    world.quiet()
    assert world.told() == [UNKNOWN]
    world.heal(world.leader, other)
    world.quiet()
    assert world.replica(world.leader).is_leading
    for name in (world.leader, other):
        assert world.stored(name) == [], "withdrawn first"


def consumed_meanwhile() -> None:
    """A consumer delivers and is acknowledged behind a publish that is withdrawn."""
    world = QuorumWorld(timeout_ms=50)
    world.say("first")
    config = {"durable_name": "C", "ack_policy": "explicit"}
    world.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    world.pass_ms(100)
    world.heard()
    world.stall()
    world.say("x")
    world.ask("CONSUMER.MSG.NEXT.S.C", number=2)
    (delivered,) = world.heard()
    world.peer.send(ack_line(delivered.reply))
    world.ask("CONSUMER.MSG.NEXT.S.C", PULL, number=3)
    world.pass_ms(50)
    heard = [frame.subject for frame in world.heard()]
    assert heard == ["inbox.1"], "an acknowledged message is not delivered again"
    world.flow()
    world.quiet(1.0)
    assert world.stream.consumers.by_name["C"].state.floor_stream == 1


def _no_commit_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raft_leader, "hold_for_withdrawals", lambda log, index: index)


def _no_retreat_of_the_look_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "retreat", lambda *_: None)


def _no_shared_answer(patch: pytest.MonkeyPatch) -> None:
    propose = Group.propose

    def release_at_once(self: Group[Any, Any], proposal: Proposal[Any]) -> None:
        if proposal.records or proposal.needs_entry:
            propose(self, proposal)
        else:
            proposal.index = self.applied
            self._driver.release(proposal)

    patch.setattr(Group, "propose", release_at_once)


def _no_disowned_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftNode, "disown", lambda *_: None)


def _no_steps_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Proposal, "outlasts_withdrawal", False)


DEFENCES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "commit_held_for_a_withdrawal": (_no_commit_held, withdrawn_behind_a_confirmation),
    "retreat_of_the_look_ahead": (_no_retreat_of_the_look_ahead, repeated_behind_a_withdrawal),
    "shared_duplicate_answer": (_no_shared_answer, doubled_while_pending),
    "disowned_entries": (_no_disowned_entries, led_again),
    "steps_of_consumers_that_stay": (_no_steps_that_stay, consumed_meanwhile),
}


@pytest.mark.parametrize("name", DEFENCES)
def test_each_scenario_holds_with_its_defence(name: str) -> None:
    _, scenario = DEFENCES[name]
    scenario()


@pytest.mark.parametrize("name", DEFENCES)
def test_each_scenario_fails_without_its_defence(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out, scenario = DEFENCES[name]
    take_out(monkeypatch)
    with pytest.raises((AssertionError, InvariantViolation)):
        scenario()


@pytest.mark.parametrize("name", DEFENCES)
def test_no_defence_is_missed_while_nothing_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out, _ = DEFENCES[name]
    take_out(monkeypatch)
    world = QuorumWorld()
    for body in ("one", "two"):
        world.say(body, Nats_Msg_Id=body)
    world.quiet(1.0)
    assert [reply["seq"] for reply in world.told()] == [1, 2]
    for each in world.nodes:
        assert world.stored(each) == [(1, b"one"), (2, b"two")]


# --- clients that repeat, many seeds --------------------------------------------------------------

SEEDS = 2
VIRTUAL_S_MAX = 1_200.0
CODE = "10901"
# Publishers have less patience than leaders, so that publishes are withdrawn.
IMPATIENT = Shape(
    replicas=3,
    ack_timeout_s=0.2,
    episodes=4,
    kinds=(Partition, HalfOpen, Slow, Pause),
    blackout=0.0,
    flip_s_max=0.0,
)


class ServersApart(ReplicatedScenario):
    """All faults strike servers and the links between them, so that quorums are slow."""

    # The number of faults by kind.
    counted: Mapping[str, int] = MappingProxyType({})

    def _plan(self) -> list[Episode]:
        plan = FaultPlan.drawn(
            self.world.rng("faults"),
            servers=self.cluster.names,
            clients=(),
            episodes=self.shape.episodes,
            kinds=self.shape.kinds,
        )
        each = (type(fault).__name__ for episode in plan for fault in episode.faults)
        self.counted = Counter(each)
        return [*plan]


def run(seed: int) -> ReplicatedScenario:
    """One run of a seed."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    scenario = ServersApart(IMPATIENT)
    world.run(scenario.run)
    publishes = sum(len(each.all_of(Publish)) for each in scenario.histories.values())
    counts = {"publishes": publishes, "unknown": unknown_publishes(scenario)}
    print({**counts, **dict(sorted(scenario.counted.items()))}, world.summary())
    return scenario


def unknown_publishes(scenario: ReplicatedScenario) -> int:
    """The number of publishes of a run whose clients were told that the result is unknown."""
    return sum(
        each.reason == CODE
        for history in scenario.histories.values()
        for each in history.all_of(Publish)
    )


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_unknown_publishes_appear_once_at_most(seed: int) -> None:
    """Publishers repeat under their ids until they are acked, and never under another one."""
    run(seed)


def test_publishers_are_told_and_repeat() -> None:
    assert unknown_publishes(run(4)) > 10
