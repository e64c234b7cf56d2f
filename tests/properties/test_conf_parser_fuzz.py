"""The parser of configurations returns a value or raises ConfParseError, soon, for any bytes."""

import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.base.errors import OperatingError
from headwater.server.configuration.flags import Command, RunServer, parse_command_line
from headwater.server.configuration.parser import ConfParseError, Value, digest, parse_text

VALID = [
    b'{\n a: 1, b: [x, "y z", 3k], c { d: $a, e = 10.0.0.1:4222 }\n} # c\n',
    b"a { b: 1\n c: \"x\\x41\" ; d: 'q' }\nb: (\n text\n)\ne: [ {f: 1 }, {g: 2 } ] // z\n",
    b"x = 2016-05-04T18:53:41Z\ny -1.5\nz { include other, w: yes }\nv: $HOME_PORT\n",
    b'{"port": 4222, "authorization": {"users": [{"user": "a", "password": "$2a$11$x"}]}}\n',
    b'accounts { A { users [ {user: a, permissions { publish { allow: "a.>", deny: b } } } ] } }\n'
    b"max_payload: 8MB\nping_interval: 20s\nlisten: 127.0.0.1:-1\nserver_tags: [a, b]\n",
]
FRAGMENTS = [
    *(bytes([char]) for char in b"{}[]()\"'#/\\$;:=,.-\n\r\t \0"),
    *(b"//", b"\\x41", b"\\xff", b"$a", b"$E1", b"1k", b"-1", b"1.5", b"2016-", b"include other "),
    *(b"true", b"\xc3\xa9", b"\xff", b"\xc2\xa0", b"a: 1\n", b"a { ", b"[[[[", b"{a:{a:"),
]
ENVIRON = {"HOME_PORT": "4222", "E1": "[$E2, $E2]", "E2": "{a: $E3}", "E3": "$E1", "bad": '"'}


def read_file(path: str) -> bytes:
    if path == "other":
        return b"k: 1\ninclude d.conf\n"
    if path == "d.conf":
        return b"include other\n"
    raise FileNotFoundError(2, "No such file or directory", path)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid file with a few fragments put in, cut out or repeated."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        size = draw(st.integers(0, 12))
        middle = draw(
            st.one_of(
                st.sampled_from(FRAGMENTS),
                st.just(b""),
                st.just(text[start : start + size] * 2),
            )
        )
        text = text[:start] + middle + text[start + size :]
    return text


def check(text: bytes) -> None:
    try:
        root = parse_text(text, "d.conf", read_file, ENVIRON)
    except ConfParseError:
        return
    assert digest(root).startswith("sha256:")
    last_line = text.count(b"\n") + 1
    for node in root.values():
        check_node(node, last_line, len(text))


def check_node(node: Value, last_line: int, size: int) -> None:
    if node.file == "d.conf":
        assert 1 <= node.line <= last_line
        assert 0 <= node.column <= size
    if isinstance(node.value, str):
        node.value.encode()
    children = node.value.values() if isinstance(node.value, dict) else node.value
    if isinstance(children, str | bool | int | float) or not hasattr(children, "__iter__"):
        return
    for child in children:
        assert isinstance(child, Value)
        check_node(child, last_line, size)


@given(st.binary(max_size=200))
@example(b"\xff")
@example(b"a: \xed\xa0\x80")
def test_any_bytes(text: bytes) -> None:
    check(text)


@given(st.text(alphabet="ab1$ \n\t{}[]()\"'#/\\:=;,.-kx\0é", max_size=80))
def test_any_text_of_the_language(text: str) -> None:
    check(text.encode())


@given(mutations())
def test_mutations_of_valid_files(text: bytes) -> None:
    check(text)


@given(mutations())
def test_mutations_read_as_options(text: bytes) -> None:
    """The keys have their own error; still nothing else comes out."""

    def read(path: str) -> bytes:
        return text if path == "d.conf" else read_file(path)

    try:
        command = parse_command_line(["-c", "d.conf"], read, ENVIRON)
    except OperatingError as error:
        reason = str(error)
    else:
        assert isinstance(command, RunServer)
        return
    assert reason


@given(st.lists(st.text(alphabet="-=pjs012x DVt\0é", max_size=8), max_size=6))
def test_any_command_line_is_a_command_or_refused(words: list[str]) -> None:
    try:
        command = parse_command_line(words, read_file, {})
    except OperatingError as error:
        reason = str(error)
    else:
        assert isinstance(command, Command)
        return
    assert reason


@given(st.sampled_from(FRAGMENTS), st.sampled_from(FRAGMENTS))
def test_repetition_costs_no_more_than_its_size(first: bytes, second: bytes) -> None:
    """A hundred kilobytes of the same two fragments, which is how parsers are made to hang."""
    repeats = 100_000 // (len(first) + len(second))
    tracemalloc.start()
    try:
        check(b"x: " + (first + second) * repeats)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 * 1024
