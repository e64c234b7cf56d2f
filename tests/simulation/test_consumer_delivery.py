"""The promises of consumers while clients and the server crash, many seeds.

A crash may cost messages and answers that were received within a window before it. The window
depends on the durability of the stream (`sync_interval` is 2 s here):

| stream                | kill of the server            | power loss of the server             |
|-----------------------|-------------------------------|--------------------------------------|
| default               | nothing that was answered     | what was answered in the last        |
|                       |                               |   interval                           |
| `always`              | nothing that was answered     | nothing that was answered            |
| `persist_mode: async` | what was answered in the last | the same, and in the last interval   |
|                       |   flush window                |                                      |

"Answered" are publishes by their acks, acknowledgements and NAKs that were sent as requests (double
acks), and pauses. Answers that their row does not allow to be lost hold:

* every message comes to every consumer that is about it, again and again until it is acknowledged;
* it does not come again after its acknowledgement was answered: with message ids and double acks
  it is processed once;
* it does not come before the delay of its NAK is over, nor during a pause;
* the ack floor does not move back while the server runs, and after a restart it is not below the
  acknowledgements that were answered;
* a message that was delivered is as durable as one whose publisher has its ack;
* a consumer that has lost the end of its stream goes on with the messages published after it.

Always, whatever is lost: no client that dies keeps a message for longer than `ack_wait`, and the
waiting pull of a dead client takes no message; `num_pending` is the count of a scan of the stream;
no sequence is given to two messages. Requests that were never answered may have been carried out or
not, and deliveries that were not yet recorded may be repeated with the same delivery count.
"""

from collections.abc import Iterable

import pytest

from headwater.base.sliced import Work
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.committers import Synced
from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.consumers.redelivery import Deadlines
from headwater.jetstream.consumers.retention import InterestCounts
from headwater.jetstream.proposal import Confirmed, Effect, Proposal
from headwater.jetstream.records import Record
from headwater.server.streams.effects import Effects
from headwater.testing import World, seeds
from tests.kit.shadows import Shadows
from tests.simulation.consumer_scenario import (
    VIRTUAL_S_MAX,
    ConsumerScenario,
    Defect,
    broken_promise,
    interest_layout,
    limits_layout,
    run_quietly,
    run_scenario,
)
from tests.simulation.stream_scenario import ALWAYS, ASYNC, INTERVAL, Durability

SEEDS = 25
ROWS = pytest.mark.parametrize("durability", [INTERVAL, ALWAYS, ASYNC], ids=lambda row: row.name)


@ROWS
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_consumers_of_every_kind_keep_their_promises(seed: int, durability: Durability) -> None:
    """Pull, push, ack all, ordered, filtered, with limits and purges of the stream."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    run_scenario(world, ConsumerScenario(durability, limits_layout(world.rng("layout"))))
    print(world.summary())


@ROWS
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_messages_stay_while_somebody_needs_them(seed: int, durability: Durability) -> None:
    """An interest stream loses no message that a consumer needs, and keeps no others."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    run_scenario(world, ConsumerScenario(durability, interest_layout(world.rng("layout"))))
    print(world.summary())


# --- each defence switched off -----------------------------------------------------------------


def _answers_before_the_journal(patch: pytest.MonkeyPatch) -> None:
    def confirm(self: Proposal[Record], reply_subjects: list[bytes]) -> None:
        self.at_once.append(Confirmed(reply_subjects))

    def carry_out(self: Effects, effects: Iterable[Effect]) -> None:
        leave(self, [each for each in effects if not isinstance(each, Confirmed)])
        for each in effects:
            if isinstance(each, Confirmed):
                self.release(Proposal(effects=(each,)))

    leave = Effects.carry_out
    patch.setattr(Proposal, "confirm", confirm)
    patch.setattr(Effects, "carry_out", carry_out)


def _delivery_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    commit = Synced.commit

    def commit_at_once(
        self: Synced[Record], entries: list[Proposal[Record]], is_behind: bool
    ) -> int:
        commit(self, entries, is_behind)
        return entries[-1].index

    patch.setattr(Synced, "commit", commit_at_once)


def _no_deadlines_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Deadlines) -> None:
        self._by_wait.clear()
        self._postponed.clear()

    patch.setattr(Deadlines, "recover", forget)


def _waiting_clients_are_never_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JetStreamAccount, "has_interest", lambda self, subject: True)


def _no_memory_of_who_needs_what(patch: pytest.MonkeyPatch) -> None:
    recover = Consumers.recover

    def nothing() -> Work[list[int]]:
        yield 0
        return []

    def without_counting(self: Consumers) -> list[int]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(InterestCounts, "needed", lambda self, sequences: None)
            inner.setattr(InterestCounts, "gathering_unneeded", lambda self, sequences: nothing())
            return recover(self)

    patch.setattr(Consumers, "recover", without_counting)


DEFECTS = [
    Defect(_answers_before_the_journal, ALWAYS, limits_layout, "again|floor"),
    Defect(
        _delivery_before_the_sync,
        ALWAYS,
        limits_layout,
        "lost|given twice|duplicate",
        modes=("power",),
    ),
    Defect(_no_deadlines_after_a_restart, ALWAYS, limits_layout, "stuck"),
    Defect(_waiting_clients_are_never_released, ALWAYS, limits_layout, "stuck"),
    Defect(_no_memory_of_who_needs_what, ALWAYS, interest_layout, "missed|lost"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_without_a_defence_a_promise_is_broken(
    defect: Defect, monkeypatch: pytest.MonkeyPatch, shadows: Shadows
) -> None:
    """Each defence is needed: without it, some seed finds the violation that it prevents."""
    shadows.defect_planted()
    assert broken_promise(defect, monkeypatch)


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only faults show the difference: without a defence, quiet runs pass every check."""
    run_quietly(defect, monkeypatch)
