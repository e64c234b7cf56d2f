"""JSON is read and written as Go does it, mistakes included."""

import json
import re
from typing import Annotated, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.invariants import InvariantViolation
from headwater.go import json as go_json
from headwater.go.json import (
    KEY_SHOWN_MAX,
    OMIT_EMPTY,
    TIME_BYTES_MAX,
    VALUES_MAX,
    Duration,
    Int,
    Int32,
    Int64,
    Time,
    Uint64,
)
from headwater.go.json_syntax import (
    CAREFUL_BYTES_MAX,
    DEPTH_MAX,
    TOO_LONG,
    JsonSyntaxError,
    JsonTruncated,
    careful_value_end,
    unquote,
    value_end,
)
from headwater.jetstream.api.documents import ErrorDocument
from headwater.jetstream.config.stream_checks.checks import Surroundings, check_addressed, check_new
from headwater.jetstream.config.stream_config import StreamRequest, with_server_metadata
from headwater.jetstream.errors import ApiError
from headwater.jetstream.request_bodies import read_request
from tests.kit.recorded.streams import (
    BODIES,
    ORACLE_LEVEL,
    ORACLE_VERSION,
    Document,
    as_bytes,
    from_difference,
    load,
)

STREAM = "B"


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    texts: tuple[str, ...] = ()
    table: dict[str, str] = {}
    numbers: tuple[Uint64, ...] = ()


# --- recorded answers of nats-server -------------------------------------------------------------


def answer(body: bytes, strict: bool) -> Document:
    try:
        request = read_request(body, StreamRequest, strict)
        check_addressed(request, STREAM)
        config = check_new(request, Surroundings())
    except ApiError as error:
        return {"error": msgspec.to_builtins(ErrorDocument.of(error))}
    shown = with_server_metadata(config, ORACLE_VERSION, ORACLE_LEVEL)
    return {"config": json.loads(go_json.write(shown))}


@pytest.mark.parametrize(
    ("body", "strict", "reply"),
    [
        pytest.param(as_bytes(case["body"]), group["strict"], case["reply"], id=f"{kind}{number}")
        for group in load(BODIES)
        for kind in ["strict" if group["strict"] else "lax"]
        for number, case in enumerate(group["cases"])
    ],
)
def test_the_answer_is_that_of_nats_server(body: bytes, strict: bool, reply: Document) -> None:
    expected = reply
    if "config" in reply:
        expected = {"config": from_difference(reply["config"], STREAM)}
    assert answer(body, strict) == expected


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_an_end(opening: str, closing: str) -> None:
    deepest = opening * DEPTH_MAX + "1" + closing * DEPTH_MAX
    assert careful_value_end(deepest.encode(), 0) == len(deepest)
    with pytest.raises(JsonSyntaxError, match="exceeded max depth") as caught:
        careful_value_end((opening + deepest + closing).encode(), 0)
    assert caught.value.offset == DEPTH_MAX * len(opening) + 1


@pytest.mark.parametrize("after", [b"", b" ", b" \n,1", b"}", b"]", b"x"])
@pytest.mark.parametrize(
    "value",
    [b"{}", b"[ ]", b'{"a":[{"b":"]}"}]}', b'["\\ud800"]', b'["\xff"]', b"[" * 2000 + b"]" * 2000],
)
def test_both_ways_find_the_same_end(value: bytes, after: bytes) -> None:
    body = b"1," + value + after
    assert value_end(body, 2) == careful_value_end(body, 2) == 2 + len(value)


def test_what_msgspec_passes_over_may_be_as_long_as_a_body() -> None:
    body = b"[" + b",".join([b"[]"] * CAREFUL_BYTES_MAX) + b"]"
    assert value_end(body + b" ", 0) == len(body)


def test_only_short_values_are_refused_in_gos_words() -> None:
    at_the_limit = b"[" + b" " * (CAREFUL_BYTES_MAX - 3) + b"x]"
    with pytest.raises(JsonSyntaxError, match="invalid character 'x'"):
        value_end(at_the_limit, 0)
    with pytest.raises(JsonSyntaxError, match=TOO_LONG) as caught:
        value_end(b" " + at_the_limit + b" ", 1)
    assert caught.value.offset == len(at_the_limit) + 2


def test_a_body_is_refused_at_every_place_where_it_can_be_cut() -> None:
    body = b'{"a": [1, -2.5e+3, {"b": null}], "c\\u00e9": "d\\n", "e": true, "f": false}'
    assert value_end(body, 0) == len(body)
    for size in range(len(body)):
        with pytest.raises(JsonTruncated):
            value_end(body[:size], 0)


# --- any struct ----------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A struct in a struct."""

    go_name: ClassVar[str] = "GoPart"

    a: Int32 = 0
    b: str = ""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """One field of every kind."""

    number: Int = 0
    flag: bool = False
    text: Annotated[str, OMIT_EMPTY] = ""
    texts: Annotated[tuple[str, ...], OMIT_EMPTY] = ()
    part: Part = Part()
    pointer: Annotated[Part | None, OMIT_EMPTY] = None
    parts: Annotated[tuple[Part, ...], OMIT_EMPTY] = ()
    pointers: Annotated[tuple[Part | None, ...], OMIT_EMPTY] = ()
    table: Annotated[dict[str, str], OMIT_EMPTY] = {}
    span: Annotated[Duration | None, OMIT_EMPTY] = None
    time: Annotated[Time | None, OMIT_EMPTY] = None
    renamed: Annotated[Uint64, OMIT_EMPTY] = msgspec.field(default=0, name="other")


def whole(text: str) -> Whole:
    return go_json.read(text.encode(), Whole, strict=True)


def refusal(text: str, strict: bool = True, kind: type[msgspec.Struct] = Whole) -> str:
    with pytest.raises(go_json.JsonError) as caught:
        go_json.read(text.encode(), kind, strict)
    return str(caught.value)


def test_nothing_is_a_request_with_the_defaults() -> None:
    assert whole("") == whole(" \n") == whole("{}") == whole("null") == Whole()


def test_values_that_come_twice_are_merged_as_in_go() -> None:
    assert whole('{"part":{"a":1},"PART":{"b":"x"}}').part == Part(a=1, b="x")
    assert whole('{"pointer":{"a":1}} {"pointer":{"b":"x"}}').pointer == Part(a=1, b="x")
    assert whole('{"pointer":{"a":1},"pointer":null}').pointer is None
    assert whole('{"table":{"a":"1","b":"2"}}{"table":{"b":"3"}}').table == {"a": "1", "b": "3"}
    assert whole('{"texts":["a","b"],"texts":["c"]}').texts == ("c",)
    assert whole('{"number":1,"Number":2}').number == 2
    assert whole('{"number":1,"number":null}').number == 1


def test_null_stands_for_nothing_where_go_allows_it() -> None:
    value = whole('{"texts":[null],"parts":[null],"pointers":[null],"table":{"a":null},"other":7}')
    assert value.texts == ("",)
    assert value.parts == (Part(),)
    assert value.pointers == (None,)
    assert value.table == {"a": ""}
    assert value.renamed == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"part":1}', "number into Go struct field Whole.part of type server.GoPart"),
        ('{"pointer":[]}', "array into Go struct field Whole.pointer of type server.GoPart"),
        ('{"parts":1}', "number into Go struct field Whole.parts of type []server.GoPart"),
        ('{"pointers":1}', "number into Go struct field Whole.pointers of type []*server.GoPart"),
        ('{"parts":[{"a":"x"}]}', "string into Go struct field Whole.parts.0.a of type int32"),
        ('{"parts":[{},7]}', "number into Whole.parts.1 of type server.GoPart"),
        ('{"part":{"a":2147483648}}', "number 2147483648 into Go struct field Whole.part.a of type"
         " int32"),
        ('{"OTHER":-1}', "number -1 into Go struct field Whole.OTHER of type uint64"),
        ('{"span":"1s"}', "string into Go struct field Whole.span of type time.Duration"),
        ('{"time":1}', "number into Go struct field Whole.time of type time.Time"),
        ('{"flag":0}', "number into Go struct field Whole.flag of type bool"),
        ("[]", "array into Go value of type server.Whole"),
        ('"{}"', "string into Go value of type server.Whole"),
        # The first mistake is told, however many there are.
        ('{"flag":0,"text":1,"unknown":2}', "number into Go struct field Whole.flag of type bool"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_told_in_gos_words(text: str, reason: str) -> None:
    assert refusal(text) == f"json: cannot unmarshal {reason}"
    assert refusal(text, strict=False) == f"json: cannot unmarshal {reason}"


def test_unknown_keys_are_refused_or_passed_over() -> None:
    assert refusal('{"number":1,"b<\\"":[{}]}') == 'json: unknown field "b<\\""'
    lax = go_json.read(b'{"number":1,"unknown":[{}]}', Whole, strict=False)
    assert lax == Whole(number=1)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("piece", "values"), [('"text":""', 1), ('"parts":[{}]', 2), ('"table":{"a":null}', 2)]
)
def test_a_request_has_a_bounded_number_of_values(piece: str, values: int, strict: bool) -> None:
    # If several requests may follow one another, each request is a value too.
    count = (VALUES_MAX - strict) // values
    body = "{" + ",".join([piece] * count) + "}"
    go_json.read(body.encode(), Whole, strict)
    body = "{" + ",".join([piece] * (count + 1)) + "}"
    with pytest.raises(
        go_json.JsonError, match=f"too many values, maximum allowed is {VALUES_MAX}"
    ):
        go_json.read(body.encode(), Whole, strict)
    go_json.read(body.encode(), Whole, strict, go_json.ANY_NUMBER_OF_VALUES)


def test_unknown_keys_that_are_passed_over_count_too() -> None:
    keys = [f'"{number}":[]' for number in range(VALUES_MAX)]
    assert go_json.read(f"{{{','.join(keys)}}}".encode(), Whole, strict=False) == Whole()
    with pytest.raises(go_json.JsonError, match="too many values"):
        go_json.read(f'{{{",".join(keys)},"text":""}}'.encode(), Whole, strict=False)


def test_bodies_of_many_values_count_each() -> None:
    assert go_json.read(b"{}" * VALUES_MAX, Whole, strict=True) == Whole()
    with pytest.raises(go_json.JsonError, match="too many values"):
        go_json.read(b"{}" * (VALUES_MAX + 1), Whole, strict=True)


def test_lists_and_tables_of_texts_may_be_as_long_as_the_body() -> None:
    texts = [f"\u00e9{number}" for number in range(VALUES_MAX + 1)]
    table = dict.fromkeys(texts, "x")
    body = json.dumps({"texts": texts, "table": table}).encode()
    read = go_json.read(body, Lists, strict=True)
    assert (read.texts, read.table) == (tuple(texts), table)


@pytest.mark.parametrize("odd", ['"\\ud800"', "null", '"a"'])
def test_texts_are_read_in_the_same_way_alone_and_at_once(odd: str) -> None:
    read = go_json.read(f'{{"texts":["b",{odd}],"table":{{"k":{odd}}}}}'.encode(), Lists, True)
    text = {'"\\ud800"': "\ufffd", "null": "", '"a"': "a"}[odd]
    assert (read.texts, read.table) == (("b", text), {"k": text})


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ("[1,18446744073709551615]", ""),
        ("[1,18446744073709551616]", "number 18446744073709551616 into"),
        ("[1,-1]", "number -1 into"),
        ("[1,-0]", "number -0 into"),
        ("[1,1.0]", "number 1.0 into"),
        ("[1,1e1]", "number 1e1 into"),
        ("[1,null]", ""),
        ("[]", ""),
    ],
)
def test_numbers_are_read_in_the_same_way_alone_and_at_once(numbers: str, reason: str) -> None:
    body = f'{{"numbers":{numbers}}}'.encode()
    if reason:
        with pytest.raises(go_json.JsonError, match=re.escape(reason)):
            go_json.read(body, Lists, strict=True)
    else:
        expected = tuple(number or 0 for number in json.loads(numbers))
        assert go_json.read(body, Lists, strict=True).numbers == expected


def test_lax_bodies_are_one_value() -> None:
    text = '{"unknown":1}{"number":2}'
    assert refusal(text, strict=False) == "invalid character '{' after top-level value"
    assert refusal('{"number":', strict=False) == "unexpected end of JSON input"
    assert go_json.read(b'{"number":1}{"number":2}', Whole, strict=False).number == 2


def test_one_value_is_neither_none_nor_two() -> None:
    assert go_json.read_one(b' {"number":1,"unknown":2}\n', Whole) == Whole(number=1)
    assert go_json.read_one(b"null", Whole) == Whole()
    for body, reason in [
        (b"", "unexpected end of JSON input"),
        (b'{"number":1}{}', "invalid character '{' after top-level value"),
        (b'{"number":"x"}', "json: cannot unmarshal string into Go struct field Whole.number"),
    ]:
        with pytest.raises(go_json.JsonError, match=f"^{re.escape(reason)}"):
            go_json.read_one(body, Whole)


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (rb'"a\"\\\/\b\f\n\r\tz"', 'a"\\/\b\f\n\r\tz'),
        (rb'"\u00e9\u20AC\ud83d\ude00"', "é€😀"),
        (rb'"\ud83d x \ude00 \ud83d\u0041"', "\ufffd x \ufffd \ufffdA"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd😀"),
        (b'"\xc3\xa9\xff\xe2\x82"', "é\ufffd\ufffd\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_is_no_unicode_becomes_the_replacement_character(literal: bytes, text: str) -> None:
    assert unquote(literal) == text


def test_a_time_has_a_bounded_length() -> None:
    def told(size: int) -> bytes:
        text = "2024-01-01T00:00:00."
        return f'{{"time":"{text}{"1" * (size - len(text) - 3)}Z"}}'.encode()

    assert go_json.read(told(TIME_BYTES_MAX), Whole, strict=True).time is not None
    with pytest.raises(go_json.JsonError, match=f"too long, maximum allowed is {TIME_BYTES_MAX}"):
        go_json.read(told(TIME_BYTES_MAX + 1), Whole, strict=True)


def test_of_a_long_key_that_is_not_known_the_beginning_is_told() -> None:
    key = "k" * KEY_SHOWN_MAX
    assert refusal(f'{{"{key}":1}}') == f'json: unknown field "{key}"'
    assert refusal(f'{{"{key}l":1}}') == f'json: unknown field "{key}"'


def test_times_keep_their_clock() -> None:
    value = whole('{"time":"2024-01-02T3:04:05,1230+02:00"}').time
    assert value is not None
    assert value.text == "2024-01-02T03:04:05.123+02:00"
    assert value.unix_ns == 1_704_157_445_123_000_000


# --- the quick way -------------------------------------------------------------------------------


class Flat(msgspec.Struct, frozen=True, kw_only=True):
    """A struct with fields like those of a request for a message."""

    a: Uint64 = 0
    b: Int64 = 0
    c: str = ""
    d: bool = False
    e: tuple[str, ...] = ()
    f: Time | None = None


class Quick(Flat, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of `Flat`, read by msgspec where it can."""

    go_name: ClassVar[str] = "Flat"


def read_both_ways(body: bytes, strict: bool) -> tuple[object, object]:
    results: list[object] = []
    for kind in (Flat, Quick):
        try:
            results.append(msgspec.structs.asdict(go_json.read(body, kind, strict)))
        except go_json.JsonError as error:
            results.append(str(error))
    return results[0], results[1]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"null", b"[]", b'{"a":1,"b":-2,"c":"x","d":true,"e":["y"],"f":null}',
        b'{"a":-1}', b'{"a":-0}', b'{"a":1.0}', b'{"a":18446744073709551615}',
        b'{"a":18446744073709551616}', b'{"b":9223372036854775808}', b'{"b":-9223372036854775809}',
        b'{"A":1}', b'{"x":1}', b'{"a":1,"a":2}', b'{"e":["a",null]}', b'{"e":null}', b'{"c":null}',
        b'{"c":"\\ud800"}', b'{"c":"\xff"}', b'{"c":"a\x01"}', b'{"f":"2024-01-01T00:00:00Z"}',
        b'{"f":{"text":"x","unix_ns":1}}', b'{"f":5}', b'{"a":1}x', b'{"a":1}{"b":2}', b'{"a":"1"}',
        b' {"a" :1} ', b'{"a":1,}', b'{"a":true}', b'{"d":1}', b'{"a":01}', b'\xef\xbb\xbf{}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [True, False])
def test_the_quick_way_leads_to_the_same_place(body: bytes, strict: bool) -> None:
    slow, quick = read_both_ways(body, strict)
    assert quick == slow


FLAT_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.lists(st.text(max_size=2) | st.none(), max_size=2)
    | st.just("2024-01-01T00:00:00Z")
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", "f", "A", "x"]), FLAT_VALUES),
    st.booleans(),
)
def test_the_quick_way_leads_to_the_same_place_for_any_object(
    document: Document, strict: bool
) -> None:
    slow, quick = read_both_ways(json.dumps(document).encode(), strict)
    assert quick == slow


# --- any bytes -----------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b":", b",", b'"', b'"name"', b'"subjects"', b'"a"', b"1", b"-", b"0.",
     b"1e", b"true", b"nul", b"null", b" ", b"\\", b"\\u12", b"\xff", b"\xc3\xa9", b"\x00", b'"B"']
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map(b"".join) | st.binary(max_size=30), st.booleans())
def test_any_bytes_give_a_request_or_an_error(body: bytes, strict: bool) -> None:
    reply = answer(body, strict)
    assert list(reply) in (["config"], ["error"])


@given(st.lists(PIECES, max_size=10).map(b"".join))
def test_what_python_takes_for_json_we_take_and_the_other_way_round(body: bytes) -> None:
    try:
        json.loads(body.decode("utf-8", "replace"))
        is_json = True
    except ValueError:
        is_json = False
    try:
        end = value_end(body, len(body) - len(body.lstrip(b" ")))
    except (JsonSyntaxError, JsonTruncated):
        end = -1
    assert (body[end:].strip(b" ") == b"" and end >= 0) == is_json


# --- writing -------------------------------------------------------------------------------------


def test_text_is_escaped_for_web_pages() -> None:
    text = '<&>é\u2028\u2029\x01\x7f"\\/\b\f\n\r\t'
    expected = '{"t":"\\u003c\\u0026\\u003eé\\u2028\\u2029\\u0001\x7f\\"\\\\/\\b\\f\\n\\r\\t"}'
    assert go_json.write({"t": text}).decode() == expected


def test_empty_fields_are_left_out_only_where_that_is_said() -> None:
    assert go_json.write(Whole()) == b'{"number":0,"flag":false,"part":{"a":0,"b":""}}'
    assert b'"span":0' in go_json.write(Whole(span=0))
    assert b'"other":3' in go_json.write(Whole(renamed=3))


def test_the_keys_of_a_map_are_sorted_and_those_of_a_document_are_not() -> None:
    table = {"b": "1", "a": "2", "é": "3", "Z": "4"}
    written = go_json.write(Whole(table=table)).decode()
    assert '"table":{"Z":"4","a":"2","b":"1","é":"3"}' in written
    assert go_json.write({"b": 1, "a": [(), {"d": None, "c": True}]}) == (
        b'{"b":1,"a":[[],{"d":null,"c":true}]}'
    )


def test_a_field_that_may_be_left_out_needs_a_default() -> None:
    class Unclear(msgspec.Struct):
        field: Annotated[str, OMIT_EMPTY]

    with pytest.raises(InvariantViolation):
        go_json.write(Unclear("x"))


@given(
    st.builds(
        Whole,
        number=st.integers(-(2**63), 2**63 - 1),
        flag=st.booleans(),
        text=st.text(),
        texts=st.lists(st.text()).map(tuple),
        part=st.builds(Part, a=st.integers(-(2**31), 2**31 - 1), b=st.text()),
        pointers=st.lists(st.none() | st.builds(Part, b=st.text())).map(tuple),
        table=st.dictionaries(st.text(), st.text()),
        span=st.none() | st.integers(-(2**63), 2**63 - 1),
        renamed=st.integers(0, 2**64 - 1),
    )
)
def test_what_is_written_is_read_back(value: Whole) -> None:
    assert go_json.read(go_json.write(value), Whole, strict=True) == value
