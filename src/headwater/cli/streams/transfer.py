"""Streams over the wire: how a server hands out a snapshot of one, and how it takes one back.

Both ways go in pieces that are acknowledged, a bounded number of them on the way at a time.

Out: the server sends to an inbox; each whole piece asks for an acknowledgement at a subject that
ends in its size and number, the last, shorter one does not; an empty message ends it, with a
status where it went wrong. In: the server names a subject; each piece sent there is answered with
nothing, or with an error; an empty piece ends it and is answered with the new stream.

Neither can be resumed by the protocol: what fails is begun again, and leaves nothing half done.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from nats.aio.msg import Msg

from headwater.base.quantities import duration_text
from headwater.cli.api.client import AsyncApiClient, document_in
from headwater.cli.connection.session import STATUS_NO_RESPONDERS
from headwater.cli.shell.exits import CommandFailed
from headwater.cli.streams.archive import ArchiveWriter
from headwater.client.api.requests import Document, stream_restore, stream_snapshot

# A server gives up after 5 s without an acknowledgement, and says so; only one that is gone
# stays silent for longer.
SILENCE_MAX_S: Final = 10.0
# After the last piece the server makes the stream, which takes as long as it takes.
RESTORE_FINISH_MAX_S: Final = 3600.0
RESTORE_CHUNK_BYTES: Final = 64 * 1024
RESTORE_CHUNKS_IN_FLIGHT_MAX: Final = 16

STATUS_OK: Final = "204"

BEGIN_AGAIN: Final = "Run the command again; what was done so far is discarded."


async def receive_snapshot(
    api: AsyncApiClient,
    stream: str,
    request: Mapping[str, Any],
    writer: ArchiveWriter,
    on_begin: Callable[[Document], None],
    on_progress: Callable[[int], None],
) -> Document:
    """Fetch a snapshot into `writer`; the configuration and state it was made with.

    `on_progress` is told the unpacked size so far, which is what the state's size tells the end
    of.
    """
    client = api.session.client
    inbox = client.new_inbox()
    pieces: asyncio.Queue[Msg] = asyncio.Queue()
    await client.subscribe(inbox, cb=pieces.put)
    answer = await api.request(stream_snapshot(stream, {**request, "deliver_subject": inbox}))
    on_begin(answer)
    number = 0
    while True:
        piece = await next_piece(api, pieces, max(SILENCE_MAX_S, api.timeout_s))
        if not piece.data:
            check_end(piece)
            break
        number += 1
        check_piece(piece, number)
        if piece.reply:
            await client.publish(piece.reply)
        writer.write(piece.data)
        on_progress(writer.frames.unpacked_bytes)
    return answer


def check_piece(piece: Msg, number: int) -> None:
    """Raise CommandFailed unless this is the piece that was to come."""
    # A reply subject that was mapped on its way tells nothing.
    *_, size, place = ("", "", *piece.reply.split("."))
    if not (size.isdigit() and place.isdigit()):
        return
    if int(size) != len(piece.data) or int(place) != number:
        raise CommandFailed(
            f"Piece {number} did not arrive: piece {place} of {size} bytes came as "
            f"{len(piece.data)} bytes",
            BEGIN_AGAIN,
        )


def check_end(piece: Msg) -> None:
    """Raise CommandFailed unless the server has sent everything."""
    headers = piece.headers or {}
    status = headers.get("Status", STATUS_OK)
    if status != STATUS_OK:
        raise CommandFailed(
            f"The server gave up: {status} {headers.get('Description', '')}".rstrip(),
            f"{BEGIN_AGAIN} On a slow connection use a smaller --window-size.",
        )


async def send_snapshot(
    api: AsyncApiClient,
    config: Mapping[str, Any],
    state: Mapping[str, Any],
    archive: BinaryIO,
    on_progress: Callable[[int], None],
) -> Document:
    """Send an archive to be made a stream again; the new stream's information.

    `on_progress` is told how many bytes the server has taken.
    """
    client = api.session.client
    answer = await api.request(stream_restore(config, state))
    subject = str(answer["deliver_subject"])
    chunk_bytes = min(RESTORE_CHUNK_BYTES, client.max_payload)
    inbox = client.new_inbox()
    answers: asyncio.Queue[Msg] = asyncio.Queue()
    await client.subscribe(inbox, cb=answers.put)
    in_flight: list[int] = []
    taken_bytes, is_read = 0, False
    while in_flight or not is_read:
        while not is_read and len(in_flight) < RESTORE_CHUNKS_IN_FLIGHT_MAX:
            chunk = archive.read(chunk_bytes)
            is_read = not chunk
            if chunk:
                await client.publish(subject, chunk, reply=inbox)
                in_flight.append(len(chunk))
        if in_flight:
            taken = await next_piece(api, answers, max(SILENCE_MAX_S, api.timeout_s))
            check_taken(taken, config["name"])
            # One connection, one subject: answers come in the order of the pieces.
            taken_bytes += in_flight.pop(0)
            on_progress(taken_bytes)
    await client.publish(subject, b"", reply=inbox)
    last = await next_piece(api, answers, RESTORE_FINISH_MAX_S)
    if not last.data:
        check_taken(last, config["name"])
    return document_in(last.data, config["name"])


def check_taken(answer: Msg, stream: str) -> None:
    """Raise CommandFailed unless the server has taken the piece this answers."""
    if answer.data:
        document_in(answer.data, stream)
        raise CommandFailed("The server ended the restore before all was sent", BEGIN_AGAIN)
    if (answer.headers or {}).get("Status") == STATUS_NO_RESPONDERS:
        raise CommandFailed("The server has given the restore up", BEGIN_AGAIN)


async def next_piece(api: AsyncApiClient, pieces: "asyncio.Queue[Msg]", patience_s: float) -> Msg:
    """The next message. Raises CommandFailed when none comes."""
    coming = asyncio.ensure_future(pieces.get())
    try:
        return await api.session.until(coming, patience_s)
    except TimeoutError as error:
        raise CommandFailed(
            f"Nothing came from the server for {duration_text(patience_s)}", BEGIN_AGAIN
        ) from error
    finally:
        coming.cancel()
