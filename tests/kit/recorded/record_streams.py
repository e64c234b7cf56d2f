"""Ask a nats-server for the answers in the recorded cases, and write them down.

    python -m tests.kit.recorded.record_streams

Every case gets a server's view of its own: all streams are removed, those of the case are created,
then comes the request. The answers are those of the nats-server in this environment; if its version
is another one than the cases were recorded with, nothing is written.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from tests.kit.recorded.streams import (
    BODIES,
    CONFIGS,
    ORACLE_VERSION,
    Document,
    answer,
    as_bytes,
    load,
    shortened,
)
from tests.kit.server_process import LOOPBACK_FLAGS, ORACLE, ServerProcess, Setup

STREAM_OF_BODIES = "B"
STORE_NOT_CREATED = 10049
ASKED_MAX = 20


async def ask(client: Client, operation: str, body: bytes) -> Document:
    """The reply to a request of the API.

    nats-server removes the files of a deleted stream in the background, and cannot make a stream
    of that name meanwhile: then it is asked again, some times.
    """
    for _ in range(ASKED_MAX):
        reply = await client.request(f"$JS.API.STREAM.{operation}", body, timeout=5)
        document: Document = json.loads(reply.data)
        if document.get("error", {}).get("err_code") != STORE_NOT_CREATED:
            break
    return document


async def remove_all(client: Client) -> None:
    """Leave no stream."""
    for name in (await ask(client, "NAMES", b"")).get("streams") or []:
        await ask(client, f"DELETE.{name}", b"")


async def record_config(client: Client, case: Document) -> None:
    """Fill in the answer to one request."""
    await remove_all(client)
    for config in case.get("streams", []):
        made = await ask(client, f"CREATE.{config['name']}", json.dumps(config).encode())
        assert "error" not in made, (case["title"], made)
    request = case["request"]
    name = case.get("addressed", request.get("name", ""))
    operation = f"{case['operation'].upper()}.{name}"
    case["reply"] = answer(await ask(client, operation, json.dumps(request).encode()))


async def record_body(client: Client, case: Document) -> None:
    """Fill in the answer to one body."""
    await remove_all(client)
    body = as_bytes(case["body"])
    case["reply"] = answer(await ask(client, f"CREATE.{STREAM_OF_BODIES}", body))


async def record_case(client: Client, case: Document) -> None:
    """Fill in the answer to a configuration or a body."""
    record = record_body if "body" in case else record_config
    await record(client, case)


async def record_group(
    group: Document, record: Callable[[Client, Document], Awaitable[None]]
) -> None:
    """Fill in the answers of one server, case by case."""
    with tempfile.TemporaryDirectory() as directory:
        flags = (*LOOPBACK_FLAGS, "-js", "-sd", directory)
        server = ServerProcess(ORACLE, Setup(group["server"], flags), Path(directory))
        try:
            server.wait_until_ready()
            client = await nats.connect(f"nats://127.0.0.1:{server.port}")
            version = client._server_info["version"]
            assert version == ORACLE_VERSION, f"recorded with {ORACLE_VERSION}, this is {version}"
            for case in group["cases"]:
                await record(client, case)
            await client.close()
        finally:
            server.stop()


def text_of(groups: list[Document]) -> str:
    """The file: a line for each case, so that a change of one is a change of its line."""
    parts = []
    for group in groups:
        head = {key: value for key, value in group.items() if key != "cases"}
        cases = ",\n".join("  " + _line(case) for case in group["cases"])
        parts.append(_line(head)[:-1] + f', "cases": [\n{cases}\n]}}')
    return "[" + ",\n".join(parts) + "]\n"


def _line(value: Any) -> str:
    return json.dumps(shortened(value))


def main() -> None:
    """Record both files."""
    for path in (CONFIGS, BODIES):
        groups = load(path)
        for group in groups:
            asyncio.run(record_group(group, record_case))
        path.write_text(text_of(groups), encoding="utf-8")


if __name__ == "__main__":
    main()
