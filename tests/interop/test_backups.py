"""Backups move between nats-server and Headwater in both directions, and nothing is lost."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import nats
import pytest
from nats.aio.client import Client

from tests.interop.server_process import HEADWATER, ORACLE, Program, ServerProcess, Setup

Document = dict[str, Any]

SETUP: Final = Setup(config='jetstream: {store_dir: "store"}')
CHUNK_BYTES: Final = 32 * 1024
# What a server says of itself, or of the moment; and what restoring sets anew in both servers.
OF_THE_MOMENT: Final = ("created", "ts", "cluster")

STREAMS: Final[dict[str, Document]] = {
    "PLAIN": {},
    "MEMORY": {"storage": "memory"},
    "LIMITED": {"max_msgs_per_subject": 2},
    "LATER": {"first_seq": 1_000_000},
    "LASTING": {"allow_msg_ttl": True},
    "PACKED": {"compression": "s2"},
}


async def ask(client: Client, call: str, body: object = None) -> Document:
    """The reply to a call of the API."""
    payload = b"" if body is None else json.dumps(body).encode()
    found: Document = json.loads((await client.request(f"$JS.API.{call}", payload)).data)
    return found


async def fill(client: Client, name: str, config: Document) -> None:
    """A stream with headers, gaps, and more than a chunk of messages."""
    wanted = {"name": name, "subjects": [f"{name}.>"], **config}
    assert "error" not in await ask(client, f"STREAM.CREATE.{name}", wanted)
    first = config.get("first_seq", 1)
    for number in range(60):
        headers = {"H": str(number)} if number % 3 == 0 else {}
        if config.get("allow_msg_ttl"):
            headers["Nats-TTL"] = "1h"
        body = bytes((number * place * place) % 251 for place in range(number * 40))
        await client.request(f"{name}.{number % 7}", body, headers=headers or None)
    for number in (0, 10, 11, 12, 58, 59):
        await ask(client, f"STREAM.MSG.DELETE.{name}", {"seq": first + number})


async def backup(client: Client, name: str) -> tuple[Document, bytes]:
    """The reply to a snapshot, and all that was sent."""
    inbox = client.new_inbox()
    chunks = await client.subscribe(inbox)
    request = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, "window_size": 2 * CHUNK_BYTES}
    reply = await ask(client, f"STREAM.SNAPSHOT.{name}", request)
    data = b""
    while (chunk := await chunks.next_msg(5)).data:
        data += chunk.data
        if chunk.reply:
            await client.publish(chunk.reply)
    assert (chunk.headers or {}).get("Status", "204") == "204"
    await chunks.unsubscribe()
    return reply, data


async def restore(client: Client, config: Document, data: bytes) -> Document:
    """The reply to the end of a restore."""
    request = {"config": config, "state": {}}
    subject = (await ask(client, f"STREAM.RESTORE.{config['name']}", request))["deliver_subject"]
    for begin in range(0, len(data), CHUNK_BYTES):
        answer = await client.request(subject, data[begin : begin + CHUNK_BYTES])
        assert answer.data == b""
    found: Document = json.loads((await client.request(subject, b"")).data)
    return found


async def contents(client: Client, name: str) -> Document:
    """Everything that can be seen of a stream."""
    request = {"deleted_details": True, "subjects_filter": ">"}
    info = await ask(client, f"STREAM.INFO.{name}", request)
    state = info["state"]
    messages = [
        await ask(client, f"STREAM.MSG.GET.{name}", {"seq": sequence})
        for sequence in range(state["first_seq"], state["last_seq"] + 1)
    ]
    # Servers differ in what they are, not in what they hold.
    info["config"]["metadata"] = None
    for key in OF_THE_MOMENT:
        info.pop(key, None)
    return {"info": info, "messages": messages}


def with_servers(
    programs: list[Program], tmp_path: Path, work: Callable[..., Awaitable[None]]
) -> None:
    """Call `work` with a client of each server."""
    servers: list[ServerProcess] = []

    async def main() -> None:
        clients = [await nats.connect(f"nats://127.0.0.1:{server.port}") for server in servers]
        await work(*clients)
        for client in clients:
            await client.close()

    try:
        for number, program in enumerate(programs):
            folder = tmp_path / str(number)
            folder.mkdir()
            servers.append(ServerProcess(program, SETUP, folder))
            servers[-1].wait_until_ready()
        asyncio.run(main())
    finally:
        for server in servers:
            server.stop()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(ORACLE, HEADWATER, id="from nats-server"),
        pytest.param(HEADWATER, ORACLE, id="to nats-server"),
        pytest.param(HEADWATER, HEADWATER, id="between Headwaters"),
    ],
)
def test_streams_move(source: Program, target: Program, tmp_path: Path) -> None:
    async def move(one: Client, other: Client) -> None:
        for name, config in STREAMS.items():
            await fill(one, name, config)
            before = await contents(one, name)
            reply, data = await backup(one, name)
            restored = await restore(other, reply["config"], data)
            assert "error" not in restored
            after = await contents(other, name)
            # The time of the last sequence is in no backup if its message is deleted.
            for found in (before, after):
                del found["info"]["state"]["last_ts"]
            assert after == before, name

    with_servers([source, target], tmp_path, move)


def test_a_restored_stream_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    """It is on the disk when the restore is answered."""

    async def fill_and_restore(port: int) -> Document:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        await fill(client, "S", {})
        reply, data = await backup(client, "S")
        await ask(client, "STREAM.DELETE.S")
        await restore(client, reply["config"], data)
        found = await contents(client, "S")
        await client.close()
        return found

    async def look(port: int) -> Document:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        found = await contents(client, "S")
        await client.close()
        return found

    server = ServerProcess(HEADWATER, SETUP, tmp_path)
    try:
        server.wait_until_ready()
        before = asyncio.run(fill_and_restore(server.port))
        server.signal(signal.SIGKILL)
        server.wait_for_exit()
    finally:
        server.stop()
    server = ServerProcess(HEADWATER, SETUP, tmp_path)
    try:
        server.wait_until_ready()
        assert asyncio.run(look(server.port)) == before
    finally:
        server.stop()
