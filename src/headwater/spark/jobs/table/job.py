"""The job `table`: a bucket as two Delta tables, one of all entries and one of the current values.

    <to>/history     a row per entry, never removed: key, revision, operation, timestamp, ...
    <to>/latest      a row per key that is there, with its value
    <to>/as_of/...   the keys as they were at a revision or a time, where that was asked for

The bucket drops entries (it keeps 1 to 64 of a key), the history does not: it keeps all that any
run has read. A run reads only entries that are newer than the revision of the history, and adds
them together with the new revision in one commit, so a run killed anywhere is repeated or was
complete. `latest` is made from the history, never from the bucket, and has a revision of its own: a
run killed between the two is completed by the next. Changed keys are merged into it, file by file.
With `follow` the job continues until it is stopped, and checks every `every_s` seconds whether the
bucket has changed.

The tables cannot know an entry that was overwritten before any run read it (`missing` counts those
revisions). So a bucket that had dropped entries before the first run is known from the revision on
at which that run had caught up: `complete_from`. The keys as of an earlier revision are refused.
Keys that were removed without a marker (a purge of the stream, a message deleted by its sequence)
are left out of `latest`, because the bucket has no such subject any more; the history keeps their
entries.

A busy bucket overwrites entries while they are read, faster than a job of Spark can read them
again. The end of a run is therefore read here, in the driver, in rounds of milliseconds
(`buckets.CatchUp`): when none of them can have missed a key, `latest` is the bucket as it was at
`revision`.
"""

import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.client.api.answers import STREAM_NOT_FOUND, StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import ApiRefusedError
from headwater.client.link.login import Login
from headwater.client.link.reads.lag import lag_behind
from headwater.spark.jobs.progress import SILENT, PatientProgress, Progress
from headwater.spark.jobs.reading import check_time, login_options, utc
from headwater.spark.jobs.table.delta_table import Part, Table, write_parts
from headwater.spark.jobs.table.history import (
    HISTORY_COLUMNS,
    LATEST_COLUMNS,
    AsOf,
    arrow_schema,
    as_of,
    history_rows,
    until,
    without_purged,
)
from headwater.spark.jobs.table.latest import LatestTable
from headwater.spark.options import (
    Kind,
    OptionError,
    SourceOptions,
    parse_point_in_time,
    stream_name,
)
from headwater.spark.read.offsets import DataLossError, Loss, Offset, loss_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY: Final = "history"
LATEST: Final = "latest"
AS_OF: Final = "as_of"

_BUCKET_PROPERTY: Final = "headwater.bucket"
_GENERATIONS_PROPERTY: Final = "headwater.generations"
_AS_OF_MARK: Final = "headwater.as_of"

# Up to this size one file is better than reading on all cores.
ONE_FILE_ENTRIES_MAX: Final = 200_000
HISTORY_FILES_MAX: Final = 200
KEEP_VERSIONS_H: Final = 7 * 24
ROUNDS_MAX: Final = 100
# Each change of the bucket makes versions of two tables.
EVERY_S_MIN: Final = 0.1
EVERY_S_MAX: Final = 86_400.0

CATCH_UP_ENTRIES_MAX: Final = 20_000
CATCH_UP_BYTES_MAX: Final = 64 << 20
"""The driver reads up to this much itself, in less time than a job of Spark takes to start."""


@dataclass(frozen=True)
class TableSettings:
    """The settings of a table: its bucket, and its place.

    `to` is a directory that all machines of the cluster see under the same path. At most one of
    `as_of_revision` and `as_of_time` asks for a further table of the keys as they were then.
    `fail_on_data_loss`: a bucket that was deleted and created again, or restored to an older state,
    is refused; otherwise the result reports it, and the tables continue with the current bucket.
    `rounds_max` limits how often a run reads again what has come while it was reading.
    `keep_versions_h` is the time for which older versions of the tables can still be read, in
    hours; unfinished files of another run must not be older than that. `follow`: continue until
    stopped, and update the tables every `every_s` seconds, if the bucket has changed.
    """

    login: Login
    bucket: str
    to: str
    as_of_revision: int | None = None
    as_of_time: str | None = None
    fail_on_data_loss: bool = True
    follow: bool = False
    every_s: float = 10.0
    rounds_max: int = 3
    keep_versions_h: int = KEEP_VERSIONS_H

    def check(self) -> None:
        """Raises OptionError for errors that show without a server."""
        SourceOptions.parse(login_options(self.login) | {"bucket": self.bucket})
        if not self.to.strip():
            raise OptionError("option to is empty: name the directory the tables go to")
        if self.as_of_revision is not None and self.as_of_time is not None:
            raise OptionError("options as_of_revision and as_of_time exclude each other: set one")
        if self.as_of_revision is not None and self.as_of_revision < 1:
            raise OptionError(
                f"option as_of_revision={self.as_of_revision} is not valid: revisions begin at 1"
            )
        check_time("as_of_time", self.as_of_time)
        if self.follow and (self.as_of_revision is not None or self.as_of_time is not None):
            raise OptionError(
                "option follow excludes as_of_revision and as_of_time: ask for the keys of then in"
                " a run of its own"
            )
        if not EVERY_S_MIN <= self.every_s <= EVERY_S_MAX:
            raise OptionError(
                f"option every_s={self.every_s:g} is not valid: allowed is {EVERY_S_MIN:g} to"
                f" {EVERY_S_MAX:g}"
            )
        if not 1 <= self.rounds_max <= ROUNDS_MAX:
            raise OptionError(
                f"option rounds_max={self.rounds_max} is not valid: allowed is 1 to {ROUNDS_MAX}"
            )
        if self.keep_versions_h < 0:
            raise OptionError(f"option keep_versions_h={self.keep_versions_h} must be 0 or more")

    @property
    def root(self) -> Path:
        """The absolute path of the tables: workers run in folders of their own."""
        return Path(self.to).absolute()


@dataclass(frozen=True)
class TableResult:
    """The result of a run.

    `entries` were added to the history, `missing` revisions were gone before they were read, `keys`
    are in the latest table, `behind` revisions came while the run was ending. The tables know the
    keys as of every revision from `complete_from` on; None if no run has caught up with the bucket
    yet. `lost` describes a loss of the bucket in one line, if there was one.
    """

    bucket: str
    revision: int
    entries: int
    missing: int
    keys: int
    behind: int
    history: str
    latest: str
    complete_from: int | None = None
    as_of: str | None = None
    as_of_keys: int | None = None
    lost: str | None = None


# --- reading the tables -------------------------------------------------------------------------


def read_table(
    spark: "SparkSession",
    path: str,
    as_of_revision: int | None = None,
    as_of_time: str | None = None,
) -> "DataFrame":
    """The keys and values of the tables at `path`: the current ones, or as of a revision or time.

    Raises OptionError for a revision that the tables have not reached, or do not know completely.
    """
    if as_of_revision is None and as_of_time is None:
        return _existing(path, LATEST).read(spark).select(*LATEST_COLUMNS)
    history = _existing(path, HISTORY)
    return _as_of(history, history.read(spark), _bound(as_of_revision, as_of_time))


def read_history(
    spark: "SparkSession",
    path: str,
    as_of_revision: int | None = None,
    as_of_time: str | None = None,
    purged: bool = False,
) -> "DataFrame":
    """Every entry of the bucket that was read, up to a revision or time.

    Entries that a purge of their key was meant to remove are left out, unless `purged`.
    """
    history = _existing(path, HISTORY)
    state = _State.of(history)
    bound = _bound(as_of_revision, as_of_time)
    rows = until(history.read(spark), state.generation_times(), bound)
    return rows if purged else without_purged(rows)


def _existing(path: str, name: str) -> Table:
    table = Table(f"{Path(path).absolute()}/{name}")
    if not table.exists:
        raise OptionError(f"there is no table at {path!r}: let the job table make it first")
    return table


def _bound(revision: int | None, time_text: str | None) -> AsOf:
    if revision is not None and time_text is not None:
        raise OptionError("options as_of_revision and as_of_time exclude each other: set one")
    check_time("as_of_time", time_text)
    return AsOf(revision, None if time_text is None else utc(parse_point_in_time(time_text)))


def _as_of(table: Table, history: "DataFrame", bound: AsOf) -> "DataFrame":
    state = _State.of(table)
    if bound.revision is not None and bound.revision > state.revision:
        raise OptionError(
            f"option as_of_revision={bound.revision} lies ahead: the tables are at revision"
            f" {state.revision}"
        )
    state.check_complete(bound)
    return as_of(history, state.generation_times(), bound).select(*LATEST_COLUMNS)


# --- the progress of the tables -----------------------------------------------------------------


@dataclass(frozen=True)
class _Generation:
    """One life of a bucket: the time of its creation by the server, and since when we know it."""

    created: str
    since_us: int
    # The first revision at which all keys were known, and its time; None before that.
    complete_from: int | None = None
    complete_us: int | None = None

    @property
    def mark(self) -> str:
        """The name under which a table keeps the revision of this bucket that it holds."""
        return f"headwater.table/{self.created}/{self.since_us}"

    @property
    def since(self) -> datetime:
        return utc(self.since_us * 1_000)


@dataclass(frozen=True)
class _State:
    """The content of a history."""

    bucket: str
    generations: tuple[_Generation, ...]
    revision: int

    @classmethod
    def of(cls, table: Table) -> "_State":
        properties = table.properties
        if _GENERATIONS_PROPERTY not in properties:
            raise OptionError(f"the table at {table.path!r} was not made by the job table")
        # Tables of earlier versions do not have the revision from which on they are complete.
        generations = tuple(
            _Generation(str(created), int(since_us), *complete)
            for created, since_us, *complete in json.loads(properties[_GENERATIONS_PROPERTY])
        )
        revision = table.mark(generations[-1].mark)
        return cls(properties[_BUCKET_PROPERTY], generations, revision or 0)

    @property
    def current(self) -> _Generation:
        return self.generations[-1]

    def generation_times(self) -> list[datetime]:
        return [each.since for each in self.generations]

    def check_complete(self, bound: AsOf) -> None:
        """Raises OptionError if the keys as of `bound` are not all known."""
        of = self.current
        if bound.time is not None:
            asked = bound.time
            earlier = [each for each in self.generations if each.since <= asked]
            of = earlier[-1] if earlier else self.generations[0]
        name = "as_of_time" if bound.time is not None else "as_of_revision"
        if of.complete_from is None or of.complete_us is None:
            raise OptionError(
                f"option {name} cannot be answered: no run of the job table has caught up with"
                " the bucket yet; run it once more"
            )
        if of.complete_from == 1:
            return
        is_early = bound.revision is not None and bound.revision < of.complete_from
        if bound.time is not None and bound.time < utc(of.complete_us * 1_000):
            is_early = True
        if is_early:
            raise OptionError(
                f"option {name} lies too early: the tables are complete from revision"
                f" {of.complete_from}, {utc(of.complete_us * 1_000).isoformat()}"
            )

    def completed(self, revision: int, time_us: int) -> "_State":
        """The state with the revision and time since which its current bucket is complete."""
        current = replace(self.current, complete_from=revision, complete_us=time_us)
        return replace(self, generations=(*self.generations[:-1], current))

    def properties(self) -> dict[str, str]:
        return {
            _BUCKET_PROPERTY: self.bucket,
            _GENERATIONS_PROPERTY: json.dumps(
                [
                    [each.created, each.since_us, each.complete_from, each.complete_us]
                    for each in self.generations
                ]
            ),
        }


# --- the job ------------------------------------------------------------------------------------


def table(
    spark: "SparkSession", settings: TableSettings, progress: PatientProgress = SILENT
) -> TableResult:
    """Bring the tables of a bucket up to date. Raises OptionError, LinkError, DataLossError."""
    settings.check()
    following = _Following(spark, settings, progress)
    result = following.next()
    while settings.follow and progress.wait(settings.every_s):
        result = following.next()
    return result


class _Following:
    """Runs one after the other, and their total result."""

    def __init__(self, spark: "SparkSession", settings: TableSettings, progress: Progress) -> None:
        self._spark = spark
        self._settings = settings
        self._progress = progress
        # The bucket as it was when the last run began.
        self._info: StreamInfo | None = None
        self._result: TableResult | None = None

    def next(self) -> TableResult:
        """Bring the tables up to date, unless the bucket is unchanged since the last time."""
        with Connection(self._settings.login) as connection:
            run = _Run(self._spark, self._settings, ApiClient(connection), self._progress)
            info = run.info()
            # Every change of a bucket changes its counts too, even a purge and an age limit.
            if self._result is None or info != self._info:
                self._result = _added(self._result, run.run(info))
                self._info = info
            lag = lag_behind(connection, run.info(), self._result.revision + 1)
        self._progress.note(f"{self._result.keys:,} keys, {lag}")
        return self._result


def _added(before: TableResult | None, last: TableResult) -> TableResult:
    """The result of all runs up to the last one."""
    if before is None:
        return last
    return replace(
        last,
        entries=before.entries + last.entries,
        missing=before.missing + last.missing,
        lost=last.lost or before.lost,
    )


class _Run:
    """One run of the job."""

    def __init__(
        self,
        spark: "SparkSession",
        settings: TableSettings,
        server: ApiClient,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._server = server
        self._progress = progress
        self._lost: str | None = None

    def run(self, info: StreamInfo) -> TableResult:
        """Bring the tables up to date with a bucket whose information is fresh."""
        settings = self._settings
        history = self._open_history(info)
        self._progress.stage("entries", info.last_seq - _State.of(history).revision)
        entries = missing = 0
        for _ in range(settings.rounds_max):
            state = self._generation(history, info)
            if _is_few(info, state.revision):
                break
            added = self._append(history, state, info)
            entries += added
            missing += info.last_seq - state.revision - added
            # Asked again: entries that were overwritten during the read have newer revisions.
            info_read, info = info, self.info()
            if info.last_seq > info_read.last_seq:
                self._progress.note(f"{info.last_seq - info_read.last_seq} more since")
        state = self._generation(history, info)
        if _is_few(info, state.revision):
            added, revision = self._catch_up(history, state, info)
            entries += added
            missing += revision - state.revision - added
            info = self.info()
        state = _State.of(history)
        if history.compact(HISTORY_FILES_MAX):
            history.sweep(settings.keep_versions_h)
        latest = self._bring_up(history, state)
        result = TableResult(
            bucket=settings.bucket,
            revision=state.revision,
            entries=entries,
            missing=missing,
            keys=latest.rows,
            behind=max(info.last_seq - state.revision, 0),
            complete_from=state.current.complete_from,
            history=history.path,
            latest=latest.path,
            lost=self._lost,
        )
        return self._materialised(history, state, result)

    def info(self) -> StreamInfo:
        """The current bucket. Raises OptionError if it does not exist."""
        bucket = self._settings.bucket
        try:
            return self._server.stream_info(stream_name(Kind.BUCKET, bucket))
        except ApiRefusedError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            raise OptionError(
                f"option bucket={bucket!r} is not valid: the server has no such bucket"
            ) from None

    def _open_history(self, info: StreamInfo) -> Table:
        settings = self._settings
        history = Table(f"{settings.root}/{HISTORY}")
        if not history.exists:
            first = _State(settings.bucket, (_first_generation(info),), 0)
            history.create(arrow_schema(HISTORY_COLUMNS), first.properties())
        held = _State.of(history).bucket
        if held != settings.bucket:
            raise OptionError(
                f"option to={settings.to!r} holds the tables of bucket {held}: name another place"
            )
        return history

    def _generation(self, history: Table, info: StreamInfo) -> _State:
        """The state to continue from; a new generation if the bucket is another one."""
        state = _State.of(history)
        loss = self._loss(state, info)
        if loss is None:
            return state
        if self._settings.fail_on_data_loss:
            raise DataLossError(
                f"{loss.text}; set fail_on_data_loss=false to go on with the bucket as it is now,"
                " or another directory to start again"
            )
        self._lost = loss.text
        self._progress.note(loss.text)
        if info.created == state.current.created:
            # Restored to an older state: the creation is the same, so our own clock is used.
            added = _Generation(info.created, time.time_ns() // 1_000)
        else:
            added = _first_generation(info)
        state = replace(state, generations=(*state.generations, added), revision=0)
        history.set_properties(state.properties())
        return state

    def _loss(self, state: _State, info: StreamInfo) -> Loss | None:
        held = Offset(info.name, state.current.created, state.revision + 1)
        # Entries are dropped when their keys are written again: that is no loss.
        return loss_of(held, info, keeps=False)

    def _append(self, history: Table, state: _State, info: StreamInfo) -> int:
        """Add newer entries to the history. Returns their number."""
        first = max(state.revision + 1, info.first_seq)
        parts: list[Part] = []
        if info.messages and first <= info.last_seq:
            entries = self._read_entries(first, info.last_seq)
            parts = self._written(history, state, info, entries)
        self._commit(history, state, parts, info.last_seq)
        return sum(part.rows for part in parts)

    def _written(
        self, history: Table, state: _State, info: StreamInfo, entries: "DataFrame"
    ) -> list[Part]:
        rows = history_rows(
            entries,
            state.current.since,
            int(info.config.get("max_age") or 0),
            bool(info.config.get("allow_msg_ttl")),
        )
        return write_parts(rows, history.path, arrow_schema(HISTORY_COLUMNS))

    def _commit(self, history: Table, state: _State, parts: list[Part], revision: int) -> None:
        mark = (state.current.mark, revision)
        history.commit(parts, "append", arrow_schema(HISTORY_COLUMNS), mark)
        self._progress.advance(revision - state.revision)

    def _catch_up(self, history: Table, state: _State, info: StreamInfo) -> tuple[int, int]:
        """Add the newest entries. Returns their number, and the revision of the history now."""
        from headwater.spark.jobs.table.catch_up import CaughtUp

        caught_up = CaughtUp.of(self._server.connection, info, state.revision)
        parts: list[Part] = []
        if caught_up.entries.num_rows:
            frame = self._spark.createDataFrame(caught_up.entries).coalesce(1)
            parts = self._written(history, state, info, frame)
        if caught_up.revision > state.revision:
            self._commit(history, state, parts, caught_up.revision)
        if caught_up.is_complete and state.current.complete_from is None:
            self._note_complete(history)
        return caught_up.entries.num_rows, caught_up.revision

    def _note_complete(self, history: Table) -> None:
        """Note the revision from which on the keys are known: the first, if none was dropped."""
        from pyspark.sql import functions as f

        state = _State.of(history)
        rows = until(history.read(self._spark), state.generation_times(), AsOf())
        found = rows.agg(f.count("*"), f.unix_micros(f.max("timestamp"))).collect()[0]
        is_whole = found[0] == state.revision
        newest_us = found[1] or state.current.since_us
        history.set_properties(
            state.completed(1 if is_whole else state.revision, newest_us).properties()
        )

    def _read_entries(self, first: int, last: int) -> "DataFrame":
        options = login_options(self._settings.login) | {
            "bucket": self._settings.bucket,
            "startingSequence": str(first),
            "endingSequence": str(last),
        }
        frame = self._spark.read.format("headwater").options(**options).load()
        return frame.coalesce(1) if last - first < ONE_FILE_ENTRIES_MAX else frame

    def _bring_up(self, history: Table, state: _State) -> Table:
        """Bring the latest table up to date with the history."""
        self._progress.stage("latest", None)
        latest = Table(f"{self._settings.root}/{LATEST}")
        if not latest.exists:
            latest.create(arrow_schema(LATEST_COLUMNS), {_BUCKET_PROPERTY: state.bucket})
        before = latest.version
        rows = until(history.read(self._spark), state.generation_times(), AsOf())
        mark = (state.current.mark, state.revision)
        LatestTable(self._spark, latest, self._gone).bring_up(
            rows, history.rows, mark, utc(time.time_ns())
        )
        if latest.version != before:
            latest.sweep(self._settings.keep_versions_h)
        return latest

    def _gone(self, keys: "DataFrame") -> list[str]:
        """The keys that the bucket has lost without a marker."""
        import pyarrow as pa

        from headwater.spark.buckets import key_of
        from headwater.spark.read.batches import texts

        bucket = self._settings.bucket
        before = self.info()
        subjects = self._server.subjects(before.name)
        is_sure = self.info() == before
        there = texts([key_of(subject.encode()) for subject in subjects])
        frame = self._spark.createDataFrame(pa.table({"key": there}))
        return [
            row.key
            for row in keys.join(frame, "key", "left_anti").collect()
            # If keys change meanwhile, the list of subjects may have missed one.
            if is_sure or self._server.kv_get(bucket, row.key) is None
        ]

    def _materialised(self, history: Table, state: _State, result: TableResult) -> TableResult:
        settings = self._settings
        if settings.as_of_revision is None and settings.as_of_time is None:
            return result
        self._progress.stage("as of", None)
        bound = _bound(settings.as_of_revision, settings.as_of_time)
        frame = _as_of(history, history.read(self._spark), bound)
        target = Table(f"{settings.root}/{AS_OF}/{_label(bound)}")
        if not target.exists:
            target.create(arrow_schema(LATEST_COLUMNS), {_BUCKET_PROPERTY: state.bucket})
        self._overwrite(target, frame, (_AS_OF_MARK, state.revision))
        return replace(result, as_of=target.path, as_of_keys=target.rows)

    def _overwrite(self, target: Table, frame: "DataFrame", mark: tuple[str, int]) -> None:
        schema = arrow_schema(LATEST_COLUMNS)
        target.commit(write_parts(frame, target.path, schema), "overwrite", schema, mark)
        target.sweep(self._settings.keep_versions_h)


def _is_few(info: StreamInfo, after: int) -> bool:
    """Whether the driver itself can read the entries behind a revision."""
    entries = min(info.last_seq - after, info.messages)
    mean_bytes = info.bytes / max(info.messages, 1)
    return entries <= CATCH_UP_ENTRIES_MAX and entries * mean_bytes <= CATCH_UP_BYTES_MAX


def _first_generation(info: StreamInfo) -> _Generation:
    return _Generation(info.created, parse_point_in_time(info.created) // 1_000)


def _label(bound: AsOf) -> str:
    """The name of the directory of a table as of `bound`."""
    if bound.time is None:
        return f"revision-{bound.revision}"
    return f"time-{bound.time:%Y%m%dT%H%M%S.%fZ}"
