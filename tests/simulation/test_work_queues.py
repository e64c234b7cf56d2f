"""Work queues with four workers that crash, on a server that does, many seeds.

The promises of consumers in general are in `test_consumer_delivery`. A work queue promises more: a
message leaves the stream by its acknowledgement and not before, and a restart remembers both or
neither. So no message is lost that nobody has worked on, no message is left that a worker has
acknowledged, and no message comes again whose acknowledgement was answered.
"""

import pytest

from headwater.jetstream.consumers.collection import Consumers
from headwater.jetstream.consumers.records import ConsumerRecord, Delivered
from headwater.store.disk.journal import CALLER_KINDS, encode_entries
from headwater.testing import World, seeds
from tests.simulation.consumer_scenario import (
    VIRTUAL_S_MAX,
    ConsumerScenario,
    Defect,
    broken_promise,
    run_quietly,
    run_scenario,
    work_queue_layout,
)
from tests.simulation.stream_scenario import ALWAYS, ASYNC, INTERVAL, Durability

SEEDS = 25


@pytest.mark.parametrize("durability", [INTERVAL, ALWAYS, ASYNC], ids=lambda row: row.name)
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_work_is_done_and_done_once(seed: int, durability: Durability) -> None:
    """Nothing is lost, nothing is left, nothing comes again that was answered."""
    world = World(seed, virtual_s_max=VIRTUAL_S_MAX)
    run_scenario(world, ConsumerScenario(durability, work_queue_layout(world.rng("layout"))))
    print(world.summary())


# --- each defence switched off -----------------------------------------------------------------


def _acks_apart_from_removals(patch: pytest.MonkeyPatch) -> None:
    def encode_singly(position: int, entries: list[tuple[int, bytes]]) -> bytes:
        acks_first = sorted(entries, key=lambda entry: entry[0] < CALLER_KINDS)
        return b"".join(encode_entries(position, [entry]) for entry in acks_first)

    patch.setattr("headwater.store.log.log_journal.encode_entries", encode_singly)


def _removal_before_the_ack(patch: pytest.MonkeyPatch) -> None:
    apply = Consumers.apply

    def let_go_of_delivered(self: Consumers, record: ConsumerRecord) -> list[int]:
        gone = apply(self, record)
        return [*gone, *record.sequences] if isinstance(record, Delivered) else gone

    patch.setattr(Consumers, "apply", let_go_of_delivered)


DEFECTS = [
    Defect(_acks_apart_from_removals, INTERVAL, work_queue_layout, "left", modes=("power",)),
    Defect(_removal_before_the_ack, ALWAYS, work_queue_layout, "missed|lost|stuck"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_without_a_defence_a_promise_is_broken(
    defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each defence is needed: without it, some seed finds the violation that it prevents."""
    assert broken_promise(defect, monkeypatch)


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only faults show the difference: without a defence, quiet runs pass every check."""
    run_quietly(defect, monkeypatch)
