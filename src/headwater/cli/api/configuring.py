"""The steps that commands for streams and for consumers share: making, changing, listing.

Both have a table of settings, which are options of `add` and `edit`, and a configuration that the
server answers with. Texts and requests of their own stand with the commands.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from headwater.cli.api.command import ASK_OPTION, JSON_OPTION, OriginName, document
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.sections import differences_text
from headwater.cli.shell.settings import Config, SettingsTable
from headwater.cli.shell.settings_options import given_settings, read_config, settings_options
from headwater.cli.shell.tables import Columns, terminal_width
from headwater.client.api.requests import Document

F = TypeVar("F", bound=Callable[..., Any])

PEDANTIC_OPTION: Final = click.option(
    "--pedantic", is_flag=True, help="Refuse what the server would adjust."
)
NAMES_OPTION: Final = click.option(
    "--names", "names_only", is_flag=True, help="Names alone, one on a line."
)
REVERSE_OPTION: Final = click.option("--reverse", is_flag=True, help="The other way round.")


# --- making and changing ------------------------------------------------------------------------


def add_options(table: SettingsTable) -> Callable[[F], F]:
    """The options of a command that creates a stream or consumer with these settings."""
    return _all_of(
        click.option(
            "--config", "place", metavar="FILE|-", help="Begin with a configuration in JSON."
        ),
        PEDANTIC_OPTION,
        click.option("--dry-run", is_flag=True, help="Print the configuration, change nothing."),
        JSON_OPTION,
        settings_options(table, for_edit=False, source=OriginName()),
    )


def edit_options(table: SettingsTable) -> Callable[[F], F]:
    """The options of a command that changes these settings; `Edit.of` reads them."""
    return _all_of(
        click.option(
            "--config", "place", metavar="FILE|-", help="Replace the whole configuration."
        ),
        click.option(
            "--unset",
            multiple=True,
            type=click.Choice(table.fields),
            metavar="SETTING",
            help="Take a setting back, by its name in the API.",
        ),
        PEDANTIC_OPTION,
        click.option("--dry-run", is_flag=True, help="Show the difference, change nothing."),
        ASK_OPTION,
        JSON_OPTION,
        settings_options(table, for_edit=True, source=OriginName()),
    )


def _all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def show_config(output: Output, config: Config, as_json: bool) -> ExitCode:
    """Print the configuration that `--dry-run` does not send."""
    output.result(json.dumps(config, ensure_ascii=False, indent=None if as_json else 2))
    return ExitCode.OK


@dataclass(frozen=True)
class Edit:
    """The change that the options of an `edit` command ask for.

    `replacement` is the configuration of `--config`, in place of the present one.
    """

    table: SettingsTable
    given: Config
    unset: Sequence[str]
    replacement: Config | None
    pedantic: bool
    dry_run: bool
    force: bool
    as_json: bool

    @classmethod
    def of(
        cls,
        table: SettingsTable,
        options: Mapping[str, Any],
        normalized: Callable[[Config], Config] = lambda config: config,
    ) -> "Edit":
        """Read the options of `edit_options`. Raises UsageError where they change nothing."""
        given, place, unset = given_settings(table, options), options["place"], options["unset"]
        if not given and not unset and not place:
            raise click.UsageError("say what to change: an option, --unset or --config")
        replacement = normalized(read_config(place)) if place else None
        flags = {name: options[name] for name in ("pedantic", "dry_run", "force", "as_json")}
        return cls(table, given, unset, replacement, **flags)

    def changed(self, old: Config, kept: Sequence[str] = ()) -> Config:
        """The configuration after the change; `--config` leaves the `kept` settings as they are."""
        named = {field: old[field] for field in kept if field in old}
        base = old if self.replacement is None else self.replacement | named
        return self.table.changed(base, self.given, self.unset)

    def end_without_change(self, output: Output, edited: "Edited") -> ExitCode | None:
        """Show the difference and ask. The exit code where nothing is to be sent, else None."""
        title, full_title = edited.title, edited.title + edited.owner
        changes = self.table.differences(edited.old, edited.new)
        if not changes:
            output.result(document(edited.info) if self.as_json else f"{title} is that already")
            return ExitCode.OK
        if self.dry_run and self.as_json:
            output.result(document(edited.sent))
            return ExitCode.OK
        show = output.result if self.dry_run else output.remark
        show(f"{full_title}:")
        show(differences_text(self.table, changes))
        if self.dry_run:
            return ExitCode.OK
        if not confirmed(f"Change {full_title[0].lower()}{full_title[1:]}?", self.force):
            return nothing_was(output, "changed")
        return None


@dataclass(frozen=True)
class Edited:
    """A stream or a consumer before and after a change.

    `title` and `owner` name it: "Consumer WORKER" and " of stream ORDERS". `info` is the server's
    answer before the change, `sent` the configuration after it as the API takes it.
    """

    title: str
    owner: str
    info: Document
    old: Config
    new: Config
    sent: Config


def nothing_was(output: Output, done: str) -> ExitCode:
    """The end of a command whose question was answered with no."""
    output.remark(f"Nothing was {done}.")
    return ExitCode.FAILED


# --- showing ------------------------------------------------------------------------------------


def show_names(output: Output, names: Sequence[str], as_json: bool) -> ExitCode:
    """Print a list of names, in their order."""
    if as_json:
        output.result(document(sorted(names)))
    for name in () if as_json else sorted(names):
        output.result(name)
    return ExitCode.OK


def show_list(
    output: Output,
    entries: Sequence[Document],
    as_json: bool,
    table: Callable[[], Columns],
    if_empty: str,
) -> ExitCode:
    """Print documents for a program, or their table, or the remark on an empty list, if any."""
    if as_json:
        output.result(document(entries))
    elif entries:
        output.result(table().text(terminal_width(output)))
    elif if_empty:
        output.remark(if_empty)
    return ExitCode.OK
