"""Publishers are answered once: by an ack, by a refusal, or by the word that nobody knows."""

from errno import ENOSPC

import pytest

from tests.kit.quorum_world import TIMEOUT_MS, UNKNOWN, QuorumWorld


@pytest.fixture
def world() -> QuorumWorld:
    world = QuorumWorld()
    world.say("first")
    world.pass_ms(50)
    world.told()
    return world


def test_a_publish_that_is_committed_and_waits_for_room_is_unknown_and_stored_once(
    world: QuorumWorld,
) -> None:
    fault = world.disk_of(world.leader).fail("write", "*/segment-*", code=ENOSPC, times=None)
    world.say("x", 1, Nats_Msg_Id="x")
    world.quiet()
    assert world.told() == [UNKNOWN], "the server that led tells it when another one leads"
    assert not world.replica(world.leader).is_leading
    world.disk_of(world.leader).heal(fault)
    world.say("x", 2, Nats_Msg_Id="x")
    world.quiet()
    assert world.told() == [{"stream": "S", "seq": 2, "duplicate": True}]
    for name in world.nodes:
        assert world.stored(name) == [(1, b"first"), (2, b"x")]


def test_a_publish_that_waits_for_room_is_unknown_where_no_other_server_can_lead(
    world: QuorumWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = world.replica(world.leader)
    monkeypatch.setattr(type(leader), "_hand_over", lambda self: None)
    fault = world.disk_of(world.leader).fail("write", "*/segment-*", code=ENOSPC, times=None)
    world.say("x", 1)
    world.say("y", 2)
    world.pass_ms(TIMEOUT_MS - 100)
    assert world.told() == []
    world.pass_ms(200)
    assert world.told() == [UNKNOWN, UNKNOWN]
    world.disk_of(world.leader).heal(fault)
    world.quiet()
    assert world.told() == [], "it is answered once"
    world.say("z", 3)
    world.pass_ms(50)
    (reply,) = world.told()
    for name in world.nodes:
        assert world.stored(name)[-1] == (reply["seq"], b"z")
        assert (2, b"x") in world.stored(name)
