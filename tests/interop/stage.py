"""Three servers that keep streams, as the script of a case meets them.

While a group elects its leader, nobody answers for it: nats-server leaves such requests without a
reply. So every question here is asked again until it is answered, and a script that changes a
group waits with `settled` before it looks.

The leader of a group is a matter of chance. `who_leads` and `others` turn it into numbers for
the script, and the masks of `CLUSTER_MASKS` into "one of the servers" for the comparison.

Must not know: which kind of server it is, or what any server ought to answer.
"""

import itertools
import re
import time
from collections.abc import Callable
from typing import Any, Final

from tests.interop.consumers import NEXT
from tests.interop.jetstream import (
    API,
    Body,
    Headers,
    JetStreamClient,
    Reply,
    Watch,
    opened,
    subject_of,
)
from tests.interop.jetstream_trio import JetStreamTrio
from tests.interop.masks import is_count, is_filled_text, is_timestamp
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.interop.trio import NAMES
from tests.kit.wire_client import CLOSED

REPLICAS: Final = len(NAMES)
TRY_S: Final = 1.0
"""The time for one answer; a question in an election gets none."""
TRIES_S: Final = 12.0
"""The longest time for all tries of a question: an election takes nats-server up to ten seconds."""
PATIENCE_S: Final = 30.0
"""The longest time for a state to come. Only a wrong server ever needs it."""
QUIET_S: Final = 0.25
"""The silence after which no further answer to a question is expected."""

SYSTEM: Final = "admin"
PASSWORD: Final = "x"

_GROUP = re.compile(r"[SC]-R[1-5][FM]-[0-9A-Za-z]{8}")
_PEER = re.compile(r"[0-9A-Za-z]{8}")

_numbers = itertools.count(1)


class Client(JetStreamClient):
    """A client of one of the servers, whose replies no other client hears."""

    def __init__(self, session: Session, user: str = "", prefix: str = API) -> None:
        login = {"user": user, "pass": PASSWORD} if user else {}
        wire = session.connect(no_responders=True, **login)
        inbox = f"_INBOX.stage{next(_numbers)}."
        super().__init__(wire, prefix, session.directories, 1, inbox)

    def request_frame(self, subject: str, body: Body = None, headers: Headers = ()) -> str:
        """The reply to a request that is repeated until it is answered."""
        deadline = time.monotonic() + TRIES_S
        inboxes: set[str] = set()
        while time.monotonic() < deadline:
            inboxes.add(self.send(subject, body, headers))
            if found := self._first_in(inboxes):
                return found
        raise AssertionError(f"{subject} was never answered")

    def _first_in(self, inboxes: set[str]) -> str:
        """The first reply to any try, an earlier one too; empty after some silence."""
        while (frame := self.wire.frame_within(TRY_S)) is not None and frame != CLOSED:
            if subject_of(frame) in inboxes:
                return str(frame)
        return ""

    def once(self, request: str, body: Body = None, wait_s: float = TRY_S) -> Observation:
        """The reply to a request that is sent once; None if none comes in time."""
        found = self.heard(self.send(self.prefix + request, body), 1, wait_s)
        return opened(found[0]) if found else None

    def all_answers(self, request: str, body: Body = None) -> list[Reply]:
        """Every reply to one request, until all servers are quiet."""
        inbox = self.send(self.prefix + request, body)
        first = self.heard(inbox, 1, TRIES_S)
        return [opened(frame) for frame in [*first, *self.heard(inbox, 99, QUIET_S)]]

    def pull(self, stream: str, consumer: str, **request: object) -> list[str]:
        """The next frame that a pull brings, a message or a status; none after long silence."""
        self.send(f"{NEXT}{stream}.{consumer}", request or {"batch": 1})
        return self.frames(1, PATIENCE_S)

    def frames(self, count_max: int, silence_s: float) -> list[str]:
        """Messages of any subject, up to a number of them or a time of silence."""
        found: list[str] = []
        while len(found) < count_max:
            frame = self.wire.frame_within(silence_s)
            if frame is None or frame == CLOSED:
                break
            if subject_of(frame):
                found.append(str(frame))
        return found

    def heard(self, inbox: str, count_max: int, silence_s: float) -> list[str]:
        """Replies in an inbox, up to a number of them or a time of silence."""
        frames: list[str] = []
        while len(frames) < count_max:
            frame = self.wire.frame_within(silence_s)
            if frame is None or frame == CLOSED:
                break
            if subject_of(frame) == inbox:
                frames.append(str(frame))
        return frames


class Stage:
    """The servers, and the clients of one script."""

    def __init__(self, trio: JetStreamTrio) -> None:
        self.trio = trio
        self._sessions: list[Session] = []

    def close(self) -> None:
        """Leave all servers."""
        for session in self._sessions:
            session.__exit__(None, None, None)

    # --- clients ---------------------------------------------------------------------------------

    def session(self, number: int) -> Session:
        """A session with one of the servers."""
        session = self.trio.session(number)
        self._sessions.append(session)
        return session

    def client(self, number: int = 0, user: str = "") -> Client:
        """A client of one of the servers."""
        return Client(self.session(number), user)

    def admin(self, number: int = 0) -> Client:
        """A client of the system account."""
        return self.client(number, SYSTEM)

    def everywhere(self, user: str = "") -> list[Client]:
        """A client of each server."""
        return [self.client(number, user) for number in range(REPLICAS)]

    def watch(self, subject: str, number: int = 0, user: str = "") -> "Ear":
        """A listener whose interest all servers know of."""
        login = {"user": user, "pass": PASSWORD} if user else {}
        ear = Ear(self.session(number).connect(**login), subject)
        mark = f"stage.mark.{next(_numbers)}"
        ear.wire.exchange(f"SUB {mark} 2\r\n")
        for other in range(REPLICAS):
            self._reach(self.client(other, user), mark, ear)
        ear.wire.exchange("UNSUB 2\r\n")
        ear.seen.clear()
        return ear

    def _reach(self, client: Client, mark: str, ear: "Ear") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            client.wire.exchange(f"PUB {mark} 0\r\n\r\n")
            if ear.has(lambda subject: subject == mark, 0.05):
                return
        raise AssertionError(f"{mark} was never heard")

    # --- streams and their leaders ---------------------------------------------------------------

    def make(self, name: str, **config: object) -> Reply:
        """The settled INFO of a new stream of three replicas, unless said otherwise."""
        client = self.client()
        client.api(f"STREAM.DELETE.{name}")
        made = client.create(name, **{"num_replicas": REPLICAS, **config})
        assert "error" not in made, made
        return self.settled(name)

    def make_consumer(self, stream: str, name: str, **config: object) -> Reply:
        """The reply to the create of a durable, which has to succeed."""
        chosen = {"durable_name": name, "name": name, "ack_policy": "explicit", **config}
        body = {"stream_name": stream, "config": chosen}
        made = self.client().api(f"CONSUMER.CREATE.{stream}.{name}", body)
        assert "error" not in made, made
        return self.settled_consumer(stream, name)

    def settled(self, stream: str, **told: object) -> Reply:
        """INFO of a stream once it has a leader that all its replicas follow.

        `told` are further values that the `cluster` document shall have.
        """
        return self.ask_until(f"STREAM.INFO.{stream}", lambda reply: is_settled(reply, told))

    def settled_consumer(self, stream: str, name: str, **told: object) -> Reply:
        """INFO of a consumer once it has a leader that all its replicas follow."""
        request = f"CONSUMER.INFO.{stream}.{name}"
        return self.ask_until(request, lambda reply: is_settled(reply, told))

    def ask_until(self, request: str, holds: Callable[[Reply], bool]) -> Reply:
        """A reply, asked for until it is as awaited; else as it is at last."""
        client = self.client()
        deadline = time.monotonic() + PATIENCE_S
        reply = client.api(request)
        while not holds(reply) and time.monotonic() < deadline:
            reply = client.api(request)
        return reply

    def who_leads(self, stream: str) -> int:
        """The number of the server that leads a stream."""
        return NAMES.index(self.settled(stream)["cluster"]["leader"])

    def who_leads_new(self, stream: str, **config: object) -> int:
        """The number of the server that leads a new stream of three replicas."""
        self.make(stream, **config)
        return self.who_leads(stream)

    def others(self, *numbers: int) -> list[int]:
        """The numbers of the other servers."""
        return [each for each in range(REPLICAS) if each not in numbers]

    def meta_leader(self) -> int:
        """The number of the server that leads the meta group."""
        return NAMES.index(self.trio.leader())


class Ear(Watch):
    """A listener that waits for what it needs, and passes over the rest."""

    def __init__(self, wire: Any, subject: str) -> None:
        super().__init__(wire, subject)
        self.seen: list[Reply] = []

    def has(self, wanted: Callable[[str], bool], silence_s: float) -> bool:
        """Whether a message on a wanted subject comes before a silence."""
        return self._hear(wanted, silence_s) is not None

    def await_subject(self, pattern: str) -> Reply:
        """The first message whose subject matches a regular expression, opened up."""
        matches = re.compile(pattern)
        found = self._hear(lambda subject: matches.search(subject) is not None, PATIENCE_S)
        assert found is not None, f"{pattern} was never heard, but {self.seen}"
        return found

    def _hear(self, wanted: Callable[[str], bool], silence_s: float) -> "Reply | None":
        deadline = time.monotonic() + silence_s
        while (left_s := deadline - time.monotonic()) > 0:
            frame = self.wire.frame_within(left_s)
            if frame is None or frame == CLOSED:
                return None
            if subject := subject_of(frame):
                message = {"subject": subject, "advisory": opened(str(frame))}
                self.seen.append(message)
                if wanted(subject):
                    return message
        return None


def is_settled(reply: Reply, told: dict[str, object]) -> bool:
    """Whether a document tells of a leader whose replicas have all that it has.

    While replicas are added or taken away, `desired` tells how far that is.
    """
    cluster = reply.get("cluster", {})
    replicas = cluster.get("replicas", [])
    return (
        bool(cluster.get("leader"))
        and "desired" not in cluster
        and all(each["current"] and not each.get("lag") for each in replicas)
        and all(cluster.get(key) == value for key, value in told.items())
    )


def is_server(value: Observation) -> bool:
    return value in NAMES


def is_group(value: Observation) -> bool:
    return isinstance(value, str) and _GROUP.fullmatch(value) is not None


def is_peer(value: Observation) -> bool:
    return isinstance(value, str) and _PEER.fullmatch(value) is not None


def is_leader(value: Observation) -> bool:
    return is_server(value) or is_peer(value)


CLUSTER_MASKS: Final = (
    Mask("**.leader", is_leader, "chance elects the leader; the meta group tells of its id"),
    Mask("**.leader_since", is_timestamp, "time"),
    Mask("**.raft_group", is_group, "a group has a name of its own"),
    Mask("**.replicas.*.name", is_server, "chance elects the leader"),
    Mask("**.replicas.*.peer", is_peer, "each server has its own"),
    Mask("**.replicas.*.active", is_count, "time"),
    Mask("**.advisory.server", is_server, "chance elects the leader"),
    Mask("**.advisory.server_id", is_filled_text, "every server draws its own key"),
)
"""Values of a cluster's documents that differ from run to run, and what holds for them."""
