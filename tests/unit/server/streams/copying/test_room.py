"""The timer of all copies ends with the server."""

from tests.kit.copy_world import CopyWorld


def test_no_origin_is_asked_for_after_the_end() -> None:
    world = CopyWorld()
    world.make("M", mirror={"name": "O"})
    host = world.node.jetstream
    assert host is not None
    host.stop()
    asked = host.accounts["$G"].api_total
    world.copy(20)
    assert host.accounts["$G"].api_total == asked
