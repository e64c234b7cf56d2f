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
        self.since_mark = 0
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


class Parts:
    """Groups, links and a store that note what the turn has them do."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.order: list[str] = []
        turn.agreement = self
        turn.send = lambda: self.order.append("send")
        turn.commit = self.commit
        # The work of the groups in their steps.
        self.agreed: Callable[[], object] = lambda: None
        self.answered: Callable[[], object] = lambda: None

    def agree(self) -> None:
        self.order.append("agree")
        self.agreed()

    def answer_written(self) -> None:
        self.order.append("answer")
        self.answered()

    def commit(self) -> None:
        self.order.append("write")


@pytest.fixture
def parts(turn: Turn) -> Parts:
    return Parts(turn)


def test_servers_agree_and_send_before_the_one_write(turn: Turn, parts: Parts) -> None:
    def decide(_: list[bytes]) -> None:
        parts.order.append("decide")
        turn.want_commit()
        turn.want_agreement()

    def agree() -> None:
        turn.want_commit()
        turn.want_sending()

    parts.agreed = agree
    turn.call_when_decided(lambda: parts.order.append("serve"))
    gather(turn, Gatherer(decide), b"a")
    gather(turn, Gatherer(decide), b"b")
    turn.complete()
    assert parts.order == ["decide", "decide", "serve", "agree", "send", "write", "answer"]


def test_the_write_covers_messages_that_groups_have_committed(turn: Turn, parts: Parts) -> None:
    """A message that is committed may be delivered, and go to another stream."""

    def agree() -> None:
        gather(turn, Gatherer(lambda _: parts.order.append("decide")), b"a")
        turn.call_when_decided(lambda: parts.order.append("serve"))

    parts.agreed = agree
    turn.want_commit()
    turn.want_agreement()
    turn.complete()
    assert parts.order == ["agree", "decide", "serve", "write", "answer"]


def test_what_a_write_allows_is_sent_in_its_turn(turn: Turn, parts: Parts) -> None:
    parts.answered = turn.want_sending
    turn.want_commit()
    turn.complete()
    assert parts.order == ["write", "answer", "send"]


def test_a_step_that_is_wanted_again_belongs_to_the_next_turn(
    turn: Turn, parts: Parts, scheduler: ManualScheduler
) -> None:
    parts.agreed = parts.answered = turn.want_agreement
    turn.want_agreement()
    turn.want_commit()
    for _ in range(3):
        scheduler.run_turn()
    assert parts.order == ["agree", "write", "answer", "agree", "agree"]


def test_steps_that_nobody_wants_are_left_out(turn: Turn, parts: Parts) -> None:
    gather(turn, Gatherer(lambda _: None), b"a")
    turn.complete()
    assert parts.order == []


def test_a_bug_in_a_step_does_not_silence_the_others(
    turn: Turn, parts: Parts, scheduler: ManualScheduler, peers: tuple[Peer, Peer]
) -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    client = peers[0].client
    peers[0].take()
    client.out.append(b"answer")
    turn.buffers.touch(client)
    parts.agreed = fail
    turn.want_agreement()
    turn.want_commit()
    with pytest.raises(RuntimeError, match="planted"):
        scheduler.run_turn()
    assert peers[0].take() == b"answer"
    scheduler.run_turn()
    assert parts.order == ["agree", "write", "answer"]


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
