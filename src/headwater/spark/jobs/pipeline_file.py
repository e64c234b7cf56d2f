"""The pipeline file: one TOML file with the server, the Spark, and the jobs to run on them.

    [server]                    the keys of `Login`
    [spark]                     the keys of `SparkSettings`
    [jobs.<name>]               kind = "archive" | ..., and the keys of that job's settings

The keys are the fields of the dataclasses the jobs take, and their types are the fields' types: a
new field of a job is a new key here, without a line in this module. In place of a text, the table
`{ env = "NAME" }` stands for the value of an environment variable, so that no secret has to be
written into a file.

The reader finds every problem of the file, not only the first, and each names the file, the table
and the key. It opens no connection and needs no Spark; the server is asked elsewhere.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar, Union, cast

from headwater.base.errors import OperatingError
from headwater.client.link.login import Login
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.replay.job import ReplaySettings
from headwater.spark.jobs.stats.job import StatsSettings
from headwater.spark.jobs.table.job import TableSettings
from headwater.spark.jobs.union import UnionSettings

S = TypeVar("S")
C = TypeVar("C", bound="JobSettings")

TABLES: Final = ("server", "spark", "jobs")
KIND_KEY: Final = "kind"
ENV_KEY: Final = "env"
TYPE_NAMES: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
NOTHING_GIVEN: Final[Mapping[str, Any]] = types.MappingProxyType({})
# From `[server]`, not from the job's own table.
LOGIN_FIELD: Final = "login"


class JobSettings(Protocol):
    """The settings of a job: a frozen dataclass of plain values."""

    def check(self) -> None:
        """Raise OptionError for errors that show without server and Spark."""


KINDS: Final[Mapping[str, type[JobSettings]]] = {
    "archive": ArchiveSettings,
    "table": TableSettings,
    "replay": ReplaySettings,
    "union": UnionSettings,
    "stats": StatsSettings,
}


@dataclass(frozen=True)
class SparkSettings:
    """The Spark that runs the jobs, and its configuration."""

    # Any master that Spark knows; None is all cores of this machine.
    master: str | None = None
    # Of the driver, which with a local master does all the work: "4g".
    memory: str | None = None
    # More of Spark's own configuration, by its own names.
    conf: Mapping[str, str] = field(default_factory=dict)


class PipelineFileError(OperatingError):
    """The file cannot be used; `problems` are lines that name the file, the table and the key."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = tuple(problems)


@dataclass(frozen=True)
class Job:
    """One `[jobs.<name>]` table."""

    name: str
    kind: str
    settings: JobSettings


@dataclass(frozen=True)
class Pipeline:
    """The content of a pipeline file."""

    path: str
    login: Login
    spark: SparkSettings
    # In the order of the file, in which they run.
    jobs: tuple[Job, ...]

    def chosen(self, names: Sequence[str]) -> tuple[Job, ...]:
        """The jobs with these names, in the order of `names`; all of them for no names."""
        by_name = {job.name: job for job in self.jobs}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise PipelineFileError(
                [
                    f'{self.path}: there is no job "{name}"{suggestion(name, by_name)}'
                    for name in unknown
                ]
            )
        return tuple(by_name[name] for name in names) or self.jobs


def read_pipeline(path: str | Path, environment: Mapping[str, str]) -> Pipeline:
    """Parse the file at `path`. Raises PipelineFileError with all its problems."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise PipelineFileError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise PipelineFileError([f"{path}: is not UTF-8 text: {error.reason}"]) from error
    return parse_pipeline(text, str(path), environment)


def parse_pipeline(text: str, path: str, environment: Mapping[str, str]) -> Pipeline:
    """Parse `text`, which is the content of the file `path`. Raises PipelineFileError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError([f"{path}: is not TOML: {error}"]) from error
    reading = _Reading(path, environment)
    for name in document:
        if name not in TABLES:
            reading.problems.append(f"{path}: unknown table [{name}]{suggestion(name, TABLES)}")
    login = reading.checked(
        reading.settings(Login, reading.table(document, "server"), "server"), "server"
    )
    spark = reading.settings(SparkSettings, reading.table(document, "spark"), "spark")
    tables = reading.table(document, "jobs")
    if not tables and "jobs" not in reading.spoiled:
        reading.problems.append(f"{path}: has no jobs; add a table such as [jobs.orders]")
    # A login that could not be read must not hide problems of the jobs.
    jobs = [reading.job(name, tables, login or Login()) for name in tables]
    if login is None or spark is None or reading.problems:
        raise PipelineFileError(reading.problems)
    return Pipeline(path, login, spark, tuple(job for job in jobs if job is not None))


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; there is {', '.join(names)}" if names else ""


# --- reading ------------------------------------------------------------------------------------


class _Unfit(Exception):
    """The value is not valid in its place; the text has the reason, without the key."""


@dataclass
class _Reading:
    """One pass over a document; problems are collected, so that one run shows them all."""

    path: str
    environment: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    # Names with a value that is not a table: the problem is reported once, without its
    # consequences.
    spoiled: set[str] = field(default_factory=set)

    def table(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """The table `name`; empty if it is missing."""
        value = document.get(name, {})
        if isinstance(value, dict):
            return value
        self.spoiled.add(name)
        self.problems.append(f"{self.path}: {name} must be a table: write [{name}] on a line")
        return {}

    def job(self, name: str, tables: Mapping[str, Any], login: Login) -> Job | None:
        """The job called `name`; None if it has a problem."""
        place = f"jobs.{name}"
        table = tables[name]
        if not isinstance(table, dict):
            self._problem("jobs", name, f"must be a table: write [{place}] on a line")
            return None
        kind = table.get(KIND_KEY)
        if not isinstance(kind, str):
            reason = "must be a text" if KIND_KEY in table else "is missing"
            self._problem(place, KIND_KEY, f"{reason}; write one of {quoted(KINDS)}")
            return None
        if kind not in KINDS:
            self._problem(place, KIND_KEY, f'there is no kind "{kind}"{suggestion(kind, KINDS)}')
            return None
        own = {key: value for key, value in table.items() if key != KIND_KEY}
        given = {LOGIN_FIELD: login}
        settings = self.checked(self.settings(KINDS[kind], own, place, given), place)
        return None if settings is None else Job(name, kind, settings)

    def checked(self, settings: C | None, place: str) -> C | None:
        """`settings`, if its own check finds no problem."""
        if settings is None:
            return None
        try:
            settings.check()
        except OperatingError as error:
            keys = [each.name for each in dataclasses.fields(cast(Any, settings))]
            option = getattr(error, "option", None)
            if option is None:
                self.problems.append(f"{self.path}: [{place}] {error}")
            else:
                self._problem(place, key_of(option, keys), getattr(error, "reason", str(error)))
            return None
        return settings

    def settings(
        self,
        wanted: type[S],
        table: Mapping[str, Any],
        place: str,
        given: Mapping[str, Any] = NOTHING_GIVEN,
    ) -> S | None:
        """A `wanted` from the table's values and those `given`; None if there is a problem."""
        hints = typing.get_type_hints(wanted)
        fields = {each.name: each for each in dataclasses.fields(cast(Any, wanted)) if each.init}
        keys = [name for name in fields if name not in given]
        values = dict(given)
        problems_before = len(self.problems)
        for key, value in table.items():
            if key not in keys:
                self.problems.append(
                    f'{self.path}: [{place}] unknown key "{key}"{suggestion(key, keys)}'
                )
                continue
            try:
                values[key] = converted(self._looked_up(value), hints[key])
            except _Unfit as unfit:
                self._problem(place, key, str(unfit))
        for key in keys:
            if key not in table and is_required(fields[key]):
                self.problems.append(f'{self.path}: [{place}] needs the key "{key}"')
        return None if len(self.problems) > problems_before else wanted(**values)

    def _looked_up(self, value: Any) -> Any:
        """`value`, or the content of the environment variable that it names."""
        if not (isinstance(value, dict) and set(value) == {ENV_KEY}):
            return value
        name = value[ENV_KEY]
        if not isinstance(name, str):
            raise _Unfit(f'{ENV_KEY} must name a variable: {{ {ENV_KEY} = "NATS_PASSWORD" }}')
        if name not in self.environment:
            raise _Unfit(f"the environment variable {name} is not set")
        return self.environment[name]

    def _problem(self, place: str, key: str, text: str) -> None:
        self.problems.append(f"{self.path}: [{place}] {key}: {text}")


def key_of(option: str, keys: Iterable[str]) -> str:
    """The key for an option of the data source: `connectTimeout` is `connect_timeout_s`.

    The option itself if no key corresponds to it.
    """
    letters = option.lower()
    for key in keys:
        if letters in (key.replace("_", ""), key.removesuffix("_s").replace("_", "")):
            return key
    return option


def is_required(each: "dataclasses.Field[Any]") -> bool:
    """Whether a field has no default."""
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


# --- values -------------------------------------------------------------------------------------


def converted(value: Any, hint: Any) -> Any:
    """Convert a TOML value to the field's type `hint`. Raises _Unfit."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        # TOML has no null: a field that may be None is one that may be left out.
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return converted(value, members[0]) if len(members) == 1 else first_fit(value, members)
    if origin is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            near = suggestion(value, choices) if isinstance(value, str) else ""
            raise _Unfit(f"must be one of {quoted(choices)}, not {shown(value)}{near}")
        return value
    if origin in (tuple, list):
        if not isinstance(value, list):
            raise _Unfit(f"must be a list, not {shown(value)}; write [{shown(value)}]")
        member = typing.get_args(hint)[0]
        return origin(converted(each, member) for each in value)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _Unfit(f"must be a table of names and values, not {shown(value)}")
        return {name: plain_text(each) for name, each in flattened(value)}
    return scalar(value, hint)


def first_fit(value: Any, members: Sequence[Any]) -> Any:
    """Convert `value` to the first of several types that it fits. Raises _Unfit."""
    reasons = []
    for member in members:
        try:
            return converted(value, member)
        except _Unfit as unfit:
            reasons.append(str(unfit))
    raise _Unfit(reasons[0])


def scalar(value: Any, hint: Any) -> Any:
    """Convert a single value. A bool is not a number here, though it is one to Python."""
    if hint is str and isinstance(value, datetime | date):
        # A time may be written as TOML's own kind of value; the jobs read texts.
        return value.isoformat()
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    # The value itself is not shown: it may be a secret in the wrong type.
    raise _Unfit(
        f"must be {TYPE_NAMES[hint]}, not {TYPE_NAMES.get(type(value), 'a list or table')}"
    )


def flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values; `spark.ui.enabled = true` without quotes is three tables to TOML."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def plain_text(value: Any) -> str:
    """A value as text for Spark's configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _Unfit(f"holds {shown(value)}; its values must be texts, numbers, true or false")


def shown(value: Any) -> str:
    """A value as TOML text, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return "a table" if isinstance(value, dict) else str(value)


def quoted(words: Iterable[Any]) -> str:
    """Words as a list, for a message."""
    return ", ".join(shown(word) for word in words)
