"""A job's settings as the options of its command.

The settings are a frozen dataclass that the job owns. Its fields are the options, their types the
kinds of option, their defaults what the help says; only the words of the help are written here, by
the commands. An option that is not given is not passed on: a default stands in one place.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union

import click

from headwater.cli.api.command import api_place, api_place_options
from headwater.cli.connection.options import connection_options, target_of
from headwater.cli.shell.exits import ExitCode, ReaderGone
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import CONNECTION_PARAMETERS, TeachingCommand
from headwater.cli.shell.settings_options import Pair, split_words
from headwater.cli.shell.units import NANOSECONDS_PER_SECOND, duration_ns_text, parse_duration_ns
from headwater.client.link.login import Login
from headwater.spark.jobs.pipeline_file import LOGIN_FIELD, SparkSettings

F = TypeVar("F", bound=Callable[..., Any])

# Fields in seconds are written as durations.
SECONDS_SUFFIX: Final = "_s"
SPARK_PARAMETERS: Final = ("master", "memory", "conf")
OUTAGE_PARAMETER: Final = "outage_timeout_s"
# Those of the login that only pipelines take, by the fields they set.
LOGIN_PARAMETERS: Final = ("domain", "api_prefix", OUTAGE_PARAMETER)


@dataclass(frozen=True)
class JobOptions:
    """The options of one job's command; `arguments` are the fields given without a flag."""

    settings: type[Any]
    # The help texts, by field.
    helps: Mapping[str, str]
    arguments: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, "dataclasses.Field[Any]"]:
        """All fields a command can set."""
        fields = dataclasses.fields(self.settings)
        return {each.name: each for each in fields if each.init and each.name != LOGIN_FIELD}

    def __call__(self, function: F) -> F:
        """Give the options to a command."""
        hints = typing.get_type_hints(self.settings)
        for name, each in reversed(tuple(self.fields.items())):
            if name not in self.arguments:
                function = option_of(each, hints[name], self.helps.get(name, ""))(function)
        for name in reversed(self.arguments):
            function = click.argument(name)(function)
        return function

    def given(self, parameters: Mapping[str, Any], login: Login) -> Any:
        """The settings that the command line says; raises OptionError where they are wrong."""
        values: dict[str, Any] = {}
        for name in self.fields:
            value = parameters.get(name)
            if value is None or value == ():
                continue
            if isinstance(value, tuple):
                value = tuple(word for part in value for word in split_words(part))
            values[name] = value
        if any(each.name == LOGIN_FIELD for each in dataclasses.fields(self.settings)):
            values[LOGIN_FIELD] = login
        settings = self.settings(**values)
        settings.check()
        return settings


class Seconds(click.ParamType[float]):
    """Seconds, from `90s`, `2h30m` or `7d`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_duration_ns(str(value)) / NANOSECONDS_PER_SECOND
        except ValueError as error:
            self.fail(str(error), param, ctx)


def option_of(each: "dataclasses.Field[Any]", hint: Any, text: str) -> Callable[[F], F]:
    """The option for one field."""
    flag = "--" + each.name.removesuffix(SECONDS_SUFFIX).replace("_", "-")
    kind = plain_type(hint)
    is_required = (
        each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    )
    # To click a default of None is a value, and what has a value is not missing.
    arguments: dict[str, Any] = {"required": True} if is_required else {"default": None}
    if typing.get_origin(kind) is Literal:
        arguments["type"] = click.Choice(typing.get_args(kind))
    elif typing.get_origin(kind) is tuple:
        arguments |= {"multiple": True, "metavar": "WORD[,...]"}
    elif kind is bool:
        flag = f"--no-{flag.removeprefix('--')}" if each.default is True else flag
        arguments |= {"is_flag": True, "flag_value": each.default is not True, "required": False}
    elif kind is float and each.name.endswith(SECONDS_SUFFIX):
        arguments["type"] = Seconds()
    else:
        arguments["type"] = kind
    return click.option(flag, each.name, help=with_default(text, each, kind), **arguments)


def plain_type(hint: Any) -> Any:
    """The type of a field without `| None`."""
    if typing.get_origin(hint) in (Union, UnionType):
        return next(member for member in typing.get_args(hint) if member is not NoneType)
    return hint


def with_default(text: str, each: "dataclasses.Field[Any]", kind: Any) -> str:
    """The help of an option, with its default."""
    default = each.default
    if each.default_factory is not dataclasses.MISSING:
        default = each.default_factory()
    if default is dataclasses.MISSING or kind is bool or default in (None, "", ()):
        return text
    if isinstance(default, tuple):
        shown = ",".join(default)
    elif each.name.endswith(SECONDS_SUFFIX):
        shown = duration_ns_text(int(default * NANOSECONDS_PER_SECOND))
    elif isinstance(default, int):
        shown = f"{default:,}"
    else:
        shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{text}  [default {shown}]"


# --- options of all pipeline commands -----------------------------------------------------------


CONF: Final = Pair("spark.", "a setting of Spark; write spark.NAME=VALUE")


def spark_options(function: F) -> F:
    """Which Spark."""
    options: list[Callable[[F], F]] = [
        click.option(
            "--master",
            metavar="URL",
            help="Where Spark runs: local[2], spark://host:7077, ...  [default local[*]]",
        ),
        click.option("--memory", metavar="SIZE", help="Of Spark's driver.  [default 2g]"),
        click.option(
            "--conf",
            type=CONF,
            metavar="NAME=VALUE",
            multiple=True,
            help="A setting of Spark; as often as needed.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def outage_option(function: F) -> F:
    """The time for which a job that runs waits for its server."""
    default_ns = int(Login().outage_timeout_s * NANOSECONDS_PER_SECOND)
    return click.option(
        "--outage-timeout",
        OUTAGE_PARAMETER,
        type=Seconds(),
        help="How long the server may be away before a running job fails."
        f"  [default {duration_ns_text(default_ns)}]",
    )(function)


class PipelineCommand(TeachingCommand):
    """A command whose help has Spark and the connection in sections of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {"Options": [], "Spark": [], "Connection": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                is_spark = parameter.name in SPARK_PARAMETERS
                is_shared = parameter.name in (*CONNECTION_PARAMETERS, *LOGIN_PARAMETERS)
                title = "Connection" if is_shared else "Spark" if is_spark else "Options"
                records[title].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


@dataclass(frozen=True)
class Place:
    """The surroundings of a command: its output, and the server and the Spark of its options."""

    output: Output
    login: Login
    spark: SparkSettings


def pipeline_command(
    name: str, examples: str, *, connects: bool = True, computes: bool = True
) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """Make a function `(place, **parameters)` a command called `name`.

    `connects` and `computes` say whether it has the options of the connection, and those of Spark.
    """

    def decorate(body: Callable[..., ExitCode]) -> click.Command:
        @functools.wraps(body)
        def call(**parameters: Any) -> ExitCode:
            before = click.get_current_context().obj
            after = {key: parameters.pop(key, None) for key in CONNECTION_PARAMETERS}
            # The variables of the environment are of no concern to a command that does not connect.
            login = target_of(before, after).login if connects else Login()
            given = {name: parameters.pop(name, None) for name in LOGIN_PARAMETERS}
            api_place(given["domain"], given["api_prefix"])
            said = {name: value for name, value in given.items() if value is not None}
            login = dataclasses.replace(login, **said)
            spark = SparkSettings(
                parameters.pop("master", None),
                parameters.pop("memory", None),
                dict(parameters.pop("conf", ())),
            )
            try:
                return body(Place(Output(), login, spark), **parameters)
            except BrokenPipeError as error:
                # click would make it exit code 1.
                raise ReaderGone from error

        decorated: Callable[..., ExitCode] = call
        if computes:
            decorated = spark_options(decorated)
        if connects:
            decorated = connection_options(with_defaults=False)(
                api_place_options(outage_option(decorated))
            )
        return click.command(name, cls=PipelineCommand, examples=examples)(decorated)

    return decorate
