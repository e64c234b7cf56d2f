"""Columns and rows that a sink takes and that it refuses. No Spark runs here."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.spark.options import Kind, OptionError
from headwater.spark.rows import SUBJECT_BYTES_MAX, RowError, RowReader, RowShape

TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,array<string>>": pa.map_(pa.string(), pa.list_(pa.string())),
}
USUAL = {
    "data": "string",
    "value": "string",
    "subject": "string",
    "key": "string",
    "operation": "string",
    "message_id": "string",
    "headers": "map<string,string>",
    "expected_last_sequence": "bigint",
    "expected_last_subject_sequence": "bigint",
}


def reader(kind: Kind, types: dict[str, str], subject: str | None = None) -> RowReader:
    shape = RowShape.of(kind, "name", subject, [*types.items()])
    return RowReader(shape, ["$KV.name.>"] if kind is Kind.BUCKET else ["a.>", "b"])


def batch(types: dict[str, str], *rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([(name, TYPES[type_]) for name, type_ in types.items()])
    return pa.RecordBatch.from_pylist([*rows], schema)


def read(kind: Kind = Kind.STREAM, **row: Any) -> tuple[bytes, ...]:
    """Subject, header lines and payload of a row whose columns are of the usual types."""
    types = {name: USUAL[name] for name in row}
    rows = reader(kind, types).read(batch(types, row))
    return rows.subjects[0], rows.header_lines[0], rows.payloads[0]


# --- columns -----------------------------------------------------------------------------------

REFUSED_COLUMNS: dict[str, tuple[Kind, dict[str, str], str]] = {
    "no payload": (Kind.STREAM, {"subject": "string"}, "a column data or value is needed"),
    "two payloads": (Kind.STREAM, {"data": "string", "value": "string"}, "both are there"),
    "unknown": (Kind.STREAM, {"data": "string", "colour": "int"}, "column 'colour' cannot be"),
    "of a bucket": (Kind.STREAM, {"data": "string", "key": "string"}, "column 'key' cannot be"),
    "number": (Kind.STREAM, {"data": "int"}, "column 'data' is int: cast it to binary or string"),
    "id": (Kind.STREAM, {"data": "string", "message_id": "int"}, "cast it to string"),
    "headers": (Kind.STREAM, {"data": "string", "headers": "string"}, "cast it to map<string,"),
    "no subject": (Kind.STREAM, {"data": "string"}, "option subject is needed"),
    "no key": (Kind.BUCKET, {"value": "string"}, "a column key is needed"),
    "of a stream": (
        Kind.BUCKET,
        {"key": "string", "value": "string", "expected_last_sequence": "bigint"},
        "column 'expected_last_sequence' cannot be",
    ),
}


@pytest.mark.parametrize("case", REFUSED_COLUMNS)
def test_columns_that_cannot_be_written_are_refused_in_one_line(case: str) -> None:
    kind, types, expected = REFUSED_COLUMNS[case]
    with pytest.raises(OptionError) as caught:
        reader(kind, types)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_that_say_where_a_message_was_are_passed_over() -> None:
    was = {"stream": "string", "sequence": "bigint", "timestamp": "timestamp"}
    reader(Kind.STREAM, was | {"data": "binary", "subject": "string"})
    also = {"key": "string", "revision": "bigint"}
    reader(Kind.BUCKET, was | also | {"data": "binary", "subject": "string"})


# --- rows --------------------------------------------------------------------------------------


def test_payloads_are_bytes_or_text() -> None:
    assert read(data="ø", subject="a.b") == (b"a.b", b"", "ø".encode())
    types = {"value": "binary", "subject": "string"}
    made = reader(Kind.STREAM, types).read(
        batch(types, {"value": b"\x00\xff", "subject": "b"}, {"value": None, "subject": "a.b"})
    )
    assert made.payloads == [b"\x00\xff", b""]
    assert made.subjects == [b"b", b"a.b"]
    assert made.message_ids is None


def test_a_row_without_a_subject_has_that_of_the_option() -> None:
    types = {"data": "string", "subject": "string"}
    rows = reader(Kind.STREAM, types, "a.fixed").read(
        batch(types, {"data": "x", "subject": None}, {"data": "y", "subject": "b"})
    )
    assert rows.subjects == [b"a.fixed", b"b"]


def test_headers_keep_their_order_and_repeat() -> None:
    types = {"data": "string", "headers": "map<string,array<string>>"}
    rows = reader(Kind.STREAM, types, "b").read(
        batch(
            types,
            {"data": "", "headers": [("B", ["1", "2"]), ("A", ["ø: x"]), ("Empty", [])]},
            {"data": "", "headers": []},
            {"data": "", "headers": None},
        )
    )
    assert rows.header_lines == ["B: 1\r\nB: 2\r\nA: ø: x\r\n".encode(), b"", b""]


def test_orders_in_headers_are_left_out() -> None:
    headers = [
        ("Nats-Msg-Id", "x"),
        ("Nats-Expected-Last-Sequence", "1"),
        ("Nats-Batch-Id", "x"),
        ("Nats-TTL", "1h"),
    ]
    assert read(subject="b", data="", headers=headers)[1] == b"Nats-TTL: 1h\r\n"


def test_expectations_become_headers() -> None:
    lines = read(subject="b", data="", expected_last_sequence=0, expected_last_subject_sequence=7)
    assert lines[1] == (
        b"Nats-Expected-Last-Sequence: 0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n"
    )
    assert read(subject="b", data="", expected_last_sequence=None)[1] == b""


def test_operations_of_buckets_become_headers() -> None:
    def lines(operation: str | None) -> bytes:
        return read(Kind.BUCKET, key="k.1", value="x", operation=operation)[1]

    assert read(Kind.BUCKET, key="k.1", value="x")[0] == b"$KV.name.k.1"
    assert lines(None) == lines("put") == b""
    assert lines("delete") == b"KV-Operation: DEL\r\n"
    assert lines("purge") == b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n"


REFUSED_ROWS: dict[str, tuple[Kind, dict[str, Any], str]] = {
    "blank": (Kind.STREAM, {"subject": "a.b c"}, "not one to publish to"),
    "wildcard": (Kind.STREAM, {"subject": "a.*"}, "not one to publish to"),
    "empty token": (Kind.STREAM, {"subject": "a..b"}, "not one to publish to"),
    "line end": (Kind.STREAM, {"subject": "a.b\r\nPUB x 0\r\n"}, "not one to publish to"),
    "long": (Kind.STREAM, {"subject": "a." + "x" * SUBJECT_BYTES_MAX}, "more than 3900 bytes"),
    "foreign": (Kind.STREAM, {"subject": "c"}, "not a subject of the stream"),
    "null": (Kind.STREAM, {"subject": None}, "has no subject"),
    "header line": (
        Kind.STREAM,
        {"subject": "b", "headers": [("A", "x\r\nB: y")]},
        "a header A whose value is null or has line ends",
    ),
    "header null": (
        Kind.STREAM,
        {"subject": "b", "headers": [("A", None)]},
        "a header A whose value",
    ),
    "header name": (Kind.STREAM, {"subject": "b", "headers": [("A B", "")]}, "named 'A B'"),
    "header colon": (Kind.STREAM, {"subject": "b", "headers": [("A:", "")]}, "named 'A:'"),
    "id": (Kind.STREAM, {"subject": "b", "message_id": "a\r\nb"}, "a message_id with"),
    "sequence": (Kind.STREAM, {"subject": "b", "expected_last_sequence": -1}, "the sequence -1"),
    "key blank": (Kind.BUCKET, {"key": "a b"}, "has the key 'a b'"),
    "key dot": (Kind.BUCKET, {"key": ".a"}, "has the key '.a'"),
    "key dots": (Kind.BUCKET, {"key": "a..b"}, "not one to publish to"),
    "key empty": (Kind.BUCKET, {"key": ""}, "has the key ''"),
    "key null": (Kind.BUCKET, {"key": None}, "has the key None"),
    "operation": (Kind.BUCKET, {"key": "a", "operation": "remove"}, "the operation 'remove'"),
}


@pytest.mark.parametrize("case", REFUSED_ROWS)
def test_a_row_that_cannot_be_a_message_is_named(case: str) -> None:
    kind, row, expected = REFUSED_ROWS[case]
    bad = {"data": "x"} | row
    good = {"key": "k"} if kind is Kind.BUCKET else {"subject": "b"}
    types = {name: USUAL[name] for name in bad}
    subject = RowReader(RowShape.of(kind, "name", None, [*types.items()]), ["b", "a.>", "$KV.>"])
    fill = dict.fromkeys(types) | {"data": "x"} | good
    subject.read(batch(types, fill, fill))
    with pytest.raises(RowError) as caught:
        subject.read(batch(types, fill, bad))
    assert str(caught.value).startswith("row 3 ")
    assert expected in str(caught.value)


def test_ids_of_rows_are_taken_as_they_are() -> None:
    types = {"data": "string", "message_id": "string"}
    rows = reader(Kind.STREAM, types, "b").read(
        batch(types, {"data": "x", "message_id": "mine"}, {"data": "y", "message_id": None})
    )
    assert rows.message_ids == [b"mine", None]


# --- entries of a bucket ------------------------------------------------------------------------

PURGED = [("KV-Operation", "PURGE"), ("Nats-Rollup", "sub"), ("Colour", "red")]
EXPIRED = [("Nats-Marker-Reason", "MaxAge"), ("Nats-TTL", "1h")]


def test_the_column_operation_stands_for_its_headers() -> None:
    _, lines, _ = read(Kind.BUCKET, key="k", data="", operation="purge", headers=PURGED)
    assert lines == b"Colour: red\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n"
    _, lines, _ = read(Kind.BUCKET, key="k", data="x", operation="put", headers=PURGED)
    assert lines == b"Colour: red\r\n"
    _, lines, _ = read(Kind.BUCKET, key="k", data="", operation="purge", headers=EXPIRED)
    assert lines == b"Nats-Marker-Reason: MaxAge\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n"


def test_without_that_column_the_headers_say_the_operation() -> None:
    _, lines, _ = read(Kind.BUCKET, key="k", data="", headers=PURGED)
    assert lines == b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\nColour: red\r\n"


def test_a_stream_takes_what_an_entry_tells_and_not_what_it_orders() -> None:
    _, lines, _ = read(subject="a.b", data="", headers=PURGED)
    assert lines == b"KV-Operation: PURGE\r\nColour: red\r\n"
    _, lines, _ = read(subject="a.b", data="", headers=EXPIRED)
    assert lines == b"Nats-Marker-Reason: MaxAge\r\n"


def test_what_a_publisher_orders_of_a_stream_is_kept() -> None:
    _, lines, _ = read(subject="a.b", data="", headers=[("Nats-Rollup", "sub"), ("Nats-TTL", "1h")])
    assert lines == b"Nats-Rollup: sub\r\nNats-TTL: 1h\r\n"


# --- bad rows apart -----------------------------------------------------------------------------


def test_bad_rows_are_read_apart_in_their_order() -> None:
    types = {"subject": "string", "data": "binary"}
    subjects = ["a.0", "a b", "a.2", "a.3", None, "a.5", "c"]
    given = batch(types, *({"subject": s, "data": b"%d" % at} for at, s in enumerate(subjects)))
    reading = reader(Kind.STREAM, types)
    parts = [*reading.read_apart(given), *reading.read_apart(given.slice(1, 1))]
    bad = [part.bad for part in parts if part.bad is not None]
    assert [payload for part in parts for payload in part.payloads] == [b"0", b"2", b"3", b"5"]
    assert [(each.subject, each.payload) for each in bad] == [
        (b"a b", b"1"),
        (b"", b"4"),
        (b"c", b"6"),
        (b"a b", b"1"),
    ]
    assert [each.reason.split(" has ")[0] for each in bad] == ["row 1", "row 4", "row 6", "row 7"]
    order = [part.bad.payload if part.bad else b"".join(part.payloads) for part in parts[:-1]]
    assert b"".join(order) == b"0123456"


def test_a_bad_key_is_told_with_its_bucket() -> None:
    types = {"key": "string", "value": "string"}
    (part,) = reader(Kind.BUCKET, types).read_apart(batch(types, {"key": "a b", "value": None}))
    assert part.bad is not None
    assert (part.bad.subject, part.bad.payload) == (b"$KV.name.a b", b"")
