"""`headwater store tail`: messages that an eventual stream has lost, from the files set aside."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import TeachingCommand
from headwater.cli.shell.render import printable
from headwater.cli.store.opening import (
    KEY_FILE_OPTION,
    failures_explained,
    server_key_in,
    store_folder,
    store_reader,
)
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import FormatError
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.groups.lost_tails import TAIL_PREFIX, decode_tail
from headwater.store.recovery.inspection import StoreReader, stream_name


@click.command(
    "tail",
    cls=TeachingCommand,
    examples="""
headwater store tail data                    all messages that eventual streams have lost
headwater store tail data ORDERS             those of one stream
headwater store tail data ORDERS --json      one JSON object per message, with the payload in hex
""",
)
@click.argument("folder", metavar="DIR")
@click.argument("stream", required=False)
@KEY_FILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
def tail(folder: str, stream: str | None, key_file: str | None, as_json: bool) -> ExitCode:
    """Print the messages that a server acknowledged as the leader of an eventual stream, and that
    its successor did not have.

    The server has set them aside in the folder of the stream. They are in no stream any more; to
    store them again, publish them.
    """
    output = Output()
    folder = store_folder(folder)
    with failures_explained(folder):
        reader = store_reader(folder, False, False, server_key_in(key_file))
        for path, name in tail_files(reader, stream):
            for found in messages_in(reader, path):
                if as_json:
                    output.result(json.dumps({"stream": name, "file": path, **found}))
                else:
                    body = printable(bytes.fromhex(found["payload"]))
                    output.result(f"{name}  {found['sequence']}  {found['subject']}  {body}")
    return ExitCode.OK


def tail_files(reader: StoreReader, stream: str | None) -> Iterator[tuple[str, str]]:
    """The files with lost entries of all streams, or of one, each with the name of its stream."""
    for folder in reader.stream_folders():
        name = stream_name(folder)
        aside = f"{folder}/{SET_ASIDE}"
        if stream not in (None, name, name.rpartition("/")[2]) or not Path(aside).is_dir():
            continue
        for file in sorted(reader.files.list_folder(aside)):
            if file.startswith(TAIL_PREFIX):
                yield f"{aside}/{file}", name


def messages_in(reader: StoreReader, path: str) -> Iterator[dict[str, Any]]:
    """The messages in the entries of a file. Raises CommandFailed for a damaged one."""
    try:
        seed, entries = decode_tail(read_file(reader.files, path), path)
        codec = RecordCodec(seed)
        records = [each for entry in entries for each in decode_entry(codec, entry.data)]
    except (FormatError, RecordError, OSError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}", "", ExitCode.FAILED) from error
    for record in records:
        if isinstance(record, Published):
            batch = record.batch
            for number, subject in enumerate(batch.subjects):
                yield {
                    "sequence": record.first_sequence + number,
                    "subject": subject.decode(errors="replace"),
                    "header": batch.headers[number].hex(),
                    "payload": batch.payloads[number].hex(),
                    "time_ns": batch.timestamps_ns[number],
                }
