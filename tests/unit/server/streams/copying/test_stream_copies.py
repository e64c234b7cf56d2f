"""The copies of a stream follow its configuration."""

import pytest

from tests.kit.copy_world import CopyWorld


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


def test_a_stream_that_is_deleted_copies_no_more(world: CopyWorld) -> None:
    world.make("S", sources=[{"name": "A"}])
    world.call("STREAM.DELETE.S")
    world.copy(15)
    assert world.consumers("A") == 0
