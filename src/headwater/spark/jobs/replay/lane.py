"""The task of a replay: reads messages in order, waits until each is due, and publishes it.

There is one lane, and one connection in it: the target gets the messages in the order of their
original sequences, whatever their subjects. Messages that may be lost (with a connection, or an
answer) are searched in the target before they are sent again, and sent again before all later ones.

Each message carries the id `<name>:<sequence>` and its original headers, except those that would
make the target repeat decisions of the source: ids, expectations, batches. Headers that only some
streams allow are removed if the target does not allow them.

Runs in Spark's Python workers; does not know how messages were selected.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.base.clock import NS_PER_S
from headwater.base.errors import OperatingError
from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import (
    ConnectionLostError,
    NoRespondersError,
    TimedOutError,
    UnreachableError,
)
from headwater.client.link.login import Login
from headwater.client.link.outage import Outage
from headwater.client.link.publisher import Messages, NotServedError, Publisher, SendApartError
from headwater.spark.jobs.replay.marker import Claim, Fence
from headwater.spark.jobs.replay.pacing import Anchor, Pace
from headwater.spark.write.tail import Tail
from headwater.subjects.transform import SubjectTransform
from headwater.wire.headers import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA: Final = "published bigint, present bigint, last_sequence bigint, problem string"

MESSAGE_ID: Final = b"Nats-Msg-Id"
_DROPPED: Final = frozenset({"nats-msg-id"})
_DROPPED_PREFIXES: Final = ("nats-expected-", "nats-batch-")
# Headers that only some streams allow, and the setting that allows them.
_ALLOWED_BY: Final = (
    ("nats-ttl", "allow_msg_ttl"),
    ("nats-rollup", "allow_rollup_hdrs"),
    ("nats-schedule", "allow_msg_schedules"),
    ("nats-incr", "allow_msg_counter"),
)
# Errors that another connection or a later attempt may resolve, or that need single acks.
_PASSING: Final = (
    ConnectionLostError,
    NoRespondersError,
    NotServedError,
    SendApartError,
    TimedOutError,
    UnreachableError,
)

Headers = Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class LanePlan:
    """The plan of a task.

    Messages that the target has already are beyond `floor`; `target_keeps` whether the target keeps
    messages until a limit removes them.
    """

    login: Login
    to_stream: str
    name: str
    claim: Claim
    floor: int
    target_keeps: bool
    speed: float
    anchor: Anchor
    rule: tuple[str, str] | None
    refused_headers: tuple[str, ...] = field(default=())


def refused_headers(target: StreamInfo) -> tuple[str, ...]:
    """The prefixes of headers that the target would refuse."""
    return tuple(name for name, setting in _ALLOWED_BY if not target.config.get(setting))


def header_block(headers: Headers, message_id: bytes, refused: Sequence[str]) -> bytes:
    """The headers of a message as they are published again."""
    lines = [b"%b\r\n%b: %b\r\n" % (VERSION, MESSAGE_ID, message_id)]
    for name, values in headers:
        lowered = name.lower()
        if lowered in _DROPPED or lowered.startswith((*_DROPPED_PREFIXES, *refused)):
            continue
        lines += [b"%b: %b\r\n" % (name.encode(), value.encode()) for value in values]
    lines.append(b"\r\n")
    return b"".join(lines)


def publish_lane(batches: "Iterable[pa.RecordBatch]", plan: LanePlan) -> "Iterator[pa.RecordBatch]":
    """Publish the rows of a partition, which are in order. Yields one row of figures.

    An error is part of that row: an exception would reach the driver as a page of traces, after
    Spark has repeated the retries of this task.
    """
    import pyarrow as pa

    published, present, last_sequence, problem = 0, 0, plan.floor, None
    try:
        # Requests have a connection of their own, which reconnects silently when it is lost: that
        # must not happen under messages that wait for acks.
        with Connection(plan.login) as connection, Connection(plan.login) as for_requests:
            lane = _Lane(plan, connection, ApiClient(for_requests))
            for batch in batches:
                lane.publish(batch)
            lane.finish()
        published, present, last_sequence = lane.published, lane.present, lane.last_sequence
    except OperatingError as error:
        problem = str(error)
    yield pa.RecordBatch.from_pydict(
        {
            "published": pa.array([published], pa.int64()),
            "present": pa.array([present], pa.int64()),
            "last_sequence": pa.array([last_sequence], pa.int64()),
            "problem": pa.array([problem], pa.string()),
        }
    )


class _Lane:
    """One connection to the target, which reconnects when it is lost."""

    def __init__(self, plan: LanePlan, connection: Connection, server: ApiClient) -> None:
        self._plan = plan
        self._prefix = plan.name.encode() + b":"
        self._connection = connection
        self._server = server
        self._fence = Fence(plan.claim)
        self._publisher = Publisher(connection, plan.to_stream)
        self._pace = Pace(plan.speed, plan.anchor)
        self._rule = None
        if plan.rule is not None:
            self._rule = SubjectTransform.parse(*(text.encode() for text in plan.rule))
        self._targets: dict[str, bytes] = {}
        # An earlier attempt or run may have published messages without an ack.
        self._tail = Tail(self._server, plan.to_stream, plan.floor + 1, self._prefix)
        self._tail.read_new()
        self.published = 0
        self.present = 0

    @property
    def last_sequence(self) -> int:
        """The highest sequence of the target that an ack has named."""
        return max(self._publisher.last_sequence, self._plan.floor)

    def publish(self, batch: "pa.RecordBatch") -> None:
        """Publish the rows of a batch, each when it is due."""
        messages, stored_ns = self._messages(batch)
        begin = 0
        while begin < len(messages):
            now_ns = time.time_ns()
            end = begin + self._pace.ready(stored_ns, begin, now_ns)
            if end > begin:
                self._send(messages.part(begin, end))
                begin = end
            else:
                self._wait(self._pace.due_ns(stored_ns[begin]) - now_ns)

    def _messages(self, batch: "pa.RecordBatch") -> tuple[Messages, list[int]]:
        sequences: list[int] = batch.column("sequence").to_pylist()
        subjects: list[str] = batch.column("subject").to_pylist()
        headers: list[Headers | None] = batch.column("headers").to_pylist()
        payloads: list[bytes | None] = batch.column("data").to_pylist()
        times_us: list[int] = batch.column("stored_us").to_pylist()
        refused = self._plan.refused_headers
        ids = [b"%b%d" % (self._prefix, sequence) for sequence in sequences]
        messages = Messages(
            [self._target(subject) for subject in subjects],
            [
                header_block(pairs or (), message_id, refused)
                for pairs, message_id in zip(headers, ids, strict=True)
            ],
            [payload or b"" for payload in payloads],
            ids,
            sequences,
        )
        stored_ns = [each * 1_000 for each in times_us]
        places = self._missing(sequences)
        if len(places) == len(sequences):
            return messages, stored_ns
        self.present += len(sequences) - len(places)
        return messages.picked(places), [stored_ns[at] for at in places]

    def _missing(self, sequences: Sequence[int]) -> list[int]:
        """The places of the sequences that the target does not have."""
        found = self._tail.ids
        if not found:
            return list(range(len(sequences)))
        numbers = {int(each[len(self._prefix) :]) for each in found}
        if self._plan.target_keeps:
            return [at for at, each in enumerate(sequences) if each not in numbers]
        # If the target removes messages for others, one that is found proves all before it, because
        # they were published in this order.
        highest = max(numbers)
        return [at for at, each in enumerate(sequences) if each > highest]

    def _target(self, subject: str) -> bytes:
        """The subject by the rule; one that does not match stays as it is."""
        found = self._targets.get(subject)
        if found is None:
            encoded = subject.encode()
            found = encoded
            if self._rule is not None:
                found = self._rule.apply(encoded) or encoded
            self._targets[subject] = found
        return found

    def _wait(self, left_ns: int) -> None:
        """Let time pass, answering the server's pings meanwhile."""
        self.finish()
        try:
            self._connection.receive(max(left_ns, 0) / NS_PER_S)
        except ConnectionLostError:
            self._connection.reconnect()

    # --- sending and recovery -------------------------------------------------------------------

    def _send(self, messages: Messages) -> None:
        self._fence.check(self._server)
        self.published += len(messages)
        self._until_taken(messages)

    def finish(self) -> None:
        """Wait until the target has all sent messages."""
        self._until_taken(Messages.none(), to_the_last=True)

    def _until_taken(self, messages: Messages, to_the_last: bool = False) -> None:
        """Send the messages, and with `to_the_last` wait for all acks; repeat if the link fails.

        Messages under way are in doubt then. They are searched in the target, beyond a sequence
        that is lower than that of any of them, and the missing ones are sent first.
        """
        publisher = self._publisher
        floor = max(publisher.floor, self._plan.floor)
        is_doubtful = False
        outage = Outage(self._plan.login)
        while True:
            try:
                if is_doubtful:
                    messages = self._lacking(messages, floor)
                for part in publisher.cut(messages):
                    publisher.make_room(part)
                    publisher.send(part)
                if to_the_last:
                    publisher.finish()
                outage.end()
                return
            except _PASSING as error:
                messages = _joined(publisher.take_unacknowledged(), messages)
                is_doubtful = True
                outage.pause(error)

    def _lacking(self, messages: Messages, floor: int) -> Messages:
        """The messages in doubt that have not arrived."""
        self._connection.reconnect()
        self._fence.check(self._server)
        tail = Tail(self._server, self._plan.to_stream, floor + 1, self._prefix)
        tail.read_new()
        return tail.without_found(messages)


def _joined(under_way: Messages, next_ones: Messages) -> Messages:
    """Both in their order; some of the next ones may have been under way already."""
    known = set(under_way.rows)
    under_way.extend(
        next_ones.picked([at for at, row in enumerate(next_ones.rows) if row not in known])
    )
    return under_way
