"""/routez and the parts of other pages that show the cluster."""

import json

import msgspec

from headwater.server.configuration.options import Permissions, SubjectPermission
from headwater.server.monitoring.pages.routez import RoutezOptions, route_stats, routez
from headwater.server.monitoring.pages.varz import varz
from headwater.server.system.events import stats_event
from tests.kit.cluster_world import ClusterWorld
from tests.kit.monitored_world import monitored_world


def page(world: ClusterWorld, name: str = "s1", **options: bool) -> dict[str, object]:
    document = routez(world.nodes[name].facts, RoutezOptions(**options))
    return json.loads(msgspec.json.encode(document))  # type: ignore[no-any-return]


def test_a_server_on_its_own_has_no_routes() -> None:
    found = routez(monitored_world().node.facts, RoutezOptions())
    assert (found.num_routes, found.routes) == (0, [])


def test_every_connection_is_a_route() -> None:
    world = ClusterWorld()
    world.start_all(3)
    found = routez(world.nodes["s2"].facts, RoutezOptions())
    assert found.num_routes == len(found.routes) == 4
    assert sorted((route.remote_name, route.purpose) for route in found.routes) == [
        ("s1", "consensus"),
        ("s1", "messages"),
        ("s3", "consensus"),
        ("s3", "messages"),
    ]
    configured = {route.remote_name for route in found.routes if route.is_configured}
    assert configured == {"s1"}


def test_messages_and_interest_are_counted() -> None:
    world = ClusterWorld()
    world.start_all(2)
    here, there = world.client("s1"), world.client("s2")
    there.send(b"SUB a 1\r\nSUB b q 2\r\n")
    here.send(b"PUB a 5\r\nhello\r\n" * 3)
    found = routez(world.nodes["s1"].facts, RoutezOptions(subscriptions=True))
    (route,) = [route for route in found.routes if route.purpose == "messages"]
    assert (route.out_msgs, route.out_bytes, route.in_msgs) == (3, 15, 0)
    assert {"a", "b"} <= {*route.subscriptions_list}
    detail = routez(world.nodes["s1"].facts, RoutezOptions(subscriptions_detail=True))
    (route,) = [route for route in detail.routes if route.purpose == "messages"]
    assert ("b", "q") in {(sub.subject, sub.qgroup) for sub in route.subscriptions_list_detail}


def test_permissions_are_shown_by_the_names_of_the_configuration() -> None:
    world = ClusterWorld()
    permissions = Permissions(SubjectPermission(("a",)), SubjectPermission(deny=("b",)))
    world.start("s1", cluster={"permissions": permissions})
    found = page(world)
    assert (found["import"], found["export"]) == ({"allow": ["a"]}, {"deny": ["b"]})


def test_varz_and_statsz_count_messages_of_other_servers_beside_those_of_clients() -> None:
    world = ClusterWorld()
    world.start_all(2)
    here, there = world.client("s1"), world.client("s2")
    there.send(b"SUB a 1\r\n")
    here.send(b"PUB a 5\r\nhello\r\n" * 3)
    one, two = (varz(world.nodes[name].facts) for name in ("s1", "s2"))
    assert (one.out_msgs, one.out_client_msgs) == (3, 0)
    assert (two.in_msgs, two.in_client_msgs, two.out_msgs) == (3, 0, 3)
    assert (one.routes, one.remotes, one.cluster.name) == (2, 1, "C")
    # A connection that has ended still counts.
    world.stop("s2")
    assert varz(world.nodes["s1"].facts).out_msgs == 3
    stats = stats_event(world.nodes["s1"].facts, 1).statsz
    assert (stats.sent.msgs, stats.active_servers, stats.routes) == (3, 1, ())
    assert route_stats(world.nodes["s1"].facts) == []
