"""The columns of each kind of table, and which schemas of users are honoured."""

import pytest

from headwater.spark.options import Kind, OptionError
from headwater.spark.schema import COLUMNS, check_columns, ddl


def test_the_columns_of_a_stream() -> None:
    assert ddl(Kind.STREAM) == (
        "`stream` string, `subject` string, `sequence` bigint, `timestamp` timestamp,"
        " `headers` map<string,array<string>>, `data` binary"
    )


def test_buckets_and_objects_add_to_them() -> None:
    common = list(COLUMNS[Kind.STREAM])
    assert list(COLUMNS[Kind.BUCKET]) == [*common, "key", "revision", "operation"]
    assert list(COLUMNS[Kind.OBJECTS]) == [
        *common, "name", "size", "digest", "metadata", "content"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
def test_a_part_of_the_columns_in_any_order_is_a_schema(kind: Kind) -> None:
    for schema in ([], [("data", "binary"), ("sequence", "bigint")], list(COLUMNS[kind].items())):
        check_columns(kind, schema)
        with pytest.raises(OptionError, match="there is no column 'other'"):
            check_columns(kind, [*schema, ("other", "string")])


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^schema: there is no column 'key' in a table of"):
        check_columns(Kind.STREAM, [("key", "string")])


def test_another_type_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^schema: the column 'data' is of type binary, not str"):
        check_columns(Kind.STREAM, [("data", "string")])
