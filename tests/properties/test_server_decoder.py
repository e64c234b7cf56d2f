"""The client's decoder against a plain one: valid streams and mutilated ones, cut at random."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.wire.server_decoder import ServerDecoder, ServerProtocolError
from tests.kit.plain_server_decoder import decode, decode_plainly

words = st.sampled_from([b"a", b"a.b", b"_INBOX.x.1", b"$JS.ACK.s.c.1.2.3.4.5"]) | (
    st.binary(min_size=1, max_size=6).filter(lambda word: not set(word) & set(b" \r\n"))
)
# Payloads made of what a careless splitter trips over.
payloads = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"MSG a 1 5\r\n", b"MSG a 1 r 0", b"PING\r\n", b"x"])
    | st.binary(max_size=4),
    max_size=5,
).map(b"".join)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    payload = draw(payloads)
    reply = [draw(words)] if draw(st.booleans()) else []
    if draw(st.booleans()):
        name, sizes = b"MSG", [b"%d" % len(payload)]
    else:
        name, sizes = b"HMSG", [b"%d" % draw(st.integers(0, len(payload))), b"%d" % len(payload)]
    line = b" ".join([name, draw(words), draw(st.sampled_from([b"1", b"27"])), *reply, *sizes])
    return line + b"\r\n" + payload + b"\r\n"


runs = st.tuples(messages(), st.integers(1, 20)).map(lambda pair: pair[0] * pair[1])
controls = st.sampled_from(
    [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b'INFO {"a":1}\r\n', b"-ERR 'x y'\r\n"]
)
streams = st.lists(messages() | runs | controls, max_size=12).map(b"".join)


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    """A stream with a few bytes replaced, taken out or put in."""
    stream = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(stream)))
        stream[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b"\r", b"\n", b"\r\n", b" ", b"0", b"9", b"MSG "])
            | st.binary(max_size=2)
        )
    return bytes(stream)


@st.composite
def cuts(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [
        stream[start:stop] for start, stop in zip([0, *places], [*places, len(stream)], strict=True)
    ]


@given(st.data(), streams)
def test_a_valid_stream_is_decoded_as_by_the_plain_decoder(
    data: st.DataObject, stream: bytes
) -> None:
    expected = decode_plainly(stream)
    assert not expected.broken
    assert decode([stream]) == expected
    assert decode(data.draw(cuts(stream))) == expected


@given(st.data(), mutilated())
@example(None, b"MSG a\x0bb 1 0\r\n\r\n")
@settings(max_examples=300)
def test_a_mutilated_stream_is_broken_where_the_plain_decoder_says(
    data: st.DataObject | None, stream: bytes
) -> None:
    expected = decode_plainly(stream)
    decoded = decode(data.draw(cuts(stream)) if data else [stream])
    assert decoded.broken == expected.broken
    # Messages in the read that broke the protocol are given up with the connection.
    assert decoded.messages == expected.messages[: len(decoded.messages)]
    assert decoded.controls == expected.controls[: len(decoded.controls)]
    if not expected.broken:
        assert decoded == expected


@given(st.lists(st.binary(max_size=64) | mutilated(), max_size=10))
def test_nothing_but_the_own_error_escapes_and_little_is_kept(pieces: list[bytes]) -> None:
    decoder = ServerDecoder()
    for piece in pieces:
        try:
            arrived = decoder.feed(piece)
        except ServerProtocolError:
            assert decoder.held_bytes == 0
        else:
            columns = (arrived.sids, arrived.subjects, arrived.replies, arrived.headers)
            assert {len(column) for column in columns} == {len(arrived)}
            assert decoder.held_bytes <= sum(map(len, pieces))
