"""Snapshots on their way: offers, answers, and the bytes of all transfers together."""

from typing import final

from headwater.server.cluster.consensus.transfers import (
    CHUNK,
    GOT,
    OFFER,
    WANTED,
    IncomingSnapshots,
    OutgoingSnapshots,
    Piece,
    decode_piece,
    encode_piece,
    take_piece,
)

GROUP = bytes(range(16))
OTHER = bytes(16)


@final
class Source:
    """Pieces of a state."""

    index = 9

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.is_closed = False

    def next_chunk(self) -> bytes | None:
        return bytes(self.sizes.pop(0)) if self.sizes else None

    def close(self) -> None:
        self.is_closed = True


@final
class Sink:
    """A state that has something already."""

    held = b"some"

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def discard(self) -> None:
        self.chunks.clear()


@final
class Leader:
    """The transfers of a leader, whose frames wait in lists."""

    def __init__(self, bytes_max: int) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.finished: list[tuple[bytes, str, int]] = []
        self.held: list[bytes] = []
        self.sources = {GROUP: Source([10] * 8), OTHER: Source([10] * 8)}
        self.outgoing = OutgoingSnapshots(
            lambda to, data: self.sent.append((to, data)),
            self._open,
            lambda *done: self.finished.append(done),
            lambda *_: None,
            bytes_max,
        )

    def _open(self, group: bytes, held: bytes) -> Source:
        self.held.append(held)
        return self.sources[group]

    def take(self, kind: bytes) -> list[tuple[str, Piece]]:
        """The frames of a kind that were sent since."""
        sent, self.sent = self.sent, []
        assert all(data[:1] == kind for _, data in sent)
        return [(to, decode_piece(data)[0]) for to, data in sent]


def test_a_snapshot_begins_with_what_the_follower_has() -> None:
    leader, answers = Leader(1_000), list[bytes]()
    sink = Sink()
    incoming = IncomingSnapshots(lambda _, data: answers.append(data), lambda _: sink)
    assert leader.outgoing.offer(GROUP, "b")
    nothing = Leader(1).outgoing
    while leader.sent or answers:
        for _, data in leader.sent[:]:
            leader.sent.remove((_, data))
            take_piece(incoming, nothing, "a", data)
        for data in answers[:]:
            answers.remove(data)
            take_piece(incoming, leader.outgoing, "b", data)
    assert leader.held == [b"some"]
    assert len(sink.chunks) == 8
    assert leader.finished == [(GROUP, "b", 9)]
    assert leader.sources[GROUP].is_closed
    assert leader.outgoing.outstanding_bytes == 0


def test_an_offer_without_an_answer_is_made_again() -> None:
    leader = Leader(1_000)
    assert leader.outgoing.offer(GROUP, "b")
    assert leader.outgoing.offer(GROUP, "b")
    assert leader.take(OFFER) == [("b", Piece(GROUP, 1, 0))] * 2
    for _ in range(2):
        leader.outgoing.wanted("b", Piece(GROUP, 1, 0), b"")
    assert len(leader.take(CHUNK)) == 4
    assert leader.held == [b""]
    assert not leader.outgoing.offer(GROUP, "b")


def test_the_bytes_of_all_transfers_together_are_bounded() -> None:
    leader = Leader(25)
    for to in "bc":
        for group in (GROUP, OTHER):
            leader.sources[group].sizes = [10] * 8
        leader.outgoing.offer(GROUP, to)
    (_, first), (_, second) = leader.take(OFFER)
    leader.outgoing.wanted("b", first, b"")
    leader.outgoing.wanted("c", second, b"")
    arrived = {"b": 0, "c": 0}
    while chunks := leader.take(CHUNK):
        assert leader.outgoing.outstanding_bytes <= 30
        for to, piece in chunks:
            arrived[to] += 1
            take_piece(
                IncomingSnapshots(lambda *_: None, lambda _: None),
                leader.outgoing,
                to,
                encode_piece(GOT, piece),
            )
    assert leader.outgoing.outstanding_bytes == 0
    assert len(leader.finished) == 2


def test_one_piece_is_sent_however_large_it_is() -> None:
    leader = Leader(5)
    leader.outgoing.offer(GROUP, "b")
    ((_, piece),) = leader.take(OFFER)
    take_piece(
        IncomingSnapshots(lambda *_: None, lambda _: None),
        leader.outgoing,
        "b",
        encode_piece(WANTED, piece),
    )
    assert len(leader.take(CHUNK)) == 1
    leader.outgoing.cancel(GROUP, "b")
    assert leader.outgoing.outstanding_bytes == 0
