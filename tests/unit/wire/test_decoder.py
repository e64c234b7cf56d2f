"""Every operation decoded whole, byte by byte and with more behind it, and cut anywhere."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.wire import decoder as decoder_module
from headwater.wire.batch import Malformed, MalformedError, Publishes, Run, Segment
from headwater.wire.decoder import (
    LINE_KNOWN_BYTES_MAX,
    ClientDecoder,
    PublishLines,
)
from tests.kit.plain_decoder import (
    Operation,
    decode,
    decode_plainly,
    feed,
    flat,
    one_by_one,
)

MAX_CONTROL_LINE = 64
MAX_PAYLOAD = 32
READ_BYTES = 16

HELLO = ("PUB", b"foo", None, -1, b"5", b"hello")

OPERATIONS: list[tuple[bytes, list[Operation]]] = [
    (b"PUB foo 5\r\nhello\r\n", [HELLO]),
    (b"PUB foo bar 5\r\nhello\r\n", [("PUB", b"foo", b"bar", -1, b"5", b"hello")]),
    (b"PUB foo 0\r\n\r\n", [("PUB", b"foo", None, -1, b"0", b"")]),
    # The size goes to subscribers as it was written.
    (b"PUB foo 005\r\nhello\r\n", [("PUB", b"foo", None, -1, b"005", b"hello")]),
    # Any case, blanks and tabs in any number, and a bare newline after the arguments.
    (b"pUb\tfoo \t 5 \nhello\r\n", [HELLO]),
    (b"PUB foo 12\nhello, world\r\n", [("PUB", b"foo", None, -1, b"12", b"hello, world")]),
    (b"PUB foo bar 12\nhello, world\r\n", [("PUB", b"foo", b"bar", -1, b"12", b"hello, world")]),
    (b"PUB  foo\tbar  5\t\r\nhello\r\n", [("PUB", b"foo", b"bar", -1, b"5", b"hello")]),
    (b"PUB foo 4\r\n\r\n\r\n\r\n", [("PUB", b"foo", None, -1, b"4", b"\r\n\r\n")]),
    (b"PUB foo 6\r\nPING\r\n\r\n", [("PUB", b"foo", None, -1, b"6", b"PING\r\n")]),
    # Only blank and tab separate: other white space belongs to the subject.
    (b"PUB a\x0bb\x0cc 1\r\nx\r\n", [("PUB", b"a\x0bb\x0cc", None, -1, b"1", b"x")]),
    (b"PUB \xc3\xa9.\xff\x00 1\r\nx\r\n", [("PUB", b"\xc3\xa9.\xff\x00", None, -1, b"1", b"x")]),
    (b"HPUB foo 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
     [("PUB", b"foo", None, 12, b"12 17", b"NATS/1.0\r\n\r\nhello")]),
    (b"hpub foo bar 12 12\r\nNATS/1.0\r\n\r\n\r\n",
     [("PUB", b"foo", b"bar", 12, b"12 12", b"NATS/1.0\r\n\r\n")]),
    (b"HPUB foo  012\t17\r\nNATS/1.0\r\n\r\nhello\r\n",
     [("PUB", b"foo", None, 12, b"012 17", b"NATS/1.0\r\n\r\nhello")]),
    # An empty header block is none.
    (b"HPUB foo 0 5\r\nhello\r\n", [HELLO]),
    (b"SUB foo 1\r\n", [("SUB", b"foo", None, b"1")]),
    (b"sub\tfoo.*  group\tabc \r\n", [("SUB", b"foo.*", b"group", b"abc")]),
    (b"UNSUB 1\r\n", [("UNSUB", b"1", -1)]),
    (b"unsub 1 10\n", [("UNSUB", b"1", 10)]),
    (b"UNSUB 1 ten\r\n", [("UNSUB", b"1", -1)]),
    (b"UNSUB 1 1234567890\r\n", [("UNSUB", b"1", -1)]),
    (b'CONNECT {"verbose":false}\r\n', [("CONNECT", b'{"verbose":false}')]),
    (b'connect{}\n', [("CONNECT", b"{}")]),
    (b"CONNECT \t {} \r\n", [("CONNECT", b"{}")]),
    (b"PING\r\n", [("PING",)]),
    (b"ping\n", [("PING",)]),
    (b"PING and more\r\n", [("PING",)]),
    (b"PONG\r\n", [("PONG",)]),
    (b"pongo\n", [("PONG",)]),
    (b"-ERR 'gone wrong'\r\n", [("-ERR", b"'gone wrong'")]),
    (b"+OK\r\n", [("MEANINGLESS",)]),
    (b"+ok whatever\r\n", [("MEANINGLESS",)]),
    (b'INFO {"server_id":"x"}\r\n', [("MEANINGLESS",)]),
]  # fmt: skip

MIXED = (
    b"CONNECT {}\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nPUB a 1\r\nz\r\nPING\r\n"
    b"SUB a.* q 7\r\nHPUB a r 2 3\r\n\r\n!\r\n+OK\r\nPUB a 0\r\n\r\nPUB a 0\r\n\r\nunsub 7 2\r\n"
)

REFUSED = [
    # Operations that the protocol does not have.
    (b"XYZ", "Unknown Protocol Operation"),
    (b"\r\n", "Unknown Protocol Operation"),
    (b" PING\r\n", "Unknown Protocol Operation"),
    (b"PUBX foo 1\r\n", "Unknown Protocol Operation"),
    (b"PUB\r\n", "Unknown Protocol Operation"),
    (b"SUB\r\n", "Unknown Protocol Operation"),
    (b"HPUB\n", "Unknown Protocol Operation"),
    (b"UNSUBx", "Unknown Protocol Operation"),
    (b"-ERRx", "Unknown Protocol Operation"),
    (b"CONNEXT", "Unknown Protocol Operation"),
    (b"MSG foo 1 1\r\nx\r\n", "Unknown Protocol Operation"),
    (b"HMSG foo 1 1\r\nx\r\n", "Unknown Protocol Operation"),
    (b"RMSG foo 1\r\n", "Unknown Protocol Operation"),
    (b"\x16\x03\x01", "Unknown Protocol Operation"),
    # A payload that is longer, or shorter, than it said.
    (b"PUB foo 2\r\nabc\r\n", "Unknown Protocol Operation"),
    (b"PUB foo 2\r\nab\rx", "Unknown Protocol Operation"),
    (b"PUB foo 2\r\nab\n", "Unknown Protocol Operation"),
    (b"PUB foo 0\r\nx", "Unknown Protocol Operation"),
    # Senseless arguments close the connection without an error.
    (b"PUB foo\r\n", ""),
    (b"PUB \r\n", ""),
    (b"PUB foo bar baz 1\r\n", ""),
    (b"PUB foo -1\r\n", ""),
    (b"PUB foo +1\r\n", ""),
    (b"PUB foo 1.0\r\n", ""),
    (b"PUB foo x\r\n", ""),
    (b"PUB foo \xb2\r\n", ""),
    (b"PUB foo 1234567890\r\n", ""),
    (b"HPUB foo 1\r\n", ""),
    (b"HPUB foo bar baz 1 1\r\n", ""),
    (b"HPUB foo x 1\r\n", ""),
    (b"HPUB foo 1 x\r\n", ""),
    (b"HPUB foo 2 1\r\n", ""),
    # A carriage return ends a word for many clients, so none may stand in a subject or a reply.
    (b"PUB foo\rbar 1\r\n", ""),
    (b"PUB \rfoo 1\r\n", ""),
    (b"PUB foo in\rbox 1\r\n", ""),
    (b"PUB\tfoo\rbar 1\r\n", ""),
    (b"HPUB foo\rbar 1 1\r\n", ""),
    (b"HPUB foo in\rbox 1 1\r\n", ""),
    # Nor in a size, of which a second one at the end of the line would be a part.
    (b"PUB foo 1\r\r\n", ""),
    (b"PUB\tfoo 1\r\r\n", ""),
    (b"PUB foo inbox 1\r\r\n", ""),
    (b"HPUB foo 1 1\r\r\n", ""),
    (b"SUB foo\r\n", ""),
    (b"SUB \r\n", ""),
    (b"SUB foo bar baz 1\r\n", ""),
    (b"UNSUB \r\n", ""),
    (b"UNSUB 1 2 3\r\n", ""),
    (b"INFO {\r\n", ""),
    (b"INFO []\r\n", ""),
    # Limits.
    (b"PUB foo 33\r\n", "Maximum Payload Violation"),
    (b"PUB foo 999999999\r\n", "Maximum Payload Violation"),
    (b"HPUB foo 1 33\r\n", "Maximum Payload Violation"),
    (b"SUB " + b"x" * 63 + b" 1\r\n", "maximum control line exceeded"),
    (b"UNSUB " + b"x" * 65 + b"\r\n", "maximum control line exceeded"),
    (b"PUB " + b"x" * 63 + b" 1\r\n", "maximum control line exceeded"),
    (b"HPUB " + b"x" * 61 + b" 1 1\r\n", "maximum control line exceeded"),
    (b"CONNECT " + b"x" * 65 + b"\r\n", "maximum control line exceeded"),
    (b"-ERR " + b"x" * 65 + b"\r\n", "maximum control line exceeded"),
]  # fmt: skip


def small(pieces: list[bytes]) -> list[Operation]:
    return decode(pieces, MAX_CONTROL_LINE, MAX_PAYLOAD)


@pytest.mark.parametrize(("stream", "expected"), OPERATIONS, ids=lambda v: repr(v)[:40])
class TestEveryOperation:
    def test_whole(self, stream: bytes, expected: list[Operation]) -> None:
        assert small([stream]) == expected

    def test_byte_by_byte(self, stream: bytes, expected: list[Operation]) -> None:
        assert small(one_by_one(stream)) == expected

    def test_with_more_behind_it(self, stream: bytes, expected: list[Operation]) -> None:
        assert small([stream + b"PING\r\nPUB foo 5\r\nhel"]) == [*expected, ("PING",)]

    def test_many_in_one_read(self, stream: bytes, expected: list[Operation]) -> None:
        assert small([stream * 25]) == expected * 25

    def test_the_plain_decoder_agrees(self, stream: bytes, expected: list[Operation]) -> None:
        assert decode_plainly(stream, MAX_PAYLOAD) == expected


@pytest.mark.parametrize(("stream", "reply"), REFUSED, ids=lambda v: repr(v)[:40])
class TestRefusals:
    def test_whole_with_good_operations_before(self, stream: bytes, reply: str) -> None:
        assert small([b"PING\r\nPUB foo 5\r\nhello\r\n" + stream + b"PING\r\n"]) == [
            ("PING",),
            HELLO,
            ("ERROR", reply),
        ]

    def test_byte_by_byte(self, stream: bytes, reply: str) -> None:
        assert small(one_by_one(stream + b"PING\r\n")) == [("ERROR", reply)]

    def test_nothing_is_accepted_afterwards(self, stream: bytes, reply: str) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        segments = decoder.feed(stream + b"PING\r\n")
        assert isinstance(segments[-1], Malformed)
        assert decoder.feed(b"PING\r\n") == []
        assert (decoder.unfinished, decoder.held_bytes) == (b"", 0)


@pytest.mark.parametrize("words", [b"f\roo inbox", b"foo in\rbox", b"\rfoo inbox", b"foo inbox\r"])
def test_a_carriage_return_is_found_where_only_sizes_are_known(words: bytes) -> None:
    known = b"PUB foo inbox 1\r\nx\r\n"
    assert small([known, b"PUB %b 1\r\nx\r\n" % words]) == [*small([known]), ("ERROR", "")]


def test_a_mixed_stream_cut_at_every_pair_of_positions() -> None:
    expected = decode_plainly(MIXED, MAX_PAYLOAD)
    assert len(expected) == 11
    assert small([MIXED]) == expected
    for first, second in itertools.combinations(range(1, len(MIXED)), 2):
        pieces = [MIXED[:first], MIXED[first:second], MIXED[second:]]
        assert small(pieces) == expected, (first, second)


def test_a_run_cut_at_every_position() -> None:
    stream = b"PUB a 3\r\nabc\r\n" * 40
    expected = [("PUB", b"a", None, -1, b"3", b"abc")] * 40
    for cut in range(1, len(stream)):
        assert small([stream[:cut], stream[cut:]]) == expected, cut


def test_a_wrong_byte_behind_a_payload_is_refused_when_it_arrives() -> None:
    decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
    assert feed(decoder, b"PUB a 2\r\nx") == []
    assert feed(decoder, b"y") == []
    assert feed(decoder, b"\n") == [("ERROR", "Unknown Protocol Operation")]


def test_a_broken_operation_in_a_cut_stream_ends_it_at_the_same_place() -> None:
    stream = MIXED + b"PUB a 1\r\nxy\r\n" + MIXED
    expected = decode_plainly(stream, MAX_PAYLOAD)
    assert expected[-1] == ("ERROR", "Unknown Protocol Operation")
    for cut in range(1, len(stream)):
        assert small([stream[:cut], stream[cut:]]) == expected, cut


class TestLimits:
    @pytest.mark.parametrize(
        ("before", "behind"),
        [
            (b"SUB ", b" 1\r\n"),
            (b"UNSUB ", b" 1\r\n"),
            (b"CONNECT ", b"\r\n"),
            (b"-ERR ", b"\r\n"),
            (b"PUB ", b" 0\r\n\r\n"),
            (b"HPUB ", b" 0 0\r\n\r\n"),
            (b"pub ", b" 0\r\n\r\n"),
        ],
    )
    def test_arguments_at_the_limit_pass_and_one_more_byte_does_not(
        self, before: bytes, behind: bytes
    ) -> None:
        room = MAX_CONTROL_LINE - (len(behind.partition(b"\r\n")[0]))
        at_limit = before + b"x" * room + behind
        past_limit = before + b"x" * (room + 1) + behind
        for cut in (lambda stream: [stream], one_by_one):
            assert small(cut(at_limit))[-1][0] != "ERROR"
            assert small(cut(past_limit)) == [("ERROR", "maximum control line exceeded")]

    @pytest.mark.parametrize("start", [b"PING", b"PONG", b"+OK", b"INFO ", b"CONNECT "])
    def test_a_long_line_is_judged_the_same_however_it_was_cut(self, start: bytes) -> None:
        stream = start + b" " * (4 * MAX_CONTROL_LINE) + b"{}\r\n"
        assert small([stream]) == small(one_by_one(stream))

    def test_a_payload_at_the_limit_passes(self) -> None:
        stream = b"PUB foo %d\r\n%b\r\n" % (MAX_PAYLOAD, b"x" * MAX_PAYLOAD)
        assert small([stream])[0][-1] == b"x" * MAX_PAYLOAD

    def test_an_oversized_payload_is_refused_before_it_arrives(self) -> None:
        assert small([b"PUB foo 33\r\n"]) == [("ERROR", "Maximum Payload Violation")]

    def test_limits_can_change_between_reads(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, 5)
        line = b"PUB foo 5\r\nhello\r\n"
        assert feed(decoder, line * 3) == [HELLO] * 3
        decoder.set_limits(MAX_CONTROL_LINE, 4)
        assert feed(decoder, line) == [("ERROR", "Maximum Payload Violation")]

    @pytest.mark.parametrize("start", [
        b"PUB foo 32\r\n", b"HPUB foo 0 32\r\n", b"SUB ", b"PING", b"CONNECT ", b"INFO ", b"+OK",
        b"-ERR ", b"UNSUB ",
    ])  # fmt: skip
    def test_memory_is_bounded_by_the_limits_and_one_read(self, start: bytes) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        held = 0
        decoder.feed(start)
        for _ in range(100):
            decoder.feed(b" " * READ_BYTES)
            held = max(held, decoder.held_bytes)
        assert held <= MAX_CONTROL_LINE + MAX_PAYLOAD + len(b"CONNECT \r\n") + READ_BYTES


class TestRuns:
    """Payloads that look like the protocol must not fool the splitting of runs."""

    def test_a_run_is_one_segment(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        segments = decoder.feed(b"PUB foo 5\r\nhello\r\n" * 1000)
        assert sum(len(s.payloads) for s in segments if isinstance(s, Run)) >= 900
        assert flat(segments) == [HELLO] * 1000

    @pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 40, 200])
    def test_every_length_of_run(self, count: int) -> None:
        stream = b"".join(b"PUB foo 3\r\n%03d\r\n" % i for i in range(count))
        expected = [("PUB", b"foo", None, -1, b"3", b"%03d" % i) for i in range(count)]
        assert decode([stream]) == expected

    @pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 40])
    def test_empty_payloads(self, count: int) -> None:
        stream = b"PUB foo 0\r\n\r\n" * count
        assert decode([stream]) == [("PUB", b"foo", None, -1, b"0", b"")] * count

    @pytest.mark.parametrize(
        "payload",
        [
            b"PUB foo 13\r\n\r",
            b"\r\nPUB foo 13\r",
            b"\nPUB foo 13\r\n",
            b"\r\n\r\n\r\n\r\n\r\n\r\n\r",
            b"PUB foo 13\r\n.",
            b"\r\nPING\r\n\r\n\r\n.",
        ],
    )
    @pytest.mark.parametrize("spread", [1, 2, 3, 5, 9])
    def test_payloads_that_contain_the_control_line(self, payload: bytes, spread: int) -> None:
        assert len(payload) == 13
        payloads = [payload if i % spread == 0 else b"ordinary here" for i in range(60)]
        stream = b"".join(b"PUB foo 13\r\n%b\r\n" % p for p in payloads)
        expected = [("PUB", b"foo", None, -1, b"13", p) for p in payloads]
        assert decode([stream]) == expected
        assert decode([stream[:500], stream[500:]]) == expected

    def test_a_payload_of_whole_frames_with_the_same_line(self) -> None:
        # Eight frames inside one payload, one of which is shorter: pieces of the right number and
        # total length, none of them where a frame really starts.
        inner = (b"\r\nPUB foo 30\r\n" * 3)[:30]
        payloads = [inner, inner[::-1], b"x" * 30, inner, inner]
        stream = b"".join(b"PUB foo 30\r\n%b\r\n" % p for p in payloads * 7)
        assert [op[-1] for op in decode([stream])] == payloads * 7

    @pytest.mark.parametrize("position", [1, 5, 8, 9, 30, 38, 39])
    def test_a_frame_that_ends_wrongly_in_a_run_is_found(self, position: int) -> None:
        frames = [b"PUB foo 3\r\nabc\r\n"] * 40
        frames[position] = b"PUB foo 3\r\nabc\n\r"
        operations = decode([b"".join(frames)])
        assert len(operations) == position + 1
        assert operations[-1] == ("ERROR", "Unknown Protocol Operation")

    def test_the_same_line_is_recognised_across_other_operations_and_reads(self) -> None:
        line = b"PUB foo 5\r\nhello\r\n"
        assert decode([line, b"PING\r\n" + line * 2, line]) == [HELLO, ("PING",), *[HELLO] * 3]

    def test_after_a_failed_line_of_another_kind_the_remembered_one_is_intact(self) -> None:
        stream = b"HPUB foo 1 5\r\nhello\r\nPUB foo 5\r\nhello\r\nHPUB foo 1 5\r\nhello\r\n"
        with_header = ("PUB", b"foo", None, 1, b"1 5", b"hello")
        assert decode([stream]) == [with_header, HELLO, with_header]


class TestConnect:
    """CONNECT decides what may follow it, so the decoder waits there."""

    def test_decoding_stops_behind_it_and_goes_on_when_fed_nothing(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        stream = b"PING\r\nCONNECT {}\r\nHPUB foo 1 5\r\nhello\r\nPING\r\n"
        assert flat(decoder.feed(stream)) == [("PING",), ("CONNECT", b"{}")]
        assert decoder.stopped
        decoder.headers = True
        assert flat(decoder.feed(b"")) == [("PUB", b"foo", None, 1, b"1 5", b"hello"), ("PING",)]
        assert not decoder.stopped

    def test_what_is_behind_it_is_kept_and_not_copied_for_each(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        stream = b"CONNECT {}\r\n" * 3 + b"PI"
        assert flat(decoder.feed(stream)) == [("CONNECT", b"{}")]
        assert (decoder.unfinished, decoder.held_bytes) == (b"C", 2 * 12 + 2)
        assert decoder._rest is stream
        assert flat(decoder.feed(b"")) == [("CONNECT", b"{}")]
        assert decoder._rest is stream
        # More may have arrived while the first was being looked at.
        assert flat(decoder.feed(b"NG\r\n")) == [("CONNECT", b"{}")]
        assert flat(decoder.feed(b"")) == [("PING",)]
        assert (decoder.unfinished, decoder.held_bytes) == (b"", 0)

    def test_closing_lets_go_of_what_is_behind_it(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        decoder.feed(b"CONNECT {}\r\nPING\r\n")
        decoder.close()
        assert (decoder.held_bytes, decoder.feed(b"")) == (0, [])

    def test_headers_are_refused_on_the_control_line(self) -> None:
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
        assert feed(decoder, b"CONNECT {}\r\nPUB foo 5\r\nhello\r\nHPUB foo 1 999\r\n") == [
            ("CONNECT", b"{}"),
            HELLO,
            ("ERROR", ""),
        ]

    def test_an_error_says_what_the_operation_began_with(self) -> None:
        for stream in (b"CONNEX", b"connect" + b"x" * 99, b"PUB foo\r\n", b"x", b"\r\n"):
            decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD)
            [malformed] = decoder.feed(stream)
            assert isinstance(malformed, Malformed)
            assert malformed.operation.upper() == stream[:1].upper()


class CountedRead(bytes):
    """A read that counts the bytes copied when it is added to what was left before."""

    copied = 0

    def __radd__(self, left: bytes) -> bytes:
        CountedRead.copied += len(left) + len(self)
        return bytes(left) + bytes(self)


def test_a_payload_that_arrives_in_many_reads_is_not_copied_once_per_read() -> None:
    size, reads = 64 * 1024, 1024
    stream = b"PUB foo %d\r\n%b\r\n" % (size, b"x" * size)
    step = len(stream) // reads
    decoder = ClientDecoder(MAX_CONTROL_LINE, size)
    CountedRead.copied = 0
    operations = []
    for start in range(0, len(stream), step):
        operations += feed(decoder, CountedRead(stream[start : start + step]))
    assert [len(op[-1]) for op in operations] == [size]  # type: ignore[arg-type]
    assert CountedRead.copied <= 8 * len(stream)


class TestKnownLines:
    """Publish lines are remembered for all connections together, within bounds."""

    def test_a_line_of_one_connection_is_known_to_the_next(self) -> None:
        lines = PublishLines()
        for _ in range(2):
            decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines)
            assert flat(decoder.feed(b"PUB foo 5\r\nhello\r\n")) == [HELLO]
        assert list(lines.known[False]) == [b"PUB foo 5\r\n"]

    def test_a_line_with_headers_is_known_where_headers_are_allowed(self) -> None:
        lines = PublishLines()
        frame = b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        for _ in range(2):
            decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines)
            decoder.headers = True
            [segment] = decoder.feed(frame)
            assert isinstance(segment, Publishes)
            assert segment.header_sizes == [12]
        assert list(lines.known[True]) == [b"HPUB foo 12 14\r\n"]
        [malformed] = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines).feed(frame)
        assert isinstance(malformed, Malformed)

    @pytest.mark.parametrize(
        "line",
        [
            *(b"PUB foo reply 0", b"PUB _INBOX.me.1 0", b"pub foo 0", b"PUB  foo 0"),
            *(b"HPUB foo 0 0", b"HPUB foo reply 1 1", b"HPUB _INBOX.me.1 1 1", b"hpub foo 1 1"),
        ],
    )
    def test_lines_that_hardly_come_again_do_not_enter(self, line: bytes) -> None:
        lines = PublishLines()
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines)
        decoder.headers = True
        payload = b"x" if line.endswith(b"1") else b""
        assert len(decoder.feed(line + b"\r\n%b\r\n" % payload)) == 1
        assert lines.known[True] == {}

    @pytest.mark.parametrize(("excess", "known"), [(0, 1), (1, 0)])
    def test_long_lines_do_not_enter(self, excess: int, known: int) -> None:
        lines = PublishLines()
        decoder = ClientDecoder(4096, MAX_PAYLOAD, lines)
        subject = b"x" * (LINE_KNOWN_BYTES_MAX + excess - len(b"PUB  0\r\n"))
        assert len(decoder.feed(b"PUB %b 0\r\n\r\n" % subject)) == 1
        assert len(lines.known[False]) == known

    def test_all_are_forgotten_when_there_are_too_many(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(decoder_module, "LINES_KNOWN_MAX", 3)
        lines = PublishLines()
        decoder = ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines)
        for number in range(10):
            decoder.feed(b"PUB s%d 0\r\n\r\n" % number)
            assert 1 <= len(lines.known[False]) <= 3

    def test_the_payload_limit_is_each_connection_s_own(self) -> None:
        lines = PublishLines()
        ClientDecoder(MAX_CONTROL_LINE, MAX_PAYLOAD, lines).feed(b"PUB foo 5\r\nhello\r\n")
        [malformed] = ClientDecoder(MAX_CONTROL_LINE, 4, lines).feed(b"PUB foo 5\r\nhello\r\n")
        assert isinstance(malformed, Malformed)


# Mostly in good order, and with few sizes, so that what was met before comes again.
_WORDS = st.sampled_from([b"a", b"a", b"_INBOX.a", b"", b"a\tb", b"a\rb", b"long." * 5])
_ENDS = st.sampled_from([b"12", b"12 20", b"12 20", b"20 12", b"0000000012 20", b"0 20", b"x"])
_FREE = st.lists(_WORDS | _ENDS, max_size=6)
_LINES = st.builds(
    lambda fields, end: b" ".join(fields) + end,
    st.one_of(
        st.tuples(st.just(b"HPUB"), _WORDS, _WORDS, _ENDS),
        st.tuples(st.sampled_from([b"PUB", b"HPUB"]), _WORDS, _WORDS, _ENDS),
        st.tuples(st.sampled_from([b"PUB", b"HPUB", b"hpub"]), _WORDS, _ENDS),
        _FREE.map(lambda fields: (b"HPUB", *fields)),
    ),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]),
)


@given(
    st.lists(st.tuples(_LINES, st.booleans()), min_size=5, max_size=20), st.sampled_from([30, 99])
)
@settings(max_examples=500)
def test_the_short_ways_of_a_publish_are_the_long_one(
    given: list[tuple[bytes, bool]], max_control_line: int
) -> None:
    """The ways agree also if a line, or its sizes, were met before."""
    lines = PublishLines()

    def outcome(parse: Callable[[bytes], object], line: bytes) -> object:
        try:
            return parse(line)
        except MalformedError as error:
            return str(error)

    for line, has_headers in given * 2:
        decoder = ClientDecoder(max_control_line, 1_000_000, lines)
        decoder.headers = has_headers
        said = outcome(decoder._parse_unusual_publish, line)
        assert outcome(decoder._parse_publish, line) == said
        assert lines.known[has_headers].get(line, said) == said
        for size in (12, 20):
            data = line + b"x" * size + b"\r\n"
            found = []
            for table in (lines, PublishLines()):
                decoder = ClientDecoder(max_control_line, 1_000_000, table)
                decoder.headers = has_headers
                found.append(columns(decoder.feed(data)))
            assert found[0] == found[1]


def columns(segments: list[Segment]) -> list[object]:
    """The fields of all segments."""
    return [
        (type(segment), [getattr(segment, name) for name in type(segment).__slots__])
        for segment in segments
    ]
