"""The order of a turn: batches are decided, consumers are served, then everything is written."""

from collections.abc import Callable

import pytest

from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.runtime.environment import TimerHandle
from headwater.server.core.client import Client, Inlet
from headwater.server.turn import Turn
from tests.kit.world import ManualClock, ManualScheduler, Peer, World

MAX_PENDING = 1 << 20


class Gatherer:
    """An inlet whose batches a test looks at."""

    def __init__(self, handle: Callable[[list[bytes]], object]) -> None:
        self.waiting = False
        self.incoming = Incoming()
        self.publishers: list[Client] = []
        self.starts: list[int] = []
        self.owner = self
        self._handle = handle

    def take(self) -> Incoming:
        batch, self.incoming, self.waiting = self.incoming, Incoming(), False
        self.publishers, self.starts = [], []
        return batch

    def process(self, inlet: Inlet) -> None:
        self._handle(inlet.take().payloads)


@pytest.fixture
def scheduler() -> ManualScheduler:
    return ManualScheduler(ManualClock())


@pytest.fixture
def turn(scheduler: ManualScheduler) -> Turn:
    return Turn(scheduler, MAX_PENDING, lambda client: None)


def gather(turn: Turn, inlet: Gatherer, *payloads: bytes, source: Client | None = None) -> None:
    for payload in payloads:
        turn.open_inlet(inlet, source).add(b"s", None, -1, payload)


@pytest.fixture
def peers() -> tuple[Peer, Peer]:
    world = World()
    return world.modern(), world.modern()


def test_a_batch_is_everything_that_an_inlet_gathered(
    turn: Turn, scheduler: ManualScheduler
) -> None:
    seen: list[list[bytes]] = []
    one, two = Gatherer(seen.append), Gatherer(seen.append)
    gather(turn, one, b"a")
    gather(turn, two, b"b")
    gather(turn, one, b"c")
    assert seen == []
    scheduler.run_turn()
    assert seen == [[b"a", b"c"], [b"b"]]


def test_a_batch_knows_where_the_publishes_of_each_client_begin(
    turn: Turn, peers: tuple[Peer, Peer]
) -> None:
    inlet = Gatherer(lambda payloads: None)
    first, second = (peer.client for peer in peers)
    gather(turn, inlet, b"0", b"1", source=first)
    gather(turn, inlet, b"2", source=second)
    gather(turn, inlet, b"3", source=first)
    assert inlet.publishers == [first, second, first]
    assert inlet.starts == [0, 2, 3]


def test_consumers_are_served_when_streams_have_everything(turn: Turn) -> None:
    order: list[str] = []
    turn.call_when_decided(lambda: order.append("served"))
    gather(turn, Gatherer(lambda payloads: order.append("decided")), b"a")
    turn.complete()
    assert order == ["decided", "served"]


def test_publishes_that_serving_makes_are_decided_in_the_turn(turn: Turn) -> None:
    order: list[str] = []
    inlet = Gatherer(lambda payloads: order.append("decided"))
    turn.call_when_decided(lambda: gather(turn, inlet, b"a"))
    turn.call_when_decided(lambda: order.append("served"))
    turn.complete()
    assert order == ["decided", "served"]


def test_serving_may_ask_for_more_in_the_turn(turn: Turn) -> None:
    order: list[str] = []
    turn.call_when_decided(lambda: turn.call_when_decided(lambda: order.append("more")))
    turn.call_when_decided(lambda: order.append("one"))
    turn.complete()
    assert order == ["one", "more"]


def test_a_request_has_the_gathered_batches_decided_and_nobody_served(turn: Turn) -> None:
    order: list[str] = []
    turn.call_when_decided(lambda: order.append("served"))
    gather(turn, Gatherer(lambda payloads: order.append("decided")), b"a")
    turn.decide_gathered()
    assert order == ["decided"]


def test_messages_to_clients_are_written_last_in_one_piece(
    turn: Turn, peers: tuple[Peer, Peer]
) -> None:
    client = peers[0].client
    peers[0].take()

    def send(text: bytes) -> None:
        client.out.append(text)
        turn.buffers.touch(client)

    turn.call_when_decided(lambda: send(b"served"))
    gather(turn, Gatherer(lambda payloads: send(b"decided ")), b"a")
    send(b"taken in ")
    assert peers[0].take() == b""
    turn.complete()
    assert peers[0].take() == b"taken in decided served"


def test_a_turn_is_planned_once_and_again_for_what_comes_after_it(
    turn: Turn, scheduler: ManualScheduler
) -> None:
    seen: list[list[bytes]] = []
    inlet = Gatherer(seen.append)
    gather(turn, inlet, b"a", b"b")
    scheduler.run_turn()
    gather(turn, inlet, b"c")
    scheduler.run_turn()
    scheduler.run_turn()
    assert seen == [[b"a", b"b"], [b"c"]]


def test_the_causes_are_the_publishers_while_their_batch_is_decided(
    turn: Turn, peers: tuple[Peer, Peer]
) -> None:
    causes: list[object] = []
    inlet = Gatherer(lambda payloads: causes.append([*turn.causes]))
    gather(turn, inlet, b"a", source=peers[1].client)
    turn.complete()
    assert causes == [[peers[1].client]]
    assert turn.causes == ()


def test_a_bug_at_one_stream_does_not_silence_the_others(
    turn: Turn, scheduler: ManualScheduler
) -> None:
    seen: list[list[bytes]] = []

    def fail(payloads: list[bytes]) -> None:
        raise RuntimeError("planted")

    gather(turn, Gatherer(fail), b"a")
    gather(turn, Gatherer(seen.append), b"b")
    with pytest.raises(RuntimeError, match="planted"):
        scheduler.run_turn()
    scheduler.run_turn()
    assert seen == [[b"b"]]


def test_a_bug_in_serving_does_not_silence_the_others(
    turn: Turn, scheduler: ManualScheduler
) -> None:
    served: list[str] = []

    def fail() -> None:
        raise RuntimeError("planted")

    turn.call_when_decided(fail)
    turn.call_when_decided(lambda: served.append("other"))
    with pytest.raises(RuntimeError, match="planted"):
        scheduler.run_turn()
    scheduler.run_turn()
    assert served == ["other"]


class CountingScheduler(ManualScheduler):
    """A scheduler that counts the calls it was asked for."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.planned = 0

    def call_soon(self, call: Callable[[], object]) -> TimerHandle:
        self.planned += 1
        return super().call_soon(call)


def test_a_turn_plans_no_other_one_for_what_it_completes_itself(peers: tuple[Peer, Peer]) -> None:
    scheduler = CountingScheduler()
    turn = Turn(scheduler, MAX_PENDING, lambda client: None)
    client = peers[0].client

    def answer(payloads: list[bytes]) -> None:
        client.out += payloads
        turn.buffers.touch(client)

    gather(turn, Gatherer(answer), b"answer")
    scheduler.run_turn()
    assert peers[0].take().endswith(b"answer")
    assert scheduler.planned == 1


def test_work_that_a_write_causes_is_done_in_a_later_turn(peers: tuple[Peer, Peer]) -> None:
    scheduler = ManualScheduler(ManualClock())
    seen: list[list[bytes]] = []

    def tell(_: Client) -> None:
        """A client with too much to read is ended, and the server tells a stream of it."""
        gather(small, Gatherer(seen.append), b"ended")

    small = Turn(scheduler, 1, tell)
    client = peers[0].client
    peers[0].connection.stop_reading()
    client.out.append(b"too much")
    small.buffers.touch(client)
    scheduler.run_turn()
    assert seen == []
    scheduler.run_turn()
    assert seen == [[b"ended"]]
