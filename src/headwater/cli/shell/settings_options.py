"""The settings of a table as options of a command, and as a configuration in a file."""

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headwater.cli.shell.origins import parse_origin
from headwater.cli.shell.settings import Config, Kind, Setting, SettingsTable
from headwater.cli.shell.units import (
    UNLIMITED,
    api_time,
    parse_duration_ns,
    parse_size_bytes,
    parse_time,
)

F = TypeVar("F", bound=Callable[..., Any])

METAVARS: Final = {
    Kind.TEXT: "TEXT",
    Kind.WORDS: "WORD[,...]",
    Kind.COUNT: "N",
    Kind.LIMIT: "N",
    Kind.SIZE: "SIZE",
    Kind.DURATION: "DURATION",
    Kind.DURATIONS: "DURATION[,...]",
    Kind.SINCE: "TIME",
    Kind.UNTIL: "TIME",
    Kind.PAIR: "SRC DEST",
    Kind.SOURCE: "NAME[,...]",
    Kind.SOURCES: "NAME[,...]",
    Kind.METADATA: "KEY=VALUE",
}


class Size(click.ParamType[int]):
    """Bytes, from `10MB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_size_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class DurationNs(click.ParamType[int]):
    """Nanoseconds, from `2h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_duration_ns(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class DurationsNs(click.ParamType[list[int]]):
    """Nanoseconds, several times, from `1s,5s,1m`."""

    name = "durations"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        if isinstance(value, list):
            return value
        return [DurationNs().convert(word, param, ctx) for word in split_words(str(value))]


class Moment(click.ParamType[str]):
    """An API time, from a time or from a duration before or after the present."""

    name = "time"

    def __init__(self, *, is_past: bool) -> None:
        self._is_past = is_past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if parse_time(text) is not None:
            return text
        try:
            distance = timedelta(microseconds=parse_duration_ns(text) / 1000)
            present = datetime.now(UTC)
            return api_time(present - distance if self._is_past else present + distance)
        except (ValueError, OverflowError):
            form = "how long ago: 2h30m" if self._is_past else "in how long: 2h30m"
            self.fail(f"{text!r} is no time; write 2026-01-05T09:30:00Z, or {form}", param, ctx)


class Source(click.ParamType[Config]):
    """A stream to copy from: its name, its name with details, or the API's own object."""

    name = "stream"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Config:
        if isinstance(value, dict):
            return value
        try:
            return parse_origin(
                str(value), lambda text: Moment(is_past=True).convert(text, param, ctx)
            )
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Pair(click.ParamType[tuple[str, str]]):
    """A pair, from `KEY=VALUE`; `refusal` names the expected form in the error."""

    name = "key=value"

    def __init__(self, prefix: str, refusal: str) -> None:
        """Keys begin with `prefix`, and have more than nothing."""
        self._prefix = prefix
        self._refusal = refusal

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        key, equals, text = str(value).partition("=")
        if not (equals and key and key.startswith(self._prefix)):
            self.fail(f"{value!r} is not {self._refusal}", param, ctx)
        return key, text


METADATA: Final = Pair("", "metadata; write --metadata KEY=VALUE")


def option_of(setting: Setting, source: Source) -> Callable[[F], F]:
    """The option for one setting; without it the setting is left alone."""
    kinds: Mapping[Kind, Mapping[str, Any]] = {
        Kind.TEXT: {},
        Kind.WORDS: {"multiple": True},
        Kind.CHOICE: {"type": click.Choice(setting.choices)},
        Kind.SWITCH: {"is_flag": True, "default": None},
        Kind.COUNT: {"type": click.IntRange(min=0)},
        Kind.LIMIT: {"type": click.IntRange(min=UNLIMITED)},
        Kind.SIZE: {"type": Size()},
        Kind.DURATION: {"type": DurationNs()},
        Kind.DURATIONS: {"type": DurationsNs()},
        Kind.SINCE: {"type": Moment(is_past=True)},
        Kind.UNTIL: {"type": Moment(is_past=False)},
        Kind.PAIR: {"nargs": 2},
        Kind.SOURCE: {"type": source},
        Kind.SOURCES: {"type": source, "multiple": True},
        Kind.METADATA: {"type": METADATA, "multiple": True},
    }
    arguments = {"metavar": METAVARS.get(setting.kind), **kinds[setting.kind]}
    return click.option(setting.flag, setting.parameter, help=setting.help, **arguments)


def settings_options(table: SettingsTable, *, for_edit: bool, source: Source) -> Callable[[F], F]:
    """The options for all settings, or for those that can be changed later.

    `source` reads the streams to copy from.
    """

    def decorate(function: F) -> F:
        for setting in reversed(tuple(table)):
            if not (for_edit and setting.is_for_add_only):
                function = option_of(setting, source)(function)
        return function

    return decorate


def given_settings(table: SettingsTable, parameters: Mapping[str, Any]) -> Config:
    """The settings that were given, by key, as the API has them."""
    given: Config = {}
    for setting in table:
        value = parameters.get(setting.parameter)
        if value is None or value == ():
            continue
        match setting.kind:
            case Kind.WORDS:
                value = [word for part in value for word in split_words(part)]
            case Kind.PAIR:
                value = {"src": value[0], "dest": value[1]}
            case Kind.SOURCES:
                value = list(value)
            case Kind.METADATA:
                value = dict(value)
        given[setting.key] = value
    return given


def split_words(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_config(place: str) -> Config:
    """The configuration in a JSON file, or in standard input for `-`.

    A document that has one inside, as `info --json` prints and a backup keeps, will do.
    """
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{place} cannot be read: {error.strerror}") from error
    try:
        document = json.loads(data)
    except ValueError as error:
        raise click.UsageError(f"{place} is not JSON: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("config"), dict):
        document = document["config"]
    if not isinstance(document, dict):
        raise click.UsageError(f"{place} holds no JSON object")
    return document
