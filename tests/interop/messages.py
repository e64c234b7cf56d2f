"""The contents of a stream, and more ways to write and read them than one request at a time.

Contents are read by sequence, through the one call that every stream answers; a header block is
kept as text, byte for byte, because streams promise to keep it so.

Must not know: which server it talks to, or what any server ought to answer.
"""

import base64
import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.interop.jetstream import (
    INBOX,
    Body,
    Headers,
    JetStreamClient,
    encoded,
    jetstream,
    opened,
    publish_operation,
    subject_of,
)
from tests.interop.session import Session
from tests.kit.server_process import ServerProcess, Setup
from tests.kit.wire_client import Frame

Publish: TypeAlias = tuple[str, str, Headers]
"""Subject, payload and headers."""

_STATUS = "\r\nNATS/1.0 "
"""A message whose header block begins with a status ends a batch of replies."""


def with_stream(session: Session, name: str, **config: object) -> JetStreamClient:
    """A client with a new stream, which by default has the subject `name` and all below it."""
    client = jetstream(session)
    new_stream(client, name, **config)
    return client


def new_stream(client: JetStreamClient, name: str, **config: object) -> None:
    """A new stream, whatever an earlier run left under its name."""
    client.api(f"STREAM.DELETE.{name}")
    reply = client.create(name, **config)
    assert "error" not in reply, reply


def stored(client: JetStreamClient, stream: str, seq: int) -> Any:
    """A message by its sequence, header block and data as text; or the error."""
    reply = client.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})
    if "message" not in reply:
        return reply
    message = reply["message"]
    seen = {"seq": message["seq"], "subject": message["subject"]}
    if "hdrs" in message:
        seen["headers"] = _text(message["hdrs"])
    return {**seen, "data": _text(message.get("data", ""))}


def contents(client: JetStreamClient, stream: str) -> list[Any]:
    """Every message of a stream, in order."""
    state = client.state(stream)
    found = [
        stored(client, stream, seq) for seq in range(state["first_seq"], state["last_seq"] + 1)
    ]
    return [message for message in found if "error" not in message]


def state_in_time(client: JetStreamClient, stream: str, **awaited: int) -> Any:
    """The state of a stream once it has these values, which the server's clock brings about.

    A state that never comes is returned as it is: the comparison will tell.
    """
    seen: dict[str, Any] = {}

    def has_come() -> bool:
        seen.update(state=client.state(stream))
        return all(seen["state"][key] == value for key, value in awaited.items())

    client.wait_until(has_come)
    return seen["state"]


def contents_in_time(client: JetStreamClient, stream: str, **awaited: int) -> list[Any]:
    """The messages of a stream once its state has these values."""
    state_in_time(client, stream, **awaited)
    return contents(client, stream)


def direct_batch(client: JetStreamClient, request: str, body: Body) -> list[Any]:
    """All replies of a `DIRECT.GET`, to the one with a status, which is the last."""
    inbox = client.send(f"$JS.API.DIRECT.GET.{request}", body)
    seen: list[Any] = []
    while True:
        frame = str(client.wire.awaited_frame())
        if subject_of(frame) == inbox:
            seen.append(opened(frame))
            if _STATUS in frame:
                return seen


def ack_of_block(client: JetStreamClient, subject: str, block: str, payload: str = "") -> Frame:
    """The ack of a publish with this header block, well formed or not."""
    sizes = f"{len(block)} {len(block) + len(payload)}"
    client.wire.send(f"HPUB {subject} {INBOX}block {sizes}\r\n{block}{payload}\r\n")
    return client.wire.frame()


def acks_of_one_write(client: JetStreamClient, *publishes: Publish) -> list[Frame]:
    """The acks of publishes that travel in one write, as they come."""
    client.wire.send(
        b"".join(
            publish_operation(subject, encoded(payload), headers, f"{INBOX}{number}")
            for number, (subject, payload, headers) in enumerate(publishes, start=1)
        )
    )
    return client.wire.take(len(publishes))


@contextlib.contextmanager
def restarted(session: Session, setup: Setup) -> Iterator[Session]:
    """The server of a session stopped, and another one started on its files."""
    before = session.server
    before.stop()
    server = ServerProcess(before.program, setup, before.directory)
    try:
        server.wait_until_ready()
        with Session(before.program, server, before.directory) as later:
            yield later
    finally:
        server.stop()


def _text(base64_text: str) -> str:
    return base64.b64decode(base64_text).decode("latin-1")
