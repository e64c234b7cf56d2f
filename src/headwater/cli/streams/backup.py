"""`headwater stream backup` and `restore`: whole streams to a folder and back."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from headwater.base.quantities import duration_text
from headwater.cli.api.client import ApiTarget, AsyncApiClient
from headwater.cli.api.command import (
    ASK_OPTION,
    JSON_OPTION,
    STREAM_NAME,
    api_command,
    document,
)
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import count_text, size_text
from headwater.cli.shell.settings_options import Size, read_config
from headwater.cli.streams.archive import (
    Backup,
    archive_writer,
    holds_backup,
    read_backup,
)
from headwater.cli.streams.render import held_text
from headwater.cli.streams.transfer import receive_snapshot, send_snapshot
from headwater.client.api.requests import Document

# The figures that a restored stream must share with its backup.
COMPARED: Final = ("messages", "bytes", "first_seq", "last_seq")


class Bar:
    """The progress of a transfer, in bytes and bytes per second; invisible without a terminal."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task: Any = None

    def start_transfer(self, title: str, total_bytes: int) -> None:
        """Show the title and the size of a transfer."""
        if self._progress is not None:
            self._task = self._progress.add_task(title, total=total_bytes)

    def show_bytes(self, done_bytes: int) -> None:
        """Show the bytes that are done."""
        if self._task is not None:
            self._progress.update(self._task, completed=done_bytes)


@contextmanager
def bar(output: Output, hidden: bool) -> Iterator[Bar]:
    """A progress bar on standard error, gone when it is done."""
    if hidden or not output.remarks.is_terminal:
        yield Bar(None)
        return
    # Loaded only for this: it is a fifth of the time the command takes to start.
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=output.remarks, transient=True) as progress:
        yield Bar(progress)


@api_command(
    "backup",
    examples="""
headwater stream backup ORDERS backups/orders
headwater stream backup ORDERS backups/orders --no-consumers
headwater stream backup ORDERS backups/orders --check      the server reads every message first
headwater stream backup ORDERS backups/orders --force      in place of the one that is there
headwater stream backup ORDERS backups/orders --json | jq .archive_bytes
""",
)
@click.argument("name", type=STREAM_NAME)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--no-consumers", is_flag=True, help="Without the stream's consumers.")
@click.option("--check", is_flag=True, help="Let the server check every message first.")
@click.option("--chunk-size", type=Size(), help="Size of a piece: 1KB to 1MB.  [default 128KB]")
@click.option("--window-size", type=Size(), help="Bytes on the way at a time.  [default 8MB]")
@ASK_OPTION
@JSON_OPTION
def backup(
    api: ApiTarget,
    output: Output,
    name: str,
    folder: Path,
    no_consumers: bool,
    check: bool,
    chunk_size: int | None,
    window_size: int | None,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Copy the stream NAME into the folder DIR, as it is at this moment.

    The `nats` tool reads such a folder, and this command reads what it wrote. An older backup in
    DIR is replaced when the new one is whole, not before.
    """
    if holds_backup(folder) and not confirmed(f"Replace the backup in {folder}?", force):
        output.remark("Nothing was changed.")
        return ExitCode.FAILED
    asked = {
        "no_consumers": no_consumers,
        "jsck": check,
        "chunk_size": chunk_size,
        "window_size": window_size,
    }
    request = {field: value for field, value in asked.items() if value}
    started = time.perf_counter()
    with archive_writer(folder) as writer, bar(output, hidden=as_json) as progress:

        def show_start(answer: Document) -> None:
            progress.start_transfer(f"Backing up {name}", answer["state"]["bytes"])

        async def work(calls: AsyncApiClient) -> Document:
            return await receive_snapshot(
                calls, name, request, writer, show_start, progress.show_bytes
            )

        answer = api.call(work)
        state = answer["state"]
        if no_consumers:
            # The server counts those that the stream has, and not those that it sends.
            state = state | {"consumer_count": 0}
        writer.finish(answer["config"], state)
        archive_bytes = writer.frames.packed_bytes
    show_outcome(output, "Backed up", name, folder, state, archive_bytes, started, as_json)
    return ExitCode.OK


@api_command(
    "restore",
    examples="""
headwater stream restore backups/orders
headwater stream restore backups/orders --replicas 3
headwater stream restore backups/orders --config other.json    with another configuration
headwater stream restore backups/orders --json | jq .messages
""",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--config", "place", metavar="FILE|-", help="Use this configuration instead.")
@click.option("--replicas", type=click.IntRange(min=1), help="On how many servers to keep it.")
@JSON_OPTION
def restore(
    api: ApiTarget,
    output: Output,
    folder: Path,
    place: str | None,
    replicas: int | None,
    as_json: bool,
) -> ExitCode:
    """Make the stream in the backup in DIR again, under the name it had.

    The backup is checked before anything is sent, and what the server made of it afterwards.
    """
    found = read_backup(folder)
    config = read_config(place) if place else found.config
    if config.get("name") != found.config.get("name"):
        raise click.UsageError("a stream is restored under the name it had")
    if replicas is not None:
        config = config | {"num_replicas": replicas}
    name = STREAM_NAME.convert(config["name"], None, None)
    started = time.perf_counter()
    with found.data_path.open("rb") as archive, bar(output, hidden=as_json) as progress:
        progress.start_transfer(f"Restoring {name}", found.archive_bytes)

        async def work(calls: AsyncApiClient) -> Document:
            return await send_snapshot(calls, config, found.state, archive, progress.show_bytes)

        info = api.call(work)
    compare(output.remark, found, info)
    show_outcome(
        output, "Restored", name, folder, info["state"], found.archive_bytes, started, as_json
    )
    return ExitCode.OK


def compare(remark: Callable[[str], None], found: Backup, info: Document) -> None:
    """Raise CommandFailed if the stream differs from the backup.

    Messages may have outlived their time since the backup was made, and the `nats` tool counts
    consumers that it left out: that is said and is no failure.
    """
    state = info["state"]
    missing = found.state.get("consumer_count", 0) - state.get("consumer_count", 0)
    if missing > 0:
        remark(f"The backup tells of {count_text(missing, 'consumer')} that it does not have.")
    differing = [
        f"{field} {state.get(field)} instead of {found.state.get(field)}"
        for field in COMPARED
        if state.get(field) != found.state.get(field)
    ]
    if not differing:
        return
    config = info["config"]
    may_expire = config.get("max_age") or config.get("allow_msg_ttl")
    if may_expire and state["messages"] <= found.state.get("messages", 0):
        remark(f"Some messages have expired since the backup: {', '.join(differing)}.")
        return
    raise CommandFailed(
        f"The restored stream is not what the backup says: {', '.join(differing)}",
        f"It is there: headwater stream info {config['name']}",
    )


def show_outcome(
    output: Output,
    verb: str,
    name: str,
    folder: Path,
    state: Document,
    archive_bytes: int,
    started: float,
    as_json: bool,
) -> None:
    """Print the size and the rate of a transfer."""
    seconds = time.perf_counter() - started
    consumers = state.get("consumer_count", 0)
    if as_json:
        fields = {
            "stream": name,
            "folder": str(folder),
            "messages": state["messages"],
            "bytes": state["bytes"],
            "consumers": consumers,
            "archive_bytes": archive_bytes,
            "seconds": round(seconds, 6),
        }
        output.result(document(fields))
        return
    held = held_text(state["messages"], state["bytes"])
    if consumers:
        held += f", {count_text(consumers, 'consumer')}"
    rate = size_text(int(archive_bytes / seconds))
    output.result(
        f"{verb} stream {name}: {held}, {size_text(archive_bytes)} in {folder}, "
        f"{duration_text(seconds)} ({rate} per second)"
    )
