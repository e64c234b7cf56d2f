"""Any bytes may come from a peer: they are frames, or they are refused by name."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.wire.peer_frames import (
    Kind,
    PeerDecoder,
    PeerMessages,
    decode_interest,
    decode_messages,
    encode_interest,
    encode_messages,
    frame,
)
from headwater.wire.peer_info import PeerInfo, decode, decode_members, read_line

WORDS = st.binary(min_size=1, max_size=8).map(lambda word: word.translate(None, b" \t\r\n") or b"x")
ROWS = st.lists(
    st.tuples(
        WORDS,
        st.none() | WORDS,
        st.booleans(),
        st.binary(max_size=20),
        st.lists(WORDS, max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@given(st.text(max_size=5), ROWS)
def test_messages_come_back_as_they_were(account: str, rows: list[tuple]) -> None:  # type: ignore[type-arg]
    messages = PeerMessages()
    for subject, reply, has_header, payload, queues in rows:
        messages.add(subject, reply, len(payload) if has_header else -1, payload, queues)
    decoder = PeerDecoder()
    decoder.feed(encode_messages(account, messages))
    ((kind, body),) = decoder.frames()
    name, found = decode_messages(body)
    assert (kind, name) == (Kind.MESSAGES, account)
    for column in ("subjects", "replies", "header_sizes", "payloads", "size"):
        assert getattr(found, column) == getattr(messages, column)
    assert [*map(list, found.queues)] == [*map(list, messages.queues)]


@given(
    st.lists(
        st.tuples(WORDS, st.just(b"") | WORDS, st.integers(0, 2**32 - 1)), min_size=1, max_size=6
    )
)
def test_interest_comes_back_as_it_was(changes: list[tuple[bytes, bytes, int]]) -> None:
    decoder = PeerDecoder()
    decoder.feed(encode_interest("A", changes))
    ((_, body),) = decoder.frames()
    assert decode_interest(body) == ("A", changes)


@given(st.binary(max_size=200))
def test_any_body_is_decoded_or_refused(body: bytes) -> None:
    outcomes: list[object] = []
    for decoding in (
        decode_messages,
        decode_interest,
        decode_members,
        lambda document: decode(document, PeerInfo),
        read_line,
    ):
        try:
            outcomes.append(decoding(body))
        except PeerError as refusal:
            outcomes.append(refusal.reply)
    assert all(outcome is not None for outcome in outcomes)


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 3))
def test_any_bytes_are_frames_or_are_refused(chunks: list[bytes], good: int) -> None:
    decoder = PeerDecoder(bytes_max=1000)
    decoder.feed(frame(Kind.PING, bytes(8)) * good)
    with contextlib.suppress(PeerError):
        for chunk in chunks:
            decoder.feed(chunk)
            decoder.frames()
            assert decoder.unread_bytes < 1000 + 9


@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_damaged_frame_is_never_taken_for_another(
    rows: list[tuple],  # type: ignore[type-arg]
    damages: list[tuple[int, int]],
) -> None:
    messages = PeerMessages()
    for subject, reply, has_header, payload, queues in rows:
        messages.add(subject, reply, len(payload) if has_header else -1, payload, queues)
    data = encode_messages("A", messages)
    damaged = bytearray(data)
    for position, byte in damages:
        damaged[position % len(data)] = byte
    decoder = PeerDecoder(bytes_max=1000)
    decoder.feed(bytes(damaged))
    try:
        found = decoder.frames()
    except PeerError:
        return
    assert not found or bytes(damaged) == data
