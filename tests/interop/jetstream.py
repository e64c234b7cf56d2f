"""JetStream as a client meets it: requests, publishes, reads, advisories, and what may differ.

A reply is opened up to the tree that is compared: a JSON body is parsed, a status line and headers
are taken apart. Times of the server's own clock become `{"moment": text}`, so that one mask covers
them all while a zero time, which is a rule and no accident, stays plain text and is compared.

The oracle hands requests to a pool of workers: replies to requests sent back to back come in any
order. That is why a request waits for its reply, and why silence is told by a later request.

Must not know: which server it talks to, or what any server ought to answer.
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from tests.interop.masks import is_positive, is_timestamp, is_version
from tests.interop.observation import Mask, Observation, Path
from tests.interop.session import Session
from tests.kit.server_process import Setup
from tests.kit.wire_client import Frame, WireClient

Body: TypeAlias = "Mapping[str, object] | str | bytes | None"
Reply: TypeAlias = "dict[str, Any]"
Headers: TypeAlias = "Mapping[str, str] | Sequence[tuple[str, str]]"

API = "$JS.API."
EVENTS = "$JS.EVENT.ADVISORY."
INBOX = "_INBOX.js."
NO_REPLY = "no reply"
PEER_OFFLINE = "peer offline"
"""A refusal of three servers that have just met: one has not yet told of itself."""
WAIT_S_MAX = 5.0
"""The longest time that a script waits for a state. Only a wrong server ever takes so long."""

ZERO_TIME = "0001-01-01T00:00:00Z"
_CLOCK_KEYS = frozenset(
    ("created", "ts", "first_ts", "last_ts", "time", "timestamp", "start", "end")
)
_CLOCK_HEADERS = frozenset(("Nats-Time-Stamp",))
_NUID = re.compile(r"[0-9A-Za-z]{22}")

RESOURCES = "max_memory_store: 256MB, max_file_store: 1GB"
"""Limits for every server, because its defaults depend on its machine."""


def with_jetstream(settings: str = RESOURCES, rest: str = "") -> Setup:
    """A server with JetStream, its files in its own directory; `rest` stands outside the block."""
    return Setup(f'jetstream {{ store_dir: "store", {settings} }}\n{rest}')


JETSTREAM = with_jetstream()
"""Most cases share it, each with streams and subjects of its own."""
SMALL = with_jetstream("max_memory_store: 1MB, max_file_store: 2MB")
DOMAIN = with_jetstream(f"{RESOURCES}, domain: hub")
SYNC_ALWAYS = with_jetstream(f"{RESOURCES}, sync_interval: always")
LAX = with_jetstream(f"{RESOURCES}, strict: false")
ACCOUNTS = with_jetstream(
    rest="""
accounts {
  PLAIN { jetstream: enabled, users: [ { user: plain, password: x } ] }
  WITHOUT { users: [ { user: without, password: x } ] }
  OTHER { jetstream: enabled, users: [ { user: other, password: x } ] }
  TIGHT {
    jetstream {
      max_mem: 1000000, max_file: 2000000, max_streams: 2, max_consumers: 1
      memory_max_stream_bytes: 400000, store_max_stream_bytes: 800000
      max_bytes_required: true, max_ack_pending: 10
    }
    users: [ { user: tight, password: x } ]
  }
  SMALL {
    jetstream { max_mem: 1000, max_file: 1000 }
    users: [ { user: small, password: x } ]
  }
  $SYS { users: [ { user: admin, password: x } ] }
}
"""
)
"""Accounts with and without JetStream, and with limits; every user is the account's name."""


class JetStreamClient:
    """A connection that asks one thing at a time. `prefix` is another one for a domain.

    `directories` are the servers': there it is seen when the files of a deleted stream are gone.
    Each stream that it makes, and that names no number itself, has so many `replicas`.
    """

    def __init__(
        self,
        wire: WireClient,
        prefix: str = API,
        directories: tuple[FilePath, ...] = (),
        replicas: int = 1,
        inbox: str = INBOX,
    ) -> None:
        self.wire = wire
        self._inbox = inbox
        self.prefix = prefix
        self._directories = directories
        self.replicas = replicas
        self._asked = 0
        wire.exchange(f"SUB {inbox}* 1\r\n")

    def api(self, request: str, body: Body = None, headers: Headers = ()) -> Reply:
        """The reply to one call of the API, opened up; `request` stands after the prefix."""
        subject, body = self.prefix + request, self._replicated(request, body)
        reply = self.request(subject, body, headers)
        deadline = time.monotonic() + WAIT_S_MAX
        while PEER_OFFLINE in str(reply.get("error", "")) and time.monotonic() < deadline:
            reply = self.request(subject, body, headers)
        if request.startswith("STREAM.DELETE."):
            self.wait_until(
                lambda: not self._is_being_removed(request.removeprefix("STREAM.DELETE."))
            )
        return reply

    def _replicated(self, request: str, body: Body) -> Body:
        """The body of a request, which asks for replicas if it makes or changes a stream."""
        if self.replicas == 1 or not isinstance(body, Mapping):
            return body
        if request.startswith(("STREAM.CREATE.", "STREAM.UPDATE.")):
            return {"num_replicas": self.replicas, **body}
        if request.startswith("STREAM.RESTORE.") and isinstance(body.get("config"), Mapping):
            config: Any = body["config"]
            return {**body, "config": {"num_replicas": self.replicas, **config}}
        return body

    def request(self, subject: str, body: Body = None, headers: Headers = ()) -> Reply:
        """The one reply to a request on any subject, opened up."""
        return opened(self.request_frame(subject, body, headers))

    def request_frame(self, subject: str, body: Body = None, headers: Headers = ()) -> str:
        """The one reply to a request, as it came."""
        inbox = self.send(subject, body, headers)
        while subject_of(frame := self.wire.awaited_frame()) != inbox:
            pass
        return str(frame)

    def send(self, subject: str, body: Body = None, headers: Headers = ()) -> str:
        """Send a request and return where its replies will come."""
        self._asked += 1
        inbox = f"{self._inbox}{self._asked}"
        self.wire.send(publish_operation(subject, encoded(body), headers, inbox))
        return inbox

    def send_only(self, subject: str, body: Body = None, headers: Headers = ()) -> None:
        """Publish without a reply subject."""
        self.wire.send(publish_operation(subject, encoded(body), headers))

    def replies(
        self, subject: str, last: str, body: Body = None, headers: Headers = ()
    ) -> list[Reply]:
        """All replies to a request, opened up, to the first that contains `last`."""
        inbox = self.send(subject, body, headers)
        seen: list[Reply] = []
        while True:
            frame = self.wire.awaited_frame()
            if subject_of(frame) == inbox:
                seen.append(opened(str(frame)))
                if last in str(frame):
                    return seen

    def unanswered(self, subject: str, body: Body = None, headers: Headers = ()) -> Observation:
        """`NO_REPLY`, if a request on another subject, sent later, is answered first.

        An answer is returned as it is; it is the comparison that tells.
        """
        inbox = self.send(subject, body, headers)
        seen = self.wire.exchange()
        fence = self.send("$JS.API.INFO")
        while subject_of(frame := self.wire.awaited_frame()) != fence:
            seen.append(frame)
        answers = [opened(str(frame)) for frame in seen if subject_of(frame) == inbox]
        return {"answered": answers} if answers else NO_REPLY

    def publish(self, subject: str, payload: str | bytes = "", headers: Headers = ()) -> Reply:
        """The ack of a publish, parsed."""
        return self.request(subject, payload, headers)

    def ack_text(self, subject: str, payload: str | bytes = "", headers: Headers = ()) -> str:
        """The ack of a publish, byte for byte."""
        return self.request_frame(subject, payload, headers).split("\r\n", 1)[1]

    def fill(self, *subjects: str, payload: str = "x") -> None:
        """One message to each of the subjects, acknowledged."""
        for subject in subjects:
            ack = self.publish(subject, payload)
            assert "error" not in ack, ack

    def create(self, name: str, **config: object) -> Reply:
        """Create a stream; without `subjects` it has the subject of its name and all below it."""
        chosen: dict[str, object] = {"subjects": [name, f"{name}.>"], **config}
        return self.api(f"STREAM.CREATE.{name}", {"name": name, **chosen})

    def update(self, name: str, **config: object) -> Reply:
        """Update a stream that `create` made, with the same subjects unless said otherwise."""
        chosen: dict[str, object] = {"subjects": [name, f"{name}.>"], **config}
        return self.api(f"STREAM.UPDATE.{name}", {"name": name, **chosen})

    def info(self, name: str, **request: object) -> Reply:
        return self.api(f"STREAM.INFO.{name}", request or None)

    def state(self, name: str, **request: object) -> Reply:
        """The `state` of a stream."""
        state: Reply = self.info(name, **request)["state"]
        return state

    def state_when(self, name: str, key: str, value: object) -> Reply:
        """The state of a stream, asked for until `key` has `value`; else as it is at last."""
        deadline = time.monotonic() + WAIT_S_MAX
        state = self.state(name)
        while state.get(key) != value and time.monotonic() < deadline:
            state = self.state(name)
        return state

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Ask until `holds` is true; if it never is, the script's next observation shows it."""
        deadline = time.monotonic() + WAIT_S_MAX
        while not holds() and time.monotonic() < deadline:
            pass

    def _is_being_removed(self, stream: str) -> bool:
        """Whether files of a deleted stream are left.

        The oracle moves them aside and removes them in the background. Meanwhile a second stream
        of that name cannot be deleted, and a third would find its messages.
        """
        return any(
            os.path.lexists(streams / f".{stream}")
            for directory in self._directories
            for streams in directory.glob("store/jetstream/*/streams")
        )

    def direct(self, request: str, body: Body = None, headers: Headers = ()) -> Reply:
        """One reply of `DIRECT.GET.<request>`: status, headers and data."""
        return self.api(f"DIRECT.GET.{request}", body, headers)

    def watch(self, session: Session, subject: str = f"{EVENTS}>", **options: object) -> "Watch":
        """A second connection that sees what is published on `subject` from now on."""
        return Watch(session.connect(**options), subject)


class Watch:
    """A connection that only listens, for advisories and republished messages."""

    def __init__(self, wire: WireClient, subject: str) -> None:
        self.wire = wire
        wire.exchange(f"SUB {subject} 1\r\n")

    def take(self, count: int) -> list[Reply]:
        """The next messages, opened up, in the order of subjects: the oracle's workers have none.

        Audits share a subject and are told apart by the call they tell of.
        """
        seen = [self.next() for _ in range(count)]
        return sorted(seen, key=_told_about)

    def next(self) -> Reply:
        """The next message, opened up."""
        while not (subject := subject_of(frame := self.wire.awaited_frame())):
            pass
        return {"subject": subject, "advisory": _opened_audit(opened(str(frame)))}


def _told_about(message: Reply) -> tuple[str, str]:
    return str(message["subject"]), str(message["advisory"].get("subject", ""))


def jetstream(
    session: Session, *streams: str, prefix: str = API, **options: object
) -> JetStreamClient:
    """A client before which no stream has one of these names.

    A script may meet a server it ran on before, or on which it failed half way.
    """
    wire = session.connect(no_responders=True, **options)
    client = JetStreamClient(wire, prefix, session.directories, session.replicas)
    for name in streams:
        client.api(f"STREAM.DELETE.{name}")
    return client


def login(user: str) -> dict[str, Any]:
    """The options of a user of `ACCOUNTS`."""
    return {"user": user, "pass": "x"}


def encoded(body: Body) -> bytes:
    if body is None:
        return b""
    if isinstance(body, Mapping):
        return json.dumps(body).encode()
    return body.encode() if isinstance(body, str) else body


def publish_operation(
    subject: str, payload: bytes, headers: Headers = (), reply: str = ""
) -> bytes:
    """A PUB, or with headers an HPUB."""
    to = f"{subject} {reply}".rstrip()
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    if not pairs:
        return f"PUB {to} {len(payload)}\r\n".encode() + payload + b"\r\n"
    block = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in pairs) + "\r\n"
    head = block.encode()
    line = f"HPUB {to} {len(head)} {len(head) + len(payload)}\r\n"
    return line.encode() + head + payload + b"\r\n"


def subject_of(frame: Frame) -> str:
    """The subject of a message; empty for any other frame."""
    if not isinstance(frame, str) or not frame.startswith(("MSG ", "HMSG ")):
        return ""
    return frame.split(" ", 2)[1]


def opened(frame: str) -> Reply:
    """A message as a tree: its JSON, or its data, with status and headers if it has any."""
    line, rest = frame.split("\r\n", 1)
    if line.startswith("MSG "):
        return _opened_data(rest.removesuffix("\r\n"))
    head_bytes = int(line.rsplit(" ", 2)[1])
    head, data = rest[:head_bytes], rest[head_bytes:].removesuffix("\r\n")
    status, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
    return {
        "status": status.removeprefix("NATS/1.0").strip(),
        "headers": [_opened_header(field) for field in fields],
        "data": data,
    }


def _opened_header(field: str) -> Observation:
    name, value = field.split(":", 1)
    value = value.removeprefix(" ")
    return [name, {"moment": value} if name in _CLOCK_HEADERS else value]


def _opened_data(data: str) -> Reply:
    if not data.startswith("{"):
        return {"data": data}
    # The client reads bytes as latin-1, JSON is UTF-8.
    reply: Reply = with_moments(json.loads(data.encode("latin-1")))
    return reply


def _opened_audit(advisory: Reply) -> Reply:
    """An audit quotes the response it tells of, which has times of its own."""
    if "response" not in advisory:
        return advisory
    return {**advisory, "response": with_moments(json.loads(advisory["response"]))}


def with_moments(value: Any) -> Any:
    """The tree with the server's own times set apart; a zero time is none."""
    if isinstance(value, dict):
        return {key: _moment_or(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_moments(inner) for inner in value]
    return value


def _moment_or(key: str, value: Any) -> Any:
    if key in _CLOCK_KEYS and isinstance(value, str) and value != ZERO_TIME:
        return {"moment": value}
    return with_moments(value)


class VersionMask(Mask):
    """The version in a stream's metadata: its key has a dot, which dotted paths cannot express."""

    def covers(self, path: Path) -> bool:
        return path[-2:] == ("metadata", "_nats.ver")


def is_nuid(value: Observation) -> bool:
    return isinstance(value, str) and _NUID.fullmatch(value) is not None


JETSTREAM_MASKS = (
    Mask("**.moment", is_timestamp, "the server's own clock"),
    VersionMask("**.metadata._nats·ver", is_version, "as in INFO"),
    Mask("**.advisory.id", is_nuid, "drawn for each advisory"),
    Mask("**.advisory.client.id", is_positive, "counts all connections since the start"),
    Mask("**.advisory.client.rtt", is_positive, "time"),
)
