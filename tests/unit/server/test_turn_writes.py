"""A turn makes one write of the write-ahead file and at most one sync, however much it decides."""

from collections.abc import Sequence
from typing import Final

import pytest

from headwater.server.configuration.options import Options
from headwater.testing.disk import FileCounts, SimDisk
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import frames_in
from tests.kit.stored_world import FOLDER, streaming
from tests.kit.stream_world import StreamWorld
from tests.kit.world import Peer

STREAMS: Final = ("ONE", "TWO", "THREE", "FOUR")
CONSUMER: Final = {"stream_name": "ONE", "config": {"durable_name": "C", "ack_policy": "explicit"}}


class Counts:
    """Writes and syncs of a server's write-ahead file since the last look."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._before = self._now()

    def _now(self) -> FileCounts:
        (path,) = (path for path in self._disk.files() if path.startswith(f"{FOLDER}/ahead-"))
        return self._disk.counts(path)

    def take(self) -> tuple[int, int]:
        before, self._before = self._before, self._now()
        return self._before.writes - before.writes, self._before.syncs - before.syncs


# --- streams on one server ----------------------------------------------------------------------


@pytest.fixture
def world() -> StreamWorld:
    """Four streams for which every ack waits for the disk."""
    made = StreamWorld(Options(jetstream=streaming(sync_always=True)))
    for name in STREAMS:
        made.create(name, subjects=[f"{name.lower()}.>"])
    publish_to(made, STREAMS)
    made.settle()
    made.sync()
    return made


def publish_to(world: StreamWorld, streams: Sequence[str]) -> list[int]:
    """Publish to streams in a turn that goes on."""
    return [world.push(f"{name.lower()}.a", b"m") for name in streams]


def test_streams_that_were_busy_in_a_turn_share_one_write_and_one_sync(world: StreamWorld) -> None:
    counts = Counts(world.disk)
    asked = publish_to(world, STREAMS)
    assert counts.take() == (0, 0)
    world.settle()
    assert counts.take() == (1, 0)
    assert not set(asked) & set(world.answers)
    world.finish_checks()
    assert counts.take() == (0, 1)
    assert set(asked) <= set(world.answers)


def test_publishes_of_several_clients_and_a_request_share_them_too(world: StreamWorld) -> None:
    other = world.modern()
    counts = Counts(world.disk)
    asked = publish_to(world, STREAMS[:2])
    # The request is decided at once, behind the publishes that came before it.
    asked.append(world.push("$JS.API.STREAM.PURGE.THREE"))
    other.push(b"PUB two.a 1\r\nm\r\nPUB four.a 1\r\nm\r\n")
    world.settle()
    assert counts.take() == (1, 0)
    world.finish_checks()
    assert counts.take() == (0, 1)
    assert set(asked) <= set(world.answers)
    assert world.state("FOUR")["messages"] == 2


def test_a_delivery_and_its_publish_share_one_write(world: StreamWorld) -> None:
    """An entry that nobody waits for goes with those that somebody waits for."""
    world.call("CONSUMER.DURABLE.CREATE.ONE.C", CONSUMER)
    world.sync()
    counts = Counts(world.disk)
    world.push("$JS.API.CONSUMER.MSG.NEXT.ONE.C")
    publish_to(world, STREAMS)
    world.settle()
    assert counts.take() == (1, 0)
    world.finish_checks()
    assert counts.take() == (0, 1)


def test_a_message_that_is_republished_to_another_stream_has_a_write_of_its_own_turn(
    world: StreamWorld,
) -> None:
    world.create("SOURCE", subjects=["source.>"], republish={"src": "source.>", "dest": "one.>"})
    world.sync()
    counts = Counts(world.disk)
    world.publish("source.a", b"m")
    assert counts.take() == (1, 0)
    # The sync ends, the message is visible, and the stream ONE gets it in the turn that follows.
    world.finish_checks()
    assert counts.take() == (1, 1)
    world.finish_checks()
    assert counts.take() == (0, 1)
    assert world.state("ONE")["messages"] == 2


def test_everything_that_comes_during_a_sync_shares_the_next_one(world: StreamWorld) -> None:
    counts = Counts(world.disk)
    world.publish("one.a", b"m")
    for name in STREAMS:
        world.publish(f"{name.lower()}.a", b"m")
    assert counts.take() == (1, 0)
    world.finish_checks()
    assert counts.take() == (1, 1)
    world.finish_checks()
    assert counts.take() == (0, 1)
    assert len(world.scheduler.offloaded) == 0


# --- streams of a cluster -----------------------------------------------------------------------


class MixedCluster(AgreeingCluster):
    """Three servers; one of them leads two replicated streams, and has two of its own."""

    def __init__(self, *, sync_always: bool) -> None:
        roomy = {"max_file_bytes": 1 << 28, "max_memory_bytes": 1 << 28}
        super().__init__(
            jetstream=streaming(sync_always=sync_always, **roomy),
            s1={"server_tags": ("s1",)},
            s2={"server_tags": ("s2",)},
            s3={"server_tags": ("s3",)},
        )
        self.create("s1", "R0")
        self.leader = self.call("s1", "STREAM.INFO.R0")["cluster"]["leader"]
        self.create("s1", "R1")
        body = {"placement": {"preferred": self.leader}}
        self.call("s1", "STREAM.LEADER.STEPDOWN.R1", body)
        self.quiet()
        for name in ("A0", "A1"):
            self.create(self.leader, name, num_replicas=1, placement={"tags": [self.leader]})
        self.caller = self.client(self.leader)
        self.caller.send(b"SUB inbox.* 9\r\n")
        self.publish_to("R0", "R1", "A0", "A1")
        self.quiet()
        assert acked(self.caller) == ["A0", "A1", "R0", "R1"]

    def publish_to(self, *streams: str) -> None:
        """Have one read of the leader publish to streams."""
        lines = (f"PUB {name.lower()}.a inbox.{name} 1\r\nm\r\n" for name in streams)
        self.caller.push("".join(lines).encode())

    @property
    def disk(self) -> SimDisk:
        """The disk of the leader."""
        return self._disks[self.leader]


def acked(peer: Peer) -> list[str]:
    return sorted(frame.subject.removeprefix("inbox.") for frame in frames_in(peer.take()))


@pytest.fixture(scope="module")
def synced() -> MixedCluster:
    """Every ack waits for disks."""
    return MixedCluster(sync_always=True)


@pytest.fixture(scope="module")
def written() -> MixedCluster:
    """No ack waits for a disk."""
    return MixedCluster(sync_always=False)


def test_groups_and_streams_of_a_turn_share_one_write_and_one_sync(synced: MixedCluster) -> None:
    counts = Counts(synced.disk)
    synced.publish_to("A0", "R0", "A1", "R1")
    assert counts.take() == (0, 0)
    synced.settle()
    assert counts.take() == (1, 0)
    # One sync is under way on each server, that of the leader first.
    assert len(synced.scheduler.offloaded) == 3
    synced.scheduler.offloaded.pop(0)()
    synced.settle()
    assert counts.take() == (0, 1)
    assert acked(synced.caller) == ["A0", "A1"]
    synced.quiet()
    assert acked(synced.caller) == ["R0", "R1"]


def test_groups_that_need_no_sync_share_one_write_of_the_turn(written: MixedCluster) -> None:
    counts = Counts(written.disk)
    written.publish_to("A0", "R0", "A1", "R1")
    # The turn of the server, and not yet those that the answers of others cause.
    written.scheduler.run_turn()
    assert counts.take() == (1, 0)
    written.settle()
    assert counts.take()[1] == 0
    assert acked(written.caller) == ["A0", "A1", "R0", "R1"]


def test_followers_get_the_entries_of_a_leader_whose_disk_fails(synced: MixedCluster) -> None:
    """A leader sends before it writes. The test is the last one of these servers."""
    synced.disk.fail("write", "*/ahead-*", times=None)
    followers = [disk for disk in synced._disks.values() if disk is not synced.disk]
    counts = [Counts(disk) for disk in followers]
    synced.publish_to("R0")
    synced.scheduler.run_turns()
    assert all(count.take()[0] > 0 for count in counts)
