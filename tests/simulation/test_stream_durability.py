"""Every row of the durability contract for one server, with crashes, many seeds."""

from collections.abc import Callable

import pytest

from headwater.jetstream.committers import Synced
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.file_log import FileLog
from headwater.testing import World, seeds
from tests.simulation.stream_ledger import Violation
from tests.simulation.stream_scenario import (
    ALWAYS,
    ASYNC,
    CRASHES,
    INTERVAL,
    Durability,
    StreamScenario,
    features_of,
)

SEEDS = 100


@pytest.mark.parametrize("durability", [INTERVAL, ALWAYS, ASYNC], ids=lambda row: row.name)
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_what_was_promised_holds(seed: int, durability: Durability) -> None:
    """Nothing acked or seen is lost beyond the row, twice, half or under two numbers."""
    world = World(seed)
    world.run(StreamScenario(durability, features=features_of(world)).run)
    print(world.summary())


# --- each defence switched off -----------------------------------------------------------------

SEEDS_FOR_PLANTED_BUGS = 60
SEEDS_WITHOUT_FAULTS = 3
PLAIN: frozenset[str] = frozenset()


Defence = Callable[[pytest.MonkeyPatch], None]


def run_seeds(
    durability: Durability, features: frozenset[str], count: int, crashes: int = CRASHES
) -> None:
    """The scenario with one seed after another, until one fails."""
    for seed in range(1, count + 1):
        World(seed).run(StreamScenario(durability, crashes, features=features).run)


def _no_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    commit = Synced.commit

    def commit_at_once(
        self: Synced[Record], entries: list[Proposal[Record]], is_behind: bool
    ) -> int:
        commit(self, entries, is_behind)
        return entries[-1].index

    patch.setattr(Synced, "commit", commit_at_once)


def _no_memory_of_ids(patch: pytest.MonkeyPatch) -> None:
    recover = Stream.recover

    def without_ids(self: Stream, now_ns: int) -> None:
        recover(self, now_ns, with_ids=False)

    patch.setattr(Stream, "recover", without_ids)


def _no_care_for_half_batches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headwater.jetstream.streams.recovery.unfinished_batch", lambda log: [])


def _no_reserved_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileLog, "continue_above_reservation", lambda self: None)


def _no_memory_of_ids_of_removed_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DedupeWindow, "of_messages", lambda self, sequences: [])


def _no_limits_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headwater.jetstream.streams.recovery.let_go", lambda *_: None)


def _no_entries_applied_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headwater.jetstream.streams.recovery.redo_entries", lambda *_: None)


def _no_wait_for_removals(patch: pytest.MonkeyPatch) -> None:
    commit = Synced.commit

    def commit_requests_at_once(
        self: Synced[Record], entries: list[Proposal[Record]], is_behind: bool
    ) -> int:
        committed = commit(self, entries, is_behind)
        # Also publishes that are decided before a request.
        return committed if entries[-1].has_messages else entries[-1].index

    patch.setattr(Synced, "commit", commit_requests_at_once)


DEFENCES: list[tuple[Defence, Durability, frozenset[str], str]] = [
    (_no_wait_for_the_disk, ALWAYS, PLAIN, "lost|given twice"),
    (_no_memory_of_ids, ALWAYS, PLAIN, "duplicate"),
    (_no_care_for_half_batches, INTERVAL, PLAIN, "half a batch"),
    (_no_reserved_sequences, INTERVAL, PLAIN, "given twice"),
    (_no_memory_of_ids_of_removed_messages, ALWAYS, frozenset({"keys"}), "duplicate"),
    (_no_limits_after_a_crash, INTERVAL, frozenset({"keys"}), "too many"),
    (_no_entries_applied_again, ALWAYS, PLAIN, "lost|given twice"),
    (_no_wait_for_removals, ALWAYS, frozenset({"requests"}), "back again|given twice"),
]
NAMES = [defence.__name__.removeprefix("_") for defence, _, _, _ in DEFENCES]
PARAMETERS = ("defence", "durability", "features", "found")


@pytest.mark.parametrize(PARAMETERS, DEFENCES, ids=NAMES)
def test_without_a_defence_a_promise_is_broken(
    defence: Defence,
    durability: Durability,
    features: frozenset[str],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each defence is needed: without it, some seed finds the violation that it prevents."""
    defence(monkeypatch)
    with pytest.raises(Violation, match=found):
        run_seeds(durability, features, SEEDS_FOR_PLANTED_BUGS)


@pytest.mark.parametrize(PARAMETERS, DEFENCES, ids=NAMES)
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defence: Defence,
    durability: Durability,
    features: frozenset[str],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only faults show the difference: without a defence, quiet runs pass every check."""
    defence(monkeypatch)
    run_seeds(durability, features, SEEDS_WITHOUT_FAULTS, crashes=0)
