"""What the stream commands take: the API they talk to, and the settings of a stream as options."""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headwater.cli.exits import ExitCode, ReaderGone
from headwater.cli.output import Output
from headwater.cli.parameters import (
    CONNECTION_PARAMETERS,
    Duration,
    TeachingCommand,
    connection_options,
    target_of,
)
from headwater.cli.stream_api import DEFAULT_PREFIX, ApiTarget
from headwater.cli.stream_settings import SETTINGS, Config, Kind, Section, Setting
from headwater.cli.units import UNLIMITED, parse_duration_ns, parse_size_bytes

F = TypeVar("F", bound=Callable[..., Any])
Body = Callable[..., ExitCode]

DEFAULT_TIMEOUT_S: Final = 5.0
API_PARAMETERS: Final = ("domain", "api_prefix", "timeout_s")
# A name is one word of the API's subjects, and the server makes a folder of it.
FORBIDDEN_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")
METAVARS: Final = {
    Kind.TEXT: "TEXT",
    Kind.WORDS: "WORD[,...]",
    Kind.COUNT: "N",
    Kind.LIMIT: "N",
    Kind.SIZE: "SIZE",
    Kind.DURATION: "DURATION",
    Kind.PAIR: "SRC DEST",
    Kind.SOURCE: "STREAM",
    Kind.SOURCES: "STREAM",
    Kind.METADATA: "KEY=VALUE",
}

ASK_OPTION: Final = click.option("--force", "-f", is_flag=True, help="Do not ask.")
JSON_OPTION: Final = click.option("--json", "as_json", is_flag=True, help="In JSON.")


class StreamName(click.ParamType[str]):
    """A name that can stand in the API's subjects."""

    name = "stream"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text or FORBIDDEN_IN_NAMES & set(text) or not text.isprintable():
            self.fail(f"{text!r} is not a stream's name: no spaces, . * > / or \\", param, ctx)
        return text


class ApiPrefix(click.ParamType[str]):
    """Words joined by dots, without wildcards: the beginning of a subject."""

    name = "prefix"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).removesuffix(".")
        words = text.split(".")
        if not all(words) or not text.isprintable() or set(text) & set(" *>"):
            self.fail(f"{value!r} can not begin a subject", param, ctx)
        return text


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


class Source(click.ParamType[Config]):
    """A stream to copy from: its name, or the API's own object."""

    name = "stream"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Config:
        if isinstance(value, dict):
            return value
        if not str(value).startswith("{"):
            return {"name": str(value)}
        try:
            return dict(json.loads(str(value)))
        except ValueError as error:
            self.fail(f"{value!r} is not a JSON object: {error}", param, ctx)


class Metadata(click.ParamType[tuple[str, str]]):
    """A pair, from `KEY=VALUE`."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not metadata; write --metadata KEY=VALUE", param, ctx)
        return name, text


class SettingsCommand(TeachingCommand):
    """A command whose help has the settings in sections of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {setting.parameter: setting.section.value for setting in SETTINGS}
        records: dict[str, list[tuple[str, str]]] = {"Options": []}
        records |= {section.value: [] for section in Section}
        records |= {"Connection": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                name = parameter.name or ""
                shared = name in CONNECTION_PARAMETERS or name in API_PARAMETERS
                title = "Connection" if shared else sections.get(name, "Options")
                records[title].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def option_of(setting: Setting) -> Callable[[F], F]:
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
        Kind.PAIR: {"nargs": 2},
        Kind.SOURCE: {"type": Source()},
        Kind.SOURCES: {"type": Source(), "multiple": True},
        Kind.METADATA: {"type": Metadata(), "multiple": True},
    }
    arguments = {"metavar": METAVARS.get(setting.kind), **kinds[setting.kind]}
    return click.option(setting.flag, setting.parameter, help=setting.help, **arguments)


def settings_options(*, for_edit: bool) -> Callable[[F], F]:
    """The options for all settings, or for those an existing stream can change."""

    def decorate(function: F) -> F:
        for setting in reversed(SETTINGS):
            if not (for_edit and setting.is_for_add_only):
                function = option_of(setting)(function)
        return function

    return decorate


def given_settings(parameters: Mapping[str, Any]) -> Config:
    """The settings that were given, by key, as the API has them."""
    given: Config = {}
    for setting in SETTINGS:
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

    A document that has one inside, as `stream info --json` prints and a backup keeps, will do.
    """
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{place} can not be read: {error.strerror}") from error
    try:
        document = json.loads(data)
    except ValueError as error:
        raise click.UsageError(f"{place} is not JSON: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("config"), dict):
        document = document["config"]
    if not isinstance(document, dict):
        raise click.UsageError(f"{place} holds no JSON object")
    return document


def api_options(function: F) -> F:
    """Which API, and how long to wait for it."""
    options: list[Callable[[F], F]] = [
        click.option(
            "--domain", type=ApiPrefix(), metavar="NAME", help="The JetStream domain to talk to."
        ),
        click.option(
            "--api-prefix",
            type=ApiPrefix(),
            metavar="SUBJECT",
            help=f"Where the API answers.  [default {DEFAULT_PREFIX}]",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=Duration(),
            default=DEFAULT_TIMEOUT_S,
            help=f"Longest wait for an answer.  [default {DEFAULT_TIMEOUT_S:g}s]",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def prefix_of(domain: str | None, api_prefix: str | None) -> str:
    """Where the API answers."""
    if domain and api_prefix:
        raise click.UsageError("--domain and --api-prefix exclude one another")
    return f"$JS.{domain}.API" if domain else api_prefix or DEFAULT_PREFIX


def api_command(name: str, examples: str) -> Callable[[Body], click.Command]:
    """Make a function `(api, output, **parameters)` a command called `name`."""

    def decorate(body: Body) -> click.Command:
        @functools.wraps(body)
        def call(**parameters: Any) -> ExitCode:
            before = click.get_current_context().obj
            after = {key: parameters.pop(key) for key in CONNECTION_PARAMETERS}
            output = Output()
            domain, api_prefix, timeout_s = (parameters.pop(key) for key in API_PARAMETERS)
            api = ApiTarget(
                target_of(before, after), prefix_of(domain, api_prefix), timeout_s, output.remark
            )
            try:
                return body(api, output, **parameters)
            except BrokenPipeError as error:
                # click would make it exit code 1.
                raise ReaderGone from error

        decorated = api_options(connection_options(with_defaults=False)(call))
        return click.command(name, cls=SettingsCommand, examples=examples)(decorated)

    return decorate


def document(value: Any) -> str:
    """A document for a program."""
    return json.dumps(value, ensure_ascii=False)


def now() -> datetime:
    """The present, for ages."""
    return datetime.now(UTC)
