"""A stream or its archive as one DataFrame of messages, within bounds.

The DataFrame has the columns of a stream's table, wherever the messages are. Bounds by sequence
include both ends; bounds by time are half-open, `from_time <= timestamp < until_time`, as for the
data source itself.

Imports without Spark: Spark's own modules are named inside the functions that need them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from headwater.client.api.answers import STREAM_NOT_FOUND, StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import ApiRefusedError
from headwater.client.link.login import Login
from headwater.client.link.reads.lag import Lag, lag_behind
from headwater.spark.options import OptionError, parse_point_in_time
from headwater.subjects.grammar import is_valid_pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE_COLUMNS: Final = ("stream", "subject", "sequence", "timestamp", "headers", "data")
_TYPES: Final = {
    "stream": "string",
    "subject": "string",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "headers": "map<string,array<string>>",
    "data": "binary",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Bounds:
    """A selection of messages; None is no bound."""

    first_sequence: int | None = None
    last_sequence: int | None = None
    from_time: str | None = None
    until_time: str | None = None

    def check(self) -> None:
        """Raises OptionError, with the jobs' names for the settings."""
        for name, sequence in (
            ("from_sequence", self.first_sequence),
            ("until_sequence", self.last_sequence),
        ):
            if sequence is not None and sequence < 1:
                raise OptionError(f"option {name}={sequence} is not valid: sequences begin at 1")
        if self.last_sequence is not None and (self.first_sequence or 1) > self.last_sequence:
            raise OptionError(
                f"option until_sequence={self.last_sequence} lies before"
                f" from_sequence={self.first_sequence}"
            )
        first = check_time("from_time", self.from_time)
        last = check_time("until_time", self.until_time)
        if first is not None and last is not None and first >= last:
            raise OptionError(
                f"option until_time={self.until_time!r} is not after from_time={self.from_time!r}"
            )


def check_time(option: str, text: str | None) -> int | None:
    """A time as nanoseconds since the epoch. Raises OptionError."""
    if text is None:
        return None
    try:
        return parse_point_in_time(text)
    except ValueError:
        raise OptionError(
            f"option {option}={text!r} is not valid: allowed is a time with its zone, as"
            " 2026-11-15T05:00:00Z, or a date"
        ) from None


def check_place(stream: str | None, archive: str | None) -> None:
    """Raises OptionError unless messages come from exactly one place."""
    if (stream is None) == (archive is None):
        which = "both were" if stream is not None else "neither was"
        raise OptionError(f"set one of the options stream and archive: {which}")


def check_subjects(subjects: Sequence[str]) -> None:
    """Raises OptionError."""
    for pattern in subjects:
        if not is_valid_pattern(pattern.encode()) or re.search(r"\s", pattern):
            raise OptionError(
                f"option subjects: {pattern!r} is no subject; * and > may stand for tokens"
            )


def utc(time_ns: int) -> datetime:
    """A time in Spark's resolution: microseconds."""
    return _EPOCH + timedelta(microseconds=time_ns // 1_000)


def login_options(login: Login) -> dict[str, str]:
    """A login as options of the format `headwater`."""
    given = {
        "url": login.url,
        "user": login.user,
        "password": login.password,
        "token": login.token,
        "nkey": login.nkey,
        "creds": login.creds,
        "tls": "true" if login.tls else None,
        "tlsCa": login.tls_ca,
        "tlsCert": login.tls_cert,
        "tlsKey": login.tls_key,
        "connectTimeout": f"{login.connect_timeout_s}s",
        "requestTimeout": f"{login.request_timeout_s}s",
        "outageTimeout": f"{login.outage_timeout_s}s",
        "retries": None if login.retries is None else str(login.retries),
        "domain": login.domain,
        "apiPrefix": login.api_prefix,
    }
    return {name: text for name, text in given.items() if text is not None}


def read_stream(
    spark: "SparkSession",
    login: Login,
    stream: str,
    subjects: Sequence[str] = (),
    bounds: Bounds = Bounds(),  # noqa: B008  frozen
    columns: Sequence[str] = MESSAGE_COLUMNS,
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """The current messages of a stream."""
    if bounds.last_sequence is not None and bounds.last_sequence < (bounds.first_sequence or 1):
        # An empty stream ends at sequence 0, which is no bound for the source.
        return spark.createDataFrame([], _ddl(columns))
    options = login_options(login) | {
        "stream": stream,
        "failOnDataLoss": "true" if fail_on_data_loss else "false",
        "includeHeaders": "true" if "headers" in columns else "false",
    }
    if subjects:
        options["subjects"] = ",".join(subjects)
    # A source accepts one bound per side, so the other is filtered here.
    if bounds.first_sequence is not None:
        options["startingSequence"] = str(bounds.first_sequence)
    elif bounds.from_time is not None:
        options["startingTime"] = bounds.from_time
    if bounds.last_sequence is not None:
        options["endingSequence"] = str(bounds.last_sequence)
    elif bounds.until_time is not None:
        options["endingTime"] = bounds.until_time
    # The columns of the filters must be read even if they are not selected.
    wanted = [name for name in MESSAGE_COLUMNS if name in {*columns, "sequence", "timestamp"}]
    frame = spark.read.format("headwater").schema(_ddl(wanted)).options(**options).load()
    return within(frame, bounds).select(*columns)


def _ddl(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}` {_TYPES[name]}" for name in columns)


def read_archive(
    spark: "SparkSession",
    path: str,
    subjects: Sequence[str] = (),
    bounds: Bounds = Bounds(),  # noqa: B008  frozen
    columns: Sequence[str] = MESSAGE_COLUMNS,
) -> "DataFrame":
    """The messages of an archive, Delta or Parquet."""
    from pyspark.sql import functions as f

    from headwater.spark.jobs.archive import reader as archive_reader

    frame = archive_reader.read_archive(spark, path, bounds.first_sequence, bounds.last_sequence)
    if subjects:
        pattern = "|".join(subject_regex(each) for each in subjects)
        frame = frame.where(f.col("subject").rlike(pattern))
    return within(frame, bounds).select(*columns)


def within(frame: "DataFrame", bounds: Bounds) -> "DataFrame":
    """The rows within the bounds."""
    from pyspark.sql import functions as f

    if bounds.first_sequence is not None:
        frame = frame.where(f.col("sequence") >= bounds.first_sequence)
    if bounds.last_sequence is not None:
        frame = frame.where(f.col("sequence") <= bounds.last_sequence)
    if bounds.from_time is not None:
        frame = frame.where(f.col("timestamp") >= f.lit(utc(parse_point_in_time(bounds.from_time))))
    if bounds.until_time is not None:
        frame = frame.where(f.col("timestamp") < f.lit(utc(parse_point_in_time(bounds.until_time))))
    return frame


def subject_regex(pattern: str) -> str:
    """A NATS pattern as a regular expression of Java; a literal stands for itself."""
    tokens = pattern.split(".")
    made = [
        "[^.]+" if token == "*" else ".+" if token == ">" else _quoted(token) for token in tokens
    ]
    return "^" + r"\.".join(made) + "$"


def _quoted(text: str) -> str:
    return "".join(
        each if each.isalnum() or each in "_-" else f"\\x{{{ord(each):x}}}" for each in text
    )


def pinned(login: Login, stream: str, bounds: Bounds) -> Bounds:
    """The bounds with an end: the current last sequence of the stream. Raises OptionError."""
    with Connection(login.at_start) as connection:
        info = stream_info(ApiClient(connection), stream)
    last = info.last_seq
    if bounds.last_sequence is not None:
        last = min(last, bounds.last_sequence)
    return replace(bounds, last_sequence=last)


def lag_of_reader(
    login: Login, stream: str, next_sequence: int, subjects: Sequence[str] = ()
) -> Lag:
    """The lag of a reader whose next sequence this is. Raises OptionError."""
    with Connection(login) as connection:
        info = stream_info(ApiClient(connection), stream)
        return lag_behind(connection, info, next_sequence, tuple(subjects))


def stream_info(server: ApiClient, stream: str, option: str = "stream") -> StreamInfo:
    """The server's information about a stream that a setting names. Raises OptionError."""
    try:
        return server.stream_info(stream)
    except ApiRefusedError as error:
        if error.err_code != STREAM_NOT_FOUND:
            raise
        raise OptionError(
            f"option {option}={stream!r} is not valid: the server has no such stream"
        ) from None
