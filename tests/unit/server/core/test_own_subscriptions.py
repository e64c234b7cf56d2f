"""Subscriptions of the server itself: for its own clients, or for those of all servers."""

import pytest

from headwater.server.core.client import Client
from headwater.server.core.own_subscriptions import OwnSubscriptions, own_client
from tests.kit.cluster_world import ClusterWorld


class Service:
    """A handler that keeps the subjects of its requests."""

    def __init__(self) -> None:
        self.subjects: list[bytes] = []

    def handle(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        self.subjects.append(subject)


@pytest.fixture
def world() -> ClusterWorld:
    made = ClusterWorld()
    made.start_all(2)
    return made


def own() -> OwnSubscriptions:
    return OwnSubscriptions(lambda account: own_client(99, account))


def test_serve_clients_of_this_server_alone(world: ClusterWorld) -> None:
    service = Service()
    own().serve(world.nodes["s1"].accounts.default, b"svc", service.handle)
    world.client("s2").send(b"PUB svc 0\r\n\r\n")
    assert service.subjects == []
    world.client("s1").send(b"PUB svc 0\r\n\r\n")
    assert service.subjects == [b"svc"]


def test_that_are_announced_serve_clients_of_all_servers_until_they_end(
    world: ClusterWorld,
) -> None:
    service, subscriptions = Service(), own()
    account = world.nodes["s1"].accounts.default
    sub = subscriptions.serve(account, b"svc.*", service.handle, is_announced=True)
    client = world.client("s2")
    client.send(b"PUB svc.1 0\r\n\r\n")
    assert service.subjects == [b"svc.1"]
    subscriptions.end(sub)
    world.settle()
    told = client.ask(b"SUB r 1\r\nPUB svc.2 r 0\r\n\r\n")
    assert b"NATS/1.0 503" in told
    assert service.subjects == [b"svc.1"]


def test_may_serve_the_announced_part_of_a_wider_pattern(world: ClusterWorld) -> None:
    service, subscriptions = Service(), own()
    account = world.nodes["s1"].accounts.default
    sub = subscriptions.serve(account, b"svc.>", service.handle)
    sub.serves_peers = True
    subscriptions.announce(account, b"svc.a.*")
    client = world.client("s2")
    client.send(b"PUB svc.a.1 0\r\n\r\nPUB svc.b.1 0\r\n\r\n")
    assert service.subjects == [b"svc.a.1"]
    subscriptions.withdraw(account, b"svc.a.*")
    world.settle()
    client.send(b"PUB svc.a.1 0\r\n\r\n")
    assert service.subjects == [b"svc.a.1"]


def test_of_a_server_without_routes_need_no_ledger() -> None:
    world = ClusterWorld()
    world.start_all(1)
    account = world.nodes["s1"].accounts.default
    account.ledger = None
    service, subscriptions = Service(), own()
    sub = subscriptions.serve(account, b"svc", service.handle, is_announced=True)
    world.client("s1").send(b"PUB svc 0\r\n\r\n")
    subscriptions.end(sub)
    assert service.subjects == [b"svc"]
