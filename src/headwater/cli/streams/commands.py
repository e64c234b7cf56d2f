"""The commands that make, show, change and empty streams.

click parses the options, `api.client` calls the server and `render` makes the texts. This module
joins them, asks before anything is lost, and owns the messages to the person. Commands that move
whole streams are in `backup`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headwater.cli.api.client import ApiTarget
from headwater.cli.api.command import (
    ASK_OPTION,
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
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import count_text, size_text
from headwater.cli.shell.settings_options import given_settings, read_config
from headwater.cli.shell.tables import terminal_width
from headwater.cli.streams import render
from headwater.cli.streams.copies import (
    absent_origins_advice,
    behind_text,
    copies_of,
    copies_table,
    missing_advice,
)
from headwater.cli.streams.promises import Promises
from headwater.cli.streams.settings import SETTINGS, promoted, reset_values, without_effect
from headwater.client.api.requests import (
    Document,
    stream_create,
    stream_delete,
    stream_info,
    stream_purge,
    stream_update,
)
from headwater.client.link.reads.levels import ReadLevel

# --- making and changing ------------------------------------------------------------------------


@api_command(
    "add",
    examples="""
headwater stream add ORDERS --subjects 'orders.>' --max-age 7d --max-bytes 10GB
headwater stream add JOBS --subjects jobs --retention workqueue --storage memory
headwater stream add ORDERS --subjects 'orders.>' --replicas 3 --tag sync:always
headwater stream add ORDERS --config orders.json --replicas 3
headwater stream info ORDERS --json | headwater stream add COPY --config - --subjects 'copy.>'
headwater stream add COPY --mirror ORDERS --max-staleness 10s
headwater stream add ALL --source EU --source 'US,filter=orders.>,start=100'
headwater stream add ALL --source 'EU,transform=eu.> all.eu.>' --source 'FAR,domain=hub,start=7d'
headwater stream add LEDGER --subjects 'ledger.>' --source '{"name": "OLD", "opt_start_seq": 7}'
headwater stream add ORDERS --subjects 'orders.>' --dry-run
""",
    settings_table=SETTINGS,
)
@click.argument("name", type=STREAM_NAME, required=False)
@add_options(SETTINGS)
def add(
    api: ApiTarget,
    output: Output,
    name: str | None,
    place: str | None,
    pedantic: bool,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> ExitCode:
    """Make a stream called NAME.

    Settings that are not given have the server's defaults. Options override --config.
    """
    config = SETTINGS.changed(
        read_config(place) if place else {}, given_settings(SETTINGS, settings)
    )
    if not (name or config.get("name")):
        raise click.UsageError("the stream has no name: give NAME")
    config["name"] = STREAM_NAME.convert(name or config["name"], None, None)
    if dry_run:
        return show_config(output, config, as_json)
    info = api.request(stream_create(config, pedantic=pedantic))
    remark_on(info, output)
    remark_on_origins(api, info, output)
    if as_json:
        output.result(document(info))
    else:
        output.result(f"Created stream {config['name']}\n")
        output.result(render.info_text(info, now()))
    return ExitCode.OK


@api_command(
    "edit",
    examples="""
headwater stream edit ORDERS --max-age 30d
headwater stream edit ORDERS --subjects 'orders.>,returns.>'   the whole list
headwater stream edit ORDERS --unset republish --unset description
headwater stream edit ORDERS --config orders.json --force
headwater stream edit ORDERS --max-msgs 1000 --dry-run         only show what would change
headwater stream edit ALL --source EU --source US              the whole list of sources
headwater stream edit COPY --no-mirror --subjects 'orders.>'   the mirror takes messages
""",
    settings_table=SETTINGS,
)
@click.argument("name", type=STREAM_NAME)
@click.option(
    "--no-mirror", is_flag=True, help="End a mirror: it becomes a stream that takes messages."
)
@edit_options(SETTINGS)
def edit(api: ApiTarget, output: Output, name: str, no_mirror: bool, **options: Any) -> ExitCode:
    """Change the stream NAME: show the difference, ask, and do it."""
    if no_mirror:
        if options["mirror_setting"]:
            raise click.UsageError("--mirror and --no-mirror exclude one another")
        options["unset"] = (*options["unset"], "mirror")
    change = Edit.of(SETTINGS, options)
    info = api.request(stream_info(name))
    old = info["config"]
    new = change.changed(old) | {"name": name}
    if old.get("mirror") and not new.get("mirror"):
        new = promoted(new)
        if text := behind_text(info):
            output.remark(text)
    new |= reset_values(old, new)
    ended = change.end_without_change(output, Edited(f"Stream {name}", "", info, old, new, new))
    if ended is not None:
        return ended
    answer = api.request(stream_update(new, pedantic=change.pedantic))
    remark_on(answer, output)
    remark_on_origins(api, answer, output)
    output.result(document(answer) if change.as_json else f"Changed stream {name}")
    return ExitCode.OK


def remark_on(info: Document, output: Output) -> None:
    """Remark on settings of a stream that have no effect yet."""
    if text := without_effect(info["config"]):
        output.remark(text)


def remark_on_origins(api: ApiTarget, info: Document, output: Output) -> None:
    """Remark on the origins of a stream that do not exist yet, which the server permits."""
    if all(copy.api for copy in copies_of(info)):
        return
    try:
        names = api.call(lambda calls: calls.names())
    except CommandFailed:
        # The stream exists already; a user without the permission to list is told nothing more.
        return
    for line in absent_origins_advice(info, names):
        output.remark(line)


# --- seeing -------------------------------------------------------------------------------------


@api_command(
    "ls",
    examples="""
headwater stream ls
headwater stream ls --subject orders.new       the streams that keep this subject
headwater stream ls --names                    names alone, for scripts
headwater stream ls --json | jq -r '.[].config.name'
""",
)
@click.option("--subject", metavar="SUBJECT", help="Only streams that keep this subject.")
@NAMES_OPTION
@JSON_OPTION
def ls(
    api: ApiTarget, output: Output, subject: str | None, names_only: bool, as_json: bool
) -> ExitCode:
    """List the streams.

    In a cluster, * marks the leader of a stream and ! a replica that is not current.
    """
    if names_only:
        return show_names(output, api.call(lambda calls: calls.names(subject)), as_json)
    listed = api.call(lambda calls: calls.streams(subject))
    if_empty = "No streams. Make one with: headwater stream add NAME --subjects SUBJECT"
    shown = show_list(
        output,
        listed.infos,
        as_json,
        lambda: render.streams_table(listed.infos, now()),
        if_empty="" if listed.missing else if_empty,
    )
    remark_on_missing(listed.missing, output)
    return shown


@api_command(
    "info",
    examples="""
headwater stream info ORDERS
headwater stream info ORDERS --subjects                    how many messages each subject has
headwater stream info ORDERS --filter 'orders.eu.>'        only these subjects
headwater stream info ORDERS --deleted                     which sequences are gone
headwater stream info ORDERS --json | jq .state.messages
""",
)
@click.argument("name", type=STREAM_NAME)
@click.option("--deleted", is_flag=True, help="Name the deleted sequences.")
@click.option("--subjects", is_flag=True, help="Count the messages of each subject.")
@click.option("--filter", "subject", metavar="SUBJECT", help="--subjects, only these.")
@JSON_OPTION
def info(
    api: ApiTarget,
    output: Output,
    name: str,
    deleted: bool,
    subjects: bool,
    subject: str | None,
    as_json: bool,
) -> ExitCode:
    """Show the configuration, the promises and the state of the stream NAME."""
    wanted: dict[str, Any] = {"deleted_details": True} if deleted else {}
    if subjects or subject:
        wanted["subjects_filter"] = subject or ">"
    answer = api.call(lambda calls: calls.info_with_sync_intervals(name, **wanted))
    promises = Promises.of(answer)
    if as_json:
        output.result(document(answer | {"promises": promises.document()}))
        return ExitCode.OK
    output.result(render.info_text(answer, now(), promises.rows()))
    if promises.warning:
        output.remark(promises.warning)
    for line in missing_advice(copies_of(answer)):
        output.remark(line)
    if "subjects_filter" in wanted:
        table = render.subjects_table(answer["state"].get("subjects") or {})
        output.result("")
        output.result(table.text(terminal_width(output)))
    return ExitCode.OK


@api_command(
    "report",
    examples="""
headwater stream report                       all streams, the largest first
headwater stream report --sort messages
headwater stream report --sort name --reverse
headwater stream report --json | jq .totals
""",
)
@click.option("--subject", metavar="SUBJECT", help="Only streams that keep this subject.")
@click.option("--sort", type=click.Choice(render.SORT_KEYS), default="bytes", help="By what.")
@REVERSE_OPTION
@JSON_OPTION
def report(
    api: ApiTarget, output: Output, subject: str | None, sort: str, reverse: bool, as_json: bool
) -> ExitCode:
    """Show the figures of all streams, sorted, with totals, and how far each copy is.

    At replicas, * marks the leader of a stream and ! a replica that is not current.
    """
    listed = api.call(lambda calls: calls.streams(subject))
    streams = listed.infos
    if as_json:
        output.result(document(report_fields(render.sorted_streams(streams, sort, reverse))))
    elif streams:
        table = render.report_table(streams, sort, reverse)
        output.result(table.text(terminal_width(output)))
        show_copies(streams, output)
    elif not listed.missing:
        output.remark("No streams.")
    remark_on_missing(listed.missing, output)
    return ExitCode.OK


def show_copies(streams: Sequence[Document], output: Output) -> None:
    """Print a table of the copies that the streams are; nothing without any."""
    copies = [
        copy for info in render.sorted_streams(streams, "name", False) for copy in copies_of(info)
    ]
    if copies:
        output.result("")
        output.result(copies_table(copies).text(terminal_width(output)))
    for line in missing_advice(copies):
        output.remark(line)


def remark_on_missing(names: Sequence[str], output: Output) -> None:
    """Remark on streams whose servers did not answer, so that a list is not taken for whole."""
    if names:
        silent = f"{count_text(len(names), 'stream')}: {', '.join(sorted(names))}"
        output.remark(f"No answer about {silent}. See: headwater cluster status")


def report_fields(streams: Sequence[Document]) -> dict[str, Any]:
    """The report for a program."""
    rows = [
        {
            "name": info["config"]["name"],
            "storage": info["config"]["storage"],
            "replicas": info["config"]["num_replicas"],
            "cluster": info.get("cluster"),
            **render.figures(info["state"]),
            "first_seq": info["state"]["first_seq"],
            "last_seq": info["state"]["last_seq"],
            "copies": [copy.fields for copy in copies_of(info)],
        }
        for info in streams
    ]
    totals = {name: sum(row[name] for row in rows) for name in render.FIGURES}
    return {"streams": rows, "totals": {"streams": len(rows), **totals}}


@api_command(
    "get",
    examples="""
headwater stream get ORDERS 17
headwater stream get ORDERS --last-for orders.new
headwater stream get ORDERS --next-for 'orders.*' 17    the first such message from 17 on
headwater stream get ORDERS 17 --raw > order.bin        the payload alone, byte for byte
headwater stream get ORDERS 17 --json | jq .headers
headwater stream get ORDERS --last-for orders.new --consistency linearizable
headwater stream get ORDERS --last-for orders.new --consistency session --min-last-seq 17
""",
)
@click.argument("name", type=STREAM_NAME)
@click.argument("sequence", type=click.IntRange(min=1), required=False, metavar="[SEQ]")
@click.option("--last-for", metavar="SUBJECT", help="The last message on a subject.")
@click.option("--next-for", metavar="SUBJECT", help="The first on a subject, from SEQ on.")
@click.option(
    "--consistency",
    type=click.Choice([level.value for level in ReadLevel]),
    default=ReadLevel.LEADER.value,
    help="weak: of any server; session: with all up to --min-last-seq; leader: of the leader (the "
    "default); linearizable: with all that was acknowledged before.",
)
@click.option(
    "--min-last-seq",
    type=click.IntRange(min=1),
    metavar="SEQ",
    help="With --consistency session: the last sequence that this session has seen.",
)
@click.option("--raw", is_flag=True, help="The payload alone.")
@JSON_OPTION
def get(
    api: ApiTarget,
    output: Output,
    name: str,
    sequence: int | None,
    last_for: str | None,
    next_for: str | None,
    consistency: str,
    min_last_seq: int | None,
    raw: bool,
    as_json: bool,
) -> ExitCode:
    """Show one message of the stream NAME."""
    if raw and as_json:
        raise click.UsageError("--raw and --json exclude one another")
    wanted: dict[str, Any]
    if last_for is not None and sequence is None and next_for is None:
        wanted = {"last_by_subj": last_for}
    elif next_for is not None and last_for is None:
        wanted = {"next_by_subj": next_for, "seq": sequence or 1}
    elif sequence is not None and last_for is None:
        wanted = {"seq": sequence}
    else:
        raise click.UsageError("say which message: SEQ, --last-for SUBJECT or --next-for SUBJECT")
    level = ReadLevel(consistency)
    if (level is ReadLevel.SESSION) != (min_last_seq is not None):
        raise click.UsageError("--consistency session and --min-last-seq belong together")
    message = api.call(lambda calls: calls.message(name, wanted, level, min_last_seq or 0))
    if raw:
        write_payload(render.stored_data(message))
    elif as_json:
        output.result(document(render.stored_fields(name, message)))
    else:
        output.result(render.stored_text(message, now()))
    return ExitCode.OK


def write_payload(data: bytes) -> None:
    """Write a payload and nothing else, not even a line end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


# --- losing -------------------------------------------------------------------------------------


@api_command(
    "rm",
    examples="""
headwater stream rm ORDERS            asks first
headwater stream rm ORDERS --force    for scripts
headwater stream rm ORDERS --json --force
""",
)
@click.argument("name", type=STREAM_NAME)
@ASK_OPTION
@JSON_OPTION
def rm(api: ApiTarget, output: Output, name: str, force: bool, as_json: bool) -> ExitCode:
    """Remove the stream NAME with all its messages and consumers."""
    state = api.call(lambda calls: calls.info(name))["state"]
    held = render.held_text(state["messages"], state["bytes"])
    consumers = count_text(state["consumer_count"], "consumer")
    if not confirmed(f"Remove stream {name} with {held} and {consumers}?", force):
        return nothing_was(output, "removed")
    api.request(stream_delete(name))
    if as_json:
        removed = {"messages": state["messages"], "bytes": state["bytes"]}
        output.result(document({"removed": name, **removed}))
    else:
        output.result(f"Removed stream {name}: {held}, {consumers}")
    return ExitCode.OK


@api_command(
    "purge",
    examples="""
headwater stream purge ORDERS                              everything; asks first
headwater stream purge ORDERS --subject 'orders.eu.>'      only these subjects
headwater stream purge ORDERS --seq 1000                   everything before message 1000
headwater stream purge ORDERS --keep 100                   all but the last 100
headwater stream purge ORDERS --force --json | jq .purged
""",
)
@click.argument("name", type=STREAM_NAME)
@click.option("--subject", metavar="SUBJECT", help="Only messages on this subject.")
@click.option("--seq", type=click.IntRange(min=1), metavar="SEQ", help="Only those before SEQ.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the last N.")
@ASK_OPTION
@JSON_OPTION
def purge(
    api: ApiTarget,
    output: Output,
    name: str,
    subject: str | None,
    seq: int | None,
    keep: int | None,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Delete messages of the stream NAME; the stream itself stays."""
    if seq is not None and keep is not None:
        raise click.UsageError("--seq and --keep exclude one another")
    wanted = {"subjects_filter": subject} if subject else {}
    state = api.call(lambda calls: calls.info(name, **wanted))["state"]
    question = f"Delete {doomed_text(state, subject, seq, keep)} of stream {name}?"
    if not confirmed(question, force):
        return nothing_was(output, "deleted")
    asked = {"filter": subject, "seq": seq, "keep": keep}
    body = {field: value for field, value in asked.items() if value is not None}
    answer = api.request(stream_purge(name, body))
    deleted = count_text(answer["purged"], "message")
    output.result(document(answer) if as_json else f"Deleted {deleted} of stream {name}")
    return ExitCode.OK


def doomed_text(
    state: Mapping[str, Any], subject: str | None, seq: int | None, keep: int | None
) -> str:
    """The messages that a purge would delete, as far as the stream's state tells."""
    total = int(state["messages"])
    doomed = sum((state.get("subjects") or {}).values()) if subject else total
    is_exact = True
    if keep is not None:
        doomed = max(0, doomed - keep)
    if seq is not None:
        before = max(0, min(seq, state["last_seq"] + 1) - state["first_seq"])
        # Which sequences are gone already, and whose subjects they are, is not in the state.
        is_exact = before == 0 or (before >= total + state.get("num_deleted", 0))
        is_exact = is_exact or not (subject or state.get("num_deleted"))
        doomed = min(doomed, before)
    if doomed == total and is_exact:
        return f"all {render.held_text(total, state['bytes'])}"
    bound = "" if is_exact else "up to "
    return f"{bound}{doomed:,} of {count_text(total, 'message')} ({size_text(state['bytes'])})"
