"""The configuration language. Expected texts and digests were taken from nats-server 2.15.1."""

from collections.abc import Mapping
from datetime import datetime

import pytest

from headwater.server.configuration.parser import (
    INCLUDES_MAX,
    NESTING_MAX,
    VALUES_MAX,
    ConfParseError,
    Value,
    digest,
    parse_file,
    parse_text,
)

MAP_END = 'Expected a map value terminator "," or a map terminator "}}", but got \'{}\' instead.'
ARRAY_END = (
    'Expected an array value terminator "," or an array terminator "]", but got \'{}\' instead.'
)
TOP_END = "Expected a top-level value to end with a new line, comment or EOF, but got '{}' instead."
BLOCK_END = (
    "Expected a block-level value to end with a new line, comment or EOF, but got '{}' instead."
)
ESCAPE = (
    "Invalid escape character '{}'. Only the following escape characters are allowed: "
    '\\xXX, \\t, \\n, \\r, \\", \\\\.'
)
NO_FILE = "error parsing include file '{0}', open {0}: no such file or directory"
HEX = "Expected two hexadecimal digits after '\\x', but "


def parse(
    text: str | bytes,
    files: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Value]:
    """Parse `text` as the file d.conf, beside the given files."""
    source = text.encode() if isinstance(text, str) else text

    def read_file(path: str) -> bytes:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return (files or {})[path].encode()

    return parse_text(source, "d.conf", read_file, environ or {})


def plain(value: object) -> object:
    """Values without their positions."""
    if isinstance(value, Value):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def value_of(text: str, environ: Mapping[str, str] | None = None) -> object:
    return plain(parse(f"x: {text}\n", environ=environ)["x"])


SYNTAX_ERRORS = [
    ('a: "b', 1, "Unexpected EOF."),
    ("a: 'b", 1, "Unexpected EOF."),
    ('"a', 1, "Unexpected EOF."),
    ("a =\n", 2, "Expected value but found new line"),
    ("a:\n1", 2, "Expected value but found new line"),
    ("= 1", 1, "Unexpected key separator '='"),
    (": 1", 1, "Unexpected key separator ':'"),
    ("a: 1 b: 2", 1, TOP_END.format("b")),
    ("a: 1}\n/", 2, "Unexpected EOF."),
    ("/ x", 1, "Unexpected EOF."),
    ("\x00", 1, "Unexpected EOF."),
    ("{ a: 1", 1, BLOCK_END.format("\x00")),
    ("{ a: 1 b", 1, BLOCK_END.format("b")),
    ("{{a: 1} b", 1, "Expected a block-level to end with a '}', but got 'b' instead."),
    ("a {", 1, "Unexpected EOF processing map."),
    ("a { b", 1, "Unexpected EOF processing map key."),
    ("a { b: 1", 1, MAP_END.format("\x00")),
    ('a { "b', 1, "Unexpected EOF processing double quoted map key."),
    ("a { 'b", 1, "Unexpected EOF processing quoted map key."),
    ("a { ]", 1, "Unexpected array end ']' processing map."),
    ("a { : 1 }", 1, "Unexpected key separator ':'."),
    ("a { = 1 }", 1, "Unexpected key separator '='."),
    ("a { b:, }", 1, 'Unexpected map value terminator ",".'),
    ("a { b: 1 c }", 1, MAP_END.format("c")),
    ("a [", 1, ARRAY_END.format("\x00")),
    ("a [ b", 1, ARRAY_END.format("\x00")),
    ("a [ ,b ]", 1, "Unexpected array value terminator ','."),
    ("a [ b c ]", 1, ARRAY_END.format("c")),
    ("a [ /b ]", 1, "Unexpected array value terminator ','."),
    ("a [ b,, c ]", 1, "Unexpected array value terminator ','."),
    ("a: [\n b\n c d\n]", 3, ARRAY_END.format("d")),
    ("a: .5", 1, "Floats must start with a digit"),
    ("a: -", 1, "Expected a digit but got '\x00'."),
    ("a: -x", 1, "Expected a digit but got 'x'."),
    ("a: -.5", 1, "Floats must start with a digit, not '.'."),
    ("a: 1.", 1, "Floats must have a digit after the '.', but got '\x00' instead."),
    ("a: 1.x", 1, "Floats must have a digit after the '.', but got 'x' instead."),
    ("a: 1.5s", 1, TOP_END.format("s")),
    ("a: 12-05", 1, "All ISO8601 dates must be in full Zulu form."),
    ("a: 2016-0x", 1, "Expected digit in ISO8601 datetime, but found 'x' instead."),
    ("a: 2016-05-04", 1, "Expected 'T' in ISO8601 datetime, but found '\x00' instead."),
    ("a: 2016-05-04T18:53:41+", 1, "Expected 'Z' in ISO8601 datetime, but found '+' instead."),
    ('a: "\\q"', 1, ESCAPE.format("q")),
    ('a: "\\x4g"', 1, HEX + "got '4g'"),
    ('a: "\\x4\n"', 2, HEX + "hit end of line"),
    ('a: "\\x\n"', 2, HEX + "hit end of line"),
    ("a: b\\", 1, ESCAPE.format("\x00")),
    ("a: b\\z", 1, ESCAPE.format("z")),
    ("a: (\nb", 2, "Unexpected EOF processing block."),
    ("a: (b)", 1, "Unexpected EOF processing block."),
    ('include "x', 1, "Unexpected EOF in double quoted include"),
    ("include 'x", 1, "Unexpected EOF in quoted include"),
    ("include [x]", 1, "Expected include value but found start of an array"),
    ("include {x}", 1, "Expected include value but found start of a map"),
    ("include (x)", 1, "Expected include value but found start of a block"),
    ("include 5", 1, "Expected include value but found start of a number"),
    ("include -x", 1, "Expected include value but found start of a number"),
    ("include \\x", 1, "Expected include value but found escape sequence"),
    ("include\n", 2, "Expected include value but found new line"),
]

OTHER_ERRORS = [
    ("a", "config is invalid (d.conf:1:1)"),
    ("a\n\n", "config is invalid (d.conf:3:1)"),
    ('a: "', "config is invalid (d.conf:1:4)"),
    ("a\x00b: 1", "config is invalid (d.conf:1:1)"),
    ("{ a: 1 }}{", "config is invalid (d.conf:1:10)"),
    ("a: 2016-13-04T18:53:41Z", "expected Zulu formatted DateTime, but got '2016-13-04T18:53:41Z'"),
    ("a: 9223372036854775808", "integer '9223372036854775808' is out of the range"),
    ("a: -9223372036854775809", "integer '-9223372036854775809' is out of the range"),
    ("a: 1٣", "expected integer, but got '1٣'"),
    ("a: 1.٣", "expected float, but got '1.٣'"),
    ("a: $nothing", "variable reference for 'nothing' on line 1 can not be found"),
    ("a: [$nothing]", "variable reference for 'nothing' on line 1 can not be found"),
    ("b: 1\n\na { c: $nothing }", "variable reference for 'nothing' on line 3 can not be found"),
    ("include none.conf", NO_FILE.format("none.conf")),
    ("a { include none.conf }", NO_FILE.format("none.conf")),
    ("include none.conf, b: 1", NO_FILE.format("none.conf,")),
]

DIGESTS: list[tuple[str, str]] = [
    ("port: 4222", "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"),
    ('{"port": 4222}', "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"),
    (
        'server_name: "a<b>&\\x01\\x7f\\x08\u2028é"',
        "sha256:c3b356e6be1f3b88df1b526de1cbe4a8813f212d579e48cb6312d64ec6009cff",
    ),
    (
        "x: 1.5\nserver_tags: $x\nserver_tags: t",
        "sha256:8d3f095331b3a4c8160ef25da1883abdb82388f1b3c89d656c5f682e73efc2b4",
    ),
    (
        "x: 0.0000001\nserver_tags: $x\nserver_tags: t",
        "sha256:14e71f9ff544f46a00ff2ac52537ff241c829e599bcc520fdf504c1ca6c2aa4f",
    ),
    (
        "x: 1000000000000000000000000.0\nserver_tags: $x\nserver_tags: t",
        "sha256:5a1f68364c9da76847d3647eb10ce3ff1c6d27b19ce068fe724d6b19847b3ca0",
    ),
    (
        "x: 2016-05-04T18:53:41Z\nserver_tags: $x\nserver_tags: t",
        "sha256:47ec637f8bf6183f865eb4ab8b783b314656c495320bb305029ab0c442fcf484",
    ),
    (
        "x: [a, {b: yes}, -3k ]\nserver_tags: $x\nserver_tags: t",
        "sha256:2dbdcdef658cf04cd6d7350d1966f1b13b911250a86cf99fc64688f6efd792d9",
    ),
    (
        "server_name: (\nfoo\n)\n",
        "sha256:21bf7856a0d1593958ecb629391ce3b3ab4ee3229515d0b2b066e78e3310ed89",
    ),
    (
        "accounts { B { users [ {user: a, password: b} ] }, A {} }",
        "sha256:162fb8c2b3e9c8241fdb91b055dd0f43d7f1b2ec8ed16da1e93b17168be64073",
    ),
    (
        "authorization { user: u, password: $2a$11$abc }",
        "sha256:9c49569b26e7b4171828e7f6506375ed98d978d2bb1d44cf780d8f56430af639",
    ),
    (
        "x { z: 1, a: {} , m: [] }\nserver_tags: $x\nserver_tags: t",
        "sha256:297f655d06f392173d31a98074da72543a320c0a8bfe78cc00a201106a3a9e8b",
    ),
]


@pytest.mark.parametrize(("text", "line", "reason"), SYNTAX_ERRORS)
def test_syntax_errors_are_worded_as_nats_server_words_them(
    text: str, line: int, reason: str
) -> None:
    with pytest.raises(ConfParseError) as caught:
        parse(text)
    assert str(caught.value) == f"Parse error on line {line}: '{reason}'"


@pytest.mark.parametrize(("text", "message"), OTHER_ERRORS)
def test_other_errors_are_worded_as_nats_server_words_them(text: str, message: str) -> None:
    with pytest.raises(ConfParseError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("text", "expected"), DIGESTS)
def test_the_digest_is_the_one_nats_server_reports(text: str, expected: str) -> None:
    assert digest(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-1", -1),
        ("007", 7),
        ("1k", 1000),
        ("1K", 1000),
        ("1kb", 1024),
        ("1Ki", 1024),
        ("1KiB", 1024),
        ("1m", 10**6),
        ("64MB", 64 * 1024**2),
        ("2g", 2 * 10**9),
        ("2GiB", 2 * 1024**3),
        ("1t", 10**12),
        ("1tb", 1024**4),
        ("1p", 10**15),
        ("1pb", 1024**5),
        ("1e", 10**18),
        ("1eb", 1024**6),
        ("-5k", -5000),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        ("-1.5", -1.5),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("False", False),
        ("no", False),
        ("OFF", False),
        ("2016-05-04T18:53:41Z", datetime(2016, 5, 4, 18, 53, 41)),
    ],
)
def test_numbers_sizes_bools_and_datetimes(text: str, expected: object) -> None:
    value = value_of(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo", "foo"),
        ('"foo bar"', "foo bar"),
        ("'foo \\t bar'", "foo \\t bar"),
        ('"a\\tb\\n\\r\\"\\\\"', 'a\tb\n\r"\\'),
        ('"\\x41\\xe2\\x82\\xac"', "A€"),
        ("a\\tb", "a\tb"),
        ("tr\\x75e", "true"),  # what was escaped is a string, whatever it spells
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("1m30s", "1m30s"),
        ("2s", "2s"),
        ("1k5", "1k5"),
        ("12abc", "12abc"),
        ("0x10", "0x10"),
        ("$2a$11$abc.def/", "$2a$11$abc.def/"),
        ("#b", "#b"),  # where a value is due, no comment begins
        ("a#b", "a#b"),
        ("foo'", "foo"),
        (",", ""),
        ("}", ""),
    ],
)
def test_strings(text: str, expected: str) -> None:
    assert value_of(text) == expected


def test_a_block_keeps_everything_up_to_a_parenthesis_alone_on_its_line() -> None:
    assert plain(parse("x: (\n a \\t ) \n)b\n)\ny: 1")) == {"x": "\n a \\t ) \n)b\n", "y": 1}


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: {c: x}",
        "a = 1\nb = {c = x}",
        "a 1\nb {c x}",
        "a: 1; b {c: x};",
        "a: 1, b {c: x,},",
        '{"a": 1, "b": {"c": "x"}}',
        "{\n a: 1\n b {\n  c: x\n }\n}",
        "'a': 1\n\"b\"\n{\n'c' = 'x'\n}",
        "# one\na: 1 # two\n// three\nb { // four\n c: x # five\n # six\n}",
        "{{a: 1}, b { c: x }}",
        "a: 1\nb { c: x }\n}",
        "a: 1\r\nb {\r\nc: x\r\n}\r\n",
        "a: 2\na: 1\nb: {c: x}",
        "a: 1 / \nb { c: x / }",
    ],
)
def test_many_ways_to_write_the_same(text: str) -> None:
    assert plain(parse(text)) == {"a": 1, "b": {"c": "x"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", []),
        ("[a, b]", ["a", "b"]),
        ("[a\nb\n]", ["a", "b"]),
        ("[a, b,]", ["a", "b"]),
        ("[ # one\n a # two\n // three\n b ]", ["a", "b"]),
        ("[[a], {b: c}]", [["a"], {"b": "c"}]),
        ("[1.5, 10.0.0.1]", [1.5, "10.0.0.1"]),
        # nats-server takes `1]` for a string here; JSON does not.
        ("[1]", [1]),
        ("[1k, 2]", [1000, 2]),
    ],
)
def test_arrays(text: str, expected: list[object]) -> None:
    assert value_of(text) == expected


def test_columns_count_bytes_from_zero_on_the_first_line_and_from_one_after() -> None:
    root = parse('é: 1, b: 2\n  c { d: 3 }\n\n"e" [ "f"\n  {g: 1}, "\\x41b" ]')
    assert (root["é"].line, root["é"].column) == (1, 0)
    assert root["b"].where() == "d.conf:1:7"
    assert root["c"].where() == "d.conf:2:3"
    inner = root["c"].value
    assert isinstance(inner, dict)
    assert inner["d"].where() == "d.conf:2:7"
    assert root["e"].where() == "d.conf:4:2"
    items = root["e"].value
    assert isinstance(items, list)
    # A string is where it begins, a container where it ends; escapes move the beginning.
    assert [(item.line, item.column) for item in items] == [(4, 8), (5, 9), (5, 15)]


class TestVariables:
    def test_are_looked_up_from_the_inside_out(self) -> None:
        root = parse("v: outer\na { v: inner, x: $v }\nb { x: $v }")
        assert plain(root["a"]) == {"v": "inner", "x": "inner"}
        assert plain(root["b"]) == {"x": "outer"}

    def test_have_to_be_written_before_they_are_used(self) -> None:
        with pytest.raises(ConfParseError, match="'v' on line 1 can not be found"):
            parse("a: $v\nv: 1")

    def test_mark_what_they_refer_to(self) -> None:
        root = parse("v: 1\nw: 2\na: $v")
        assert [root[key].is_variable for key in "vwa"] == [True, False, False]

    def test_stand_where_they_are_written(self) -> None:
        assert parse("v: {b: 1}\n a: $v")["a"].where() == "d.conf:2:2"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("5", 5),
            ("1k", 1000),
            ("yes", True),
            ('"foo bar"', "foo bar"),
            ("", ""),
            ("[a, b]", ["a", "b"]),
            ("{a: 1}", {"a": 1}),
            ("$OTHER", 7),
            ("a\npk=8", 8),
        ],
    )
    def test_of_the_environment_are_configuration_text(self, text: str, expected: object) -> None:
        assert value_of("$VAR", {"VAR": text, "OTHER": "7"}) == expected

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            (
                {"V": "foo bar"},
                "variable reference for 'V' on line 1 could not be parsed: "
                f"Parse error on line 1: '{TOP_END.format('b')}'",
            ),
            (
                {"V": "$W", "W": "$V"},
                "variable reference for 'V' on line 1 could not be parsed: "
                "variable reference for 'W' on line 1 could not be parsed: "
                "variable reference for 'V' on line 1 could not be parsed: "
                "variable reference cycle for 'V'",
            ),
            (
                {"V": "$nothing"},
                "variable reference for 'V' on line 1 could not be parsed: "
                "variable reference for 'nothing' on line 1 can not be found",
            ),
        ],
    )
    def test_of_the_environment_can_be_wrong(
        self, environ: Mapping[str, str], message: str
    ) -> None:
        with pytest.raises(ConfParseError) as caught:
            parse("x: $V", environ=environ)
        assert str(caught.value) == message


class TestIncludes:
    def test_add_the_keys_of_a_file_where_they_stand(self) -> None:
        files = {"users.conf": "user: a, pass: $p\np2: 1", "sub/more.conf": "b: 2"}
        root = parse(
            "p: x\nauth { include users.conf }\ninclude 'sub/more.conf'; c: $b",
            files=files | {"users.conf": "user: a\npass: b"},
        )
        assert plain(root) == {"p": "x", "auth": {"user": "a", "pass": "b"}, "b": 2, "c": 2}
        assert root["b"].where() == "sub/more.conf:1:0"

    def test_are_relative_to_the_file_they_stand_in_even_if_absolute(self) -> None:
        files = {"etc/a.conf": "include /b/c.conf", "etc/b/c.conf": "include ../d.conf"}
        root = parse("include etc/a.conf", files=files | {"etc/d.conf": "x: 1"})
        assert plain(root) == {"x": 1}

    def test_do_not_see_the_variables_of_the_including_file(self) -> None:
        with pytest.raises(ConfParseError) as caught:
            parse("v: 1\ninclude a.conf", files={"a.conf": "b: 1\nx: $v"})
        assert str(caught.value) == (
            "error parsing include file 'a.conf', "
            "variable reference for 'v' on line 2 can not be found"
        )

    def test_in_a_circle_are_an_error(self) -> None:
        files = {"a.conf": "include b.conf", "b.conf": "include ./a.conf"}
        with pytest.raises(ConfParseError, match=r"include cycle: a.conf -> b.conf -> a.conf"):
            parse("include a.conf", files=files)

    def test_are_counted(self) -> None:
        parse("include a.conf\n" * INCLUDES_MAX, files={"a.conf": "b: 1"})
        with pytest.raises(ConfParseError, match="more than 1000 files"):
            parse("include a.conf\n" * (INCLUDES_MAX + 1), files={"a.conf": "b: 1"})

    def test_of_a_directory_say_so(self) -> None:
        def read_file(path: str) -> bytes:
            raise IsADirectoryError(21, "Is a directory", path)

        with pytest.raises(ConfParseError, match=r"^read conf: is a directory$"):
            parse_file("conf", read_file, {})

    def test_of_a_path_no_system_knows_are_an_error(self) -> None:
        def read_file(path: str) -> bytes:
            raise ValueError("embedded null byte")

        with pytest.raises(ConfParseError, match=r"^open a: invalid argument$"):
            parse_file("a", read_file, {})


class TestLimits:
    def test_of_nesting(self) -> None:
        # The top level is the first of the levels.
        assert parse("x: " + "[" * (NESTING_MAX - 1) + "]" * (NESTING_MAX - 1))
        for opening in ("[", "{a:", "[{a:"):
            with pytest.raises(ConfParseError, match="Nested more than 100 levels deep"):
                parse("x: " + opening * 100_000)

    def test_of_nesting_by_variables(self) -> None:
        steps = [f"v{i}: [$v{i - 1}]" for i in range(1, NESTING_MAX + 1)]
        with pytest.raises(ConfParseError, match="Nested more than 100 levels deep"):
            parse("v0: 1\n" + "\n".join(steps))

    def test_of_nesting_by_environment_variables(self) -> None:
        environ = {f"V{i}": f"$V{i + 1}" for i in range(10_000)}
        with pytest.raises(ConfParseError, match="Nested more than 100 levels deep"):
            parse("x: $V0", environ=environ)

    def test_of_what_variables_multiply_to(self) -> None:
        doubling = [f"v{i}: [$v{i - 1}, $v{i - 1}]" for i in range(1, 60)]
        with pytest.raises(ConfParseError, match=f"More than {VALUES_MAX} values"):
            parse("v0: 1\n" + "\n".join(doubling))

    def test_of_what_environment_variables_multiply_to(self) -> None:
        environ = {f"V{i}": f"[$V{i + 1}, $V{i + 1}]" for i in range(40)} | {"V40": "1"}
        with pytest.raises(ConfParseError, match=f"More than {VALUES_MAX} values"):
            parse("x: $V0", environ=environ)

    def test_of_digits(self) -> None:
        with pytest.raises(ConfParseError, match=r"^integer '9{40}' is out of the range$"):
            parse("x: " + "9" * 1_000_000)
        with pytest.raises(ConfParseError, match="is out of the range"):
            parse("x: " + "9" * 400 + ".0")


class TestWhereWeAreStricter:
    """nats-server takes these in and forgets or changes them; we say what is wrong."""

    def test_a_key_without_a_value_in_a_map(self) -> None:
        with pytest.raises(ConfParseError, match="Expected a value for key 'b'"):
            parse("a { b: }")

    def test_a_size_without_meaning(self) -> None:
        with pytest.raises(ConfParseError, match=r"^integer '1kbb' has an unknown suffix$"):
            parse("a: 1kbb")

    def test_a_size_that_overflows(self) -> None:
        with pytest.raises(ConfParseError, match=r"^integer '9eb' is out of the range$"):
            parse("a: 9eb")

    def test_a_lone_quote(self) -> None:
        with pytest.raises(ConfParseError, match="Unexpected EOF"):
            parse('"')

    @pytest.mark.parametrize("text", [b"a: \xff", b'a: "\\xff"', b"\xff: a", b"include \xff"])
    def test_strings_that_are_not_utf8(self, text: bytes) -> None:
        with pytest.raises(ConfParseError, match="Strings have to be valid UTF-8"):
            parse(text)

    def test_but_comments_may_be_anything(self) -> None:
        assert plain(parse(b"# caf\xe9\na: 1")) == {"a": 1}
