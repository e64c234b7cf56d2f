"""Payloads for parts of a server beside its groups: any bytes are taken whole or refused."""

import contextlib
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.raft.codec import NUMBER_LIMIT
from headwater.server.cluster.assignment.repair_frames import (
    ABSENT,
    ASKED_MAX,
    RECORD,
    Found,
    decode_answer,
    decode_ask,
    encode_answer,
    encode_ask,
)
from headwater.server.cluster.consensus.frames import GROUP_BYTES
from headwater.server.cluster.consensus.leaders import Leaders
from headwater.server.cluster.consensus.machine import SnapshotSink
from headwater.server.cluster.consensus.transfers import (
    CHUNK,
    GOT,
    OFFER,
    REFUSED,
    WANTED,
    IncomingSnapshots,
    OutgoingSnapshots,
    Piece,
    decode_piece,
    encode_piece,
    take_piece,
)

GROUP = bytes(range(GROUP_BYTES))
groups = st.one_of(st.just(GROUP), st.binary(min_size=GROUP_BYTES, max_size=GROUP_BYTES))
numbers = st.integers(0, (1 << 64) - 1)
sequences = st.lists(numbers, min_size=1, max_size=ASKED_MAX)
findings = st.lists(
    st.builds(Found, numbers, st.integers(RECORD, ABSENT), st.binary(max_size=20)), max_size=6
)
pieces = st.builds(Piece, groups, numbers, st.integers(0, (1 << 32) - 1))


@st.composite
def damaged(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were sound, overwritten, cut or with something behind them; or any bytes."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    data = draw(sound)
    at = draw(st.integers(0, len(data)))
    patch = draw(st.binary(max_size=9))
    return draw(
        st.sampled_from([data[:at], data + patch, data[:at] + patch + data[at + len(patch) :]])
    )


def comes_back(decoded: Callable[[bytes], bytes], data: bytes) -> None:
    """Bytes that are taken are those that their content is encoded as: nothing is passed over."""
    with contextlib.suppress(PeerError):
        assert decoded(data) == data


@given(damaged(st.builds(encode_ask, groups, sequences)))
def test_a_question_for_records(data: bytes) -> None:
    comes_back(lambda each: encode_ask(*decode_ask(each)), data)


@given(damaged(st.builds(encode_answer, groups, findings)))
def test_an_answer_with_records(data: bytes) -> None:
    comes_back(lambda each: encode_answer(*decode_answer(each)), data)


@given(damaged(st.builds(encode_piece, st.just(CHUNK), pieces, st.binary(max_size=20))))
def test_a_piece_of_a_snapshot(data: bytes) -> None:
    comes_back(lambda each: encode_piece(each[:1], *decode_piece(each)), data)


class Sink:
    """A state that takes any pieces."""

    held = b"held"

    def __init__(self, taken: list[bytes]) -> None:
        self.taken = taken

    def add(self, chunk: bytes) -> None:
        self.taken.append(chunk)

    def discard(self) -> None:
        self.taken.clear()


class Source:
    """A state of three pieces."""

    index = 9

    def __init__(self) -> None:
        self.left = [b"1", b"22", b"333"]

    def next_chunk(self) -> bytes | None:
        return self.left.pop(0) if self.left else None

    def close(self) -> None:
        self.left.clear()


kinds = st.sampled_from([OFFER, WANTED, CHUNK, GOT, REFUSED])
near = st.builds(Piece, st.just(GROUP), st.integers(0, 3), st.integers(0, 5))
told = st.builds(encode_piece, kinds, st.one_of(near, pieces), st.binary(max_size=5))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.one_of(told, damaged(told))), max_size=30))
def test_transfers_of_snapshots_outlive_all_that_peers_say(said: list[tuple[str, bytes]]) -> None:
    """No bytes are counted as on their way that are not, and pieces are taken in order."""
    taken: list[bytes] = []

    def open_sink(group: bytes) -> SnapshotSink | None:
        return Sink(taken) if group == GROUP else None

    sent: list[tuple[str, bytes]] = []
    incoming = IncomingSnapshots(lambda *each: sent.append(each), open_sink)
    outgoing = OutgoingSnapshots(
        lambda *each: sent.append(each),
        lambda group, held: Source(),
        lambda group, peer, index: None,
        lambda group, peer, reason: None,
        bytes_max=3,
    )
    for peer in "ab":
        outgoing.offer(GROUP, peer)
    for peer, payload in said:
        with contextlib.suppress(PeerError):
            take_piece(incoming, outgoing, peer, payload)
        assert 0 <= outgoing.outstanding_bytes <= 6
    outgoing.cancel_where()
    assert outgoing.outstanding_bytes == 0


@given(
    damaged(
        st.lists(st.tuples(groups, numbers), max_size=5).map(
            lambda led: b"".join(group + term.to_bytes(8, "little") for group, term in led)
        )
    )
)
def test_the_leaders_that_a_server_tells(data: bytes) -> None:
    leaders = Leaders()
    leaders.heard("a", GROUP + (5).to_bytes(8, "little"))
    with contextlib.suppress(PeerError):
        leaders.heard("b", data)
        rows = [data[at : at + 24] for at in range(0, len(data), 24)]
        terms = [int.from_bytes(row[16:], "little") for row in rows if row[:16] == GROUP]
        assert all(len(row) == 24 for row in rows)
        assert all(term < NUMBER_LIMIT for term in terms)
        assert leaders.leader_of(GROUP) == ("b" if max(terms, default=0) >= 5 else "a")
