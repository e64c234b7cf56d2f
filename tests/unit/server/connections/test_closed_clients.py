"""The records of connections that have ended, and their bounds."""

import pytest

from headwater.server.configuration.options import Options
from headwater.server.connections import closed_clients
from headwater.server.connections.closed_clients import CLOSED_SUBSCRIPTIONS_MAX
from tests.kit.world import World


def closed(world: World, lines: bytes = b"", **fields: object) -> None:
    """Let a client connect, send these lines and leave."""
    peer = world.modern(**fields)
    peer.send(lines)
    peer.connection.leave()
    world.settle()


@pytest.mark.parametrize("extra", [0, 1])
def test_so_many_subscriptions_are_listed_and_the_rest_are_counted(extra: int) -> None:
    world = World()
    count = CLOSED_SUBSCRIPTIONS_MAX + extra
    closed(world, b"".join(b"SUB s.%d %d\r\n" % (number, number) for number in range(count)))
    (record,) = world.node.roster.closed
    assert (len(record.subscriptions), record.subscription_count) == (
        CLOSED_SUBSCRIPTIONS_MAX,
        count,
    )


def test_the_oldest_go_when_the_bytes_of_all_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    closed(world, b"SUB s 1\r\n", name="n" * 1000)
    (record,) = world.node.roster.closed
    # The bytes of three records.
    monkeypatch.setattr(closed_clients, "CLOSED_BYTES_MAX", 3 * record.size_bytes)
    for _ in range(2):
        closed(world, b"SUB s 1\r\n", name="n" * 1000)
    assert [each.cid for each in world.node.roster.closed] == [
        record.cid,
        record.cid + 1,
        record.cid + 2,
    ]
    closed(world)
    assert [each.cid for each in world.node.roster.closed] == [
        record.cid + 1,
        record.cid + 2,
        record.cid + 3,
    ]


def test_texts_and_subscriptions_count_for_the_bytes_of_a_record() -> None:
    world = World()
    closed(world)
    closed(world, name="n" * 1000)
    closed(world, b"SUB %b q 1\r\n" % (b"s" * 1000))
    plain, named, subscribed = (each.size_bytes for each in world.node.roster.closed)
    assert named == plain + 1000
    assert subscribed > plain + 1000


@pytest.mark.parametrize("count", [0, -1])
def test_none_may_be_remembered(count: int) -> None:
    world = World(Options(max_closed_clients=count))
    closed(world)
    assert len(world.node.roster.closed) == 0
