"""The commands that make, show, change, pause and remove consumers.

click parses the options, `api.client` calls the server and `render` makes the texts. This module
joins them, asks before anything is lost, and owns the messages to the person. Commands that receive
from a consumer are in `messages`.
"""

import functools
from typing import Any, Final

import click

from headwater.cli.api.client import ApiTarget, AsyncApiClient, joined
from headwater.cli.api.command import (
    ASK_OPTION,
    CONSUMER_NAME,
    JSON_OPTION,
    STREAM_NAME,
    api_command,
    document,
    now,
)
from headwater.cli.api.configuring import (
    NAMES_OPTION,
    REVERSE_OPTION,
    Edit,
    Edited,
    add_options,
    edit_options,
    nothing_was,
    show_config,
    show_list,
    show_names,
)
from headwater.cli.consumers import render
from headwater.cli.consumers.settings import SETTINGS, completed, listed, sendable, with_implied
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.settings_options import Moment, given_settings, read_config
from headwater.cli.shell.tables import terminal_width
from headwater.cli.shell.units import duration_ns_text, time_text
from headwater.client.api.requests import (
    Document,
    consumer_create,
    consumer_delete,
    consumer_info,
    consumer_pause,
)

# --- making and changing ------------------------------------------------------------------------


@api_command(
    "add",
    examples="""
headwater consumer add ORDERS WORKER
headwater consumer add ORDERS EUROPE --filter 'orders.eu.>' --deliver new --max-deliver 5
headwater consumer add ORDERS AUDIT --start-time 24h --ack none
headwater consumer add ORDERS FEED --deliver-subject feed --heartbeat 5s --flow-control
headwater consumer add ORDERS --ephemeral --inactive-threshold 1h
headwater consumer add ORDERS WORKER --config worker.json --ack-wait 1m
headwater consumer info ORDERS WORKER --json | headwater consumer add ORDERS W2 --config -
""",
    settings_table=SETTINGS,
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME, required=False)
@click.option("--ephemeral", is_flag=True, help="Gone when nobody uses it; needs no NAME.")
@add_options(SETTINGS)
def add(
    api: ApiTarget,
    output: Output,
    stream: str,
    name: str | None,
    ephemeral: bool,
    place: str | None,
    pedantic: bool,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> ExitCode:
    """Make a consumer called NAME of the stream STREAM.

    It is durable, is asked for messages and has each one acknowledged, unless options say
    otherwise. Other settings have the server's defaults. Options override --config.
    """
    base = listed(read_config(place)) if place else {}
    config = SETTINGS.changed(base, with_implied(given_settings(SETTINGS, settings)))
    config = sendable(completed(config, name, ephemeral))
    if not ephemeral and not config.get("name"):
        raise click.UsageError("the consumer has no name: give NAME, or --ephemeral")
    if "name" in config:
        CONSUMER_NAME.convert(config["name"], None, None)
    if dry_run:
        return show_config(output, config, as_json)
    info = api.request(creation(stream, config, pedantic=pedantic))
    if as_json:
        output.result(document(info))
    else:
        output.result(f"Created {render.named(info)}\n")
        output.result(render.info_text(info, now()))
    return ExitCode.OK


# Users can be permitted to create consumers by filter.
creation: Final = functools.partial(consumer_create, has_filter_in_subject=True)


@api_command(
    "edit",
    examples="""
headwater consumer edit ORDERS WORKER --ack-wait 1m --max-deliver 5
headwater consumer edit ORDERS WORKER --filter 'orders.eu.>,orders.us.>'   the whole list
headwater consumer edit ORDERS WORKER --unset backoff --unset description
headwater consumer edit ORDERS WORKER --config worker.json --force
headwater consumer edit ORDERS WORKER --max-ack-pending 10 --dry-run   show what would change
""",
    settings_table=SETTINGS,
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME)
@edit_options(SETTINGS)
def edit(api: ApiTarget, output: Output, stream: str, name: str, **options: Any) -> ExitCode:
    """Change the consumer NAME of STREAM: show the difference, ask, and do it."""
    change = Edit.of(SETTINGS, options, listed)
    info = api.request(consumer_info(stream, name))
    # A consumer that was named by the server has no name in its configuration.
    old = listed(info["config"]) | {"name": name}
    new = change.changed(old, kept=("name", "durable_name"))
    sent = sendable(new)
    edited = Edited(f"Consumer {name}", f" of stream {stream}", info, old, new, sent)
    ended = change.end_without_change(output, edited)
    if ended is not None:
        return ended
    answer = api.request(creation(stream, sent, action="update", pedantic=change.pedantic))
    output.result(document(answer) if change.as_json else f"Changed {render.named(answer)}")
    return ExitCode.OK


# --- seeing -------------------------------------------------------------------------------------


@api_command(
    "ls",
    examples="""
headwater consumer ls ORDERS
headwater consumer ls ORDERS --names           names alone, for scripts
headwater consumer ls ORDERS --json | jq -r '.[].name'
""",
)
@click.argument("stream", type=STREAM_NAME)
@NAMES_OPTION
@JSON_OPTION
def ls(api: ApiTarget, output: Output, stream: str, names_only: bool, as_json: bool) -> ExitCode:
    """List the consumers of STREAM."""
    if names_only:
        return show_names(output, api.call(lambda calls: calls.consumer_names(stream)), as_json)
    consumers = api.call(lambda calls: joined(calls.consumers(stream)))
    return show_list(
        output,
        consumers,
        as_json,
        lambda: render.consumers_table(consumers, now()),
        if_empty=f"No consumers. Make one with: headwater consumer add {stream} NAME",
    )


@api_command(
    "info",
    examples="""
headwater consumer info ORDERS WORKER
headwater consumer info ORDERS WORKER --json | jq .num_pending
headwater consumer info ORDERS WORKER --json > worker.json     for: consumer add --config
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME)
@JSON_OPTION
def info(api: ApiTarget, output: Output, stream: str, name: str, as_json: bool) -> ExitCode:
    """Show the configuration and the progress of the consumer NAME of STREAM."""
    answer = api.request(consumer_info(stream, name))
    output.result(document(answer) if as_json else render.info_text(answer, now()))
    return ExitCode.OK


@api_command(
    "report",
    examples="""
headwater consumer report                        the consumers of all streams
headwater consumer report ORDERS --sort unprocessed
headwater consumer report ORDERS --sort last_delivery --reverse    the idlest first
headwater consumer report --json | jq .totals
""",
)
@click.argument("stream", type=STREAM_NAME, required=False)
@click.option("--sort", type=click.Choice(render.SORT_KEYS), default="pending", help="By what.")
@REVERSE_OPTION
@JSON_OPTION
def report(
    api: ApiTarget, output: Output, stream: str | None, sort: str, reverse: bool, as_json: bool
) -> ExitCode:
    """Show the figures of the consumers of STREAM, or of all streams, sorted, with totals.

    Unprocessed is how much of its stream a consumer has not delivered, or delivered and not had
    acknowledged.
    """
    streams = api.call(lambda calls: streams_of(calls, stream))
    total = sum(each["state"]["consumer_count"] for each in streams)
    messages = {each["config"]["name"]: each["state"]["messages"] for each in streams}
    consumers: list[Document] = []
    with output.progress("Reading", total, hidden=as_json) as advance:

        async def gather(calls: AsyncApiClient) -> None:
            for name in messages:
                async for page in calls.consumers(name):
                    consumers.extend(page)
                    if advance is not None:
                        advance(len(consumers))

        api.call(gather)
    rows = render.report_fields(consumers, messages, sort, reverse)
    if as_json:
        output.result(document({"consumers": rows, "totals": render.totals_of(rows)}))
    elif rows:
        table = render.report_table(rows, now(), with_stream=stream is None)
        output.result(table.text(terminal_width(output)))
    else:
        output.remark("No consumers.")
    return ExitCode.OK


async def streams_of(calls: AsyncApiClient, stream: str | None) -> list[Document]:
    """The information of one stream, or of all that have consumers."""
    if stream is not None:
        return [await calls.info(stream)]
    return [each for each in (await calls.streams()).infos if each["state"]["consumer_count"]]


# --- pausing and losing -------------------------------------------------------------------------


@api_command(
    "pause",
    examples="""
headwater consumer pause ORDERS WORKER 1h
headwater consumer pause ORDERS WORKER 2026-01-05T09:30:00Z
headwater consumer pause ORDERS WORKER 30m --json | jq .pause_remaining
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME)
@click.argument("until", type=Moment(is_past=False))
@JSON_OPTION
def pause(
    api: ApiTarget, output: Output, stream: str, name: str, until: str, as_json: bool
) -> ExitCode:
    """Let the consumer NAME of STREAM deliver nothing for a while.

    UNTIL is a time, or how long. Acknowledgements are taken meanwhile.
    """
    answer = api.request(consumer_pause(stream, name, until))
    if not answer.get("paused"):
        raise CommandFailed(
            f"Consumer {name} is not paused: {time_text(until)} is in the server's past",
            f"Name a later time, or how long: headwater consumer pause {stream} {name} 1h",
        )
    if as_json:
        output.result(document(answer))
    else:
        remaining_ns = render.rounded_to_seconds(answer.get("pause_remaining", 0))
        until_text = f"until {time_text(answer['pause_until'])}"
        output.result(
            f"Paused consumer {name} of stream {stream} {until_text} "
            f"({duration_ns_text(remaining_ns)})"
        )
    return ExitCode.OK


@api_command(
    "resume",
    examples="""
headwater consumer resume ORDERS WORKER
headwater consumer resume ORDERS WORKER --json
headwater consumer resume ORDERS WORKER --domain hub
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME)
@JSON_OPTION
def resume(api: ApiTarget, output: Output, stream: str, name: str, as_json: bool) -> ExitCode:
    """Let a paused consumer deliver again at once."""
    before = api.request(consumer_info(stream, name))
    answer = api.request(consumer_pause(stream, name, None))
    if as_json:
        output.result(document(answer))
    elif before.get("paused"):
        output.result(f"Resumed consumer {name} of stream {stream}")
    else:
        output.result(f"Consumer {name} of stream {stream} was not paused")
    return ExitCode.OK


@api_command(
    "rm",
    examples="""
headwater consumer rm ORDERS WORKER            asks first
headwater consumer rm ORDERS WORKER --force    for scripts
headwater consumer rm ORDERS WORKER --json --force
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("name", type=CONSUMER_NAME)
@ASK_OPTION
@JSON_OPTION
def rm(
    api: ApiTarget, output: Output, stream: str, name: str, force: bool, as_json: bool
) -> ExitCode:
    """Remove the consumer NAME of STREAM; it forgets how far it has come."""
    answer = api.request(consumer_info(stream, name))
    doomed = render.doomed_text(answer)
    if not confirmed(f"Remove {render.named(answer)} with {doomed}?", force):
        return nothing_was(output, "removed")
    api.request(consumer_delete(stream, name))
    if as_json:
        output.result(document({"removed": name, "stream": stream, **render.figures(answer)}))
    else:
        output.result(f"Removed {render.named(answer)}: {doomed}")
    return ExitCode.OK
