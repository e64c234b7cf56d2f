"""The copies of a stream follow its configuration."""

import json

import pytest

from headwater.server.configuration.options import Options
from tests.kit.copy_world import CopyWorld
from tests.kit.stored_world import streaming


@pytest.fixture
def world() -> CopyWorld:
    made = CopyWorld()
    made.make("A", subjects=["a"])
    made.make("B", subjects=["b"])
    return made


def test_a_source_that_is_added_is_copied_from_its_beginning(world: CopyWorld) -> None:
    world.publish(("a", b"1"), ("b", b"2"))
    world.make("S", sources=[{"name": "A"}])
    world.change("S", sources=[{"name": "A"}, {"name": "B"}])
    assert world.contents("S") == [(1, "a", b"1"), (2, "b", b"2")]
    assert [each["name"] for each in world.sources("S")] == ["A", "B"]


def test_a_source_that_is_removed_is_copied_no_more(world: CopyWorld) -> None:
    world.make("S", sources=[{"name": "A"}, {"name": "B"}])
    world.publish(("a", b"1"), ("b", b"2"))
    world.change("S", sources=[{"name": "B"}])
    world.publish(("a", b"3"), ("b", b"4"))
    assert {body for _, _, body in world.contents("S")} == {b"1", b"2", b"4"}
    world.copy(15)
    assert world.consumers("A") == 0


def test_a_source_that_comes_back_goes_on_where_it_was(world: CopyWorld) -> None:
    world.make("S", sources=[{"name": "A"}])
    world.publish(("a", b"1"))
    world.change("S", subjects=["s"])
    world.publish(("a", b"2"))
    world.change("S", subjects=["s"], sources=[{"name": "A"}])
    world.copy()
    assert [body for _, _, body in world.contents("S")] == [b"1", b"2"]


def test_a_mirror_that_is_promoted_takes_publishes(world: CopyWorld) -> None:
    world.make("M", mirror={"name": "A"})
    world.publish(("a", b"1"))
    world.change("M", subjects=["m"])
    world.publish(("a", b"2"), ("m", b"3"))
    assert world.contents("M") == [(1, "a", b"1"), (2, "m", b"3")]
    assert world.mirror("M") is None


def test_a_change_of_another_setting_leaves_the_copies(world: CopyWorld) -> None:
    world.make("S", sources=[{"name": "A"}])
    before = world.consumers("A")
    world.change("S", sources=[{"name": "A"}], description="x")
    world.publish(("a", b"1"))
    assert world.consumers("A") == before
    assert world.contents("S") == [(1, "a", b"1")]


def test_a_source_from_a_time_on_is_copied_and_goes_on_through_updates(world: CopyWorld) -> None:
    start = {"name": "A", "opt_start_time": "2020-01-01T00:00:00Z"}
    world.publish(("a", b"1"))
    world.make("S", sources=[start])
    before = world.consumers("A")
    world.change("S", sources=[start, {"name": "B"}])
    world.publish(("a", b"2"))
    assert world.consumers("A") == before
    assert world.contents("S") == [(1, "a", b"1"), (2, "a", b"2")]


def test_a_stream_that_is_deleted_copies_no_more(world: CopyWorld) -> None:
    world.make("S", sources=[{"name": "A"}])
    world.call("STREAM.DELETE.S")
    world.copy(15)
    assert world.consumers("A") == 0


# --- updates while messages are on their way ---------------------------------------------------


@pytest.fixture
def syncing() -> CopyWorld:
    """An aggregate whose messages and updates wait for a sync, and an origin that never waits."""
    roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28, sync_always=True)
    world = CopyWorld(Options(jetstream=roomy))
    world.make("A", subjects=["a.>"], storage="memory")
    _ask(world, "CREATE", {"name": "A"})
    _sync(world)
    world.publish(("a.x", b"1"))
    _sync(world)
    assert world.contents("S") == [(1, "a.x", b"1")]
    return world


def _ask(world: CopyWorld, call: str, *sources: object) -> None:
    """Create or update the aggregate, without a wait for the sync."""
    body = json.dumps({"name": "S", "subjects": ["s"], "sources": sources}).encode()
    subject = f"$JS.API.STREAM.{call}.S".encode()
    world.caller.send(b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body))


def _sync(world: CopyWorld) -> None:
    """Let everything that is on its way arrive."""
    for _ in range(3):
        world.finish_checks()
        world.copy(3)


@pytest.mark.parametrize(
    "sources",
    [
        [{"name": "A", "opt_start_seq": 1}],
        [{"name": "A"}, {"name": "A", "filter_subject": "none"}],
    ],
    ids=["another start", "another consumer"],
)
def test_an_update_of_a_source_doubles_nothing_that_is_on_its_way(
    syncing: CopyWorld, sources: list[object]
) -> None:
    _ask(syncing, "UPDATE", *sources)
    syncing.publish(("a.x", b"2"))
    _sync(syncing)
    syncing.publish(("a.x", b"3"))
    _sync(syncing)
    assert [body for _, _, body in syncing.contents("S")] == [b"1", b"2", b"3"]


def test_a_source_that_is_removed_and_added_again_doubles_nothing_that_is_on_its_way(
    syncing: CopyWorld,
) -> None:
    _ask(syncing, "UPDATE")
    syncing.publish(("a.x", b"2"))
    _ask(syncing, "UPDATE", {"name": "A"})
    syncing.publish(("a.x", b"3"))
    _sync(syncing)
    syncing.publish(("a.x", b"4"))
    _sync(syncing)
    assert [body for _, _, body in syncing.contents("S")] == [b"1", b"2", b"3", b"4"]


def test_messages_that_the_disk_has_no_room_for_are_copied_when_there_is_room(
    syncing: CopyWorld,
) -> None:
    syncing.publish(("a.x", b"2"))
    syncing.publish(("a.x", b"3"))
    syncing.publish(("a.x", b"4"))
    host = syncing.node.jetstream
    assert host is not None
    runner = host.runners.find("$G", "S")
    assert runner is not None
    runner.refuse_unwritten(is_final=False)
    syncing.copy()
    assert len(syncing.contents("S")) == 1
    _sync(syncing)
    assert [body for _, _, body in syncing.contents("S")] == [b"1", b"2", b"3", b"4"]
