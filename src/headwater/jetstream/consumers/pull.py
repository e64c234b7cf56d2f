"""Pull requests: their parsing, the queue in which they wait, and their refusals.

A request asks for a number of messages, optionally with a limit of bytes and an expiry. Requests
get messages in turn: after each message a request that wants more goes to the end of the queue. A
request that ends in any other way is answered by a status, whose text is nats-server's.

A priority group can decide which client is served at all
(`headwater.jetstream.consumers.priority`).
"""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Annotated, ClassVar, Final, Protocol, final

import msgspec

from headwater.go.durations import format_duration
from headwater.go.json import OMIT_EMPTY, Duration, Int, Int64
from headwater.jetstream.config.consumer_config import ConsumerConfig, PriorityPolicy
from headwater.jetstream.consumers.effects import Status
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.request_bodies import read_single_request
from headwater.wire.headers import status_block

PRIORITY_MAX: Final = 9
# Requests without a priority wait behind those with one.
NO_PRIORITY: Final = PRIORITY_MAX + 1

NO_MESSAGES: Final = b"NATS/1.0 404 No Messages\r\n\r\n"
PUSH_BASED: Final = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
_DELETED: Final = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
_SHUTDOWN: Final = b"409 Server Shutdown"
_LEADER_CHANGED: Final = b"NATS/1.0 409 Leadership Change\r\n\r\n"
_REQUESTS_PENDING: Final = b"NATS/1.0 408 Requests Pending\r\n\r\n"
_MAX_WAITING: Final = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
_TIMEOUT: Final = b"408 Request Timeout"
_TOO_LARGE: Final = b"409 Message Size Exceeds MaxBytes"
_COMPLETED: Final = b"409 Batch Completed"
WRONG_PIN: Final = b"423 Nats-Wrong-Pin-Id"

# Limits of the cache of parsed requests.
KNOWN_MAX: Final = 512
KNOWN_BYTES_MAX: Final = 256
# The number of bodies that a consumer knows to pass its checks.
CHECKED_MAX: Final = 16

# The interval at which a full queue is searched for requests without subscribers.
LOOK_NS: Final = 1_000_000_000
# The number of requests whose connections are checked for backpressure.
LOOKED_AT_MAX: Final = 4


class PullDocument(msgspec.Struct, kw_only=True, frozen=True):
    """The body of a pull request."""

    # nats-server reads into a struct that has no name in its errors.
    go_name: ClassVar[str] = ""

    expires: Annotated[Duration, OMIT_EMPTY] = 0
    batch: Annotated[Int, OMIT_EMPTY] = 0
    max_bytes: Annotated[Int, OMIT_EMPTY] = 0
    no_wait: Annotated[bool, OMIT_EMPTY] = False
    idle_heartbeat: Annotated[Duration, OMIT_EMPTY] = 0
    group: Annotated[str, OMIT_EMPTY] = ""
    min_pending: Annotated[Int64, OMIT_EMPTY] = 0
    min_ack_pending: Annotated[Int64, OMIT_EMPTY] = 0
    id: Annotated[str, OMIT_EMPTY] = ""
    priority: Annotated[Int, OMIT_EMPTY] = 0


@final
class PullRequest:
    """A request that may wait. `left` counts down from its batch, `bytes_left` from max_bytes."""

    __slots__ = (
        "bytes_left",
        "delivered",
        "expires_ns",
        "group",
        "heartbeat_at_ns",
        "heartbeat_ns",
        "left",
        "min_ack_pending",
        "min_pending",
        "no_wait",
        "pin_id",
        "priority",
        "reply",
    )

    def __init__(
        self, reply: bytes, document: PullDocument, now_ns: int, is_prioritized: bool = False
    ) -> None:
        expires_in_ns, heartbeat_ns = document.expires, document.idle_heartbeat
        self.reply = reply
        self.left = document.batch
        self.bytes_left = document.max_bytes
        self.delivered = 0
        # When the request expires; 0 for never. With a negative expiry the request ends at once.
        self.expires_ns = 0
        if expires_in_ns:
            self.expires_ns = now_ns + expires_in_ns if now_ns + expires_in_ns > 1 else 1
        self.no_wait = document.no_wait
        self.heartbeat_ns = heartbeat_ns if heartbeat_ns > 0 else 0
        self.heartbeat_at_ns = now_ns + heartbeat_ns if heartbeat_ns > 0 else 0
        self.group = document.group
        self.min_pending = document.min_pending
        self.min_ack_pending = document.min_ack_pending
        self.pin_id = document.id
        self.priority = document.priority if is_prioritized else NO_PRIORITY

    @property
    def wanted(self) -> int:
        """The number of messages still to be sent: at least one, as in nats-server."""
        return max(self.left, 1)

    def status(self, text: bytes) -> bytes:
        """A status with the number of messages and bytes that were not delivered."""
        return b"NATS/1.0 %b\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n" % (
            text,
            self.left,
            self.bytes_left,
        )


class PullRefusedError(Exception):
    """A request was refused; its client is sent the status `header`."""

    def __init__(self, header: bytes) -> None:
        super().__init__(header)
        self.header = header


def _refused(code: int, text: str) -> PullRefusedError:
    return PullRefusedError(status_block(code, text))


def read_request(body: bytes, config: ConsumerConfig) -> PullDocument:
    """Parse the body of a pull request, and check it. Raises PullRefusedError."""
    text = body.strip()
    if text[:1] != b"{":
        document = PullDocument(batch=_number(text), priority=NO_PRIORITY)
        _check_limits(document, config)
        return document
    try:
        document = _read_known(text) if len(text) <= KNOWN_BYTES_MAX else _read_document(text)
    except ApiError as error:
        reason = error.description.removeprefix("invalid JSON: ")
        raise _refused(400, f"Bad Request - {reason}") from error
    heartbeat_ns = document.idle_heartbeat
    if heartbeat_ns > 0 and heartbeat_ns * 2 > document.expires:
        raise _refused(400, "Bad Request - heartbeat value too large")
    _check_limits(document, config)
    _check_priority(document, config)
    return document


def _read_document(text: bytes) -> PullDocument:
    return read_single_request(text, PullDocument)


# Clients repeat the same bodies.
_read_known: Final = lru_cache(KNOWN_MAX)(_read_document)


def _number(text: bytes) -> int:
    """The batch size in a body that is a plain number; 1 if the body is not a number."""
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    return int(text) if digits.isdigit() and len(digits) < 19 else 1


def _check_limits(document: PullDocument, config: ConsumerConfig) -> None:
    max_bytes = document.max_bytes
    if 0 < config.max_batch < document.batch:
        raise _refused(409, f"Exceeded MaxRequestBatch of {config.max_batch}")
    if 0 < config.max_expires < document.expires:
        limit = format_duration(config.max_expires)
        raise _refused(409, f"Exceeded MaxRequestExpires of {limit}")
    if max_bytes > 0 and 0 < config.max_bytes < max_bytes:
        raise _refused(409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")


def _check_priority(document: PullDocument, config: ConsumerConfig) -> None:
    policy = config.priority_policy
    asks_overflow = document.min_pending != 0 or document.min_ack_pending != 0
    if asks_overflow and policy is not PriorityPolicy.OVERFLOW:
        raise _refused(400, "Bad Request - Not a Overflow Priority consumer")
    if document.id and policy is not PriorityPolicy.PINNED_CLIENT:
        raise _refused(400, "Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= document.priority <= PRIORITY_MAX:
        raise _refused(400, "Bad Request - Priority must be between 0 and 9")
    if policy is PriorityPolicy.NONE:
        return
    if not document.group:
        raise _refused(400, "Bad Request - Priority Group missing")
    if document.group not in config.priority_groups:
        raise _refused(400, "Bad Request - Invalid Priority Group")


class Gate(Protocol):
    """The rule of a priority group that decides which waiting request is served."""

    def check(self, request: PullRequest, now_ns: int) -> None:
        """Check a request before it waits. Raises PullRefusedError."""
        ...

    def judge(self, request: PullRequest, now_ns: int, out: Proposal[Record]) -> "Verdict":
        """Decide about the first request in the queue."""
        ...

    def unserved(self, request: PullRequest, out: Proposal[Record]) -> None:
        """Take back what `judge` did for a request that was dropped without a message."""
        ...


Verdict = int
SERVE: Final[Verdict] = 0
LATER: Final[Verdict] = 1
WRONG: Final[Verdict] = 2


@final
class PullBodies:
    """The bodies of requests to one consumer: each that is usual is parsed and checked once."""

    __slots__ = ("_config", "_is_prioritized", "_known")

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._is_prioritized = config.priority_policy is PriorityPolicy.PRIORITIZED
        self._known: dict[bytes, PullDocument] = {}

    def request(self, reply: bytes, body: bytes, now_ns: int) -> PullRequest:
        """The request with this body. Raises PullRefusedError."""
        document = self._known.get(body)
        if document is None:
            document = read_request(body, self._config)
            if len(body) <= KNOWN_BYTES_MAX and len(self._known) < CHECKED_MAX:
                self._known[body] = document
        return PullRequest(reply, document, now_ns, self._is_prioritized)


@final
class PullQueue:
    """The waiting requests of one consumer."""

    __slots__ = (
        "_has_interest",
        "_looked_ns",
        "active_ns",
        "due_ns",
        "gate",
        "hurried",
        "max_waiting",
        "waiting",
        "wanted",
    )

    def __init__(
        self, max_waiting: int, has_interest: Callable[[bytes], bool], gate: Gate | None
    ) -> None:
        self.max_waiting = max_waiting
        self._has_interest = has_interest
        # The rule of the priority group; None if all requests are served alike.
        self.gate = gate
        self.waiting: deque[PullRequest] = deque()
        # The number of messages that all requests together ask for.
        self.wanted = 0
        # The number of requests with no_wait.
        self.hurried = 0
        # When a request last arrived or got a message.
        self.active_ns = 0
        # The earliest expiry or heartbeat of a waiting request; 0 for never.
        self.due_ns = 0
        self._looked_ns = 0

    def add(self, request: PullRequest, available: int, now_ns: int, out: Proposal[Record]) -> None:
        """Add a request, while `available` messages could be delivered. Raises PullRefusedError."""
        if self.gate is not None:
            self.gate.check(request, now_ns)
        if len(self.waiting) >= self.max_waiting and now_ns - self._looked_ns > LOOK_NS:
            self.look_through(now_ns, False, out)
        if request.no_wait:
            if not available and not request.expires_ns:
                self.active_ns = now_ns
                raise PullRefusedError(NO_MESSAGES)
            if available:
                self.look_through(now_ns, False, out)
                if available < self.wanted:
                    self.active_ns = now_ns
                    raise PullRefusedError(_REQUESTS_PENDING)
        if len(self.waiting) >= self.max_waiting:
            # A client with heartbeats notices their absence, and so does not ask again at once.
            raise PullRefusedError(b"" if request.heartbeat_ns else _MAX_WAITING)
        if request.priority == NO_PRIORITY:
            self.waiting.append(request)
        else:
            self._insert(request)
        self.wanted += request.left if request.left > 1 else 1
        self.active_ns = now_ns
        if request.no_wait:
            self.hurried += 1
        time_ns = request.expires_ns
        if time_ns and (not self.due_ns or time_ns < self.due_ns):
            self.due_ns = time_ns
        time_ns = request.heartbeat_at_ns
        if time_ns and (not self.due_ns or time_ns < self.due_ns):
            self.due_ns = time_ns

    def _insert(self, request: PullRequest) -> None:
        waiting = self.waiting
        place = len(waiting)
        while place and waiting[place - 1].priority > request.priority:
            place -= 1
        waiting.insert(place, request)

    def next(self, size: int, now_ns: int, out: Proposal[Record]) -> PullRequest | None:
        """The request that a message of this size goes to; None if there is no such request."""
        cycled = 0
        while self.waiting and cycled < len(self.waiting):
            request = self.waiting[0]
            if request.expires_ns and now_ns >= request.expires_ns:
                self._end(request, _TIMEOUT, out)
                continue
            if self.gate is not None:
                verdict = self.gate.judge(request, now_ns, out)
                if verdict == WRONG:
                    self._end(request, WRONG_PIN, out)
                    continue
                if verdict == LATER:
                    self.waiting.rotate(-1)
                    cycled += 1
                    continue
            if 0 < request.bytes_left < size:
                if self.gate is not None:
                    self.gate.unserved(request, out)
                self._end(request, _TOO_LARGE, out)
                continue
            if not self._has_interest(request.reply):
                if self.gate is not None:
                    self.gate.unserved(request, out)
                self._drop_first()
                continue
            if request.bytes_left > 0:
                request.bytes_left -= size
                if not request.bytes_left:
                    # The request's bytes are used up: this message is its last.
                    self.wanted -= request.wanted - 1
                    request.left = 1
            return request
        return None

    def share(self, count: int, now_ns: int, out: Proposal[Record]) -> list[bytes]:
        """Serve the first requests with at most `count` messages. Returns their receivers.

        Returns an empty list, and serves none, if one of the requests needs a check of its own: it
        has a limit of bytes or a priority group, it has expired, or it has no subscriber.
        """
        waiting = self.waiting
        if self.gate is not None:
            return []
        for request in islice(waiting, count):
            if (
                request.bytes_left > 0
                or (request.expires_ns and now_ns >= request.expires_ns)
                or not self._has_interest(request.reply)
            ):
                return []
        replies: list[bytes] = []
        while waiting and len(replies) < count:
            request = waiting[0]
            taken = 1
            if count > 1 and len(waiting) == 1:
                taken = min(request.wanted, count - len(replies))
            replies += [request.reply] * taken
            self.served(request, taken, now_ns, out)
        return replies

    def served(self, request: PullRequest, count: int, now_ns: int, out: Proposal[Record]) -> None:
        """Count messages for the first request; the request ends or goes behind the others."""
        request.delivered += count
        self.active_ns = now_ns
        if request.left > count:
            request.left -= count
            self.wanted -= count
            if request.heartbeat_ns:
                request.heartbeat_at_ns = now_ns + request.heartbeat_ns
            if len(self.waiting) > 1:
                self.waiting.popleft()
                if request.priority == NO_PRIORITY:
                    self.waiting.append(request)
                else:
                    self._insert(request)
            return
        self._forget(self.waiting.popleft())
        request.left -= count
        if request.bytes_left > 0:
            out.at_once.append(Status(request.reply, request.status(_COMPLETED)))

    def look_through(
        self, now_ns: int, is_at_end: bool, out: Proposal[Record], heartbeat: bytes = b""
    ) -> None:
        """End requests that expired or have no subscriber, and send due heartbeats.

        `is_at_end` says that all existing messages were delivered, which ends requests with
        no_wait.
        """
        self._looked_ns = now_ns
        kept: deque[PullRequest] = deque()
        due_ns = 0
        for request in self.waiting:
            if request.expires_ns and now_ns >= request.expires_ns:
                out.at_once.append(Status(request.reply, request.status(_TIMEOUT)))
            elif is_at_end and request.no_wait and (not request.expires_ns or request.delivered):
                out.at_once.append(Status(request.reply, NO_MESSAGES))
            elif self._has_interest(request.reply):
                kept.append(request)
                if heartbeat and 0 < request.heartbeat_at_ns <= now_ns:
                    out.at_once.append(Status(request.reply, heartbeat))
                    request.heartbeat_at_ns = now_ns + request.heartbeat_ns
                for time_ns in (request.expires_ns, request.heartbeat_at_ns):
                    if time_ns and (not due_ns or time_ns < due_ns):
                        due_ns = time_ns
                continue
            self._forget(request)
        self.waiting = kept
        self.due_ns = due_ns

    def count_heard(self) -> int:
        """Drop the requests without subscribers. Returns the number of the others."""
        unheard = [each for each in self.waiting if not self._has_interest(each.reply)]
        for request in unheard:
            self._forget(request)
            self.waiting.remove(request)
        return len(self.waiting)

    def replies(self) -> list[bytes]:
        """The reply subjects of the requests that are served next."""
        return [request.reply for request in islice(self.waiting, LOOKED_AT_MAX)]

    def end_all(self, is_deleted: bool, out: Proposal[Record]) -> None:
        """Answer and drop all requests: the consumer was deleted, or the server stops."""
        for request in self.waiting:
            header = _DELETED if is_deleted else request.status(_SHUTDOWN)
            out.at_once.append(Status(request.reply, header))
        self.waiting.clear()
        self.wanted = self.hurried = 0

    def leader_changed(self, out: Proposal[Record]) -> None:
        """Answer and drop all requests, because another server serves them from now on."""
        for request in self.waiting:
            out.at_once.append(Status(request.reply, _LEADER_CHANGED))
        self.waiting.clear()
        self.wanted = self.hurried = 0

    def _end(self, request: PullRequest, text: bytes, out: Proposal[Record]) -> None:
        out.at_once.append(Status(request.reply, request.status(text)))
        self._drop_first()

    def _drop_first(self) -> None:
        self._forget(self.waiting.popleft())

    def _forget(self, request: PullRequest) -> None:
        self.wanted -= request.left if request.left > 1 else 1
        if request.no_wait:
            self.hurried -= 1
