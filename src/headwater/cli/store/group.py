"""`headwater store inspect` and `verify`: the content of a store's folder, and its damage.

The store reads itself (`store.recovery.inspection`) and changes nothing; these commands open it,
render the findings and choose the exit code.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import TeachingCommand, write_verbatim
from headwater.cli.shell.render import (
    ERROR_STYLE,
    NUMBER_STYLE,
    SUBJECT_STYLE,
    count_text,
    printable,
    size_text,
)
from headwater.cli.store.cluster import cluster
from headwater.cli.store.opening import (
    KEY_FILE_OPTION,
    NOT_OPENED,
    failures_explained,
    server_key_in,
    store_folder,
    store_reader,
)
from headwater.cli.store.tail import tail
from headwater.cli.streams.archive import holds_backup, read_backup
from headwater.store.recovery.inspection import StoreReader, StoreSurvey
from headwater.store.recovery.stream_inspection import (
    Problem,
    Ranges,
    SegmentSurvey,
    StreamSurvey,
)

EXIT_CODES: Final = """
0  sound
1  damage was found
2  the command line was wrong
3  the store cannot be opened, or is in use and --strict was given
"""

LOST_RANGES_SHOWN_MAX: Final = 5


class StoreGroup(click.Group):
    """The group, with its exit codes in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "Exit codes", EXIT_CODES)


@click.group("store", cls=StoreGroup)
def store() -> None:
    """Look into the folder a server keeps its streams in, and check it.

    Nothing on the disk is changed, except by `cluster reset` and `cluster leave`, and a server may
    be running: what is told then is of the moment. A server repairs damage when it opens the store.
    """


store.add_command(cluster)
store.add_command(tail)


@store.command(
    "inspect",
    cls=TeachingCommand,
    examples="""
headwater store inspect data             all streams
headwater store inspect data ORDERS      one: its segments and journal
headwater store inspect data --json | jq '.streams[].messages'
headwater store inspect data --strict    refuse while a server has it open
""",
)
@click.argument("folder", metavar="DIR")
@click.argument("stream", required=False)
@click.option("--strict", is_flag=True, help="Refuse a store that a server has open.")
@KEY_FILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def inspect(
    folder: str, stream: str | None, strict: bool, key_file: str | None, as_json: bool
) -> ExitCode:
    """Show the streams of the store in DIR, or one STREAM of it.

    DIR is the folder a server was given with -sd, or the folder `jetstream` in it. The account is
    part of a stream's name and can be left out where only one has a stream of that name.

    Sealed segments are believed by their footers; `headwater store verify` reads every byte.
    """
    output = Output()
    if holds_backup(Path(folder)):
        raise CommandFailed(
            f"{folder} is the backup of a stream, and no store",
            f"Check it with: headwater store verify {folder}\n"
            f"Bring its stream back with: headwater stream restore {folder}",
            NOT_OPENED,
        )
    reader = opened(folder, thorough=False, strict=strict, key_file=key_file)
    survey = read(reader, stream)
    if as_json:
        shown = store_fields(survey)
        if stream is not None:
            shown["streams"] = [stream_details(survey.streams[0])]
        output.result(json.dumps(shown, ensure_ascii=False))
    else:
        output.result(state_text(survey))
        if stream is None:
            output.result(streams_table(survey.streams))
        else:
            output.result(stream_text(survey.streams[0]))
        for problem in survey.problems:
            output.result(Text("\n").append_text(problem_text(problem)))
        remark_on(output, survey)
        if survey.problems:
            output.remark(f"For all there is to find: headwater store verify {folder}")
    return ExitCode.FAILED if survey.problems else ExitCode.OK


@store.command(
    "verify",
    cls=TeachingCommand,
    examples="""
headwater store verify data              every checksum of every file
headwater store verify data | tail -1    2 streams, 1200 messages, 0 problems
headwater store verify data --json | jq '.problems[]'
headwater store verify backups/orders && echo the backup of the stream is whole
""",
)
@click.argument("folder", metavar="DIR")
@click.option("--strict", is_flag=True, help="Refuse a store that a server has open.")
@KEY_FILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(folder: str, strict: bool, key_file: str | None, as_json: bool) -> ExitCode:
    """Check every checksum in the store in DIR, or the backup of a stream in DIR.

    Each finding names the file, where in it, what a server does about it when it opens the store,
    and the sequences that are lost. The last line is for scripts.
    """
    output = Output()
    if holds_backup(Path(folder)):
        return verify_backup(output, Path(folder), as_json)
    reader = opened(folder, thorough=True, strict=strict, key_file=key_file)
    with byte_progress(output, reader, hidden=as_json) as advance:
        survey = read(reader, None, advance)
    if as_json:
        output.result(json.dumps(store_fields(survey), ensure_ascii=False))
    else:
        for problem in survey.problems:
            output.result(problem_text(problem))
        remark_on(output, survey)
        output.result(
            f"{len(survey.streams)} streams, {survey.messages} messages, "
            f"{len(survey.problems)} problems"
        )
    return ExitCode.FAILED if survey.problems else ExitCode.OK


def verify_backup(output: Output, folder: Path, as_json: bool) -> ExitCode:
    """Check the backup of `headwater stream backup` or of the `nats` tool in a folder."""
    problems, messages, name = [], 0, None
    try:
        found = read_backup(folder)
        messages, name = found.state.get("messages", 0), found.config.get("name")
    except CommandFailed as failure:
        detail = failure.problem
        problems.append(Problem("damaged", str(folder), detail, "does not restore this backup"))
    if as_json:
        fields = {
            "folder": str(folder),
            "backup_of": name,
            "messages": messages,
            "problems": [problem_fields(problem) for problem in problems],
        }
        output.result(json.dumps(fields, ensure_ascii=False))
    else:
        for problem in problems:
            output.result(problem_text(problem))
        output.result(f"1 streams, {messages} messages, {len(problems)} problems")
    return ExitCode.FAILED if problems else ExitCode.OK


def opened(folder: str, thorough: bool, strict: bool, key_file: str | None) -> StoreReader:
    """The reader of the store in a folder. Raises CommandFailed."""
    folder = store_folder(folder)
    with failures_explained(folder):
        return store_reader(folder, thorough, strict, server_key_in(key_file))


def read(
    reader: StoreReader, stream: str | None, advance: Callable[[int], None] | None = None
) -> StoreSurvey:
    """Read the store; a stream that was asked for has to be there."""
    with failures_explained(reader.folder):
        if stream is not None:
            stream = full_name(stream, reader.stream_names(), reader.folder)
        return reader.read(stream, advance)


def full_name(stream: str, names: Sequence[str], folder: str) -> str:
    """The one of `names` that `stream` is, with its account or without. Raises CommandFailed."""
    if stream in names:
        return stream
    found = [name for name in names if name.rpartition("/")[2] == stream]
    if len(found) == 1:
        return found[0]
    there = ", ".join(printable(name.encode()) for name in found or names) or "none"
    problem = f"There is no stream {stream} in {folder}"
    if found:
        problem = f"{len(found)} accounts have a stream {stream} in {folder}"
    raise CommandFailed(problem, f"Streams there: {there}.", ExitCode.USAGE)


@contextmanager
def _shown_progress(output: Output, total: int) -> Iterator[Callable[[int], None]]:
    # Loaded only for this: it is a fifth of the time the command takes to start.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.remarks, transient=True) as progress:
        task = progress.add_task("verify", total=total)
        yield lambda done: progress.advance(task, done)


def byte_progress(
    output: Output, reader: StoreReader, hidden: bool
) -> AbstractContextManager[Callable[[int], None] | None]:
    """A progress bar at a terminal; elsewhere nothing."""
    if hidden or not output.remarks.is_terminal:
        return nullcontext()
    return _shown_progress(output, reader.total_bytes())


# --- for people ---------------------------------------------------------------------------------


def state_text(survey: StoreSurvey) -> Text:
    """The state in which the last server has left the store."""
    text = Text(f"Store in {survey.folder}: ")
    if survey.in_use_by:
        text.append(f"in use by {survey.in_use_by}", "yellow")
    elif survey.closed_in_order:
        text.append("closed in order", "green")
    elif survey.machine_restarted:
        text.append("not closed in order, and the machine was restarted since", "yellow")
    else:
        text.append("not closed in order", "yellow")
    if survey.ahead_frames:
        size = size_text(survey.ahead_bytes)
        text.append(f"; write-ahead: {survey.ahead_frames:,} frames, {size}")
    if survey.groups:
        text.append(f"; {count_text(survey.groups, 'consensus group')}")
    return text.append("\n")


def remark_on(output: Output, survey: StoreSurvey) -> None:
    """Remarks on a store that are no damage."""
    if survey.in_use_by:
        output.remark(
            f"{survey.in_use_by.capitalize()} has the store open: this is the state of the moment, "
            "and ends that are being written are not reported."
        )
    for note in survey.notes:
        output.remark(note)


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], left: set[int]) -> Text:
    """Rows under a header, each column as wide as its widest cell."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    shown = []
    for number, line in enumerate(lines):
        text = Text()
        for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
            style = NUMBER_STYLE if number == 0 else SUBJECT_STYLE if column == 0 else ""
            text.append("  " if column else "")
            text.append(cell.ljust(width) if column in left else cell.rjust(width), style)
        text.rstrip()
        shown.append(text)
    return Text("\n").join(shown)


def streams_table(streams: Sequence[StreamSurvey]) -> Text:
    """A line for each stream."""
    if not streams:
        return Text("No streams.")
    header = ("stream", "messages", "bytes", "first", "last", "subjects", "segments", "deleted",
              "lost", "on disk", "sync")  # fmt: skip
    rows = [
        (
            printable(stream.name.encode()),
            f"{stream.messages:,}",
            size_text(stream.byte_count),
            f"{stream.first_sequence:,}",
            f"{stream.last_sequence:,}",
            f"{stream.subjects:,}",
            f"{len(stream.segments):,}",
            f"{stream.deleted:,}",
            f"{stream.lost.count:,}",
            size_text(stream.disk_bytes),
            stream.sync,
        )
        for stream in streams
    ]
    return columns(header, rows, left={0, len(header) - 1})


def stream_text(stream: StreamSurvey) -> Text:
    """One stream with its segments and its journal."""
    text = streams_table([stream])
    if stream.lost:
        text.append(f"\n\nlost: {ranges_text(list(stream.lost))}", ERROR_STYLE)
    rows = [
        (
            segment.file,
            f"{segment.first:,}",
            f"{segment.last:,}",
            f"{segment.index.live:,}",
            size_text(segment.size),
            "sealed" if segment.sealed else "open",
        )
        for segment in stream.segments
    ]
    text.append("\n\n")
    header = ("segment", "first", "last", "live", "size", "state")
    text.append_text(columns(header, rows, left={0, len(header) - 1}))
    text.append("\n\n")
    entries = [(kind, f"{count:,}") for kind, count in sorted(stream.entries.items())]
    return text.append_text(columns(("journal", "entries"), entries or [("empty", "0")], {0}))


def problem_text(problem: Problem) -> Text:
    """One finding."""
    text = Text()
    text.append(problem.kind, ERROR_STYLE)
    text.append(f"  {printable(problem.file.encode())}", SUBJECT_STYLE)
    if problem.offset is not None:
        text.append(f" at byte {problem.offset}")
    text.append(f": {printable(problem.detail.encode())}")
    if problem.lost:
        text.append(f"\n    lost: {ranges_text(problem.lost)}")
    return text.append(f"\n    a server {problem.server}")


def ranges_text(ranges: Ranges) -> str:
    """`3, 7 to 9 and 12 more ranges`."""
    shown = [
        str(first) if first == last else f"{first} to {last}"
        for first, last in ranges[:LOST_RANGES_SHOWN_MAX]
    ]
    more = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {more} more ranges" if more else "")


# --- for programs -------------------------------------------------------------------------------


def store_fields(survey: StoreSurvey) -> dict[str, Any]:
    """A survey as JSON has it."""
    return {
        "folder": survey.folder,
        "in_use_by": survey.in_use_by or None,
        "closed_in_order": survey.closed_in_order,
        "machine_restarted": survey.machine_restarted,
        "write_ahead": {
            "files": survey.ahead_files,
            "frames": survey.ahead_frames,
            "bytes": survey.ahead_bytes,
        },
        "groups": survey.groups,
        "streams": [stream_fields(stream) for stream in survey.streams],
        "messages": survey.messages,
        "problems": [problem_fields(problem) for problem in survey.problems],
        "notes": survey.notes,
    }


def stream_fields(stream: StreamSurvey) -> dict[str, Any]:
    """A stream in a few figures."""
    return {
        "name": stream.name,
        "messages": stream.messages,
        "bytes": stream.byte_count,
        "first_sequence": stream.first_sequence,
        "last_sequence": stream.last_sequence,
        "reserved_sequence": stream.reserved,
        "subjects": stream.subjects,
        "segments": len(stream.segments),
        "deleted": stream.deleted,
        "lost": [list(part) for part in stream.lost],
        "disk_bytes": stream.disk_bytes,
        "sync": stream.sync,
    }


def stream_details(stream: StreamSurvey) -> dict[str, Any]:
    """A stream with its segments and its journal."""
    return stream_fields(stream) | {
        "segment_files": [segment_fields(segment) for segment in stream.segments],
        "journal": dict(sorted(stream.entries.items())),
    }


def segment_fields(segment: SegmentSurvey) -> dict[str, Any]:
    """A segment; `last_sequence` is below the first where it covers none."""
    return {
        "file": segment.file,
        "first_sequence": segment.first,
        "last_sequence": segment.last,
        "live": segment.index.live,
        "size": segment.size,
        "sealed": segment.sealed,
    }


def problem_fields(problem: Problem) -> dict[str, Any]:
    """A finding."""
    return {
        "kind": problem.kind,
        "stream": problem.stream or None,
        "file": problem.file,
        "offset": problem.offset,
        "detail": problem.detail,
        "server": problem.server,
        "lost": [list(part) for part in problem.lost],
    }
