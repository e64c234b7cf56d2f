"""`headwater account`: the usage and the limits of the account that a command connects as."""

from collections.abc import Mapping
from typing import Any, Final

import click
from rich.text import Text

from headwater.cli.api.client import ApiTarget
from headwater.cli.api.command import JSON_OPTION, api_command, document
from headwater.cli.shell.exits import ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import size_text
from headwater.cli.shell.sections import append_section
from headwater.cli.shell.tables import Column, Columns, terminal_width

# The label, the field of the usage and the field of the limit.
USED: Final = (
    ("memory", "memory", "max_memory"),
    ("storage", "storage", "max_storage"),
    ("streams", "streams", "max_streams"),
    ("consumers", "consumers", "max_consumers"),
)
SIZES: Final = ("memory", "storage")
STREAM_LIMITS: Final = (
    ("Memory per stream", "memory_max_stream_bytes"),
    ("Storage per stream", "storage_max_stream_bytes"),
)


@click.group("account")
def account() -> None:
    """The account that you connect as."""


@api_command(
    "info",
    examples="""
headwater account info
headwater account info --domain hub
headwater account info --user ada --password pw
headwater account info --json | jq .storage
""",
)
@JSON_OPTION
def info(api: ApiTarget, output: Output, as_json: bool) -> ExitCode:
    """Show the JetStream usage and limits of the account."""
    answer = api.call(lambda calls: calls.account_info())
    if as_json:
        output.result(document(answer))
        return ExitCode.OK
    output.result(usage_table(answer).text(terminal_width(output)))
    for name, tier in (answer.get("tiers") or {}).items():
        output.result(f"\nTier {name}")
        output.result(usage_table(tier).text(terminal_width(output)))
    output.result(details_text(answer))
    return ExitCode.OK


account.add_command(info)


def usage_table(usage: Mapping[str, Any]) -> Columns:
    """The usage of an account or a tier, with its limits."""
    limits, shared = usage.get("limits") or {}, usage.get("server_limits") or {}
    table = Columns((Column("", is_text=True), Column("used"), Column("reserved"), Column("limit")))
    for label, field, limit in USED:
        is_size = field in SIZES
        reserved = usage.get(f"reserved_{field}")
        table.add(
            label,
            amount_text(usage.get(field, 0), is_size),
            "" if reserved is None else amount_text(reserved, is_size),
            limit_text(limits.get(limit, -1), shared.get(limit), is_size),
        )
    return table


def limit_text(own: int, shared: int | None, is_size: bool) -> str:
    """A limit; where the account has none of its own, that of the server for all accounts."""
    if own < 0 and shared is not None:
        return f"{amount_text(shared, is_size)} (server)"
    return amount_text(own, is_size)


def amount_text(amount: int, is_size: bool) -> str:
    """An amount; a negative one is unlimited."""
    if amount < 0:
        return "unlimited"
    return size_text(amount) if is_size else f"{amount:,}"


def details_text(answer: Mapping[str, Any]) -> Text:
    """The limits of each stream, the domain and the number of API requests."""
    limits, calls = answer.get("limits") or {}, answer.get("api") or {}
    rows = [
        (label, amount_text(limits[field], is_size=True))
        for label, field in STREAM_LIMITS
        # Here 0 is no limit too.
        if limits.get(field, -1) > 0
    ]
    if limits.get("max_bytes_required"):
        rows.append(("Streams need", "--max-bytes"))
    if domain := answer.get("domain"):
        rows.append(("Domain", str(domain)))
    rows.append(("API level", str(calls.get("level", 0))))
    rows.append(("API requests", f"{calls.get('total', 0):,}, {calls.get('errors', 0):,} errors"))
    text = Text()
    append_section(text, "JetStream", rows)
    text.rstrip()
    return text
