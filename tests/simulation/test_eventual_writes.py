"""Eventual writes keep their promises while servers and links fail, many seeds.

Clients of any server publish, leaders are cut off, killed and stepped down, and servers return. In
the end all replicas are equal, no sequence was acked for two messages, and each acked message
is in the stream or in a file that a server has set aside.

A seed is replayed by `SEEDS=seed:42 python -m pytest tests/simulation/test_eventual_writes.py`.
"""

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.jetstream.consumers.position import Position
from headwater.jetstream.tail import Tail
from headwater.server.streams.replica import StreamReplica
from headwater.testing import seeds
from headwater.testing.entropy import labelled_rng
from tests.kit.consumer_world import frames_in
from tests.kit.eventual_world import TAIL, EventualWorld, acked

SEEDS = 5
STEPS = 14
TURN_MAX = 6


class Broken(AssertionError):
    """A promise of an eventual stream does not hold."""


class Walk:
    """One run: its faults, and what was acked."""

    def __init__(self, seed: int, has_faults: bool = True) -> None:
        self.rng: Random = labelled_rng(seed, "eventual")
        self.world = EventualWorld()
        self.has_faults = has_faults
        # The messages that were acked, by sequence, and all that were published, by reply subject.
        self.acked: dict[int, bytes] = {1: b"first"}
        self.bodies: dict[str, bytes] = {}
        self.names = [*self.world.nodes]
        self.down: set[str] = set()
        self.number = 0
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """All steps, then the end of all faults."""
        faults = (self.cut, self.cut, self.crash, self.step_down, self.heal)
        for _ in range(STEPS):
            self.publish()
            if self.has_faults:
                fault = self.rng.choice(faults)
                fault()
                self.counts[fault.__name__] += 1
                self.publish()
            self.world.quiet(self.rng.choice((0.1, 0.5, 3.0)))
        self.heal()
        self.world.quiet(12.0)
        self.check()

    # --- clients -------------------------------------------------------------------------------

    def publish(self) -> None:
        """Have clients of all servers publish some messages, one after the other."""
        for name in self.rng.sample([*self.world.nodes], k=self.rng.randint(1, 2)):
            peer = self.world.client(name)
            peer.send(b"SUB inbox.> 1\r\n")
            for _ in range(self.rng.randint(1, TURN_MAX)):
                self.number += 1
                body = b"m%d" % self.number
                self.bodies[f"inbox.{self.number}"] = body
                peer.send(b"PUB s.a inbox.%d %d\r\n%b\r\n" % (self.number, len(body), body))
            self.world.quiet(0.15)
            for frame in frames_in(peer.take()):
                self._note(frame.subject, frame.payload)

    def _note(self, subject: str, payload: bytes) -> None:
        if subject not in self.bodies:
            # The answer to a request of the world itself.
            return
        answer: Any = json.loads(payload) if payload else {"error": "no responders"}
        if "error" in answer:
            self.counts["refused"] += 1
            return
        self.counts["acked"] += 1
        body = self.bodies[subject]
        before = self.acked.setdefault(answer["seq"], body)
        if before != body:
            raise Broken(f"the sequence {answer['seq']} was given to {before!r} and another one")

    # --- faults --------------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut a server, often a leader, off from all others."""
        leading = [name for name in self.world.nodes if self.world.replica(name).is_leading]
        one = self.rng.choice(leading or [*self.world.nodes])
        for other in self.world.nodes:
            if other != one:
                self.world.cut(one, other)

    def crash(self) -> None:
        """Kill a server, and start the one that was killed before."""
        self._restart()
        name = self.rng.choice([*self.world.nodes])
        self.world.crash(name, is_power_lost=False)
        self.down.add(name)

    def _restart(self) -> None:
        for name in sorted(self.down):
            self.world.start_server(name)
        self.down.clear()

    def step_down(self) -> None:
        """Have a leader hand over in order."""
        for name in [*self.world.nodes]:
            if self.world.replica(name).is_leading:
                self.world.client(name).send(b"PUB $JS.API.STREAM.LEADER.STEPDOWN.S 0\r\n\r\n")

    def heal(self) -> None:
        """Let all servers reach each other again."""
        self._restart()
        self.world.cuts.clear()

    # --- the end -------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what is promised. Raises Broken."""
        first, *others = (self.world.dump(name) for name in self.names)
        if any(other != first for other in others):
            raise Broken("replicas differ")
        stored = dict(self.world.stored(self.names[0]))
        aside = {body for name in self.names for body in self.world.tails(name)}
        for sequence, body in self.acked.items():
            found = stored.get(sequence)
            if found not in (None, body):
                raise Broken(f"the sequence {sequence} was given to {body!r} and to {found!r}")
            if found is None and body not in aside:
                raise Broken(f"{body!r} was acked and is nowhere")
            self.counts["kept" if found is not None else "lost"] += 1


def run(seed: int, has_faults: bool = True) -> Walk:
    """A run of a seed. Raises Broken."""
    walk = Walk(seed, has_faults)
    walk.run()
    return walk


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_eventual_writes_keep_their_promises(seed: int) -> None:
    assert run(seed).counts["kept"]


def test_tails_are_lost_and_kept() -> None:
    counts: Counter[str] = Counter()
    for seed in (1, 2):
        counts.update(run(seed).counts)
    assert counts["kept"], counts
    assert counts["lost"], counts


# --- each defence taken out ----------------------------------------------------------------------


def no_jump(patch: pytest.MonkeyPatch) -> None:
    """A new leader gives out what the one before may have given out."""
    patch.setattr(StreamReplica, "_jump", lambda replica, runner: None)


def no_limit(patch: pytest.MonkeyPatch) -> None:
    """The tail has no end."""
    take = Tail.take

    def take_all(self: Tail, place: int, first: int, last: int, has_quorum: bool) -> bool:
        self.limits = self.limits._replace(messages=1 << 60, byte_count=1 << 60)
        return take(self, place, first, last, has_quorum)

    patch.setattr(Tail, "take", take_all)


def no_cut(patch: pytest.MonkeyPatch) -> None:
    """A leader that loses its office keeps what it has applied."""
    patch.setattr(StreamReplica, "_take_back", lambda replica: replica._ahead.clear())


def no_watermark(patch: pytest.MonkeyPatch) -> None:
    """Streams that copy an eventual one get its tail."""
    patch.setattr(Position, "_end", property(lambda self: self._stream.visible_sequence + 1))


def a_leader_is_lost_with_a_tail() -> None:
    """No sequence is acked twice."""
    world = EventualWorld()
    world.lose_tail(3)
    world.hear(world.new_leader)
    assert world.stored(world.new_leader) == [(1, b"first"), (2 + TAIL, b"m")]


def more_is_published_than_the_tail_holds() -> None:
    """The tail ends before the sequences of the next leader."""
    world = EventualWorld(tail=3)
    world.part()
    for number in range(6):
        world.say("x", number)
        world.pass_ms(20)
    sequences = [answer["seq"] for answer in world.told()]
    world.quiet()
    world.hear(world.new_leader)
    given = {sequence for sequence, _ in world.stored(world.new_leader)[1:]}
    assert not given & {*sequences}


def a_leader_returns_without_its_tail() -> None:
    """All replicas are equal in the end."""
    world = EventualWorld()
    world.lose_tail(3)
    world.join()
    world.check_equal()


def a_stream_is_copied_from_a_leader_with_a_tail() -> None:
    """A copy has nothing that its origin may lose."""
    world = EventualWorld()
    for copy in ("M1", "M2", "M3"):
        body = {"name": copy, "num_replicas": 1, "mirror": {"name": "S"}}
        reply = world.call(world.leader, f"STREAM.CREATE.{copy}", body)
        assert "error" not in reply, reply
    world.quiet(3.0)
    host = world.nodes[world.leader].jetstream
    assert host is not None
    copies = [host.runners.find("$G", name) for name in ("M1", "M2", "M3")]
    logs = [runner.stream.log for runner in copies if runner is not None]
    # The servers take turns.
    assert [log.last_sequence for log in logs] == [1]
    world.heard()
    world.part()
    world.say("tail")
    world.pass_ms(500)
    assert world.told() == [acked(2)]
    assert [log.last_sequence for log in logs] == [1]
    world.join()
    assert [log.messages for log in logs] == [1]


DEFENCES = (
    pytest.param(no_jump, a_leader_is_lost_with_a_tail, id="jump"),
    pytest.param(no_limit, more_is_published_than_the_tail_holds, id="bounded tail"),
    pytest.param(no_cut, a_leader_returns_without_its_tail, id="cut back"),
    pytest.param(no_watermark, a_stream_is_copied_from_a_leader_with_a_tail, id="watermark"),
)


@pytest.mark.parametrize(("take_out", "script"), DEFENCES)
def test_a_defence_that_is_taken_out_shows(
    take_out: Callable[[pytest.MonkeyPatch], None],
    script: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script()
    take_out(monkeypatch)
    with pytest.raises((AssertionError, InvariantViolation)):
        script()


@pytest.mark.parametrize("take_out", [case.values[0] for case in DEFENCES])
def test_a_defence_that_is_taken_out_does_not_show_while_nothing_fails(
    take_out: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out(monkeypatch)
    assert not run(1, has_faults=False).counts["lost"]
