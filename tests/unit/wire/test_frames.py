"""What a server says, byte for byte."""

import pytest

from headwater.wire import frames


def test_fixed_answers() -> None:
    assert (frames.OK, frames.PING, frames.PONG) == (b"+OK\r\n", b"PING\r\n", b"PONG\r\n")


def test_errors_are_in_single_quotes() -> None:
    assert frames.error("Stale Connection") == b"-ERR 'Stale Connection'\r\n"


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    forged = frames.error("Permissions Violation for 'a\r\nINFO {}\r\n'")
    assert forged == b"-ERR 'Permissions Violation for 'a  INFO {}  ''\r\n"


@pytest.mark.parametrize(
    ("kind", "reply", "size", "line"),
    [
        (b"MSG", None, b"5", b"MSG foo 7 5\r\n"),
        (b"MSG", b"_INBOX.x", b"5", b"MSG foo 7 _INBOX.x 5\r\n"),
        (b"HMSG", None, b"12 17", b"HMSG foo 7 12 17\r\n"),
        (b"HMSG", b"bar", b"12 17", b"HMSG foo 7 bar 12 17\r\n"),
    ],
)
def test_message_lines(kind: bytes, reply: bytes | None, size: bytes, line: bytes) -> None:
    assert frames.message_line(kind, b"foo", b"7", reply, size) == line


def test_no_responders_names_the_subject_and_gives_sizes_that_are_true() -> None:
    frame = frames.no_responders(b"_INBOX.x", b"3", b"orders.new")
    line, _, rest = frame.partition(b"\r\n")
    assert line == b"HMSG _INBOX.x 3 42 42"
    assert rest == b"NATS/1.0 503\r\nNats-Subject: orders.new\r\n\r\n\r\n"
    assert len(rest) == 42 + len(b"\r\n")
