"""Consumers as a client meets them: made, asked for messages, listened to, and acknowledged.

A delivery is opened up to the tree that is compared, its reply subject taken apart: the time in it
becomes a `moment`, so that everything else in it is compared.

Pulls are told apart by their reply subjects, messages only by the subscription they came through.
So each receiver has a connection of its own, or, for one pull at a
time, a subscription of its own on the connection of the client.

Must not know: which server it talks to, or what any server ought to answer.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.interop.jetstream import (
    ZERO_TIME,
    Body,
    JetStreamClient,
    Reply,
    encoded,
    opened,
    publish_operation,
    with_moments,
)
from tests.interop.masks import is_positive
from tests.interop.messages import with_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.wire_client import Frame, WireClient

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000

NEXT = "$JS.API.CONSUMER.MSG.NEXT."
RECEIVER_SID = "7"
FETCH_SID = "8"
FETCH_INBOX = "_INBOX.fetch."
_MESSAGE = ("MSG ", "HMSG ")
_CLOCK_KEYS = frozenset(("last_active", "pinned_ts"))
_ACK_TOKENS = 9
"""Of `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`."""

PAUSE_REMAINING = Mask("**.pause_remaining", is_positive, "runs with the server's own clock")


def with_consumer(
    session: Session,
    stream: str,
    consumer: str,
    *,
    stream_config: dict[str, object] | None = None,
    **config: object,
) -> JetStreamClient:
    """A client with a new stream, and a durable on it that acks explicitly."""
    js = with_stream(session, stream, **(stream_config or {}))
    new_durable(js, stream, consumer, **config)
    return js


def new_durable(js: JetStreamClient, stream: str, name: str, **config: object) -> Reply:
    """The reply of a durable that had to be made; it acks explicitly unless said otherwise."""
    chosen = {"durable_name": name, "ack_policy": "explicit", **config}
    reply = create_consumer(js, stream, name, None, **chosen)
    assert "error" not in reply, reply
    return reply


def create_consumer(
    js: JetStreamClient, stream: str, name: str, action: object = None, **config: object
) -> Reply:
    """The reply of `CONSUMER.CREATE.<stream>.<name>`; what is not in `config` is not sent.

    An action is any object, so that a whole configuration can be handed over as a mapping.
    """
    body: dict[str, object] = {"stream_name": stream, "config": {"name": name, **config}}
    if action is not None:
        body["action"] = action
    return _shown_reply(js.api(f"CONSUMER.CREATE.{stream}.{name}", body))


def consumer_info(js: JetStreamClient, stream: str, name: str) -> Reply:
    return _shown_reply(js.api(f"CONSUMER.INFO.{stream}.{name}"))


def consumer_info_when(js: JetStreamClient, stream: str, name: str, **awaited: object) -> Reply:
    """The INFO of a consumer once it has these values; else as it is at last."""
    return info_until(
        js,
        stream,
        name,
        lambda info: all(info.get(key) == value for key, value in awaited.items()),
    )


def info_until(
    js: JetStreamClient, stream: str, name: str, holds: Callable[[Reply], bool]
) -> Reply:
    """The INFO of a consumer, asked for until it is as awaited; else as it is at last."""
    seen: dict[str, Reply] = {}

    def has_come() -> bool:
        seen["info"] = consumer_info(js, stream, name)
        return holds(seen["info"])

    js.wait_until(has_come)
    return seen["info"]


def delete_consumer(js: JetStreamClient, stream: str, name: str) -> Reply:
    return js.api(f"CONSUMER.DELETE.{stream}.{name}")


def shown(value: Any) -> Any:
    """The tree with the moments set apart that only consumers have."""
    if isinstance(value, dict):
        return {key: _moment_or(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    return value


def _shown_reply(reply: Reply) -> Reply:
    tree: Reply = shown(reply)
    return tree


def _moment_or(key: str, value: Any) -> Any:
    if key in _CLOCK_KEYS and isinstance(value, str) and value != ZERO_TIME:
        return {"moment": value}
    return shown(value)


@dataclass(frozen=True)
class Delivery:
    """One frame a consumer sent: a message, or a status such as `404 No Messages`.

    `sid` is that of the subscription it came through, `reply` empty for most statuses.
    """

    subject: str
    sid: str
    reply: str
    tree: Reply

    @property
    def is_status(self) -> bool:
        return bool(self.tree.get("status"))

    @property
    def seen(self) -> Observation:
        """The tree that is compared."""
        tree: Reply = {"subject": self.subject, **self.tree}
        if self.reply:
            tree["reply"] = taken_apart(self.reply)
        return tree


def delivery(frame: Frame) -> Delivery:
    """The delivery of a MSG or HMSG frame."""
    text = str(frame)
    assert text.startswith(_MESSAGE), f"no message: {text!r}"
    line = text.split("\r\n", 1)[0].split(" ")
    sizes = 2 if line[0] == "HMSG" else 1
    reply = line[3] if len(line) == 4 + sizes else ""
    return Delivery(line[1], line[2], reply, opened(text))


def taken_apart(reply: str) -> Observation:
    """The tokens of a reply subject; in one that acks, the time is a moment."""
    tokens = reply.split(".")
    if len(tokens) != _ACK_TOKENS or tokens[:2] != ["$JS", "ACK"]:
        return reply
    stored_at = datetime.fromtimestamp(int(tokens[7]) // SECOND_NS, UTC)
    moment = stored_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "of": ".".join(tokens[:4]),
        "delivered": int(tokens[4]),
        "stream_seq": int(tokens[5]),
        "consumer_seq": int(tokens[6]),
        "stored": {"moment": moment},
        "pending": int(tokens[8]),
    }


def seen(deliveries: list[Delivery]) -> list[Observation]:
    return [each.seen for each in deliveries]


def _is_message(frame: Frame) -> bool:
    return str(frame).startswith(_MESSAGE)


def _next_delivery(wire: WireClient) -> Delivery:
    while not _is_message(frame := wire.awaited_frame()):
        pass
    return delivery(frame)


class Receiver:
    """A connection with one subscription: what a consumer pushes, or the replies of its pulls."""

    def __init__(self, wire: WireClient, subject: str, queue: str = "") -> None:
        self.wire = wire
        self.subject = subject
        to = f"{subject} {queue}".rstrip()
        wire.exchange(f"SUB {to} {RECEIVER_SID}\r\n")

    def pull(self, stream: str, consumer: str, body: Body = None) -> None:
        """Ask for messages, to be sent here."""
        self.wire.send(
            publish_operation(f"{NEXT}{stream}.{consumer}", encoded(body), (), self.subject)
        )

    def next(self) -> Delivery:
        """The next delivery; silence for too long fails the script."""
        return _next_delivery(self.wire)

    def take(self, count: int) -> list[Delivery]:
        return [self.next() for _ in range(count)]

    def until_status(self) -> list[Delivery]:
        """All deliveries up to and with the next status."""
        received = [self.next()]
        while not received[-1].is_status:
            received.append(self.next())
        return received

    def arrived(self) -> list[Delivery]:
        """The deliveries before the answer to a PING: the server may have more in its queues."""
        return [delivery(frame) for frame in self.wire.exchange() if _is_message(frame)]

    def leave(self) -> None:
        """End the subscription; the server has handled it."""
        self.wire.exchange(f"UNSUB {RECEIVER_SID}\r\n")


def receiver(session: Session, subject: str, queue: str = "") -> Receiver:
    """A new connection that listens on `subject`."""
    return Receiver(session.connect(no_responders=True), subject, queue)


def fetch(
    js: JetStreamClient, stream: str, consumer: str, batch: int = 1, **request: object
) -> list[Delivery]:
    """The deliveries of one pull: `batch` messages, or as many as came before a status.

    Without an `expires` the pull does not wait: stored messages, then `404 No Messages`.
    """
    body: dict[str, object] = {"batch": batch, **request}
    if "expires" not in body:
        body["no_wait"] = True
    inbox = f"{FETCH_INBOX}{stream}.{consumer}"
    js.wire.send(f"SUB {inbox} {FETCH_SID}\r\n")
    js.wire.send(publish_operation(f"{NEXT}{stream}.{consumer}", encoded(body), (), inbox))
    received: list[Delivery] = []
    while len(received) < batch and not (received and received[-1].is_status):
        if (one := _next_delivery(js.wire)).sid == FETCH_SID:
            received.append(one)
    js.wire.exchange(f"UNSUB {FETCH_SID}\r\n")
    return received


def ack(js: JetStreamClient, *messages: Delivery, body: Body = None) -> None:
    """Acknowledge each, and wait until the server says it has; `body` is another kind of ack."""
    for message in messages:
        js.request(message.reply, body)


def ack_quietly(js: JetStreamClient, message: Delivery, body: Body = None) -> None:
    """Acknowledge without asking whether it arrived."""
    js.send_only(message.reply, body)


def opened_json(frame: str) -> Reply:
    """A reply whose JSON comes behind headers, as that to a consumer of another stream does."""
    reply = opened(frame)
    return {**reply, "data": _shown_reply(with_moments(json.loads(reply["data"])))}
