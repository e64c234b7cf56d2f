"""The job `stats`: rates, sizes and latencies of a stream or an archive, per subject and window.

The messages are read once, and kept as a few numbers each, without their payloads. A stream is read
to the sequence it had when the job began, an archive in the version it had, so all figures are of
the same messages.

Percentiles are approximate to one part in ten thousand of the rank, and each is a value that
occurred. The result is written as `figures.json` and as `report.html`, which needs no other file.
"""

import json
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.manifest import read_manifest
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.reading import (
    Bounds,
    check_place,
    check_subjects,
    lag_of_reader,
    login_options,
    pinned,
    read_archive,
    read_stream,
)
from headwater.spark.jobs.stats.figures import (
    NOTHING,
    Distribution,
    Figures,
    Group,
    Span,
    time_text,
)
from headwater.spark.jobs.stats.report import render
from headwater.spark.options import OptionError, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

TimeFormat = Literal["rfc3339", "s", "ms", "us", "ns"]

REPORT: Final = "report.html"
FIGURES: Final = "figures.json"

WINDOWS_MAX: Final = 2_000
WINDOWS_WANTED: Final = 120
GROUPS_MAX: Final = 200
TOKENS_MAX: Final = 100
PERCENTILES: Final = (0.5, 0.9, 0.99)
ACCURACY: Final = 10_000
ALL: Final = "all messages"

# Usual lengths of a window; the last ones are days and weeks.
_WINDOWS_S: Final = (
    *(0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0),
    *(1_800.0, 3_600.0, 7_200.0, 14_400.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0),
)
_US_PER_S: Final = 1_000_000
_PRODUCER_TIME: Final = re.compile(r"(header|json):(\S+)")
_JSON_NAME: Final = re.compile(r"[^.'\[\]]+(?:\.[^.'\[\]]+)*")
_SENT_US: Final = (0, 253_402_300_800_000_000)
"""From 1970 to the year 9999."""
_US_PER: Final = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}


@dataclass(frozen=True)
class StatsSettings:
    """The settings of the statistics: the messages, and the place of the report.

    One of `stream` and `archive` (a path) names the messages; the bounds narrow them. `window_s` is
    chosen by the span of the messages if it is not given. `group_tokens` groups subjects by their
    first tokens; without it each subject is a group. The `groups_max` largest groups are shown
    separately. `producer_time` is the place of the time at which a message was sent, as
    `header:<name>` or `json:<field>.<field>`, and `producer_time_format` its format. `to` is a
    directory.
    """

    login: Login
    to: str
    stream: str | None = None
    archive: str | None = None
    subjects: tuple[str, ...] = ()
    from_sequence: int | None = None
    until_sequence: int | None = None
    from_time: str | None = None
    until_time: str | None = None
    window_s: float | None = None
    group_tokens: int | None = None
    groups_max: int = 12
    producer_time: str | None = None
    producer_time_format: TimeFormat = "rfc3339"

    def check(self) -> None:
        """Raises OptionError for errors that show without a server."""
        check_place(self.stream, self.archive)
        if self.stream is not None:
            SourceOptions.parse(login_options(self.login) | {"stream": self.stream})
        check_subjects(self.subjects)
        self.bounds.check()
        if not self.to.strip():
            raise OptionError("option to is empty: name the directory the report goes to")
        if self.window_s is not None and not _WINDOWS_S[0] <= self.window_s < math.inf:
            raise OptionError(
                f"option window_s={self.window_s} is not valid: allowed is {_WINDOWS_S[0]} or more"
            )
        if self.group_tokens is not None and not 1 <= self.group_tokens <= TOKENS_MAX:
            raise OptionError(
                f"option group_tokens={self.group_tokens} is not valid: allowed is 1 to"
                f" {TOKENS_MAX}"
            )
        if not 1 <= self.groups_max <= GROUPS_MAX:
            raise OptionError(
                f"option groups_max={self.groups_max} is not valid: allowed is 1 to {GROUPS_MAX}"
            )
        if self.producer_time is not None:
            _parse_producer_time(self.producer_time)
        if self.producer_time_format not in get_args(TimeFormat):
            raise OptionError(
                f"option producer_time_format={self.producer_time_format!r} is not valid: allowed"
                f" is {' or '.join(get_args(TimeFormat))}"
            )

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.from_sequence, self.until_sequence, self.from_time, self.until_time)

    @property
    def root(self) -> Path:
        """The directory of the report."""
        return Path(self.to).absolute()

    @property
    def archive_root(self) -> Path | None:
        """The absolute path of the archive: workers run in folders of their own."""
        return None if self.archive is None else Path(self.archive).absolute()

    @property
    def source(self) -> str:
        """The source of the messages, as text for people."""
        return f"stream {self.stream}" if self.stream else f"archive {self.archive_root}"

    @property
    def stream_name(self) -> str:
        """The stream of the messages; an archive knows its own. Raises OptionError."""
        if self.stream is not None:
            return self.stream
        return read_manifest(Path(self.archive or "").absolute(), "archive").stream


@dataclass(frozen=True)
class StatsResult:
    """A summary of the figures, and the paths of the report.

    `times_unreadable` messages had no readable producer's time; None if it was not read.
    """

    source: str
    messages: int
    bytes: int
    groups: int
    first: str | None
    last: str | None
    rate: float | None
    window_s: float
    windows: int
    latency_p50_s: float | None
    latency_p99_s: float | None
    times_unreadable: int | None
    report: str
    figures: str


def stats(
    spark: "SparkSession", settings: StatsSettings, progress: Progress = SILENT
) -> StatsResult:
    """Count, and write the report. Raises OptionError and LinkError."""
    settings.check()
    bounds = settings.bounds
    if settings.stream is not None:
        bounds = pinned(settings.login, settings.stream, bounds)
    figures = figures_of(_messages(spark, settings, bounds), settings, progress)
    progress.stage("report", None)
    if settings.stream is not None and bounds.last_sequence is not None:
        # Later messages are not in the report.
        after = bounds.last_sequence + 1
        lag = lag_of_reader(settings.login, settings.stream, after, settings.subjects)
        progress.note(str(lag))
    directory = settings.root
    directory.mkdir(parents=True, exist_ok=True)
    report, document = directory / REPORT, directory / FIGURES
    document.write_text(json.dumps(figures.to_json(), indent=1) + "\n", "utf-8")
    report.write_text(render(figures, time.time()), "utf-8")
    total = figures.all.total
    return StatsResult(
        source=figures.source,
        messages=total.messages,
        bytes=total.bytes,
        groups=len(figures.groups) + max(figures.groups_merged - 1, 0),
        first=time_text(figures.first_s),
        last=time_text(figures.last_s),
        rate=figures.rate,
        window_s=figures.window_s,
        windows=len(figures.window_starts_s),
        latency_p50_s=total.latency.p50 if total.latency else None,
        latency_p99_s=total.latency.p99 if total.latency else None,
        times_unreadable=figures.unreadable,
        report=str(report),
        figures=str(document),
    )


def _messages(spark: "SparkSession", settings: StatsSettings, bounds: Bounds) -> "DataFrame":
    columns = ["subject", "sequence", "timestamp", "data"]
    if settings.producer_time is not None and settings.producer_time.startswith("header:"):
        columns.append("headers")
    if settings.stream is not None:
        return read_stream(
            spark, settings.login, settings.stream, settings.subjects, bounds, columns
        )
    root = str(settings.archive_root or "")
    return read_archive(spark, root, settings.subjects, bounds, columns)


def figures_of(
    messages: "DataFrame", settings: StatsSettings, progress: Progress = SILENT
) -> Figures:
    """The figures of messages, which have at least the columns subject to data."""
    from pyspark import StorageLevel

    progress.stage("messages", None)
    measured = _measured(messages, settings).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        extent = _extent(measured)
        progress.advance(extent.messages)
        progress.stage("figures", None)
        window_s = window_width_s(settings.window_s, extent)
        sizes = measured.groupBy("group").count().collect()
        ranked = sorted(((int(row["count"]), row["group"]) for row in sizes), key=_largest_first)
        names = [name for _, name in ranked]
        kept, merged = names[: settings.groups_max], len(names) - settings.groups_max
        if merged == 1:
            # A merged group of one is no shorter than that one.
            kept, merged = names, 0
        rows = _aggregated(measured, kept, extent, window_s)
    finally:
        measured.unpersist()
    return _assembled(settings, extent, window_s, rows, kept, max(merged, 0))


def _largest_first(each: tuple[int, str]) -> tuple[int, str]:
    return -each[0], each[1]


# --- a few numbers per message ------------------------------------------------------------------


def _measured(messages: "DataFrame", settings: StatsSettings) -> "DataFrame":
    """Per message: group, sequence, stored_us, size, and sent_us if it can be read."""
    from pyspark.sql import functions as f

    sent = f.lit(None).cast("bigint")
    if settings.producer_time is not None:
        sent = sent_us(settings.producer_time, settings.producer_time_format)
    return messages.select(
        _group(settings.group_tokens).alias("group"),
        "sequence",
        f.unix_micros("timestamp").alias("stored_us"),
        f.coalesce(f.octet_length("data"), f.lit(0)).cast("bigint").alias("size"),
        sent.alias("sent_us"),
    )


def _group(tokens: int | None) -> "Column":
    from pyspark.sql import functions as f

    subject = f.col("subject")
    if tokens is None:
        return subject
    prefix = f.substring_index(subject, ".", tokens)
    return f.when(prefix == subject, subject).otherwise(f.concat(prefix, f.lit(".>")))


def _parse_producer_time(text: str) -> tuple[str, str]:
    found = _PRODUCER_TIME.fullmatch(text)
    if found is None or (found[1] == "json" and not _JSON_NAME.fullmatch(found[2])):
        raise OptionError(
            f"option producer_time={text!r} is not valid: allowed is header:<name> or"
            " json:<field>.<field>"
        )
    return found[1], found[2]


def sent_us(place: str, written: TimeFormat) -> "Column":
    """The producer's time; null if it is missing or invalid."""
    from pyspark.sql import functions as f

    kind, name = _parse_producer_time(place)
    if kind == "header":
        text = f.get(f.element_at(f.col("headers"), name), f.lit(0))
    else:
        path = "$" + "".join(f"['{each}']" for each in name.split("."))
        text = f.get_json_object(f.col("data").cast("string"), path)
    if written == "rfc3339":
        sent = f.unix_micros(text.try_cast("timestamp"))
    else:
        # Nanoseconds have more digits than a double: cut off as text, not rounded.
        scale = f.lit(_US_PER[written]).cast("decimal(10,3)")
        sent = f.try_multiply(text.try_cast("decimal(38,9)"), scale).try_cast("bigint")
    # A number outside this range is in another unit, or not a time at all.
    return f.when(sent.between(*_SENT_US), sent)


@dataclass(frozen=True)
class Extent:
    """The number of messages to count, and their time span."""

    messages: int
    first_us: int | None
    last_us: int | None
    unreadable: int


def _extent(measured: "DataFrame") -> Extent:
    from pyspark.sql import functions as f

    row = measured.agg(
        f.count("*").alias("messages"),
        f.min("stored_us").alias("first"),
        f.max("stored_us").alias("last"),
        f.count_if(f.col("sent_us").isNull()).alias("unreadable"),
    ).collect()[0]
    return Extent(row["messages"], row["first"], row["last"], row["unreadable"])


def window_width_s(wanted_s: float | None, extent: Extent) -> float:
    """The width of a window. Raises OptionError if there are too many windows."""
    span_s = ((extent.last_us or 0) - (extent.first_us or 0)) / _US_PER_S
    if wanted_s is None:
        fitting = (each for each in _WINDOWS_S if span_s / each <= WINDOWS_WANTED)
        return next(fitting, span_s / WINDOWS_WANTED)
    if span_s / wanted_s > WINDOWS_MAX:
        raise OptionError(
            f"option window_s={wanted_s:g} makes {span_s / wanted_s:,.0f} windows, more than"
            f" {WINDOWS_MAX}: allowed here is {math.ceil(span_s / WINDOWS_MAX)} or more, or narrow"
            " the bounds"
        )
    return wanted_s


# --- aggregates ---------------------------------------------------------------------------------


def _aggregated(
    measured: "DataFrame", kept: list[str], extent: Extent, window_s: float
) -> "list[Row]":
    """A row per group and window, one per group over all windows (`window` is null).

    The group is null for the groups that are not kept, and `is_all` for everything together.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    group = f.when(f.col("group").isin(kept), f.col("group"))
    named = measured.withColumn("group", group).withColumn("is_all", f.lit(False))
    everything = named.withColumn("group", f.lit(None).cast("string")).withColumn(
        "is_all", f.lit(True)
    )
    before = f.lag("stored_us").over(Window.partitionBy("is_all", "group").orderBy("sequence"))
    window_us = round(window_s * _US_PER_S)
    first = _first_window_us(extent, window_us)
    rows = (
        named.unionByName(everything)
        .withColumn("gap", (f.col("stored_us") - before) / _US_PER_S)
        .withColumn("latency", (f.col("stored_us") - f.col("sent_us")) / _US_PER_S)
        .withColumn("window", f.expr(f"(stored_us - {first}) div {window_us}"))
    )
    figures = [
        f.count("*").alias("messages"),
        f.sum("size").alias("bytes"),
        *(_spread(name).alias(name) for name in ("size", "gap", "latency")),
    ]
    by_window = rows.groupBy("is_all", "group", "window").agg(*figures)
    total = rows.groupBy("is_all", "group").agg(*figures)
    total = total.withColumn("window", f.lit(None).cast("bigint"))
    return by_window.unionByName(total).collect()


def _first_window_us(extent: Extent, window_us: int) -> int:
    return (extent.first_us or 0) // window_us * window_us


def _spread(name: str) -> "Column":
    from pyspark.sql import functions as f

    return f.struct(
        f.count(name).alias("count"),
        f.min(name).cast("double").alias("min"),
        f.percentile_approx(name, list(PERCENTILES), ACCURACY).cast("array<double>").alias("at"),
        f.max(name).cast("double").alias("max"),
    )


def _assembled(
    settings: StatsSettings,
    extent: Extent,
    window_s: float,
    rows: "list[Row]",
    kept: list[str],
    merged: int,
) -> Figures:
    window_us = round(window_s * _US_PER_S)
    first_us = _first_window_us(extent, window_us)
    count = 0
    if extent.last_us is not None:
        count = (extent.last_us - first_us) // window_us + 1
    spans: dict[tuple[bool, str | None], dict[int | None, Span]] = {}
    for row in rows:
        spans.setdefault((row["is_all"], row["group"]), {})[row["window"]] = _span(row)

    def group(name: str, key: tuple[bool, str | None]) -> Group:
        found = spans.get(key, {})
        windows = tuple(found.get(index, NOTHING) for index in range(count))
        return Group(name, found.get(None, NOTHING), windows)

    groups = [group(name, (False, name)) for name in kept]
    if merged:
        groups.append(group(f"({merged:,} others)", (False, None)))
    looked_for = settings.producer_time is not None
    return Figures(
        stream=settings.stream_name,
        source=settings.source,
        first_s=None if extent.first_us is None else extent.first_us / _US_PER_S,
        last_s=None if extent.last_us is None else extent.last_us / _US_PER_S,
        window_s=window_s,
        window_starts_s=tuple((first_us + i * window_us) / _US_PER_S for i in range(count)),
        all=group(ALL, (True, None)),
        groups=tuple(groups),
        groups_merged=merged,
        unreadable=extent.unreadable if looked_for else None,
    )


def _span(row: "Row") -> Span:
    return Span(
        int(row["messages"]),
        int(row["bytes"]),
        _distribution(row["size"]),
        _distribution(row["gap"]),
        _distribution(row["latency"]),
    )


def _distribution(spread: Any) -> Distribution | None:
    if not spread["count"]:
        return None
    p50, p90, p99 = spread["at"]
    return Distribution(int(spread["count"]), spread["min"], p50, p90, p99, spread["max"])
