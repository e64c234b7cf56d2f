"""Frames of servers, decoded whole, byte by byte and with more behind them, and cut anywhere."""

import itertools

import pytest

from headwater.base.errors import PeerError
from headwater.wire.server_decoder import (
    CONTROL_LINE_BYTES_MAX,
    SIZE_DIGITS_MAX,
    ServerDecoder,
    ServerProtocolError,
)
from tests.kit.plain_server_decoder import Decoded, Message, decode, decode_plainly

HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
STATUS = b"NATS/1.0 404 No Messages\r\n\r\n"

MESSAGES: list[tuple[bytes, Message]] = [
    (b"MSG foo 1 5\r\nhello\r\n", (b"1", b"foo", b"", b"", b"hello")),
    (b"MSG foo 1 bar 5\r\nhello\r\n", (b"1", b"foo", b"bar", b"", b"hello")),
    (b"MSG foo 1 0\r\n\r\n", (b"1", b"foo", b"", b"", b"")),
    (b"MSG foo 1 bar 0\r\n\r\n", (b"1", b"foo", b"bar", b"", b"")),
    (b"MSG foo 1 bar 005\r\nhello\r\n", (b"1", b"foo", b"bar", b"", b"hello")),
    # Payloads that look like the protocol.
    (b"MSG foo 1 4\r\n\r\n\r\n\r\n", (b"1", b"foo", b"", b"", b"\r\n\r\n")),
    (b"MSG foo 1 bar 6\r\nPING\r\n\r\n", (b"1", b"foo", b"bar", b"", b"PING\r\n")),
    (b"MSG foo 1 bar 11\r\nMSG a 1 0\r\n\r\n", (b"1", b"foo", b"bar", b"", b"MSG a 1 0\r\n")),
    # Only a blank separates; other white space belongs to the subject, as it does for servers.
    (b"MSG a\x0bb\x0cc 1 1\r\nx\r\n", (b"1", b"a\x0bb\x0cc", b"", b"", b"x")),
    (b"MSG a\rb 1 c\x1cd 1\r\nx\r\n", (b"1", b"a\rb", b"c\x1cd", b"", b"x")),
    (b"MSG \xc3\xa9.\xff\x00 1 1\r\nx\r\n", (b"1", b"\xc3\xa9.\xff\x00", b"", b"", b"x")),
    (b"HMSG foo 1 18 23\r\n%bhello\r\n" % HEADER, (b"1", b"foo", b"", HEADER, b"hello")),
    (b"HMSG foo 1 bar 18 23\r\n%bhello\r\n" % HEADER, (b"1", b"foo", b"bar", HEADER, b"hello")),
    (b"HMSG foo 1 18 18\r\n%b\r\n" % HEADER, (b"1", b"foo", b"", HEADER, b"")),
    (b"HMSG foo 1 28 28\r\n%b\r\n" % STATUS, (b"1", b"foo", b"", STATUS, b"")),
    (b"HMSG foo 1 0 5\r\nhello\r\n", (b"1", b"foo", b"", b"", b"hello")),
]  # fmt: skip

CONTROLS: list[tuple[bytes, list[tuple[str, str | bytes]]]] = [
    (b"PING\r\n", [("PING", b"")]),
    (b"PONG\r\n", [("PONG", b"")]),
    (b"+OK\r\n", []),
    (b'INFO {"server_id":"x"} \r\n', [("INFO", b'{"server_id":"x"}')]),
    (b"-ERR 'Authorization Violation'\r\n", [("-ERR", "Authorization Violation")]),
    (
        b"-ERR 'Permissions Violation for Publish to \"a'b\"'\r\n",
        [("-ERR", 'Permissions Violation for Publish to "a\'b"')],
    ),
    (b"-ERR '\xff'\r\n", [("-ERR", "\\xff")]),
    (b"-ERR\r\n", [("-ERR", "")]),
]

BROKEN = [
    b"\r\n",
    b"XYZ\r\n",
    b" PING\r\n",
    b"ping\r\n",
    b"msg foo 1 0\r\n\r\n",
    b"HTTP/1.1 400 Bad Request\r\n",
    b"\x15\x03\x01\x00\x02\x02\n\r\n",
    b"INFO{}\r\n",
    b"MSG\r\n",
    b"MSG foo\r\n",
    b"MSG foo 1\r\n",
    b"MSG foo 1 bar baz 1\r\n",
    b"MSG foo 1 -1\r\n",
    b"MSG foo 1 bar -1\r\n",
    b"MSG foo 1 +1\r\n",
    b"MSG foo 1 1.0\r\n",
    b"MSG foo 1 x\r\n",
    b"MSG foo 1 bar x\r\n",
    b"MSG foo 1 \r\n",
    b"MSG foo 1 \xb2\r\n",
    b"MSG foo 1 bar 1234567890\r\n",
    b"HMSG foo 1 1\r\n",
    b"HMSG foo 1 2 1\r\n",
    b"HMSG foo 1 bar 2 1\r\n",
    b"HMSG foo 1 x 1\r\n",
    b"HMSG foo 1 1 x\r\n",
    b"HMSG foo 1 bar baz 1 1\r\n",
    b"HMSG foo 1 1234567890 1\r\n",
    # A payload that is longer, or shorter, than it said.
    b"MSG foo 1 2\r\nabc\r\n",
    b"MSG foo 1 bar 2\r\nabc\r\n",
    b"MSG foo 1 bar 2\r\na\r\n\r\n",
    b"HMSG foo 1 1 2\r\nabc\r\n",
    b"MSG foo 1 0\r\nMSG foo 1 0\r\n",
]  # fmt: skip

MIXED = (
    b"INFO {}\r\nMSG a 1 1\r\nx\r\nMSG a 1 r 2\r\nyy\r\nMSG b 12 r.s 2\r\nzz\r\nPING\r\n"
    b"HMSG a 1 r 2 3\r\n\r\n!\r\n+OK\r\nMSG a 1 r 0\r\n\r\nMSG a 2 0\r\n\r\nPONG\r\n-ERR 'x'\r\n"
)


def one_by_one(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


@pytest.mark.parametrize(("stream", "message"), MESSAGES, ids=lambda value: repr(value)[:40])
class TestMessages:
    def test_whole(self, stream: bytes, message: Message) -> None:
        assert decode([stream]) == Decoded([message])

    def test_byte_by_byte(self, stream: bytes, message: Message) -> None:
        assert decode(one_by_one(stream)) == Decoded([message])

    def test_with_more_behind_it(self, stream: bytes, message: Message) -> None:
        decoded = decode([stream + b"PING\r\nMSG foo 1 5\r\nhel", b"lo\r\n"])
        later = (b"1", b"foo", b"", b"", b"hello")
        assert decoded == Decoded([message, later], [("PING", b"")])

    def test_many_in_one_read(self, stream: bytes, message: Message) -> None:
        assert decode([stream * 25]) == Decoded([message] * 25)

    def test_between_messages_of_the_usual_form(self, stream: bytes, message: Message) -> None:
        usual = b"MSG s 9 r 1\r\n.\r\n"
        expected = [(b"9", b"s", b"r", b"", b"."), message, (b"9", b"s", b"r", b"", b".")]
        assert decode([usual + stream + usual]) == Decoded(expected)

    def test_the_plain_decoder_agrees(self, stream: bytes, message: Message) -> None:
        assert decode_plainly(stream) == Decoded([message])


@pytest.mark.parametrize(("stream", "expected"), CONTROLS, ids=lambda value: repr(value)[:40])
class TestControls:
    def test_whole(self, stream: bytes, expected: list[tuple[str, str | bytes]]) -> None:
        assert decode([stream]) == Decoded(controls=expected)

    def test_byte_by_byte(self, stream: bytes, expected: list[tuple[str, str | bytes]]) -> None:
        assert decode(one_by_one(stream)) == Decoded(controls=expected)

    def test_among_messages(self, stream: bytes, expected: list[tuple[str, str | bytes]]) -> None:
        usual = b"MSG s 9 r 1\r\n.\r\n"
        message = (b"9", b"s", b"r", b"", b".")
        assert decode([usual + stream + usual]) == Decoded([message] * 2, expected)

    def test_the_plain_decoder_agrees(
        self, stream: bytes, expected: list[tuple[str, str | bytes]]
    ) -> None:
        assert decode_plainly(stream) == Decoded(controls=expected)


@pytest.mark.parametrize("stream", BROKEN, ids=lambda value: repr(value)[:40])
class TestBrokenStreams:
    def test_whole(self, stream: bytes) -> None:
        with pytest.raises(ServerProtocolError, match=r"^the server sent ") as caught:
            ServerDecoder().feed(stream)
        assert isinstance(caught.value, PeerError)
        assert "\n" not in str(caught.value)

    def test_byte_by_byte(self, stream: bytes) -> None:
        assert decode(one_by_one(stream)) == Decoded(broken=True)

    def test_what_came_in_earlier_reads_stays_decoded(self, stream: bytes) -> None:
        good = b"MSG s 9 r 1\r\n.\r\n"
        message = (b"9", b"s", b"r", b"", b".")
        assert decode([good, stream, good]) == Decoded([message], broken=True)

    def test_nothing_is_kept_or_accepted_afterwards(self, stream: bytes) -> None:
        decoder = ServerDecoder()
        with pytest.raises(ServerProtocolError):
            decoder.feed(stream)
        arrived = decoder.feed(b"PING\r\n" * 3)
        assert (len(arrived), arrived.controls, decoder.held_bytes) == (0, [], 0)

    def test_the_plain_decoder_agrees(self, stream: bytes) -> None:
        assert decode_plainly(stream).broken


def test_a_mixed_stream_cut_at_every_pair_of_positions() -> None:
    expected = decode_plainly(MIXED)
    assert (len(expected.messages), len(expected.controls)) == (6, 4)
    assert decode([MIXED]) == expected
    for first, second in itertools.combinations(range(1, len(MIXED)), 2):
        pieces = [MIXED[:first], MIXED[first:second], MIXED[second:]]
        assert decode(pieces) == expected, (first, second)


def test_columns_have_one_row_per_message_in_order() -> None:
    with_reply, without = b"MSG s.%d %d r.%d 3\r\n%03d\r\n", b"MSG s.%d %d 0\r\n\r\n"
    stream = b"".join(with_reply % (n, n, n, n) if n % 3 else without % (n, n) for n in range(200))
    arrived = ServerDecoder().feed(stream)
    assert len(arrived) == 200
    assert arrived.subjects == [b"s.%d" % n for n in range(200)]
    assert arrived.sids == [b"%d" % n for n in range(200)]
    assert arrived.replies == [b"r.%d" % n if n % 3 else b"" for n in range(200)]
    assert arrived.payloads == [b"%03d" % n if n % 3 else b"" for n in range(200)]
    assert arrived.headers == [b""] * 200


def test_a_large_message_is_gathered_from_many_reads() -> None:
    payload = bytes(range(256)) * 4096 * 8
    stream = b"MSG big 1 r %d\r\n%b\r\nPING\r\n" % (len(payload), payload)
    pieces = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]
    assert decode(pieces) == Decoded([(b"1", b"big", b"r", b"", payload)], [("PING", b"")])


class TestLimits:
    def test_a_line_at_the_limit_waits_and_one_byte_more_is_refused(self) -> None:
        decoder = ServerDecoder()
        decoder.feed(b"INFO ".ljust(CONTROL_LINE_BYTES_MAX, b"x"))
        assert decoder.held_bytes == CONTROL_LINE_BYTES_MAX
        with pytest.raises(ServerProtocolError, match="line without end"):
            decoder.feed(b"x")
        assert decoder.held_bytes == 0

    def test_a_long_info_is_taken(self) -> None:
        document = b"{%b}" % (b" " * (CONTROL_LINE_BYTES_MAX - 16))
        assert decode([b"INFO ", document, b"\r\n"]).controls == [("INFO", document)]

    @pytest.mark.parametrize("operation", [b"MSG a 1 %b\r\n", b"MSG a 1 r %b\r\n"])
    def test_the_longest_size_waits_and_one_digit_more_is_refused(self, operation: bytes) -> None:
        decoder = ServerDecoder()
        decoder.feed(operation % (b"9" * SIZE_DIGITS_MAX))
        with pytest.raises(ServerProtocolError, match="invalid size"):
            ServerDecoder().feed(operation % (b"9" * (SIZE_DIGITS_MAX + 1)))

    def test_an_error_quotes_no_more_than_a_snippet(self) -> None:
        with pytest.raises(ServerProtocolError) as caught:
            ServerDecoder().feed(b"x" * 5000 + b"\r\n")
        assert len(str(caught.value)) < 200

    @pytest.mark.parametrize("start", [b"", b"INFO ", b"MSG a 1 100\r\n", b"HMSG a 1 r 1 100\r\n"])
    def test_memory_is_bounded_by_one_operation_and_one_read(self, start: bytes) -> None:
        decoder, read_bytes = ServerDecoder(), 1 << 16
        decoder.feed(start)
        held = 0
        try:
            for _ in range(3 * CONTROL_LINE_BYTES_MAX // read_bytes):
                decoder.feed(b" " * read_bytes)
                held = max(held, decoder.held_bytes)
        except ServerProtocolError:
            held = max(held, decoder.held_bytes)
        assert held <= CONTROL_LINE_BYTES_MAX + read_bytes
