"""Core NATS over several servers under faults: exact accounting of every message, many seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.server.cluster import traffic as traffic_module
from headwater.server.cluster.local_interest import Ledger
from headwater.server.cluster.peer import Peer
from headwater.server.cluster.remote_interest import RemoteInterest
from headwater.server.cluster.traffic import Traffic
from headwater.subjects.index import Route
from headwater.testing import World, seeds
from headwater.testing.checkers.delivery import DeliveryViolation
from tests.simulation.cluster_scenario import ClusterScenario, Crossings

SEEDS_OF_THREE = 30
SEEDS_OF_FIVE = 8
SEEDS_FOR_PLANTED_BUGS = 6


@pytest.fixture
def crossings(monkeypatch: pytest.MonkeyPatch) -> Crossings:
    """Every frame of messages between servers is noted."""
    noted = Crossings()
    receive = Traffic.receive_messages

    def noting(self: Traffic, peer: Peer, body: bytes) -> Any:
        noted.note(self, body)
        return receive(self, peer, body)

    monkeypatch.setattr(Traffic, "receive_messages", noting)
    return noted


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_THREE))
def test_three_servers_account_for_every_message(seed: int, crossings: Crossings) -> None:
    """Between faults every message arrives everywhere exactly once, and crosses a link once."""
    world = World(seed)
    world.run(ClusterScenario(3).run)
    assert crossings.count > 0
    print(world.summary())


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_FIVE))
def test_five_servers_account_for_every_message(seed: int, crossings: Crossings) -> None:
    world = World(seed)
    world.run(ClusterScenario(5).run)
    assert crossings.count > 0
    print(world.summary())


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = []
    for _ in range(2):
        world = World(7)
        world.run(ClusterScenario(3).run)
        hashes.append(world.trace_hash)
    assert hashes[0] == hashes[1]


def _delivers_to_every_group(served: Callable[..., Route[Any]]) -> Callable[..., Route[Any]]:
    def planted(route: Route[Any], queues: Any, is_system: bool, mark: int) -> Route[Any]:
        return route

    return planted


def _prefers_nobody(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, source, subject, queue: False


def _forgets_the_last_subscriber(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self, pattern, queue: None


def _hears_nobody(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, subject: False


def _keeps_interest(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self, peer: None


@pytest.mark.parametrize(
    ("owner", "name", "plant", "kind", "found"),
    [
        (traffic_module, "_served", _delivers_to_every_group, DeliveryViolation, "twice"),
        (RemoteInterest, "_has_taker", _prefers_nobody, DeliveryViolation, "twice"),
        (Ledger, "add", _forgets_the_last_subscriber, DeliveryViolation, "lost"),
        # A request without its reply.
        (RemoteInterest, "hears", _hears_nobody, AssertionError, "no responders available"),
        (Traffic, "greet", _keeps_interest, DeliveryViolation, "lost"),
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    plant: Callable[..., Any],
    kind: type[Exception],
    found: str,
) -> None:
    monkeypatch.setattr(owner, name, plant(getattr(owner, name)))
    with pytest.raises(kind, match=found):
        run_seeds(SEEDS_FOR_PLANTED_BUGS)


def run_seeds(count: int) -> None:
    """The scenario with one seed after another, until one fails."""
    for seed in range(1, count + 1):
        World(seed, virtual_s_max=2_000.0).run(ClusterScenario(3).run)
