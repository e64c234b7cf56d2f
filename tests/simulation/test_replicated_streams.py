"""Streams of whole clusters keep their promises while servers, links and disks fail, many seeds.

A seed is replayed by `SEEDS=seed:42 python -m pytest tests/simulation/test_replicated_streams.py`.
"""

from collections import Counter
from dataclasses import replace

import pytest

from headwater.checker import BrokenPromise
from headwater.checker.history import Outcome
from headwater.jetstream.committers import Quorum, Synced
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.store.disk.journal import LOST
from headwater.store.log.losses import Losses
from headwater.testing import seeds
from headwater.testing.faults import Crash, Drift, Jump, Partition, Pause
from headwater.testing.loop import UnhandledException
from tests.simulation.replicated_clients import CHANGES
from tests.simulation.replicated_scenario import SHAPES, Shape, run

# Seeds of each shape: a server that has a stream alone has fewer ways to fail.
SEEDS, SEEDS_ALONE = 2, 1


RUNS = [
    pytest.param(seed, shape, id=f"{name}-{seed}")
    for name, shape in SHAPES.items()
    for seed in seeds(SEEDS if shape.replicas > 1 else SEEDS_ALONE)
]


@pytest.mark.parametrize(("seed", "shape"), RUNS)
def test_streams_keep_their_promises(seed: int, shape: Shape) -> None:
    """Nothing acked is lost, invented, repeated, reordered or delivered after its last ack."""
    world, _ = run(seed, shape)
    print(world.summary())


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = [run(3, SHAPES["always"])[0].trace_hash for _ in range(2)]
    assert hashes[0] == hashes[1]


def test_the_workload_has_every_kind_of_operation() -> None:
    counts: Counter[tuple[str, Outcome]] = Counter()
    for seed in (2, 5, 9):
        _, scenario = run(seed, SHAPES["always"])
        for history in scenario.histories.values():
            counts.update((type(each).__name__, each.outcome) for each in history.operations)
    for kind in ("Publish", "Batch", "Delivery", "Ack", "Read", "Scan", "Purge", "Delete"):
        assert counts[kind, Outcome.DONE], counts
    assert counts["Publish", Outcome.UNKNOWN], counts
    assert counts["Publish", Outcome.REFUSED], counts


def test_an_administrator_makes_every_kind_of_change() -> None:
    changes: Counter[tuple[str, str]] = Counter()
    for seed in (1, 5, 7):
        _, scenario = run(seed, SHAPES["changes"])
        changes.update(scenario.changes)
    for kind in CHANGES:
        assert changes[kind, "done"], changes


# --- each defence switched off -----------------------------------------------------------------

SEEDS_FOR_PLANTED_BUGS = 20
SEEDS_WITHOUT_FAULTS = 1
CALM = Shape(episodes=0, blackout=0, flip_s_max=0.0)


def run_seeds(count: int, shape: Shape) -> None:
    """One seed after another, until one fails."""
    for seed in range(1, count + 1):
        run(seed, shape)


def _reply_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    commit = Synced.commit

    def commit_at_once(
        self: Synced[Record], entries: list[Proposal[Record]], is_behind: bool
    ) -> int:
        commit(self, entries, is_behind)
        return entries[-1].index

    patch.setattr(Synced, "commit", commit_at_once)


def test_replies_before_the_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _reply_before_the_commit(monkeypatch)
    with pytest.raises(BrokenPromise) as caught:
        run_seeds(SEEDS_FOR_PLANTED_BUGS, Shape(blackout=1.0))
    assert {*caught.value.rules} & {
        "acked messages are there once",
        "no sequence is given twice",
        "double acks are final",
    }


def test_replies_before_the_commit_do_not_show_while_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _reply_before_the_commit(monkeypatch)
    run_seeds(SEEDS_WITHOUT_FAULTS, CALM)


def _damage_that_counts_for_one_replica_only(patch: pytest.MonkeyPatch) -> None:
    """Have a replica drop a message that it cannot read, as if nobody else had it."""

    def lose_message(self: Losses, sequence: int) -> None:
        self._lost_count += 1
        self._journal_one(LOST, sequence)
        self._index.delete(sequence)
        self.lost.add(sequence, sequence)

    patch.setattr(Losses, "lose_message", lose_message)


ONLY_FLIPS = Shape(replicas=3, kinds=(Drift,), blackout=0.0, flip_s_max=1.0)


def test_messages_that_one_replica_drops_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _damage_that_counts_for_one_replica_only(monkeypatch)
    with pytest.raises(BrokenPromise) as caught:
        run_seeds(SEEDS_FOR_PLANTED_BUGS, ONLY_FLIPS)
    assert {*caught.value.rules} & {"replicas are equal", "acked messages are there once"}


def test_messages_that_one_replica_would_drop_do_not_show_while_no_bit_flips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _damage_that_counts_for_one_replica_only(monkeypatch)
    for seed in range(1, SEEDS_WITHOUT_FAULTS + 1):
        _, scenario = run(seed, replace(CALM, replicas=3))
        assert not scenario.flips


def test_bits_flip_and_every_promise_holds() -> None:
    flips = 0
    for seed in (1, 2, 3):
        _, scenario = run(seed, ONLY_FLIPS)
        flips += scenario.flips
    assert flips


def check_calm_runs() -> None:
    """Three replicas keep every promise in runs without faults."""
    for seed in range(1, SEEDS_WITHOUT_FAULTS + 1):
        _, scenario = run(seed, replace(CALM, replicas=3))
        assert all(len(history.replicas) == 3 for history in scenario.histories.values())


CLOCKS = Shape(replicas=3, kinds=(Jump, Pause), episodes=3, blackout=0.0, flip_s_max=0.0)


def _times_by_the_clock_of_the_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LookAhead, "stream_time", lambda self, now_ns: now_ns)
    patch.setattr(LookAhead, "end", lambda self: (self.next_sequence, 0))


def test_times_that_go_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _times_by_the_clock_of_the_leader(monkeypatch)
    with pytest.raises(BrokenPromise) as caught:
        run_seeds(SEEDS_FOR_PLANTED_BUGS, CLOCKS)
    assert "times never go back" in caught.value.rules


def test_times_by_the_clock_of_the_leader_do_not_show_while_no_clock_jumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _times_by_the_clock_of_the_leader(monkeypatch)
    check_calm_runs()


def _replies_before_a_quorum_has_the_entries(patch: pytest.MonkeyPatch) -> None:
    commit = Quorum.commit

    def commit_at_once(self: Quorum, entries: list[Proposal[Record]], is_behind: bool) -> int:
        commit(self, entries, is_behind)
        return entries[-1].index

    patch.setattr(Quorum, "commit", commit_at_once)


LEADERS_THAT_FALL = Shape(replicas=3, kinds=(Crash, Partition), episodes=3, flip_s_max=0.0)


def test_replies_before_a_quorum_has_the_entries_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _replies_before_a_quorum_has_the_entries(monkeypatch)
    # A leader that was deposed has messages which its successor does not.
    with pytest.raises((BrokenPromise, UnhandledException)) as caught:
        run_seeds(SEEDS_FOR_PLANTED_BUGS, LEADERS_THAT_FALL)
    if not isinstance(caught.value, BrokenPromise):
        assert "the messages of a record follow those of the log" in str(caught.value)


def test_replies_before_a_quorum_do_not_show_while_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _replies_before_a_quorum_has_the_entries(monkeypatch)
    check_calm_runs()
