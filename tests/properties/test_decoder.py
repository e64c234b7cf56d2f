"""The decoder against a plain one: valid streams and mutilated ones, cut at random."""

import itertools
import string

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.wire.batch import Malformed
from headwater.wire.decoder import ClientDecoder
from tests.kit.plain_decoder import decode, decode_plainly, feed

MAX_PAYLOAD = 64
MAX_CONTROL_LINE = 4096
SMALL_CONTROL_LINE = 24

blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t"])
line_ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])
words = st.text(string.ascii_letters + ".*>$_", min_size=1, max_size=6).map(str.encode) | (
    st.binary(min_size=1, max_size=6).filter(lambda word: not set(word) & set(b" \t\r\n"))
)
# Payloads made of what a careless splitter trips over.
payloads = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"PUB a 5\r\n", b"PUB a 0", b"PING\r\n", b"x", b""])
    | st.binary(max_size=4),
    max_size=5,
).map(lambda parts: b"".join(parts)[:MAX_PAYLOAD])


@st.composite
def any_case(draw: st.DrawFn, name: bytes) -> bytes:
    return name if draw(st.booleans()) else name.lower()


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """A PUB, or several that repeat its control line."""
    name = draw(any_case(b"PUB"))
    words_before = [draw(st.just(b"a") | words)]
    if draw(st.booleans()):
        words_before.append(draw(words))
    blank, end = draw(blanks), draw(line_ends)
    first = draw(payloads)
    repeats = draw(st.integers(1, 20))
    frames = b""
    for position in range(repeats):
        payload = first if position % 3 else first[::-1]
        line = blank.join([name, *words_before, b"%d" % len(payload)]) + end
        frames += line + payload + b"\r\n"
    return frames


@st.composite
def header_publishes(draw: st.DrawFn) -> bytes:
    payload = draw(payloads)
    header_size = draw(st.integers(0, len(payload)))
    blank = draw(blanks)
    fields = [draw(any_case(b"HPUB")), draw(words), b"%d" % header_size, b"%d" % len(payload)]
    if draw(st.booleans()):
        fields.insert(2, draw(words))
    return blank.join(fields) + draw(line_ends) + payload + b"\r\n"


@st.composite
def controls(draw: st.DrawFn) -> bytes:
    blank = draw(blanks)
    fields = draw(
        st.sampled_from(
            [
                [b"SUB", b"foo", b"1"],
                [b"sub", b"foo.>", b"q", b"2"],
                [b"UNSUB", b"1"],
                [b"Unsub", b"2", b"7"],
                [b"CONNECT", b'{"verbose":false}'],
                [b"PING"],
                [b"PONG"],
                [b"+OK"],
                [b"INFO", b"{}"],
                [b"-ERR", b"'x'"],
            ]
        )
    )
    return blank.join(fields) + draw(line_ends)


@st.composite
def acknowledgements(draw: st.DrawFn) -> bytes:
    """Acknowledgements in a row, as clients write them, and among them some that are unusual."""
    usual = [b" 4\r\n+ACK\r\n", b"  0\r\n\r\n", b" 0\r\n\r\n"]
    unusual = [b" 4\n+ACK\r\n", b" 5\r\n+TERM\r\n", b" r 4\r\n+ACK\r\n", b" 04\r\n+ACK\r\n"]
    ends = draw(st.sampled_from(usual).map(lambda end: [end]) | st.just([*usual, *unusual]))
    size = draw(st.sampled_from([1, 1, 1, 240, 241, 300]))
    subjects = st.text("0123456789.x*", min_size=size, max_size=size + 3)
    return b"".join(
        b"PUB $JS.ACK." + draw(subjects).encode() + draw(st.sampled_from(ends))
        for _ in range(draw(st.integers(1, 12)))
    )


streams = st.lists(
    publishes() | acknowledgements() | header_publishes() | controls(), max_size=6
).map(b"".join)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid stream with a few bytes flipped, put in, or cut off."""
    stream = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(stream)))
        kind = draw(st.sampled_from(["flip", "insert", "delete", "truncate"]))
        if kind == "flip" and position < len(stream):
            stream[position] ^= 1 << draw(st.integers(0, 7))
        elif kind == "insert":
            stream[position:position] = draw(
                st.sampled_from([b"\n", b"\r", b" ", b"0", b"9", b"PUB ", b"\x00"])
            )
        elif kind == "delete":
            del stream[position : position + 1]
        elif kind == "truncate":
            del stream[position:]
    return bytes(stream)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(bounds)]


cuts = st.lists(st.integers(0, 10_000), max_size=6)


@settings(max_examples=200)
@given(streams, cuts)
def test_valid_streams_decode_as_the_plain_decoder_says(stream: bytes, places: list[int]) -> None:
    expected = decode_plainly(stream, MAX_PAYLOAD)
    assert all(operation[0] != "ERROR" for operation in expected)
    assert decode([stream], MAX_CONTROL_LINE, MAX_PAYLOAD) == expected
    assert decode(cut(stream, places), MAX_CONTROL_LINE, MAX_PAYLOAD) == expected


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"PUB a 17\r\n"] * 8 + [b"PUB b 17\r\n", b"pub a 17\r\n"]),
            st.sampled_from(
                [b"0123456789abcdefg"] * 8 + [b"...\r\nPUB a 17\r\n..", b"\r\n" * 8 + b"."]
            ),
        ),
        max_size=60,
    ),
    cuts,
)
def test_runs_with_strangers_and_look_alikes(
    frames: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    stream = b"".join(line + payload + b"\r\n" for line, payload in frames)
    expected = [("PUB", line[4:5], None, -1, b"17", payload) for line, payload in frames]
    assert decode([stream]) == expected
    assert decode(cut(stream, places)) == expected


@settings(max_examples=400)
@given(mutations(), cuts)
@example(b"PUB a 1\r\nx\r\nPUB a 1\r\nx\rPUB a 1\r\nx\r\n", [])
@example(b"PUB a 10\nPUB a 10\r\n\r\n", [])
@example(b"PUB a 1\r\nx\n", [10])
@example(b"PUB a 1\r\nx\r\npub a 1\r\r\nx\r\n", [])
@example(b"HPUB a 1 1\r\r\n", [])
@example(b"INFO {}\x0c\n", [])
@example(b"CONNECT {}\x0c\r\n", [])
def test_mutilated_streams_fail_as_the_plain_decoder_says(stream: bytes, places: list[int]) -> None:
    expected = decode_plainly(stream, MAX_PAYLOAD)
    assert decode([stream], MAX_CONTROL_LINE, MAX_PAYLOAD) == expected
    assert decode(cut(stream, places), MAX_CONTROL_LINE, MAX_PAYLOAD) == expected


@settings(max_examples=200)
@given(st.lists(mutations() | st.binary(max_size=60), max_size=8), st.booleans())
def test_nothing_escapes_and_memory_is_bounded(pieces: list[bytes], headers: bool) -> None:
    decoder = ClientDecoder(SMALL_CONTROL_LINE, MAX_PAYLOAD)
    decoder.headers = headers
    dead = False
    for piece in pieces:
        operations = feed(decoder, piece)
        assert not (dead and operations)
        dead = dead or any(operation[0] == "ERROR" for operation in operations)
        assert [operation[0] for operation in operations[:-1]].count("ERROR") == 0
        room = SMALL_CONTROL_LINE + MAX_PAYLOAD + len(b"CONNECT \r\n\r\n") + len(piece)
        assert decoder.held_bytes <= room


@given(st.binary(max_size=200))
def test_any_bytes_at_all_give_segments(stream: bytes) -> None:
    decoder = ClientDecoder(SMALL_CONTROL_LINE, MAX_PAYLOAD)
    segments = decoder.feed(stream)
    assert not any(isinstance(segment, Malformed) for segment in segments[:-1])
