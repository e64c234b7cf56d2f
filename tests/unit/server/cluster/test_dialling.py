"""Servers that are dialled again and again, and those that are given up."""

from tests.kit.cluster_world import ClusterWorld


def attempts(world: ClusterWorld, name: str) -> int:
    return world.log_of(name).count("Trying to connect to route on")


def test_a_configured_route_is_dialled_until_it_answers() -> None:
    world = ClusterWorld()
    world.start("s1", "s2", debug=True)
    world.advance(100)
    assert 85 <= attempts(world, "s1") <= 101
    world.start("s2")
    world.advance(2)
    assert world.is_whole()


def test_a_server_that_was_named_by_one_that_still_sees_it_is_dialled_until_it_answers() -> None:
    world = ClusterWorld()
    world.cut("s1", "s3")
    world.start("s2")
    world.start("s3", "s2")
    world.start("s1", "s2")
    world.advance(60)
    assert ("s1", "s3", "messages") not in world.links()
    world.heal("s1", "s3")
    world.advance(2)
    assert world.is_whole()


def test_a_server_that_nobody_sees_any_more_is_given_up() -> None:
    world = ClusterWorld()
    world.start("s2")
    world.start("s3", "s2")
    world.start("s1", "s2", debug=True)
    world.stop("s3")
    world.advance(5)
    before = attempts(world, "s1")
    world.advance(60)
    assert attempts(world, "s1") == before


def test_a_server_that_was_reached_is_not_dropped_when_nobody_names_it() -> None:
    world = ClusterWorld()
    world.start("s2")
    world.start("s3", "s2")
    world.start("s1", "s2")
    dialler = world.cluster_of("s1")._dialler
    before = {*dialler._targets}
    dialler.drop_unnamed(())
    assert {*dialler._targets} == before


def test_the_server_itself_is_dialled_once() -> None:
    world = ClusterWorld()
    world.start("s1", "s1", debug=True)
    world.advance(60)
    assert attempts(world, "s1") == 1
    assert world.is_whole()


def test_a_server_that_stops_dials_no_more() -> None:
    world = ClusterWorld()
    world.start("s1", "s2")
    world.stop("s1")
    world.advance(10)
    assert world.scheduler.waiting == 0


def test_a_connection_that_was_open_for_a_while_is_renewed_at_once() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.advance(2)
    world.cut("s1", "s2")
    world.heal("s1", "s2")
    assert not world.is_whole()
    world.advance(0.05)
    assert world.is_whole()


def test_a_connection_that_ends_soon_after_its_beginning_is_not_renewed_at_once() -> None:
    world = ClusterWorld()
    world.start_all(2)
    world.advance(0.5)
    world.cut("s1", "s2")
    world.heal("s1", "s2")
    world.advance(0.5)
    assert not world.is_whole()
    world.advance(1)
    assert world.is_whole()


def test_a_server_that_refuses_a_renewal_is_dialled_once_a_second() -> None:
    world = ClusterWorld()
    world.start("s2")
    world.start("s1", "s2", debug=True)
    world.advance(2)
    world.stop("s2")
    before = attempts(world, "s1")
    world.advance(0.05)
    # Both connections of the link are tried.
    assert attempts(world, "s1") == before + 2
    world.advance(10)
    assert before + 18 <= attempts(world, "s1") <= before + 22


def test_a_server_that_is_refused_is_dialled_less_and_less_often() -> None:
    world = ClusterWorld()
    world.start("s2", cluster={"name": "other"})
    world.start("s1", "s2", debug=True)
    world.advance(300)
    assert 10 <= attempts(world, "s1") <= 20
