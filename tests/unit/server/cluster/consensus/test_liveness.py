"""Live servers: silence, resets, refusals and heartbeats."""

from headwater.server.cluster.consensus.liveness import Liveness, LivenessSettings

SETTINGS = LivenessSettings(heartbeat_ns=100, silence_ns=1_000, renewal_ns=200)


def liveness() -> Liveness:
    """A server `a` that was connected at 0."""
    result = Liveness(SETTINGS)
    result.connected("a", 0)
    return result


def test_a_server_is_alive_while_it_is_heard() -> None:
    live = liveness()
    live.heard("a", 900)
    assert live.lost(1_899) == []
    assert live.is_alive("a")
    assert live.lost(1_900) == ["a"]
    assert not live.is_alive("a")
    assert live.deadline_ns is None


def test_a_heartbeat_is_due_unless_something_was_sent() -> None:
    live = liveness()
    assert live.due(99) == []
    assert live.due(100) == ["a"]
    live.sent("a", 100)
    assert live.due(199) == []
    assert live.deadline_ns == 200


def test_a_reset_connection_gets_no_heartbeats_and_is_lost_soon() -> None:
    live = liveness()
    live.disconnected("a", 300)
    assert live.is_alive("a")
    assert not live.is_connected("a")
    assert live.due(450) == []
    assert live.deadline_ns == 500
    live.disconnected("a", 400)
    assert live.lost(500) == ["a"]


def test_a_silence_that_began_before_a_reset_ends_when_it_would_have() -> None:
    live = liveness()
    live.disconnected("a", 950)
    assert live.deadline_ns == 1_000


def test_a_renewed_connection_begins_again() -> None:
    live = liveness()
    live.disconnected("a", 300)
    live.connected("a", 400)
    assert live.is_connected("a")
    assert live.lost(1_399) == []
    assert live.due(500) == ["a"]


def test_the_silence_of_a_server_begins_with_its_last_frame() -> None:
    live = liveness()
    assert live.silence_ns("a", 30) == 30
    live.heard("a", 400)
    assert live.silence_ns("a", 450) == 50
    assert live.silence_ns("b", 450) == 0


def test_a_server_is_removed_once() -> None:
    live = liveness()
    assert live.remove("a")
    assert not live.remove("a")
    live.disconnected("a", 10)
    assert live.alive == ()


def test_settings_without_a_heartbeat_are_refused() -> None:
    assert LivenessSettings(heartbeat_ns=0).fault() == "the heartbeat interval is not positive"
    assert SETTINGS.fault() == ""
