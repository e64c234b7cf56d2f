"""Header blocks change by exactly the bytes that nats-server changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.headers import (
    replaced,
    status_block,
    value_of,
    with_lines,
    with_value,
    without,
    without_prefix,
    without_status,
)

A = b"NATS/1.0\r\nA: 1\r\n\r\n"
AB = b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("block", "name", "value"),
    [
        (AB, b"A", b"1"),
        (AB, b"B", b"2"),
        (AB, b"C", None),
        (AB, b"a", None),
        (b"", b"A", None),
        (b"NATS/1.0\r\nA:1\r\n\r\n", b"A", b"1"),
        (b"NATS/1.0\r\nA:   1 \r\n\r\n", b"A", b"1 "),
        (b"NATS/1.0\r\nA: \t1\r\n\r\n", b"A", b"\t1"),
        (b"NATS/1.0\r\nA:\r\n\r\n", b"A", b""),
        (b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", b"A", b"1"),
        (b"NATS/1.0\r\nAA: 1\r\nBA: 2\r\nA: 3\r\n\r\n", b"A", b"3"),
        (b"NATS/1.0\r\nX: A: 1\r\n\r\n", b"A", None),
        (b"NATS/1.0\r\nX: \nA: 1\r\n\r\n", b"A", None),
        (b"NATS/1.0\r\nA : 1\r\n\r\n", b"A", None),
        (b"NATS/1.0\r\nA: a\rb\nc\r\n\r\n", b"A", b"a\rb\nc"),
        (b"NATS/1.0\r\nA: cut", b"A", b"cut"),
        (b"A: 1\r\n\r\n", b"A", None),
    ],
)
def test_the_first_header_of_a_name_counts(block: bytes, name: bytes, value: bytes | None) -> None:
    assert value_of(block, name) == value


@pytest.mark.parametrize(
    ("block", "value", "result"),
    [
        (b"", b"1", b"NATS/1.0\r\nB: 1\r\n\r\n"),
        (A, b"2", AB),
        (b"NATS/1.0\r\n\r\n", b"1", b"NATS/1.0\r\nB: 1\r\n\r\n"),
        (AB, b"3", b"NATS/1.0\r\nA: 1\r\nB: 2\r\nB: 3\r\n\r\n"),
        (A, b"a\r\nb\n", b"NATS/1.0\r\nA: 1\r\nB: a  b\r\n\r\n"),
        (A, b" \t2 ", AB),
        (A, b"", b"NATS/1.0\r\nA: 1\r\nB: \r\n\r\n"),
    ],
)
def test_a_header_is_added_at_the_end(block: bytes, value: bytes, result: bytes) -> None:
    assert with_value(block, b"B", value) == result


def test_finished_lines_are_added_at_the_end() -> None:
    assert with_lines(A, b"B: 2\r\n") == AB
    assert with_lines(b"", b"A: 1\r\nB: 2\r\n") == AB


@pytest.mark.parametrize(
    ("block", "result"),
    [
        (A, b"NATS/1.0\r\nA: new\r\n\r\n"),
        (AB, b"NATS/1.0\r\nA: new\r\nB: 2\r\n\r\n"),
        (b"NATS/1.0\r\nA:1\r\n\r\n", b"NATS/1.0\r\nA:new\r\n\r\n"),
        (b"NATS/1.0\r\nA:  1\r\n\r\n", b"NATS/1.0\r\nA: new\r\n\r\n"),
        (b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", b"NATS/1.0\r\nA: new\r\nA: 2\r\n\r\n"),
        (b"NATS/1.0\r\nB: 2\r\n\r\n", b"NATS/1.0\r\nB: 2\r\nA: new\r\n\r\n"),
        (b"", b"NATS/1.0\r\nA: new\r\n\r\n"),
        (b"NATS/1.0\r\nA: cut", b"NATS/1.0\r\nA: cut"),
    ],
)
def test_a_value_is_replaced_in_place(block: bytes, result: bytes) -> None:
    assert replaced(block, b"A", b"new") == result


@pytest.mark.parametrize(
    ("block", "result"),
    [
        (A, b""),
        (AB, b"NATS/1.0\r\nB: 2\r\n\r\n"),
        (b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA:3\r\n\r\n", b"NATS/1.0\r\nB: 2\r\n\r\n"),
        (b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", b""),
        (b"NATS/1.0 503\r\nA: 1\r\n\r\n", b"NATS/1.0 503\r\n\r\n"),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"NATS/1.0\r\nA: cut", b"NATS/1.0\r\nA: cut"),
        (b"", b""),
    ],
)
def test_every_header_of_a_name_is_dropped(block: bytes, result: bytes) -> None:
    assert without(block, b"A") == result


@pytest.mark.parametrize(
    ("block", "result"),
    [
        (b"NATS/1.0\r\nA-x: 1\r\nA-: 2\r\n\r\n", b""),
        (b"NATS/1.0\r\nA-x: 1\r\nB: A-\r\nA-y\r\n\r\n", b"NATS/1.0\r\nB: A-\r\n\r\n"),
        (b"NATS/1.0\r\nB: x\nA-y\r\nC: 1\r\n\r\n", b"NATS/1.0\r\nB: x\nC: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA-x: cut", b"NATS/1.0\r\nA-x: cut"),
        (AB, AB),
    ],
)
def test_lines_are_dropped_by_how_they_begin(block: bytes, result: bytes) -> None:
    assert without_prefix(block, b"A-") == result


@pytest.mark.parametrize(
    ("block", "result"),
    [
        (b"NATS/1.0 503 No Responders\r\nA: 1\r\n\r\n", A),
        (b"NATS/1.0 503\r\n\r\n", b""),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"HTTP/1.1 200\r\n\r\n", b"HTTP/1.1 200\r\n\r\n"),
        (b"NATS/1.0 cut", b"NATS/1.0 cut"),
        (A, A),
        (b"", b""),
    ],
)
def test_a_status_is_not_kept(block: bytes, result: bytes) -> None:
    assert without_status(block) == result


def test_a_status_and_its_headers_are_one_line_each_whatever_they_quote() -> None:
    block = status_block(400, "Bad\r\nForged: 1", [(b"Name", b"a\r\n\r\nb")])
    assert block == b"NATS/1.0 400 Bad  Forged: 1\r\nName: a    b\r\n\r\n"


def test_a_status_says_how_a_request_went() -> None:
    assert status_block(404, "Message Not Found") == b"NATS/1.0 404 Message Not Found\r\n\r\n"
    pairs = [(b"Nats-Num-Pending", b"0"), (b"Nats-Last-Sequence", b"7")]
    assert status_block(204, "EOB", pairs) == (
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 7\r\n\r\n"
    )
    assert status_block(503, "") == b"NATS/1.0 503\r\n\r\n"


# --- against lines ------------------------------------------------------------------------------

names = st.sampled_from([b"A", b"AB", b"B", b"Nats-A", b"Nats-AB"])
pairs = st.tuples(names, st.text("xA: ", max_size=3).map(str.encode))


class Lines:
    """The dumb twin: a block as a list of lines."""

    def __init__(self, block: bytes) -> None:
        self.lines = block.split(b"\r\n")[1:-2] if block else []

    def value_of(self, name: bytes) -> bytes | None:
        return next((self.after(line) for line in self.lines if self.is_named(line, name)), None)

    @staticmethod
    def is_named(line: bytes, name: bytes) -> bool:
        return line.split(b":")[0] == name

    @staticmethod
    def after(line: bytes) -> bytes:
        return line.split(b":", 1)[1].lstrip(b" ")

    def block(self, emptied: bytes) -> bytes:
        if not self.lines:
            return emptied
        return b"".join(line + b"\r\n" for line in [b"NATS/1.0", *self.lines, b""])


def block_of(headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = b"".join(b"%b:%b\r\n" % pair for pair in headers)
    return b"NATS/1.0\r\n" + lines + b"\r\n" if headers else b""


@given(st.lists(pairs), names, st.text("xy", max_size=2).map(str.encode))
def test_the_bytes_agree_with_the_lines(
    headers: list[tuple[bytes, bytes]], name: bytes, value: bytes
) -> None:
    block = block_of(headers)
    assert value_of(block, name) == Lines(block).value_of(name)

    longer = Lines(block)
    longer.lines.append(name + b": " + value)
    assert with_value(block, name, value) == longer.block(b"")

    shorter = Lines(block)
    shorter.lines = [line for line in shorter.lines if not shorter.is_named(line, name)]
    assert without(block, name) == shorter.block(b"")

    others = Lines(block)
    others.lines = [line for line in others.lines if not line.startswith(name)]
    assert without_prefix(block, name) == others.block(b"")

    assert value_of(replaced(block, name, value), name) == value
    assert without(replaced(block, name, value), name) == shorter.block(b"")


@given(
    st.lists(st.sampled_from([b"NATS/1.0", b"\r\n", b"\r", b"\n", b"A", b":", b" ", b"x"])).map(
        b"".join
    )
)
def test_nothing_fails_on_a_malformed_block(block: bytes) -> None:
    value_of(block, b"A")
    assert b"A: x" in with_value(block, b"A", b"x")
    assert b"A: x" in with_lines(block, b"A: x\r\n")
    replaced(block, b"A", b"x")
    assert len(without(block, b"A")) <= len(block)
    assert len(without_prefix(block, b"A")) <= len(block)
    assert len(without_status(block)) <= len(block)
