"""Each defence of copies: the story in which it matters, with it and without it.

A server runs with a disk and a clock that the test drives. A defence is taken out by replacing one
function; the story then ends as it must not.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.jetstream.copying import machine, mirroring
from headwater.jetstream.copying.arrivals import Arrivals
from headwater.jetstream.copying.machine import Confirm
from headwater.jetstream.copying.requests import creation_of
from headwater.jetstream.streams.origin_positions import NOWHERE, OriginPositions, Position
from headwater.server.configuration.options import Options
from headwater.server.streams.copying import origin_runner
from headwater.server.streams.copying.origin_runner import OriginRunner
from headwater.server.streams.copying.transit import Transit
from tests.kit.copy_world import SETTLING_S, CopyWorld
from tests.kit.stored_world import streaming

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Bodies: TypeAlias = list[bytes]
Story: TypeAlias = Callable[[], Bodies]
SOURCES: Final = [{"name": "O"}]


class Broken(AssertionError):
    """A copy is not what its origin says."""


def bodies(world: CopyWorld, name: str) -> Bodies:
    """The bodies of a stream."""
    return [body for _, _, body in world.contents(name)]


def syncing() -> CopyWorld:
    """A server whose writes to the disk wait for a sync, with an origin in memory."""
    roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28, sync_always=True)
    world = CopyWorld(Options(jetstream=roomy))
    world.make("O", subjects=["o"], storage="memory")
    return world


def ask(world: CopyWorld, call: str, config: dict[str, Any]) -> None:
    """Send a request, without a wait for the sync that its answer waits for."""
    body = json.dumps(config).encode()
    subject = f"$JS.API.STREAM.{call}.S".encode()
    world.caller.send(b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body))


def sync(world: CopyWorld) -> None:
    """Let everything that is on its way arrive."""
    for _ in range(3):
        world.finish_checks()
        world.copy(3)


# --- stories -----------------------------------------------------------------------------------


def an_update_while_a_message_is_on_its_way() -> Bodies:
    world = syncing()
    ask(world, "CREATE", {"name": "S", "subjects": ["s"], "sources": SOURCES})
    sync(world)
    world.publish(("o", b"1"))
    sync(world)
    ask(
        world,
        "UPDATE",
        {"name": "S", "subjects": ["s"], "sources": [{"name": "O", "opt_start_seq": 1}]},
    )
    world.publish(("o", b"2"))
    sync(world)
    world.publish(("o", b"3"))
    sync(world)
    return bodies(world, "S")


def a_message_that_is_refused_before_others() -> Bodies:
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.make("S", sources=SOURCES, max_msg_size=200)
    world.publish(("o", b"x" * 300), ("o", b"2"), ("o", b"3"))
    world.copy(SETTLING_S)
    if world.contents("S"):
        raise Broken("messages behind one that was refused are stored")
    world.change("S", sources=SOURCES, max_msg_size=1000)
    world.copy(100)
    return [body[-1:].replace(b"x", b"1") for body in bodies(world, "S")]


def an_origin_that_is_created_again() -> Bodies:
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"), ("o", b"2"))
    world.make("S", sources=SOURCES)
    world.call("STREAM.DELETE.O")
    world.make("O", subjects=["o"])
    world.publish(("o", b"3"))
    world.copy(40)
    return bodies(world, "S")


def a_mirrored_origin_that_is_created_again() -> Bodies:
    world = CopyWorld()
    world.make("O", subjects=["o"], allow_direct=True)
    world.publish(("o", b"1"), ("o", b"2"), ("o", b"3"))
    world.make("M", mirror={"name": "O"}, mirror_direct=True)
    world.copy(SETTLING_S)
    world.node.close_jetstream()
    world.disk.kill()
    world = CopyWorld(world.node.options, world.disk)
    # The clock of a world begins again, and streams differ by the time of their creation.
    world.copy(100)
    world.call("STREAM.DELETE.O")
    world.make("O", subjects=["o"], allow_direct=True)
    world.publish(*[("o", b"new")] * 5)
    world.copy(40)
    told = world.mirror("M").get("error", {})
    if told.get("err_code") != 10225:
        raise Broken(f"the mirror goes on with another stream: {told}")
    return bodies(world, "M")


def a_work_queue_while_its_message_waits_for_a_sync() -> Bodies:
    world = syncing()
    world.make("W", subjects=["w"], storage="memory", retention="workqueue")
    ask(world, "CREATE", {"name": "S", "sources": [{"name": "W"}]})
    sync(world)
    world.publish(("w", b"1"), ("w", b"2"), ("w", b"3"))
    for _ in range(3):
        # A loss of power would take all that waits for its sync.
        if not {b"1", b"2", b"3"} <= {*bodies(world, "W"), *bodies(world, "S")}:
            raise Broken("a message is neither in the work queue nor on the disk of its copy")
        world.copy(1)
    sync(world)
    if bodies(world, "W"):
        raise Broken("the work queue keeps what is copied")
    return bodies(world, "S")


def a_purge_of_the_copy_and_a_kill() -> Bodies:
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"), ("o", b"2"))
    world.make("S", sources=SOURCES)
    found = bodies(world, "S")
    assert world.call("STREAM.PURGE.S")["purged"] == 2
    world.node.close_jetstream()
    world.disk.kill()
    next_life = CopyWorld(world.node.options, world.disk)
    next_life.publish(("o", b"3"))
    next_life.copy(SETTLING_S)
    return found + bodies(next_life, "S")


def a_purge_that_moves_the_end_of_a_mirror() -> Bodies:
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"))
    world.make("M", mirror={"name": "O"})
    found = bodies(world, "M")
    world.call("STREAM.PURGE.M", {"seq": 4})
    world.publish(("o", b"x"), ("o", b"x"), ("o", b"2"), ("o", b"3"))
    world.copy(SETTLING_S)
    return found + [body for sequence, _, body in world.contents("M") if sequence > 3]


# --- defences ----------------------------------------------------------------------------------


def no_wait_for_transit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transit, "when_empty", lambda self, call: call())


def no_rounds(patch: pytest.MonkeyPatch) -> None:
    decide = OriginRunner._decide

    def decide_all(self: OriginRunner, arrivals: Arrivals, part: Any, number: int) -> object:
        return decide(self, arrivals, part, self._round)

    patch.setattr(OriginRunner, "_decide", decide_all)


def no_identity(patch: pytest.MonkeyPatch) -> None:
    def create(origin: Any, position: Position, start: Any, inbox: str) -> object:
        return creation_of(origin, NOWHERE, start, inbox)

    patch.setattr(machine, "creation_of", create)


def confirm_at_once(patch: pytest.MonkeyPatch) -> None:
    def confirm(self: OriginRunner, asked: Confirm) -> None:
        self._confirm(asked)

    patch.setattr(OriginRunner, "_confirm_later", confirm)


def no_entries(patch: pytest.MonkeyPatch) -> None:
    begin = OriginPositions.__init__

    def begin_without(self: OriginPositions, log: Any, add_entry: object) -> None:
        begin(self, log, lambda entry: None)

    patch.setattr(OriginPositions, "__init__", begin_without)


def no_skip_of_duplicates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mirroring, "_from", lambda following, arrivals: arrivals)


DEFENCES: Final[dict[str, tuple[Plant, Story]]] = {
    "wait for transit": (no_wait_for_transit, an_update_while_a_message_is_on_its_way),
    "rounds": (no_rounds, a_message_that_is_refused_before_others),
    "identity": (no_identity, an_origin_that_is_created_again),
    "identity of a mirror": (no_identity, a_mirrored_origin_that_is_created_again),
    "confirm when applied": (confirm_at_once, a_work_queue_while_its_message_waits_for_a_sync),
    "journal entries": (no_entries, a_purge_of_the_copy_and_a_kill),
    "skip of duplicates": (no_skip_of_duplicates, a_purge_that_moves_the_end_of_a_mirror),
}
EXPECTED: Final = [b"1", b"2", b"3"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go into the stream one by one, so that some are behind one that is refused."""
    monkeypatch.setattr(origin_runner, "IN_FLIGHT_MESSAGES_MAX", 1)


@pytest.mark.parametrize("story", [story for _, story in DEFENCES.values()], ids=DEFENCES)
def test_a_copy_is_what_its_origin_says(story: Story) -> None:
    assert story() == EXPECTED


@pytest.mark.parametrize(("plant", "story"), DEFENCES.values(), ids=DEFENCES)
def test_without_a_defence_a_copy_is_broken(
    plant: Plant, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    try:
        found = story()
    except (Broken, InvariantViolation):
        return
    assert found != EXPECTED
