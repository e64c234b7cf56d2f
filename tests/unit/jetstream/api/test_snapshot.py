"""A snapshot on its way: whole, in order, never more on the way than the window, and it ends."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.api.snapshot import (
    ACK_TIMEOUT_NS,
    NO_FLOW,
    TURN_PIECES_MAX,
    Outgoing,
    SnapshotRequest,
    SnapshotSender,
    check_snapshot,
)
from headwater.jetstream.errors import ApiError
from headwater.store.log.message_log import StoreError

ACK = b"ack"


class Pieces:
    """A source of given pieces; `None` among them fails."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = deque(pieces)

    def read(self) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if piece is None:
            raise StoreError("the disk\r\nfailed")
        return piece


def sender(*pieces: bytes | None, chunk: int = 1024, window: int = 4096) -> SnapshotSender:
    request = SnapshotRequest(deliver_subject="d", chunk_size=chunk, window_size=window)
    return SnapshotSender(request, Pieces(*pieces), ACK, 0)


def run(one: SnapshotSender, now_ns: int = 0) -> list[Outgoing]:
    """Send all, every chunk being acknowledged at once."""
    sent: list[Outgoing] = []
    while not one.is_over:
        messages = one.send(now_ns)
        assert messages or one.can_send
        sent += messages
        for message in messages:
            if message.reply is not None:
                one.acknowledged()
    return sent


def test_less_than_a_chunk_goes_without_reply_subject_and_ends_without_status() -> None:
    assert run(sender(b"abc")) == [Outgoing(None, b"", b"abc"), Outgoing(None, b"", b"")]


def test_chunks_are_numbered_and_end_with_a_status() -> None:
    assert run(sender(bytes(2500))) == [
        Outgoing(b"ack.1024.1", b"", bytes(1024)),
        Outgoing(b"ack.1024.2", b"", bytes(1024)),
        Outgoing(None, b"", bytes(452)),
        Outgoing(None, b"NATS/1.0 204\r\n\r\n", b""),
    ]


def test_what_fits_chunks_exactly_has_no_rest() -> None:
    assert run(sender(bytes(1024)))[-1] == Outgoing(None, b"NATS/1.0 204\r\n\r\n", b"")
    assert len(run(sender(bytes(1024)))) == 2


def test_a_chunk_of_many_small_pieces_takes_several_turns() -> None:
    pieces = [b"%04d" % number for number in range(TURN_PIECES_MAX + 1)]
    one = sender(*pieces)
    assert one.send(0) == []
    assert one.can_send
    assert one.send(0) == [Outgoing(None, b"", b"".join(pieces)), Outgoing(None, b"", b"")]
    assert sender(*pieces[: TURN_PIECES_MAX - 1]).send(0)


@given(
    st.lists(st.binary(min_size=1, max_size=3000), max_size=20),
    st.integers(1024, 5000),
    st.integers(0, 20_000),
    st.lists(st.booleans(), max_size=60),
)
def test_any_pieces_windows_and_acknowledgements(
    pieces: list[bytes], chunk: int, window: int, acknowledged: list[bool]
) -> None:
    """All bytes of the snapshot arrive, and no more than a window of them is in flight."""
    one = sender(*pieces, chunk=chunk, window=window)
    in_flight_max = max((window or 8 * 1024 * 1024) // chunk, 1)
    in_flight = 0
    sent: list[Outgoing] = []
    for is_acknowledged in acknowledged:
        if is_acknowledged and in_flight:
            one.acknowledged()
            in_flight -= 1
        messages = one.send(0)
        sent += messages
        in_flight += sum(message.reply is not None for message in messages)
        assert in_flight <= in_flight_max
    sent += run_to_end(one, in_flight)
    assert b"".join(message.payload for message in sent) == b"".join(pieces)
    assert one.error == ""
    assert [message.payload for message in sent].count(b"") == 1
    assert sent[-1].payload == b""


def run_to_end(one: SnapshotSender, in_flight: int) -> list[Outgoing]:
    """Acknowledge all that is on the way, again and again."""
    sent: list[Outgoing] = []
    while not one.is_over:
        for _ in range(in_flight):
            one.acknowledged()
        messages = one.send(0)
        sent += messages
        in_flight = sum(message.reply is not None for message in messages)
    return sent


def test_acknowledgements_without_chunks_do_not_widen_the_window() -> None:
    one = sender(bytes(100_000), chunk=1024, window=2048)
    for _ in range(50):
        one.acknowledged()
    assert len(one.send(0)) == 2
    assert not one.can_send


@given(st.integers(0, 12))
def test_without_acknowledgements_it_is_given_up(answered: int) -> None:
    """The client may go away after any number of acknowledgements."""
    one = sender(bytes(20 * 1024), chunk=1024, window=2048)
    now_ns = 0
    for _ in range(answered):
        one.send(now_ns)
        one.acknowledged()
        now_ns += 1_000_000
    one.send(now_ns)
    assert not one.can_send
    assert one.deadline_ns == now_ns + ACK_TIMEOUT_NS
    last = one.give_up(NO_FLOW)
    assert last == Outgoing(None, b"NATS/1.0 408 No Flow Response\r\n\r\n", b"")
    assert one.is_over
    assert one.send(now_ns) == []


@pytest.mark.parametrize("before", [(), (b"abc",), (bytes(5000),)])
def test_a_source_that_fails_ends_with_its_reason_in_one_line(before: tuple[bytes, ...]) -> None:
    one = sender(*before, None, b"never sent")
    sent = run(one)
    assert sent[-1] == Outgoing(None, b"NATS/1.0 500 the disk failed\r\n\r\n", b"")
    assert b"".join(message.payload for message in sent) == b"".join(before)
    assert one.error


@pytest.mark.parametrize(
    ("asked", "chunk", "window"),
    [
        ((0, 0), 128 * 1024, 64),
        ((1, 1), 1024, 1),
        ((1 << 40, 1 << 40), 1024 * 1024, 32),
        ((-5, -5), 1024, 1),
        ((1024 * 1024, 1024), 1024 * 1024, 1),
    ],
)
def test_sizes_are_kept_within_limits(asked: tuple[int, int], chunk: int, window: int) -> None:
    one = sender(*[bytes(chunk)] * (window + 1), chunk=asked[0], window=asked[1])
    sent: list[Outgoing] = []
    while one.can_send:
        sent += one.send(0)
    assert [len(message.payload) for message in sent] == [chunk] * window


@pytest.mark.parametrize("subject", ["", "a.*", "a.>", "a..b", ".a", "a.", "a b", "a\tb"])
def test_chunks_need_a_subject_to_go_to(subject: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_snapshot(SnapshotRequest(deliver_subject=subject))
    assert refused.value.err_code == 10015
