"""Parameters that commands share: durations, headers, bodies, and help that ends in examples."""

import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from headwater.cli.shell.units import NANOSECONDS_PER_SECOND, parse_duration_ns

# The names of the options in headwater.cli.connection.options: help shows them apart.
CONNECTION_PARAMETERS: Final = (
    "server",
    "user",
    "password",
    "token",
    "creds",
    "nkey",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "connect_timeout",
)


class Duration(click.ParamType[float]):
    """Seconds, from `2`, `500ms`, `1.5m` or `1d12h`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration_ns(str(value)) / NANOSECONDS_PER_SECOND
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Header(click.ParamType[tuple[str, str]]):
    """A header, from `Name: value`."""

    name = "name:value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, colon, text = str(value).partition(":")
        if not colon or not name.strip():
            self.fail(f"{value!r} is not a header; write --header 'Name: value'", param, ctx)
        return name.strip(), text.strip()


class TeachingCommand(click.Command):
    """A command whose help ends with examples, kept line by line."""

    def __init__(self, *args: Any, examples: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "Examples", self.examples)


class TeachingGroup(click.Group):
    """A group whose help ends with a first session, and lists commands in the order given."""

    def __init__(self, *args: Any, first_session: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.first_session = first_session

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "A first session", self.first_session)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """The command's own options first; those all commands share under a title of their own."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            (shared if parameter.name in CONNECTION_PARAMETERS else own).append(record)
    for title, records in (("Options", own), ("Connection", shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_verbatim(formatter: click.HelpFormatter, title: str, text: str) -> None:
    """A titled section whose lines are not wrapped."""
    if not text:
        return
    with formatter.section(title):
        for line in text.strip("\n").splitlines():
            indent = " " * formatter.current_indent if line else ""
            formatter.write(f"{indent}{line}\n")


def body_of(argument: str | None) -> tuple[bytes, bool]:
    """The body, and whether it was typed as an argument (only then may it be a template)."""
    if argument is not None and argument != "-":
        return argument.encode("utf-8", "surrogateescape"), True
    if sys.stdin.isatty():
        click.echo("Type the body; end it with Ctrl-D on a line of its own.", err=True)
    return sys.stdin.buffer.read(), False


def headers_of(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Headers by name. Given twice, a name keeps its last value, as the client library has it."""
    return dict(pairs)
