"""Backups move between nats-server and Headwater in both directions, and nothing is lost."""

import asyncio
import base64
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.kit.recorded.record_backups import NS_PER_DAY, NS_PER_S, RECORDED
from tests.kit.server_process import HEADWATER, ORACLE, Program, ServerProcess, Setup

Document = dict[str, Any]

SETUP: Final = Setup(config='jetstream: {store_dir: "store"}')
CHUNK_BYTES: Final = 32 * 1024
# Facts of one server or of the moment, and those that restoring sets again in both servers.
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


async def backup(client: Client, name: str, **options: object) -> tuple[Document, bytes]:
    """The reply to a snapshot, and all that was sent."""
    inbox = client.new_inbox()
    chunks = await client.subscribe(inbox)
    sizes = {"chunk_size": CHUNK_BYTES, "window_size": 2 * CHUNK_BYTES}
    request = {"deliver_subject": inbox, **sizes, **options}
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
    # The servers differ in their identity, not in their contents.
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
        try:
            await work(*clients)
        finally:
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


WAYS: Final = pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(ORACLE, HEADWATER, id="from nats-server"),
        pytest.param(HEADWATER, ORACLE, id="to nats-server"),
        pytest.param(HEADWATER, HEADWATER, id="between Headwaters"),
    ],
)


@WAYS
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


# --- consumers ------------------------------------------------------------------------------------

LASTING: Final = {"durable_name": True, "ack_policy": "explicit", "ack_wait": 3600 * NS_PER_S}
CONSUMERS: Final[dict[str, Document]] = {
    "IDLE": {},
    "NEW": {"deliver_policy": "new"},
    "LATER": {"deliver_policy": "by_start_sequence", "opt_start_seq": 5000},
    "LASTS": {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    "PAUSED": {"pause_until": "2100-01-01T00:00:00Z", "description": "d"},
    "PUSH": {"deliver_subject": "elsewhere", "flow_control": True, "idle_heartbeat": NS_PER_S},
    "PINNED": {"priority_policy": "pinned_client", "priority_groups": ["g"]},
    "NONE": {"ack_policy": "none", "ack_wait": 0},
    "ALL": {"ack_policy": "all"},
    "EXPLICIT": {
        "backoff": [1800 * NS_PER_S, 3600 * NS_PER_S],
        "max_deliver": 5,
        "max_ack_pending": 4,
    },
    "MEMORY": {"mem_storage": True},
    "PASSING": {"durable_name": False, "inactive_threshold": NS_PER_DAY},
    "GIVEN-UP": {"max_deliver": 1, "ack_wait": NS_PER_S // 10},
    "SOON": {"ack_wait": NS_PER_S // 2, "max_ack_pending": 4},
}
DELIVERED: Final = ("LASTS", "NONE", "ALL", "EXPLICIT", "MEMORY", "PASSING", "GIVEN-UP", "SOON")


async def fetch(client: Client, stream: str, name: str, count: int) -> list[Msg]:
    """The next messages of a consumer, however long it takes."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    request = json.dumps({"batch": count, "expires": 30 * NS_PER_S}).encode()
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", request, reply=inbox)
    found = [await subscription.next_msg(30) for _ in range(count)]
    await subscription.unsubscribe()
    return found


async def consume(client: Client, stream: str) -> dict[str, list[Msg]]:
    """Consumers of every kind and in every state; what they have delivered."""
    told = await client.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.GIVEN-UP")
    got = {}
    for name, config in CONSUMERS.items():
        chosen = {"name": name, **LASTING, **config}
        chosen["durable_name"] = name if chosen["durable_name"] else ""
        wanted = {"stream_name": stream, "config": chosen}
        reply = await ask(client, f"CONSUMER.CREATE.{stream}.{name}", wanted)
        assert "error" not in reply, reply
        if name in DELIVERED:
            got[name] = await fetch(client, stream, name, 4)
    await got["ALL"][1].ack_sync()
    # No other may be delivered, so the next one is this one.
    await got["EXPLICIT"][1].nak()
    await fetch(client, stream, "EXPLICIT", 1)
    await got["EXPLICIT"][0].ack_sync()
    await got["EXPLICIT"][2].ack_sync()
    for _ in got["GIVEN-UP"]:
        await told.next_msg(30)
    return got


async def consumers(client: Client, stream: str) -> dict[str, Document]:
    """Everything that can be seen of consumers and does not change by itself, by name."""
    found = {}
    for info in (await ask(client, f"CONSUMER.LIST.{stream}"))["consumers"]:
        for key in (*OF_THE_MOMENT, "pause_remaining"):
            info.pop(key, None)
        for key in ("delivered", "ack_floor"):
            info[key].pop("last_active", None)
        found[info["name"]] = info
    return found


@WAYS
@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_consumers_move(source: Program, target: Program, retention: str, tmp_path: Path) -> None:
    async def move(one: Client, other: Client) -> None:
        await ask(one, "STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
        for number in range(20):
            await one.request(f"S.{number % 12}", b"x")
        got = await consume(one, "S")
        if retention == "interest":
            # With this one nats-server does not restore its own backups either: it takes all
            # messages for acknowledged.
            await ask(one, "CONSUMER.DELETE.S.LATER")
            wanted = {"name": "S", "subjects": ["S.>"], "retention": retention}
            assert "error" not in await ask(one, "STREAM.UPDATE.S", wanted)
        before = await consumers(one, "S")
        reply, data = await backup(one, "S")
        restored = await restore(other, reply["config"], data)
        assert restored["state"]["consumer_count"] == len(before)
        assert restored["state"]["messages"] == reply["state"]["messages"]
        assert await consumers(other, "S") == before
        await go_on(other, got)

    with_servers([source, target], tmp_path, move)


async def go_on(client: Client, got: dict[str, list[Msg]]) -> None:
    """Consumers go on where they were, with clients that were there before."""
    fourth = got["EXPLICIT"][3]
    await client.request(fourth.reply, b"+ACK")
    info = await ask(client, "CONSUMER.INFO.S.EXPLICIT")
    assert (info["num_ack_pending"], info["num_redelivered"]) == (1, 1)
    for name in ("NONE", "ALL", "EXPLICIT", "MEMORY", "PASSING", "GIVEN-UP"):
        (message,) = await fetch(client, "S", name, 1)
        before = got[name][-1].metadata.sequence.consumer + (name == "EXPLICIT")
        assert message.metadata.sequence.stream == 5, name
        assert message.metadata.sequence.consumer == before + 1, name
    again = await fetch(client, "S", "SOON", 4)
    assert sorted(each.metadata.sequence.stream for each in again) == [1, 2, 3, 4]
    assert [each.metadata.num_delivered for each in again] == [2, 2, 2, 2]


@WAYS
def test_consumers_can_be_left_out(source: Program, target: Program, tmp_path: Path) -> None:
    async def move(one: Client, other: Client) -> None:
        await fill(one, "S", {})
        await consume(one, "S")
        reply, data = await backup(one, "S", no_consumers=True)
        assert reply["state"]["consumer_count"] == len(CONSUMERS)
        restored = await restore(other, reply["config"], data)
        assert restored["state"]["consumer_count"] == 0

    with_servers([source, target], tmp_path, move)


OBSERVED: Final = [
    title for title in json.loads(RECORDED.read_text()) if title.endswith(" OBSERVED")
]


@pytest.mark.parametrize("title", OBSERVED)
def test_backups_of_older_servers_make_the_same_consumers(title: str, tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())[title]
    data = base64.b64decode(recorded["backup"])
    config = {"name": recorded["stream"], "subjects": ["OBSERVED.>"]}

    async def compare(oracle: Client, ours: Client) -> None:
        seen = []
        for client in (oracle, ours):
            assert "error" not in await restore(client, config, data)
            found = await consumers(client, recorded["stream"])
            # In old backups something is long overdue there: how soon it is given up differs.
            seen.append({name: each for name, each in found.items() if "GIVEN" not in name})
        assert seen[1] == seen[0]

    with_servers([ORACLE, HEADWATER], tmp_path, compare)


def test_a_restored_stream_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    """A restored stream is on the disk when the restore is answered."""

    async def fill_and_restore(port: int) -> Document:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        await fill(client, "S", {})
        await consume(client, "S")
        reply, data = await backup(client, "S")
        await ask(client, "STREAM.DELETE.S")
        await restore(client, reply["config"], data)
        found = await contents(client, "S")
        found["consumers"] = await lasting(client)
        await client.close()
        return found

    async def lasting(client: Client) -> Document:
        found = await consumers(client, "S")
        return {name: each for name, each in found.items() if name != "MEMORY"}

    async def look(port: int) -> Document:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        found = await contents(client, "S")
        # The consumer in memory is gone.
        found["info"]["state"]["consumer_count"] += 1
        found["consumers"] = await lasting(client)
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
