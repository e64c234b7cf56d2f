"""Tables of Spark's catalog: `CREATE TABLE … USING headwater OPTIONS (…)`.

Spark hands the options of a table to the format once, when the table is made and its columns are
asked for. When the table is read or written it hands over the columns, and no options. So the
options travel with the columns: as metadata of the first one, which the catalog keeps.

Metadata of a column is no place for secrets: it is copied with the column into other tables. A
table names files (`creds`, a file with an nkey) or a server that needs none.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.client.link.login import Login, LoginError
from headwater.spark.options import (
    Kind,
    OptionError,
    SinkOptions,
    SourceOptions,
    is_table_property,
    reading_options,
    writing_options,
)
from headwater.spark.schema import COLUMNS

METADATA_KEY: Final = "headwater.options"
# Is among the properties of every table, and never among the options of a read or a write.
PROVIDER: Final = "provider"

# Spark parses the text of a type in the JVM, which a planner cannot ask.
_TYPES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "binary": BinaryType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,array<string>>": MapType(StringType(), ArrayType(StringType())),
}


def is_new_table(options: Mapping[str, str]) -> bool:
    """Whether these are the properties of a table that is being created."""
    return PROVIDER in {name.lower() for name in options}


def table_schema(parsed: SourceOptions, options: Mapping[str, str]) -> StructType:
    """The columns of a table that is being created, with its options. Raises OptionError."""
    if parsed.kind is not Kind.OBJECTS and not parsed.streams:
        SinkOptions.parse(writing_options(options))
    _refuse_secrets(parsed.login)
    own = {name: text for name, text in options.items() if not is_table_property(name)}
    columns = [StructField(name, _TYPES[text]) for name, text in COLUMNS[parsed.kind].items()]
    columns[0].metadata = {METADATA_KEY: json.dumps(own)}
    return StructType(columns)


def source_options(schema: StructType, options: Mapping[str, str]) -> SourceOptions:
    """The options of a read: those of its table, if it has one, and its own."""
    return SourceOptions.parse({**reading_options(_kept(schema, options)), **options})


def sink_options(schema: StructType, options: Mapping[str, str]) -> SinkOptions:
    """The options of a write: those of its table, if it has one, and its own."""
    return SinkOptions.parse({**writing_options(_kept(schema, options)), **options})


def _kept(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options that came with the columns. Raises OptionError without any options."""
    kept: dict[str, str] = {}
    for field in schema.fields:
        if METADATA_KEY in (field.metadata or {}):
            kept = json.loads(field.metadata[METADATA_KEY])
    if not kept and not options:
        raise OptionError(
            "Spark hands the format no options of a table with columns of its own: make it without"
            " columns, as CREATE TABLE name USING headwater OPTIONS (…), and it has all of them"
        )
    return kept


def _refuse_secrets(login: Login) -> None:
    given = {"password": login.password, "token": login.token}
    options = [name for name, value in given.items() if value is not None]
    if login.is_seed_given:
        options.append("nkey")
    try:
        if any(server.has_credentials for server in login.servers()):
            options.append("url")
    except LoginError as error:
        raise OptionError(str(error)) from None
    if options:
        raise OptionError(
            f"option {options[0]} has a secret in it, and a table shows its options: name a file"
            " with creds, or with nkey, or use a temporary view"
        )
