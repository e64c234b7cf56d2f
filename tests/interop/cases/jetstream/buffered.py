"""Publishes that a stream takes in before it answers: `max_buffered_msgs` and `max_buffered_size`.

The speed of a server decides how many publishes of a flood it refuses. The scripts compare the
answers themselves, and that the two numbers add up; a publish that is larger than the whole buffer
is refused by a server of any speed.
"""

import re

from tests.interop.case import Catalogue
from tests.interop.jetstream import RESOURCES, jetstream, publish_operation, with_jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

SUBJECT = "BUFFERED.a"
INBOX = "_INBOX.js.2"
"""The subject on which the second request of a client is answered; the first makes the stream."""
ROOM_BYTES = 100
LEFT_BYTES = ROOM_BYTES - len(SUBJECT) - len(INBOX)
FLOOD = 3000

SIZED = with_jetstream(f"{RESOURCES}, max_buffered_size: {ROOM_BYTES}")
COUNTED = with_jetstream(f"{RESOURCES}, max_buffered_msgs: 3")
catalogue = Catalogue(SIZED)


def published(
    session: Session, size: int, headers: dict[str, str] | None = None, **config: object
) -> Observation:
    """The answer to one publish of so many bytes to a new stream, as it came."""
    jetstream(session, "BUFFERED")
    js = jetstream(session)
    js.create("BUFFERED", **config)
    frame = js.request_frame(SUBJECT, "x" * size, headers or {})
    return {"frame": frame, "messages": js.state("BUFFERED")["messages"]}


@catalogue.case("js.buffered.size", text="too many requests")
def by_size(session: Session) -> Observation:
    """Subject, reply subject and payload count; one byte too many is refused with 429."""
    return [published(session, LEFT_BYTES + beyond) for beyond in (-1, 0, 1, 50)]


@catalogue.case("js.buffered.headers")
def with_headers(session: Session) -> Observation:
    """Headers count with the payload."""
    left = LEFT_BYTES - len("NATS/1.0\r\nA: b\r\n\r\n")
    return [published(session, left + beyond, {"A": "b"}) for beyond in (0, 1)]


@catalogue.case("js.buffered.before-all-else")
def before_all_else(session: Session) -> Observation:
    """A publish too large for the buffer is refused first of all, also by a stream without acks."""
    size = LEFT_BYTES + 1
    return [
        published(session, size, max_msg_size=10),
        published(session, size, no_ack=True),
        published(session, size, {"Nats-Expected-Last-Sequence": "9"}),
        published(session, size, storage="memory"),
    ]


@catalogue.case("js.buffered.without-reply")
def without_reply(session: Session) -> Observation:
    """A publish too large for the buffer, without a reply subject, is dropped in silence."""
    js = jetstream(session, "BUFFERED")
    js.create("BUFFERED")
    js.send_only(SUBJECT, "x" * ROOM_BYTES)
    return [js.wire.exchange(), js.state("BUFFERED")]


@catalogue.case("js.buffered.flood", setup=COUNTED, own_server=True)
def flood(session: Session) -> Observation:
    """Of very many publishes at once some are stored, the others are refused, none is lost."""
    js = jetstream(session, "BUFFERED")
    js.create("BUFFERED")
    js.wire.exchange("SUB flood.* 7\r\n")
    js.wire.send(b"".join(publish_operation(SUBJECT, b"x", (), f"flood.{n}") for n in range(FLOOD)))
    frames = [str(js.wire.frame()) for _ in range(FLOOD)]
    refused = [frame for frame in frames if "10167" in frame]
    stored = js.state("BUFFERED")["messages"]
    return {
        "refusals": sorted({re.sub(r"flood\.\d+", "flood.N", frame) for frame in refused}),
        "some are stored": stored > 0,
        "none is lost": stored + len(refused) == FLOOD,
    }
