"""The frames of a server, byte for byte."""

from itertools import repeat

import pytest

from headwater.wire import frames
from headwater.wire.batch import NO_HEADERS, Run


def test_fixed_answers() -> None:
    assert (frames.OK, frames.PING, frames.PONG) == (b"+OK\r\n", b"PING\r\n", b"PONG\r\n")


def test_errors_are_in_single_quotes() -> None:
    assert frames.error("Stale Connection") == b"-ERR 'Stale Connection'\r\n"


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    forged = frames.error("Permissions Violation for 'a\r\nINFO {}\r\n'")
    assert forged == b"-ERR 'Permissions Violation for 'a  INFO {}  ''\r\n"


@pytest.mark.parametrize(
    ("header_size", "reply", "size", "line"),
    [
        (NO_HEADERS, None, b"5", b"MSG foo 7 5\r\n"),
        (NO_HEADERS, b"_INBOX.x", b"5", b"MSG foo 7 _INBOX.x 5\r\n"),
        (12, None, b"12 17", b"HMSG foo 7 12 17\r\n"),
        (12, b"bar", b"12 17", b"HMSG foo 7 bar 12 17\r\n"),
    ],
)
def test_message_lines(header_size: int, reply: bytes | None, size: bytes, line: bytes) -> None:
    assert frames.message_line(b"foo", b"7", reply, header_size, size) == line


def test_info_is_one_line_with_a_blank_behind_its_document() -> None:
    assert frames.info(b"{}") == b"INFO {} \r\n"


SUBJECTS = [b"a", b"b.c", b"d"]
REPLIES = [b"r.1", b"r.2", b"r.3"]
PAYLOADS = [b"", b"x", b"two\r\nlines"]
NO_BLOCKS = [b"", b"", b""]
BLOCKS = [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0 404\r\n\r\n"]
MIXED = [b"", BLOCKS[1], b""]


def by_the_rule(subject: bytes, reply: bytes | None, block: bytes, payload: bytes) -> bytes:
    """One message for subscription 7, spelled by `message_line`."""
    header_size = len(block) if block else NO_HEADERS
    size = frames.size_tokens(header_size, len(block + payload))
    line = frames.message_line(subject, b"7", reply, header_size, size)
    return line + block + payload + frames.CRLF


@pytest.mark.parametrize("blocks", [NO_BLOCKS, BLOCKS, MIXED])
def test_messages_of_a_stream_are_spelled_by_the_rule(blocks: list[bytes]) -> None:
    expected = map(by_the_rule, SUBJECTS, REPLIES, blocks, PAYLOADS)
    found = frames.stored_messages(frames.tail_of(b"7"), SUBJECTS, REPLIES, blocks, PAYLOADS)
    assert found == b"".join(expected)


@pytest.mark.parametrize("blocks", [NO_BLOCKS, BLOCKS])
def test_messages_without_reply_are_spelled_by_the_rule(blocks: list[bytes]) -> None:
    headers = blocks if any(blocks) else ()
    found = frames.messages_without_reply(frames.tail_of(b"7"), SUBJECTS, PAYLOADS, headers)
    expected = [*map(by_the_rule, SUBJECTS, repeat(None), blocks, PAYLOADS)]
    assert found == expected
    one_by_one = map(
        frames.message_without_reply, repeat(frames.tail_of(b"7")), SUBJECTS, blocks, PAYLOADS
    )
    assert [*one_by_one] == expected


@pytest.mark.parametrize("reply", [None, b"back"])
@pytest.mark.parametrize("block", [b"", BLOCKS[1]])
def test_runs_and_copies_are_spelled_by_the_rule(reply: bytes | None, block: bytes) -> None:
    header_size = len(block) if block else NO_HEADERS
    size = frames.size_tokens(header_size, len(block) + 2)
    payloads = [block + b"hi", block + b"yo"]
    run = Run(b"s", reply, header_size, size, payloads)
    expected = [by_the_rule(b"s", reply, block, text) for text in (b"hi", b"yo")]
    assert frames.run_of_messages(run, b"7", payloads) == b"".join(expected)
    begin, end = frames.around_sid(b"s", reply, header_size, size, payloads[0])
    copies = frames.copies_of_message(begin, [frames.tail_of(b"7")] * 2, end)
    assert copies == expected[0] * 2


def test_no_responders_names_the_subject_and_gives_sizes_that_are_true() -> None:
    frame = frames.no_responders(b"_INBOX.x", b"3", b"orders.new")
    line, _, rest = frame.partition(b"\r\n")
    assert line == b"HMSG _INBOX.x 3 42 42"
    assert rest == b"NATS/1.0 503\r\nNats-Subject: orders.new\r\n\r\n\r\n"
    assert len(rest) == 42 + len(b"\r\n")


# --- frames of a client ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (frames.connect_frame(b"{}"), b"CONNECT {}\r\n"),
        (frames.subscribe_frame(b"a.*", b"7"), b"SUB a.* 7\r\n"),
        (frames.unsubscribe_frame(b"7"), b"UNSUB 7\r\n"),
        (frames.publish_frame(b"a", b"", b"", b"hi"), b"PUB a 2\r\nhi\r\n"),
        (frames.publish_frame(b"a", b"r", b"", b""), b"PUB a r 0\r\n\r\n"),
        (frames.publish_frame(b"a", b"", b"H\r\n", b"hi"), b"HPUB a 3 5\r\nH\r\nhi\r\n"),
        (frames.publish_frame(b"a", b"r", b"H\r\n", b"hi"), b"HPUB a r 3 5\r\nH\r\nhi\r\n"),
    ],
)
def test_frames_of_a_client_have_the_form_that_servers_read(frame: bytes, expected: bytes) -> None:
    assert frame == expected


def test_many_publishes_with_headers_are_spelled_as_each_of_them() -> None:
    blocks = [block or BLOCKS[1] for block in BLOCKS]
    found = frames.publish_frames_with_headers(SUBJECTS, b"r", blocks, PAYLOADS)
    each = map(frames.publish_frame, SUBJECTS, repeat(b"r"), blocks, PAYLOADS)
    assert found == b"".join(each)
