"""Ask a nats-server for the answers in the recorded calls, and write them down.

    python -m tests.kit.recorded.record_consumers

Every case gets a server's view of its own: the stream is made again. The answers are those of the
nats-server in this environment; if its version is another one than the cases were recorded with,
nothing is written.
"""

import asyncio
import json

from nats.aio.client import Client
from nats.errors import TimeoutError as NoReply

from tests.kit.recorded.consumers import CALLS, STREAM, answer, body_of
from tests.kit.recorded.record_streams import record_group, text_of
from tests.kit.recorded.streams import Document, load

# Those who are not answered are waited for; everybody else answers at once.
REPLY_S_MAX = 0.5


async def ask(client: Client, subject: str, body: bytes) -> Document | None:
    """The reply to a request of the API."""
    try:
        reply = await client.request(f"$JS.API.{subject}", body, timeout=REPLY_S_MAX)
    except NoReply:
        return None
    document: Document = json.loads(reply.data)
    return document


async def record_case(client: Client, case: Document) -> None:
    """Fill in the answer to the last call."""
    await ask(client, "STREAM.DELETE.S", b"")
    stream = STREAM | case.get("stream", {})
    made = await ask(client, "STREAM.CREATE.S", json.dumps(stream).encode())
    assert made is not None, case["title"]
    assert "error" not in made, (case["title"], made)
    listeners = [await client.subscribe(subject) for subject in case.get("listeners", [])]
    await client.flush()
    for call in case.get("before", []):
        reply = await ask(client, f"CONSUMER.{call[0]}", body_of(call))
        assert reply is None or "error" not in reply, (case["title"], reply)
    call = case["call"]
    family = "" if call[0].startswith("STREAM.") else "CONSUMER."
    reply = await ask(client, family + call[0], body_of(call))
    told = {key: part for key, part in case.items() if key != "reply"}
    case["reply"] = answer(told, reply)
    for listener in listeners:
        await listener.unsubscribe()


def main() -> None:
    """Record the file."""
    groups = load(CALLS)
    for group in groups:
        asyncio.run(record_group(group, record_case))
    CALLS.write_text(text_of(groups), encoding="utf-8")


if __name__ == "__main__":
    main()
