"""The columns of the tables, and the columns that a reader returns.

A table has all columns of its kind. A user who names fewer, by `.schema(...)`, gets these alone,
and expensive columns (headers, contents of objects) are then not parsed, or not even requested from
the server. Spark does not tell a Python source which columns a query uses, so there is no other
pruning.

Types are texts in Spark's own notation; this module imports neither Spark nor Arrow.
"""

from collections.abc import Sequence
from typing import Final

from headwater.spark.options import Kind, OptionError

_MESSAGE_COLUMNS: Final = {
    "stream": "string",
    "subject": "string",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "headers": "map<string,array<string>>",
    "data": "binary",
}
COLUMNS: Final[dict[Kind, dict[str, str]]] = {
    Kind.STREAM: _MESSAGE_COLUMNS,
    Kind.BUCKET: _MESSAGE_COLUMNS | {"key": "string", "revision": "bigint", "operation": "string"},
    Kind.OBJECTS: _MESSAGE_COLUMNS
    | {
        "name": "string",
        "size": "bigint",
        "digest": "string",
        "metadata": "map<string,string>",
        "content": "binary",
    },
}


def ddl(kind: Kind) -> str:
    """The whole schema of a kind of table, as Spark parses it."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in COLUMNS[kind].items())


def check_columns(kind: Kind, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse a schema with a column or a type that the table does not have. Raises OptionError.

    `columns` are names and types (`simpleString`) as the user gave them.
    """
    known = COLUMNS[kind]
    for name, type_ in columns:
        if name not in known:
            raise OptionError(
                f"schema: there is no column {name!r} in a table of {kind.value}:"
                f" there are {', '.join(known)}"
            )
        if type_ != known[name]:
            raise OptionError(
                f"schema: the column {name!r} is of type {known[name]}, not {type_}: cast it after"
                " reading"
            )
