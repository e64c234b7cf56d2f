"""Clients are held back by the work they caused, and go on when it is done."""

import json

import pytest

from headwater.base import sliced
from headwater.server.core.holding import Deferred, Holding, Waiting
from headwater.server.streams import consumer_runner
from headwater.server.streams.api_service import DEFERRED_BYTES_MAX, DEFERRED_MAX
from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer, World


@pytest.fixture
def holding(world: World) -> Holding:
    return Holding(world.node.connections.intake.resume)


class TestHolding:
    def test_a_client_that_waits_is_not_read(self, world: World, holding: Holding) -> None:
        peer = world.modern()
        holding.hold([peer.client])
        peer.send(b"PING\r\n")
        assert b"PONG" not in peer.take()
        holding.release([peer.client])
        world.settle()
        assert b"PONG" in peer.take()

    def test_it_goes_on_when_all_it_waits_for_is_done(self, world: World, holding: Holding) -> None:
        peer = world.modern()
        holding.hold([peer.client])
        holding.hold([peer.client])
        holding.release([peer.client])
        assert not peer.connection.reading
        holding.release([peer.client])
        assert peer.connection.reading

    def test_a_client_that_is_gone_stays_gone(self, world: World, holding: Holding) -> None:
        peer = world.modern()
        holding.hold([peer.client])
        peer.connection.leave()
        world.settle()
        holding.release([peer.client])
        world.settle()
        assert peer.reason == "Client Closed"


class TestWaiting:
    @pytest.mark.parametrize(("sizes", "is_held"), [([10, 10], False), ([10, 11], True)])
    def test_clients_that_bring_more_bytes_than_may_wait_are_held(
        self, world: World, holding: Holding, sizes: list[int], is_held: bool
    ) -> None:
        peer, waiting = world.modern(), Waiting(holding, 100, 20)
        for size in sizes:
            waiting.add(size, [peer.client])
        assert peer.client.is_held_back is is_held
        waiting.release()
        assert not peer.client.is_held_back

    @pytest.mark.parametrize(("count", "is_held"), [(3, False), (4, True)])
    def test_clients_that_bring_more_work_than_may_wait_are_held(
        self, world: World, holding: Holding, count: int, is_held: bool
    ) -> None:
        first, last, waiting = world.modern(), world.modern(), Waiting(holding, 3, 100)
        waiting.add(0, [first.client], count - 1)
        waiting.add(0, [last.client, last.client])
        assert last.client.is_held_back is is_held
        assert not first.client.is_held_back
        waiting.release()
        assert not last.client.is_held_back


class TestDeferred:
    def test_a_client_is_held_while_it_has_more_than_may_wait(
        self, world: World, holding: Holding
    ) -> None:
        peer, other, deferred = world.modern(), world.modern(), Deferred(holding, 2, 100)
        deferred.add(peer.client, 50)
        deferred.add(peer.client, 50)
        deferred.add(other.client, 100)
        assert not peer.client.is_held_back
        deferred.add(peer.client, 0)
        assert peer.client.is_held_back
        assert not other.client.is_held_back
        deferred.remove(peer.client, 0)
        assert not peer.client.is_held_back
        deferred.add(peer.client, 1)
        assert peer.client.is_held_back
        for size in (1, 50, 50):
            deferred.remove(peer.client, size)
        assert not peer.client.is_held_back
        assert peer.client not in deferred._shares


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> StoredWorld:
    monkeypatch.setattr(sliced, "SLICE_UNITS_MAX", 1)
    world = StoredWorld().start()
    world.create("S", subjects=["s.*"])
    world.modern().send(b"".join(b"PUB s.%d 0\r\n\r\n" % number for number in range(3000)))
    return world


def begin_long_look(world: StoredWorld) -> None:
    """A request that holds the stream for many turns."""
    body = json.dumps({"subjects_filter": ">"}).encode()
    world.modern().push(b"PUB $JS.API.STREAM.INFO.S back %d\r\n%b\r\n" % (len(body), body))


def info_of(body: bytes) -> bytes:
    return b"PUB $JS.API.STREAM.INFO.S answered %d\r\n%b\r\n" % (len(body), body)


class TestRequestsThatWaitForAStream:
    def test_as_many_as_may_wait_do_not_hold_their_client(self, stored: StoredWorld) -> None:
        peer = stored.modern()
        begin_long_look(stored)
        peer.push(info_of(b"") * 10)
        stored.scheduler.run_turn()
        assert not peer.client.awaited

    def test_a_client_with_too_many_is_read_again_when_some_are_answered(
        self, stored: StoredWorld
    ) -> None:
        peer = stored.modern()
        peer.send(b"SUB answered 1\r\n")
        peer.take()
        begin_long_look(stored)
        peer.push(info_of(b"") * (DEFERRED_MAX + 1))
        while peer.client.backlog.segments and not peer.client.awaited:
            stored.scheduler.run_turn()
        assert peer.client.awaited == 1
        stored.settle()
        assert not peer.client.is_held_back
        assert peer.take().count(b"stream_info_response") == DEFERRED_MAX + 1

    def test_reads_that_wait_count_too(self, stored: StoredWorld) -> None:
        stored.create("D", subjects=["d"], allow_direct=True)
        peer = stored.modern()
        body = json.dumps({"last_by_subj": "d", "min_last_seq": 9}).encode()
        frame = b"PUB $JS.API.DIRECT.GET.D answered %d\r\n%b\r\n" % (len(body), body)
        peer.push(frame * (DEFERRED_MAX + 1))
        stored.settle()
        assert peer.client.awaited == 1
        stored.advance(1.0)
        assert not peer.client.is_held_back

    def test_large_requests_that_wait_hold_their_client(self, stored: StoredWorld) -> None:
        peer, other = stored.modern(), stored.modern()
        begin_long_look(stored)
        body = b" " * (DEFERRED_BYTES_MAX // 5)
        peer.push(info_of(body) * 10)
        for _ in range(4):
            stored.scheduler.run_turn()
        assert peer.client.awaited
        other.push(b"PING\r\n")
        for _ in range(2):
            stored.scheduler.run_turn()
        assert b"PONG" in other.take()
        stored.settle()
        assert not peer.client.is_held_back

    def test_a_list_that_takes_several_slices_is_the_only_one_of_its_client(
        self, stored: StoredWorld
    ) -> None:
        for number in range(5):
            stored.create(f"L{number}")
        peer = stored.modern()
        peer.send(b"SUB answered 1\r\n")
        peer.take()
        peer.push(b"PUB $JS.API.STREAM.LIST answered 0\r\n\r\n" * 3)
        assert peer.client.awaited == 1
        assert peer.client.has_backlog
        stored.settle()
        assert peer.take().count(b"stream_list_response") == 3
        assert not peer.client.is_held_back


HELD_MAX = 20


@pytest.fixture
def acked(stored: StoredWorld, monkeypatch: pytest.MonkeyPatch) -> StoredWorld:
    """Streams with consumers that have handed out all they have, and little room while held."""
    monkeypatch.setattr(consumer_runner, "HELD_MAX", HELD_MAX)
    for stream in ("A", "B"):
        stored.create(stream)
        body = {"stream_name": stream, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        stored.request(f"$JS.API.CONSUMER.CREATE.{stream}.C", body)
        stored.modern().send(b"PUB %b 0\r\n\r\n" % stream.lower().encode() * 2 * HELD_MAX)
    return stored


def fetched(world: StoredWorld, stream: bytes, count: int) -> tuple[Peer, list[bytes]]:
    """A client and the subjects by which it acknowledges the messages it got."""
    peer = world.modern()
    peer.send(b"SUB in 1\r\n")
    peer.take()
    peer.send(
        b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.C in %d\r\n%d\r\n" % (stream, len(b"%d" % count), count)
    )
    words = [line.split() for line in peer.take().split(b"\r\n") if line.startswith(b"MSG ")]
    assert len(words) == count
    return peer, [word[3] for word in words]


def ack_pending(world: StoredWorld, stream: str) -> int:
    found = world.request(f"$JS.API.CONSUMER.INFO.{stream}.C")["num_ack_pending"]
    assert isinstance(found, int)
    return found


def acks(subjects: list[bytes], payload: bytes = b"") -> bytes:
    return b"".join(b"PUB %b %d\r\n%b\r\n" % (each, len(payload), payload) for each in subjects)


class TestAcksThatWaitForAStream:
    @pytest.mark.parametrize("payload", [b"", b"+NXT"])
    def test_a_client_that_sends_too_many_waits_until_the_stream_is_free(
        self, acked: StoredWorld, payload: bytes
    ) -> None:
        busy, subjects = fetched(acked, b"A", HELD_MAX)
        other, others = fetched(acked, b"B", HELD_MAX)
        runner = acked.node.jetstream.runners.find_consumers("$G", "A")  # type: ignore[union-attr]
        assert runner is not None
        runner.hold()
        busy.push(acks(subjects, payload))
        other.push(acks(others, payload))
        acked.settle()
        assert not busy.client.is_held_back
        busy.push(acks(subjects[:1], payload))
        other.push(acks(others[:1], payload))
        acked.settle()
        assert busy.client.is_held_back
        assert not other.client.is_held_back
        runner.release()
        acked.settle()
        assert not busy.client.is_held_back
        assert ack_pending(acked, "A") == 0

    def test_pulls_of_a_consumer_wait_as_one(self, acked: StoredWorld) -> None:
        runner = acked.node.jetstream.runners.find_consumers("$G", "A")  # type: ignore[union-attr]
        assert runner is not None
        peer = acked.modern()
        peer.send(b"SUB in 1\r\n")
        peer.take()
        runner.hold()
        for _ in range(10):
            peer.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.A.C in 0\r\n\r\n")
        assert peer.take() == b""
        assert len(runner._held_sends) == 1
        assert runner._held == []
        runner.release()
        acked.settle()
        assert peer.take().count(b"MSG a 1 ") == 10

    def test_receivers_that_come_and_go_are_looked_at_once(self, acked: StoredWorld) -> None:
        config = {"durable_name": "P", "deliver_subject": "to", "ack_policy": "none"}
        body = {"stream_name": "A", "config": config}
        acked.request("$JS.API.CONSUMER.CREATE.A.P", body)
        runner = acked.node.jetstream.runners.find_consumers("$G", "A")  # type: ignore[union-attr]
        assert runner is not None
        peer = acked.modern()
        runner.hold()
        peer.send(b"SUB to 1\r\nUNSUB 1\r\n" * 10 + b"SUB to 2\r\n")
        assert len(runner._held_interest) == 1
        assert runner._held == []
        runner.release()
        acked.settle()
        assert peer.take().count(b"MSG a 2 ") == 2 * HELD_MAX
