"""The job `replay`: messages of a stream or an archive published again, into a stream.

**Order.** The messages are published in the order of their original sequences, all of them, not
only those of one subject: the order of the source is the order of the target. They are read and
sorted in parallel, and published by one task over one connection.

**Pace.** Full speed, or the original distances times a factor (`pacing`).

**Once.** The work is cut into units of sequences. A marker in a bucket beside the target has the
units that are done (`marker`); the next run of the same name continues a run that was killed, after
searching the target for messages that the last unit had published. A replay that is complete stays
so: another run of its name publishes nothing. Messages that the target has removed meanwhile, by
its own limits, cannot be found there, so the limits must outlast an interruption.

Subjects are mapped by a rule in NATS's mapping syntax (`orders.*` to `again.{{wildcard(1)}}`);
subjects that do not match stay as they are. Headers are kept, except those that `lane` names.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.base.errors import OperatingError, PeerError
from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection, probe_server
from headwater.client.link.login import Login
from headwater.client.link.reads.lag import lag_behind
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.reading import (
    Bounds,
    check_place,
    check_subjects,
    login_options,
    read_archive,
    read_stream,
    stream_info,
)
from headwater.spark.jobs.replay.lane import RESULT_SCHEMA, LanePlan, publish_lane, refused_headers
from headwater.spark.jobs.replay.marker import Marker, MarkerEntry
from headwater.spark.jobs.replay.pacing import FULL_SPEED, SPEED_MAX, Anchor
from headwater.spark.options import OptionError, SinkOptions
from headwater.spark.read.offsets import DataLossError, Offset, keeps_messages, loss_of
from headwater.subjects.transform import SubjectTransform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKER_BUCKET: Final = "headwater_replays"
UNIT_MESSAGES: Final = 200_000
UNIT_S: Final = 5.0
"""The duration of a unit of a paced replay: the interval of progress and of the marker."""
UNITS_MAX: Final = 100_000
_US_PER_S: Final = 1_000_000
_NAME: Final = re.compile(r"[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_=-]+)*")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class ReplayError(OperatingError):
    """The target refused a message, or was unreachable for too long; run it again."""


@dataclass(frozen=True)
class ReplaySettings:
    """The settings of a replay: its messages, its target and its speed.

    One of `stream` and `archive` (a path) names the messages; `subjects` and the bounds narrow
    them. `to_stream` is the target; it is on the same server unless `to_url` names another. `speed`
    0 is as fast as possible, 1 the original speed, 2 twice as fast. `subject_from` and `subject_to`
    are the two sides of a subject mapping. A run continues earlier ones of its `name`, which is by
    default derived from these settings.
    """

    login: Login
    to_stream: str
    stream: str | None = None
    archive: str | None = None
    subjects: tuple[str, ...] = ()
    from_sequence: int | None = None
    until_sequence: int | None = None
    from_time: str | None = None
    until_time: str | None = None
    speed: float = FULL_SPEED
    subject_from: str | None = None
    subject_to: str | None = None
    to_url: str | None = None
    name: str | None = None
    marker_bucket: str = MARKER_BUCKET
    fail_on_data_loss: bool = True

    def check(self) -> None:
        """Raises OptionError for errors that show without a server."""
        check_place(self.stream, self.archive)
        check_subjects(self.subjects)
        self.bounds.check()
        SinkOptions.parse(
            login_options(self.to_login)
            | {"stream": self.to_stream, "markerBucket": self.marker_bucket}
        )
        if not (self.speed == FULL_SPEED or 0 < self.speed <= SPEED_MAX):
            raise OptionError(
                f"option speed={self.speed} is not valid: allowed is 0 (as fast as possible) or a"
                f" factor up to {SPEED_MAX:g}"
            )
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise OptionError(
                f"option name={self.name!r} is not valid: allowed are letters, digits, _, -, = and"
                " dots between them"
            )
        self._check_rule()
        is_itself = self.stream == self.to_stream and self.to_url is None
        if is_itself and self.rule is None:
            raise OptionError(
                f"option to_stream={self.to_stream!r} is the source itself: give subject_from and"
                " subject_to, or another stream"
            )

    def _check_rule(self) -> None:
        if (self.subject_from is None) != (self.subject_to is None):
            raise OptionError("options subject_from and subject_to belong together: set both")
        if self.rule is None:
            return
        try:
            rule = SubjectTransform.parse(*(text.encode() for text in self.rule))
        except PeerError as error:
            raise OptionError(f"option subject_to={self.subject_to!r}: {error.reply}") from None
        if rule.is_random or not rule.destination:
            raise OptionError(
                f"option subject_to={self.subject_to!r} is not valid: a replay must come out the"
                " same every time, so it needs a destination without random"
            )

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.from_sequence, self.until_sequence, self.from_time, self.until_time)

    @property
    def archive_root(self) -> Path | None:
        """The absolute path of the archive: workers run in folders of their own."""
        return None if self.archive is None else Path(self.archive).absolute()

    @property
    def rule(self) -> tuple[str, str] | None:
        if self.subject_from is None or self.subject_to is None:
            return None
        return self.subject_from, self.subject_to

    @property
    def to_login(self) -> Login:
        return self.login if self.to_url is None else replace(self.login, url=self.to_url)

    def what(self) -> str:
        """A short text that differs for replays that publish different messages."""
        archive = None if self.archive_root is None else str(self.archive_root)
        parts = [
            *(self.stream, archive, self.to_stream, list(self.subjects), self.rule),
            *(self.from_sequence, self.until_sequence, self.from_time, self.until_time),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def run_name(self) -> str:
        """The name that runs of this replay share."""
        if self.name is not None:
            return self.name
        label = _NOT_IN_NAMES.sub("-", self.stream or "archive").strip("-")
        return f"{label}-{self.what()}"


@dataclass(frozen=True)
class ReplayResult:
    """The result of a run.

    `published` messages were sent by this run, `present` ones were found in the target from a run
    that was cut short; `published_before` are those of earlier runs.
    """

    name: str
    to_stream: str
    first_sequence: int
    last_sequence: int
    published: int
    present: int
    published_before: int
    duration_s: float
    lost: str | None = None


@dataclass(frozen=True)
class _Unit:
    """Sequences that are published together, both ends included."""

    first: int
    last: int


def replay(
    spark: "SparkSession", settings: ReplaySettings, progress: Progress = SILENT
) -> ReplayResult:
    """Publish the messages that were not published yet.

    Raises OptionError, LinkError, DataLossError, OvertakenError and ReplayError.
    """
    settings.check()
    probe_server(settings.to_login)
    with Connection(settings.to_login) as connection:
        return _Run(spark, settings, ApiClient(connection), progress).run()


class _Run:
    """One run of the job."""

    def __init__(
        self,
        spark: "SparkSession",
        settings: ReplaySettings,
        server: ApiClient,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._server = server
        self._progress = progress
        self._lost: str | None = None

    def run(self) -> ReplayResult:
        settings = self._settings
        started_s = time.monotonic()
        target = stream_info(self._server, settings.to_stream, "to_stream")
        self._server.ensure_bucket(settings.marker_bucket)
        entry = MarkerEntry(self._server, settings.marker_bucket, settings.run_name())
        begun = self._first_marker(entry, target)
        marker = begun
        present = 0
        if not marker.is_done:
            entry.put(begun)
            while True:
                for after, found in self._units_published(entry, marker, target):
                    marker = after
                    present += found
                if marker.is_done:
                    break
                marker = marker.after_part()
                entry.put(marker)
        return ReplayResult(
            name=settings.run_name(),
            to_stream=settings.to_stream,
            first_sequence=begun.next,
            last_sequence=begun.until,
            published=marker.published - begun.published - present,
            present=present,
            published_before=begun.published,
            duration_s=time.monotonic() - started_s,
            lost=self._lost,
        )

    # --- the start ------------------------------------------------------------------------------

    def _first_marker(self, entry: MarkerEntry, target: StreamInfo) -> Marker:
        """The state of the replay. Raises OptionError if it cannot be continued."""
        settings = self._settings
        marker = entry.read()
        source = self._source()
        if marker is None:
            (created_us, first, until), *later = self._extents(source)
            return Marker(
                settings.what(),
                target.created,
                source.created if source else "",
                first,
                until,
                target.last_seq,
                created_us=created_us,
                later=tuple(later),
            )
        name = settings.run_name()
        if marker.what != settings.what():
            raise OptionError(
                f"option name={name!r} is taken by a replay of other messages: choose another"
            )
        if marker.to_created != target.created:
            raise OptionError(
                f"option to_stream={settings.to_stream!r} was deleted and created again since"
                f" replay {name} began: choose another name to begin again"
            )
        if source is not None and not marker.is_done:
            if source.created != marker.source_created:
                raise OptionError(
                    f"option stream={source.name!r} was deleted and created again since replay"
                    f" {name} began: choose another name to replay the new one"
                )
            self._check_loss(marker, source)
        return marker

    def _source(self) -> StreamInfo | None:
        settings = self._settings
        if settings.stream is None:
            return None
        if settings.to_url is None:
            return stream_info(self._server, settings.stream)
        with Connection(settings.login.at_start) as connection:
            return stream_info(ApiClient(connection), settings.stream)

    def _check_loss(self, marker: Marker, source: StreamInfo) -> None:
        held = Offset(source.name, marker.source_created, marker.next)
        loss = loss_of(held, source, keeps_messages(source))
        if loss is None:
            return
        if self._settings.fail_on_data_loss:
            raise DataLossError(f"{loss.text}; set fail_on_data_loss=false to replay what is left")
        self._lost = loss.text
        self._progress.note(loss.text)

    def _extents(self, source: StreamInfo | None) -> list[tuple[int | None, int, int]]:
        """The incarnations to replay now, in their order, each with its extent."""
        if source is not None:
            return [(None, *self._bounded(source.first_seq, source.last_seq))]
        from pyspark.sql import functions as f

        rows = (
            self._read(self._settings.bounds, ("sequence", "timestamp", "stream_created"))
            .groupBy(f.unix_micros("stream_created").alias("created_us"))
            .agg(f.min("sequence").alias("first"), f.max("sequence").alias("last"))
            .orderBy("created_us")
            .collect()
        )
        extents = [(row["created_us"], *self._bounded(row["first"], row["last"])) for row in rows]
        return extents or [(None, *self._bounded(1, 0))]

    def _bounded(self, first: int, last: int) -> tuple[int, int]:
        """The first and last sequence within the bounds; the last before the first for none."""
        bounds = self._settings.bounds
        first = max(first, bounds.first_sequence or 1)
        if bounds.last_sequence is not None:
            last = min(last, bounds.last_sequence)
        return first, max(last, first - 1)

    # --- units ----------------------------------------------------------------------------------

    def _units_published(
        self, entry: MarkerEntry, marker: Marker, target: StreamInfo
    ) -> Iterator[tuple[Marker, int]]:
        """Publish unit after unit; yields the marker after each, and the number of present ones."""
        self._progress.stage("messages", marker.until - marker.next + 1)
        units, first_us = self._units(marker)
        anchor = Anchor(first_us * 1_000, time.time_ns())
        for unit in units:
            published, present, floor = self._publish(entry, marker, target, unit, anchor)
            self._progress.advance(unit.last + 1 - marker.next)
            marker = marker.moved(unit.last + 1, floor, published + present)
            entry.put(marker)
            self._tell_lag(marker)
            yield marker, present
        if marker.next <= marker.until:
            # The end of the range may have no messages in it.
            self._progress.advance(marker.until - marker.next + 1)
            marker = marker.moved(marker.until + 1, marker.floor, 0)
            entry.put(marker)
            yield marker, 0

    def _tell_lag(self, marker: Marker) -> None:
        """Report the lag of the replay behind its stream, or behind the end of its archive."""
        settings = self._settings
        if settings.stream is None or settings.to_url is not None:
            self._progress.note(f"lag {marker.until + 1 - marker.next:,} sequences")
            return
        source = stream_info(self._server, settings.stream)
        lag = lag_behind(self._server.connection, source, marker.next, settings.subjects)
        self._progress.note(str(lag))

    def _units(self, marker: Marker) -> tuple[list[_Unit], int]:
        """The remaining units, in order and without gaps, and the time of the first message."""
        source = self._source()
        is_paced = self._settings.speed != FULL_SPEED
        bounds = self._settings.bounds
        is_timed = bounds.from_time is not None or bounds.until_time is not None
        if source is not None and _is_dense(source) and not (is_paced or is_timed):
            return list(_even_units(marker.next, marker.until)), 0
        # Otherwise the messages themselves are read, so that gaps make no empty units.
        from pyspark.sql import functions as f

        left = replace(bounds, first_sequence=marker.next, last_sequence=marker.until)
        rows = self._read(left, ("sequence", "timestamp"), marker)
        stored_us = f.unix_micros("timestamp")
        first_us, last_us, first_sequence = rows.agg(
            f.min(stored_us), f.max(stored_us), f.min("sequence")
        ).collect()[0]
        if first_us is None:
            return [], 0
        slot = f.floor((f.col("sequence") - first_sequence) / UNIT_MESSAGES)
        if is_paced:
            span_us = UNIT_S * self._settings.speed * _US_PER_S
            span_us = math.ceil(max(span_us, (last_us - first_us) / UNITS_MAX))
            slot = f.struct(slot, f.floor((stored_us - first_us) / span_us))
        ends = rows.groupBy(slot.alias("slot")).agg(f.max("sequence").alias("last")).collect()
        # Each ends where a slot ends. Times may go back, but the ends of units never do.
        lasts = sorted(row["last"] for row in ends)
        firsts = [first_sequence, *(last + 1 for last in lasts)]
        return [_Unit(*each) for each in zip(firsts, lasts, strict=False)], first_us

    def _publish(
        self,
        entry: MarkerEntry,
        marker: Marker,
        target: StreamInfo,
        unit: _Unit,
        anchor: Anchor,
    ) -> tuple[int, int, int]:
        """Publish a unit. Returns the number of sent and of present messages, and the floor."""
        from pyspark.sql import functions as f

        settings = self._settings
        plan = LanePlan(
            login=settings.to_login,
            to_stream=settings.to_stream,
            name=f"{settings.run_name()}@{marker.part}" if marker.part else settings.run_name(),
            claim=entry.claim(target),
            floor=marker.floor,
            target_keeps=keeps_messages(target),
            speed=settings.speed,
            anchor=anchor,
            rule=settings.rule,
            refused_headers=refused_headers(target),
        )
        bounds = replace(settings.bounds, first_sequence=unit.first, last_sequence=unit.last)
        rows = (
            self._read(bounds, ("subject", "sequence", "timestamp", "headers", "data"), marker)
            .withColumn("stored_us", f.unix_micros("timestamp"))
            .drop("timestamp")
            .repartition(1)
            .sortWithinPartitions("sequence")
            .mapInArrow(partial(publish_lane, plan=plan), RESULT_SCHEMA)
        )
        done = rows.collect()
        problems = [row["problem"] for row in done if row["problem"]]
        if problems:
            raise ReplayError(f"replay {plan.name} stopped: {problems[0]}")
        floor = max((row["last_sequence"] for row in done), default=marker.floor)
        return sum(r["published"] for r in done), sum(r["present"] for r in done), floor

    def _read(
        self, bounds: Bounds, columns: tuple[str, ...], marker: Marker | None = None
    ) -> "DataFrame":
        """Messages within the bounds; for an archive, with a marker, of its incarnation only."""
        settings = self._settings
        if settings.stream is not None:
            return read_stream(
                self._spark,
                settings.login,
                settings.stream,
                settings.subjects,
                bounds,
                columns,
                settings.fail_on_data_loss,
            )
        root = str(settings.archive_root or "")
        if marker is None:
            return read_archive(self._spark, root, settings.subjects, bounds, columns)
        from pyspark.sql import functions as f

        wanted = (*columns, "stream_created")
        rows = read_archive(self._spark, root, settings.subjects, bounds, wanted)
        made = f.unix_micros("stream_created")
        return rows.where(made.eqNullSafe(f.lit(marker.created_us))).select(*columns)


def _is_dense(source: StreamInfo) -> bool:
    """Whether at least every other sequence of the stream has a message."""
    return source.messages * 2 > source.last_seq - source.first_seq


def _even_units(first: int, last: int) -> Iterator[_Unit]:
    for begin in range(first, last + 1, UNIT_MESSAGES):
        yield _Unit(begin, min(begin + UNIT_MESSAGES - 1, last))
