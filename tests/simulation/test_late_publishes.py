"""A publish that comes late to a leader that was elected again is not stored a second time.

Server s3 believes for a while that two servers lead the stream: its link to the first one, s1, is
slow, and s1 is elected again before the copies that s3 has sent to it arrive.
"""

import pytest

from headwater.server.cluster.traffic import Traffic
from headwater.wire.peer_info import Purpose
from tests.kit.cluster_world import PipeEnd
from tests.kit.consumer_world import frames_in
from tests.kit.reading_cluster import Reading

HANDOVER_S = 2.0


class Late(Reading):
    """A cluster with the stream S, led by s1, and a link between s1 and s3 that can be slow."""

    def __init__(self) -> None:
        super().__init__("weak")
        self.hand_over("s1")

    def hand_over(self, to: str) -> None:
        """Have a server lead S."""
        if self.leader != to:
            consensus = self.nodes[self.leader].consensus
            assert consensus is not None
            assert consensus.transfer(self.incarnation, to)
            self.quiet(HANDOVER_S)
        assert self.leader == to

    def _ends(self, of: str, to: str) -> list[PipeEnd]:
        """The ends at `of` of the open channels for messages to `to`."""
        ends = [end for pair in self.pipes_between(of, to) for end in pair]
        return [
            end
            for end in ends
            if end.peer_host == self.host_of(to) and end.channel.purpose is Purpose.MESSAGES
        ]

    def hold(self, of: str, to: str) -> None:
        """Have the bytes from a server to another one wait on their way."""
        for end in self._ends(to, of):
            end.pause_reading()

    def release(self, of: str, to: str) -> None:
        """Have the bytes that waited arrive."""
        for end in self._ends(to, of):
            end.resume_reading()
        self.quiet(1.0)

    def stored(self) -> int:
        """The number of messages of S."""
        return self.replica(self.leader).stream.log.messages


def late_copy(world: Late) -> list[int]:
    """Have a copy of a publish arrive late. Returns the sequences that the publisher learned."""
    # Server s3 does not hear that s1 has ceased to lead.
    world.hold("s1", "s3")
    world.hand_over("s2")
    world.hold("s3", "s1")
    sequence = world.put("s3", "once")
    world.hand_over("s1")
    world.release("s3", "s1")
    world.release("s1", "s3")
    return [sequence]


def test_a_copy_for_a_leader_before_is_not_stored() -> None:
    world = Late()
    assert late_copy(world) == [1]
    assert world.stored() == 1
    assert world.put("s3", "next") == 2
    assert world.stored() == 2


def test_without_the_marks_a_copy_is_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Traffic, "_next_mark", lambda self: 0)
    world = Late()
    assert late_copy(world) == [1]
    assert world.stored() == 2


def test_a_copy_for_a_subscriber_is_delivered_and_not_stored() -> None:
    """The copy crosses to s1 for a client there too, and the client gets it in any case."""
    world = Late()
    world.hand_over("s2")
    listener = world.client("s1")
    listener.send(b"SUB s.a 1\r\n")
    world.quiet(0.5)
    world.hold("s3", "s1")
    world.put("s3", "once")
    world.hand_over("s1")
    world.release("s3", "s1")
    assert [frame.payload for frame in frames_in(listener.take())] == [b"once"]
    assert world.stored() == 1
    assert world.put("s3", "next") == 2


def test_publishes_behind_the_news_of_an_election_are_stored() -> None:
    world = Late()
    for turn, leader in enumerate(("s2", "s1", "s3", "s1", "s2"), start=1):
        world.hand_over(leader)
        assert [world.put(name, "m") for name in ("s1", "s2", "s3")] == [
            3 * turn - 2,
            3 * turn - 1,
            3 * turn,
        ]
