"""The frame of a command that calls the JetStream API: its options, its target, its help."""

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from headwater.base.quantities import duration_text
from headwater.cli.api.client import ApiTarget
from headwater.cli.connection.options import connection_options, target_of
from headwater.cli.shell.exits import ExitCode, ReaderGone
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import CONNECTION_PARAMETERS, Duration, TeachingCommand
from headwater.cli.shell.settings import SettingsTable
from headwater.cli.shell.settings_options import Source
from headwater.client.api.requests import DEFAULT_PREFIX, prefix_of

F = TypeVar("F", bound=Callable[..., Any])
Body = Callable[..., ExitCode]

DEFAULT_TIMEOUT_S: Final = 5.0
API_PARAMETERS: Final = ("domain", "api_prefix", "timeout_s")
WAIT_PARAMETER: Final = "wait_s"
# A name is one word of the API's subjects, and the server makes a folder of it.
FORBIDDEN_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")

ASK_OPTION: Final = click.option("--force", "-f", is_flag=True, help="Do not ask.")
JSON_OPTION: Final = click.option("--json", "as_json", is_flag=True, help="In JSON.")


class ApiName(click.ParamType[str]):
    """A name that can stand in the API's subjects."""

    def __init__(self, noun: str) -> None:
        self.name = noun

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text or FORBIDDEN_IN_NAMES & set(text) or not text.isprintable():
            self.fail(f"{text!r} is not a {self.name}'s name: no spaces, . * > / or \\", param, ctx)
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        stream = ctx.params.get("stream") if self.name == "consumer" else None
        is_new = ctx.info_name == "add" and param.name == "name"
        if is_new or (self.name == "consumer" and not stream):
            return []
        return name_items(ctx, incomplete, stream)


def name_items(
    ctx: click.Context, incomplete: str, stream: str | None = None
) -> list[CompletionItem]:
    """The names of streams, or of the consumers of `stream`, that begin with `incomplete`."""
    # Only a shell that completes a command line needs this module.
    from headwater.cli.api.completion import completed_names

    domain, api_prefix = ctx.params.get("domain"), ctx.params.get("api_prefix")
    if domain and api_prefix:
        return []
    names = completed_names(
        ctx,
        api_place(domain, api_prefix),
        incomplete,
        lambda api: api.consumer_names(stream) if stream else api.names(),
    )
    return [CompletionItem(name) for name in names]


class OriginName(Source):
    """A stream to copy from, whose name a shell completes."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return name_items(ctx, incomplete)


STREAM_NAME: Final = ApiName("stream")
CONSUMER_NAME: Final = ApiName("consumer")


class ApiPrefix(click.ParamType[str]):
    """Words joined by dots, without wildcards: the beginning of a subject."""

    name = "prefix"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).removesuffix(".")
        words = text.split(".")
        if not all(words) or not text.isprintable() or set(text) & set(" *>"):
            self.fail(f"{value!r} cannot begin a subject", param, ctx)
        return text


class ApiCommand(TeachingCommand):
    """A command whose help has settings in sections of their own, and the connection last."""

    def __init__(
        self, *args: Any, settings_table: SettingsTable | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._sections: dict[str, str] = {
            setting.parameter: setting.section for setting in settings_table or ()
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {"Options": []}
        records |= {section: [] for section in self._sections.values()}
        records |= {"Connection": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                name = parameter.name or ""
                shared = name in CONNECTION_PARAMETERS or name in API_PARAMETERS
                title = "Connection" if shared else self._sections.get(name, "Options")
                records[title].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def api_options(wait_s: float | None) -> Callable[[F], F]:
    """The options that name an API, and the longest wait for an answer.

    A command that waits for more than an answer, `wait_s` by default, has the longest wait for all
    of it instead.
    """
    is_long = wait_s is not None
    default_s = DEFAULT_TIMEOUT_S if wait_s is None else wait_s
    aim = "until it is done" if is_long else "for an answer"
    timeout = click.option(
        "--timeout",
        WAIT_PARAMETER if is_long else "timeout_s",
        type=Duration(),
        default=default_s,
        help=f"Longest wait {aim}.  [default {duration_text(default_s)}]",
    )

    def decorate(function: F) -> F:
        return api_place_options(timeout(function))

    return decorate


def api_place_options(function: F) -> F:
    """The options that name an API."""
    domain = click.option(
        "--domain", type=ApiPrefix(), metavar="NAME", help="The JetStream domain to talk to."
    )
    prefix = click.option(
        "--api-prefix",
        type=ApiPrefix(),
        metavar="SUBJECT",
        help=f"Where the API answers.  [default {DEFAULT_PREFIX}]",
    )
    return domain(prefix(function))


def api_place(domain: str | None, api_prefix: str | None) -> str:
    """The prefix of the API that the options name. Raises UsageError for both."""
    if domain and api_prefix:
        raise click.UsageError("--domain and --api-prefix exclude one another")
    return prefix_of(domain, api_prefix)


def api_command(
    name: str,
    examples: str,
    settings_table: SettingsTable | None = None,
    wait_s: float | None = None,
) -> Callable[[Body], click.Command]:
    """Make a function `(api, output, **parameters)` a command called `name`.

    `settings_table` has the settings that are among its options, if any are. A command with a
    default `wait_s` gets the longest wait for all its work as a parameter of that name.
    """

    def decorate(body: Body) -> click.Command:
        @functools.wraps(body)
        def call(**parameters: Any) -> ExitCode:
            before = click.get_current_context().obj
            after = {key: parameters.pop(key) for key in CONNECTION_PARAMETERS}
            output = Output()
            place = api_place(parameters.pop("domain"), parameters.pop("api_prefix"))
            if wait_s is None:
                timeout_s = parameters.pop("timeout_s")
            else:
                timeout_s = min(DEFAULT_TIMEOUT_S, parameters[WAIT_PARAMETER])
            api = ApiTarget(target_of(before, after), place, timeout_s, output.remark)
            try:
                return body(api, output, **parameters)
            except BrokenPipeError as error:
                # click would make it exit code 1.
                raise ReaderGone from error

        decorated = api_options(wait_s)(connection_options(with_defaults=False)(call))
        command = click.command(
            name, cls=ApiCommand, examples=examples, settings_table=settings_table
        )
        return command(decorated)

    return decorate


def document(value: Any) -> str:
    """A document for a program."""
    return json.dumps(value, ensure_ascii=False)


def now() -> datetime:
    """The present, for ages."""
    return datetime.now(UTC)
