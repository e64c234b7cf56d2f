"""A store that lost something while its machine ran on gives no sequence out twice.

The boot id stays: pages that were not synced are dropped, or the disk is put back to an earlier
state. The mark of the store, which outlives a killed process, tells both from a kill.
"""

import json
from typing import Any

import pytest

from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import labelled_rng
from headwater.testing.marks import SimMarks
from tests.kit.consumer_world import frames_in
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

BOOT = "boot-1"
TRIES = 5
MODES: dict[str, dict[str, object]] = {
    "interval": {"sync_interval_s": 5.0},
    "always": {"sync_always": True},
}


class Machine:
    """A machine with a stream on its disk; its boot id never changes."""

    def __init__(self, seed: int, mode: str, has_marks: bool = True) -> None:
        self.rng = labelled_rng(seed, "machine", mode)
        self.disk = SimDisk(seed)
        self.marks = SimMarks()
        self.has_marks = has_marks
        self.options = Options(jetstream=streaming(**MODES[mode]))
        self.acked: list[int] = []
        self.start()
        self.world.create("S")
        self.world.finish_checks()

    def start(self) -> None:
        """Start another process on the disk as it is."""
        marks = self.marks if self.has_marks else SimMarks()
        world = StoredWorld(self.options, self.disk, boot_id=BOOT, marks_in=lambda _: marks)
        self.world = world.start()
        self.peer: Peer = world.modern()
        self.peer.send(b"SUB inbox 9\r\n")

    def publish(self, count: int) -> None:
        """Publish messages one by one, with time for some syncs."""
        for _ in range(count):
            self.acked.append(self.request("s")["seq"])
            if self.rng.random() < 0.1:
                self.world.advance(2.5)
                self.world.finish_checks()

    def request(self, subject: str) -> Any:
        """The reply to a request, which may wait for the disk."""
        self.peer.take()
        self.peer.send(f"PUB {subject} inbox 0\r\n\r\n".encode())
        self.world.finish_checks()
        (frame,) = frames_in(self.peer.take())
        return json.loads(frame.payload)

    @property
    def state(self) -> dict[str, int]:
        """The state of the stream."""
        state: dict[str, int] = self.request("$JS.API.STREAM.INFO.S")["state"]
        return state

    @property
    def has_given_twice(self) -> bool:
        """Whether a sequence was given to two messages."""
        return len({*self.acked}) < len(self.acked)


def drop_pages(machine: Machine) -> None:
    """Have the disk lose what was not synced, or a part of it."""
    machine.disk.power_loss(machine.rng.choice(("strict", "random")))


def put_back(machine: Machine) -> None:
    """Publish more, and have the disk as it was before."""
    earlier = machine.disk.clone()
    machine.publish(machine.rng.randint(1, 20))
    machine.disk.kill()
    machine.disk = earlier
    earlier.kill()


def put_back_before_a_start(machine: Machine) -> None:
    """Have another start of the server, and then the disk as it was before that."""
    machine.world.node.close_jetstream()
    earlier = machine.disk.clone()
    machine.disk.kill()
    machine.start()
    machine.publish(machine.rng.randint(1, 20))
    machine.world.node.close_jetstream()
    machine.disk = earlier
    earlier.kill()


def put_back_beyond_a_stop(machine: Machine) -> None:
    """Stop the server in order, and have the disk as it was while it ran."""
    earlier = machine.disk.clone()
    machine.publish(machine.rng.randint(1, 20))
    machine.world.node.close_jetstream()
    machine.disk = earlier
    earlier.kill()


LOSSES = {
    "pages dropped": drop_pages,
    "put back": put_back,
    "put back before a start": put_back_before_a_start,
    "put back beyond a stop": put_back_beyond_a_stop,
}
CASES = [("interval", loss) for loss in LOSSES]
CASES += [("always", loss) for loss in LOSSES if loss != "pages dropped"]


def survivor(seed: int, mode: str, loss: str, has_marks: bool = True) -> Machine:
    """A machine that has lost something, and on which a server runs again."""
    machine = Machine(seed, mode, has_marks)
    machine.publish(machine.rng.randint(5, 30))
    LOSSES[loss](machine)
    machine.start()
    machine.publish(20)
    return machine


@pytest.mark.parametrize(("mode", "loss"), CASES)
def test_no_sequence_is_given_twice_under_one_boot_id_and_the_loss_is_told(
    mode: str, loss: str
) -> None:
    told = 0
    for seed in range(TRIES):
        machine = survivor(seed, mode, loss)
        assert not machine.has_given_twice, (seed, machine.acked)
        if machine.acked != [*range(1, len(machine.acked) + 1)]:
            told += 1
            assert "given out" in "\n".join(machine.world.log_lines)
            assert machine.state["lost"]
    assert told


@pytest.mark.parametrize(("mode", "loss"), CASES)
def test_without_the_mark_sequences_are_given_twice(mode: str, loss: str) -> None:
    machines = [survivor(seed, mode, loss, has_marks=False) for seed in range(TRIES)]
    assert any(each.has_given_twice for each in machines)


def test_pages_that_are_dropped_where_each_ack_waits_for_a_sync_lose_nothing() -> None:
    for seed in range(TRIES):
        machine = survivor(seed, "always", "pages dropped")
        assert not machine.has_given_twice
        assert machine.state["messages"] == len(machine.acked)


@pytest.mark.parametrize("mode", MODES)
def test_a_kill_leaves_no_gap(mode: str) -> None:
    for seed in range(TRIES):
        machine = Machine(seed, mode)
        for _ in range(4):
            machine.publish(machine.rng.randint(0, 20))
            if machine.rng.random() < 0.3:
                machine.world.node.close_jetstream()
            machine.disk.kill()
            machine.start()
        machine.publish(1)
        assert machine.acked == [*range(1, len(machine.acked) + 1)]
        assert "lost" not in machine.state
