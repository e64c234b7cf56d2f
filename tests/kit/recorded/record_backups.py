"""Take backups from nats-servers and write them down, with what was in the streams.

    python -m tests.kit.recorded.record_backups nats-server-2.10 nats-server-2.14 …

The arguments are programs. Each gets the same streams; what it answers to STREAM.SNAPSHOT is kept
under its version, together with its messages, so that a test can hold a reader to it.
"""

import asyncio
import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.kit.server_process import LOOPBACK_FLAGS, Program, ServerProcess, Setup

RECORDED: Final = Path(__file__).with_name("backups.json")
CHUNK_BYTES: Final = 4096
NS_PER_S: Final = 1_000_000_000
NS_PER_DAY: Final = 24 * 3600 * NS_PER_S

Document = dict[str, Any]


async def ask(client: Client, call: str, body: Document | None = None) -> Document:
    """The reply to a call of the API."""
    payload = b"" if body is None else json.dumps(body).encode()
    reply: Document = json.loads((await client.request(f"$JS.API.{call}", payload)).data)
    return reply


async def create(client: Client, name: str, **config: object) -> None:
    """Make a stream."""
    wanted = {"name": name, "subjects": [name, f"{name}.>"], **config}
    reply = await ask(client, f"STREAM.CREATE.{name}", wanted)
    assert "error" not in reply, reply


async def fill(client: Client) -> list[str]:
    """Streams of every kind that a backup may be of; their names."""
    await create(client, "PLAIN")
    for number in range(5):
        headers = {"H": str(number)} if number % 2 else None
        await client.request(f"PLAIN.{number % 2}", b"m%d" % number, headers=headers)
    await create(client, "HOLES")
    for number in range(20):
        await client.request(f"HOLES.{number}", b"x" * 50)
    for sequence in (1, 2, 5, 6, 7, 19, 20):
        request = {"seq": sequence, "no_erase": sequence % 2 == 0}
        await ask(client, "STREAM.MSG.DELETE.HOLES", request)
    await create(client, "LIMITED", max_msgs_per_subject=1, allow_rollup_hdrs=True)
    for number in range(50):
        await client.request(f"LIMITED.{number % 5}", b"v%d" % number)
    await client.request("LIMITED.0", b"r", headers={"Nats-Rollup": "sub"})
    await create(client, "PURGED")
    await create(client, "CUT")
    for number in range(30):
        await client.request("PURGED", b"x")
        await client.request(f"CUT.{number % 3}", b"v%d" % number)
    await ask(client, "STREAM.PURGE.PURGED")
    await ask(client, "STREAM.PURGE.CUT", {"seq": 20})
    await create(client, "EMPTY")
    await create(client, "LATER", first_seq=100)
    await create(client, "PACKED", compression="s2")
    for number in range(40):
        await client.request(f"PACKED.{number % 5}", b"hello world " * 10)
    await create(client, "OBSERVED")
    for number in range(6):
        await client.request(f"OBSERVED.{number % 2}", b"x")
    await observe(client)
    names: list[str] = (await ask(client, "STREAM.NAMES"))["streams"]
    return names


async def observe(client: Client) -> None:
    """Consumers in every state that a backup may tell of."""
    await consume(client, "IDLE")
    await consume(client, "NEW", deliver_policy="new")
    await consume(client, "PAUSED", pause_until="2100-01-01T00:00:00Z")
    await consume(client, "NONE", 2, ack_policy="none")
    await consume(client, "MEMORY", 1, mem_storage=True)
    await consume(client, "PASSING", 2, is_durable=False, filter_subject="OBSERVED.1")
    _, second, *_ = await consume(client, "ALL", 4, ack_policy="all")
    await second.ack_sync()
    first, second, _, fourth, *_ = await consume(client, "EXPLICIT", 6)
    await first.ack_sync()
    await fourth.ack_sync()
    await second.nak()
    await fetch(client, "EXPLICIT", 1)
    # Given up, with the floor below it and above it.
    told = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.OBSERVED.*")
    for name in ("GIVEN-UP", "GIVEN-UP-LONG-AGO"):
        await consume(client, name, 2, max_deliver=1, ack_wait=NS_PER_S // 10)
        for _ in range(2):
            await told.next_msg(5)
    (later,) = await fetch(client, "GIVEN-UP-LONG-AGO", 1)
    await later.ack_sync()


async def consume(
    client: Client, name: str, count: int = 0, is_durable: bool = True, **config: object
) -> list[Msg]:
    """Make a consumer, and let it deliver some messages."""
    chosen = {"name": name, "ack_policy": "explicit", "inactive_threshold": NS_PER_DAY, **config}
    if is_durable:
        chosen["durable_name"] = name
    wanted = {"stream_name": "OBSERVED", "config": chosen}
    reply = await ask(client, f"CONSUMER.CREATE.OBSERVED.{name}", wanted)
    assert "error" not in reply, reply
    return await fetch(client, name, count)


async def fetch(client: Client, name: str, count: int) -> list[Msg]:
    """The next messages of a consumer."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    call = f"$JS.API.CONSUMER.MSG.NEXT.OBSERVED.{name}"
    for _ in range(count):
        await client.publish(call, reply=inbox)
    found = [await subscription.next_msg(5) for _ in range(count)]
    await subscription.unsubscribe()
    return found


async def backup(client: Client, name: str) -> tuple[Document, bytes]:
    """The reply to a snapshot, and what was sent."""
    inbox = client.new_inbox()
    chunks = await client.subscribe(inbox)
    request = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES}
    reply = await ask(client, f"STREAM.SNAPSHOT.{name}", request)
    assert "error" not in reply, reply
    data = b""
    while (chunk := await chunks.next_msg(5)).data:
        data += chunk.data
        if chunk.reply:
            await client.publish(chunk.reply)
    await chunks.unsubscribe()
    return reply, data


async def messages(client: Client, name: str, state: Document) -> list[Document]:
    """All messages of a stream."""
    found = []
    for sequence in range(max(state["first_seq"], 1), state["last_seq"] + 1):
        reply = await ask(client, f"STREAM.MSG.GET.{name}", {"seq": sequence})
        if "message" in reply:
            found.append(reply["message"])
    return found


async def record(url: str) -> tuple[str, list[Document]]:
    """The version of a server, and the backups of its streams."""
    client = await nats.connect(url)
    found = []
    for name in await fill(client):
        reply, data = await backup(client, name)
        consumers = (await ask(client, f"CONSUMER.LIST.{name}"))["consumers"]
        found.append(
            {
                "stream": name,
                "state": reply["state"],
                "consumers": sorted(consumers or (), key=lambda each: str(each["name"])),
                "messages": await messages(client, name, reply["state"]),
                "backup": base64.b64encode(data).decode(),
            }
        )
    version = client.connected_server_version
    await client.close()
    return f"{version.major}.{version.minor}.{version.patch}", found


def main(programs: list[str]) -> None:
    """Record all of them."""
    recorded = {}
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            setup = Setup(config='jetstream: {store_dir: "store"}', flags=LOOPBACK_FLAGS)
            server = ServerProcess(Program(program, (program,)), setup, Path(folder))
            try:
                server.wait_until_ready()
                version, found = asyncio.run(record(f"nats://127.0.0.1:{server.port}"))
            finally:
                server.stop()
        recorded[version] = found
    lines = ",\n".join(
        f'"{version} {each["stream"]}": {json.dumps(each, separators=(",", ":"))}'
        for version, found in recorded.items()
        for each in found
    )
    RECORDED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
