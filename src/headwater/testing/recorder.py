"""A nats-py client whose operations on a stream are recorded for the checker.

    recorder = Recorder(client, "p1", History(StreamRules("ORDERS")), world.now_s)
    await recorder.publish("orders", "1", message_id="1")
    ...
    recorder.history.replicas = cluster.replicas("ORDERS")
    insist(recorder.history)

Requests go out as plain messages, so that a test decides about every header. A request without an
answer leaves its operation open; so does an answer that a server gives when it does not know the
outcome. Several recorders may share a history. Times are those of `now_s`, which must be one clock
for all clients of a history.
"""

import base64
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.clock import NS_PER_S
from headwater.checker.history import (
    Ack,
    Batch,
    Delete,
    Delivery,
    History,
    LastRead,
    Operation,
    Publish,
    Purge,
    Read,
    ReadLevel,
    Scan,
)

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg

Document = dict[str, Any]

ANSWER_S: Final = 2.0
SCAN_BATCH: Final = 100

# An error from this code on does not say that nothing has happened.
_SERVER_ERROR: Final = 500
_NO_MESSAGE: Final = 10037
# The subject of an acknowledgement with a domain and an account.
_WORDS_WITH_DOMAIN: Final = 11
_NOT_FOUND: Final = "404"


class Recorder:
    """Requests of one client about one stream. A failed request is recorded, and not raised."""

    def __init__(
        self,
        client: "NatsClient",
        name: str,
        history: History,
        now_s: Callable[[], float],
        answer_s: float = ANSWER_S,
    ) -> None:
        self.client = client
        self.name = name
        self.history = history
        self._now_s = now_s
        self._answer_s = answer_s

    @property
    def stream(self) -> str:
        return self.history.rules.name

    # --- requests ------------------------------------------------------------------------------

    async def ask(self, subject: str, body: bytes = b"", **headers: str) -> Document | None:
        """The answer to a request; None if there was none. A header is named with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.suppress(*_failures()):
            reply = await self.client.request(
                subject, body, timeout=self._answer_s, headers=named or None
            )
            answer: Document = json.loads(reply.data) if reply.data else {}
            return answer
        return None

    async def call(self, name: str, body: Document | None = None) -> Document | None:
        """The answer to a request of the JetStream API; None if there was none."""
        data = b"" if body is None else json.dumps(body).encode()
        return await self.ask(f"$JS.API.{name}", data)

    def _conclude(self, operation: Operation, answer: Document | None) -> bool:
        """Complete an operation by its answer. Returns whether it was confirmed."""
        if answer is None:
            return False
        error = answer.get("error")
        if error is None:
            operation.complete(self._now_s())
            return True
        reason = str(error.get("err_code", error))
        if error.get("code", 0) < _SERVER_ERROR:
            operation.refuse(self._now_s(), reason)
        else:
            operation.leave_open(reason)
        return False

    # --- writes --------------------------------------------------------------------------------

    async def publish(
        self, subject: str, body: str, *, message_id: str = "", expected: int | None = None
    ) -> Publish:
        """Publish a message once."""
        headers = {"Nats_Msg_Id": message_id} if message_id else {}
        if expected is not None:
            headers["Nats_Expected_Last_Sequence"] = str(expected)
        operation = self.history.begin(
            Publish(
                client=self.name,
                begin_s=self._now_s(),
                subject=subject,
                body=body,
                message_id=message_id,
                expected=expected,
            )
        )
        answer = await self.ask(subject, body.encode(), **headers)
        if self._conclude(operation, answer) and answer is not None:
            operation.sequence = answer["seq"]
            operation.is_duplicate = answer.get("duplicate", False)
        return operation

    async def send(
        self, operation: Operation, subject: str, body: str, **headers: str
    ) -> Document | None:
        """Publish a message once, for an operation of another kind. Returns the ack if there is
        one."""
        self.history.begin(operation)
        answer = await self.ask(subject, body.encode(), **headers)
        return answer if self._conclude(operation, answer) else None

    async def publish_batch(self, subject: str, batch_id: str, bodies: Sequence[str]) -> Batch:
        """Publish an atomic batch once."""
        operation = self.history.begin(
            Batch(client=self.name, begin_s=self._now_s(), subject=subject, bodies=tuple(bodies))
        )
        for number, body in enumerate(bodies, 1):
            headers = {"Nats_Batch_Id": batch_id, "Nats_Batch_Sequence": str(number)}
            if number == len(bodies):
                headers["Nats_Batch_Commit"] = "1"
            answer = await self.ask(subject, body.encode(), **headers)
            if answer is None or "error" in answer:
                # Without its last message a batch is not carried out.
                if number < len(bodies):
                    operation.refuse(self._now_s(), "not committed")
                    return operation
                break
        if self._conclude(operation, answer) and answer is not None:
            operation.sequence = answer["seq"]
        return operation

    async def purge(self, *, subject: str = "", below: int = 0, keep: int = 0) -> Purge:
        """Purge the stream."""
        operation = self.history.begin(
            Purge(client=self.name, begin_s=self._now_s(), subject=subject, below=below, keep=keep)
        )
        body = {"filter": subject, "seq": below, "keep": keep}
        wanted = {name: value for name, value in body.items() if value}
        self._conclude(operation, await self.call(f"STREAM.PURGE.{self.stream}", wanted))
        return operation

    async def delete(self, sequence: int) -> Delete:
        """Delete a message."""
        operation = self.history.begin(
            Delete(client=self.name, begin_s=self._now_s(), sequence=sequence)
        )
        body = {"seq": sequence}
        self._conclude(operation, await self.call(f"STREAM.MSG.DELETE.{self.stream}", body))
        return operation

    # --- reads ---------------------------------------------------------------------------------

    async def read(self, sequence: int) -> Read:
        """Get a message from the stream's leader."""
        operation = self.history.begin(
            Read(client=self.name, begin_s=self._now_s(), sequence=sequence)
        )
        answer = await self.call(f"STREAM.MSG.GET.{self.stream}", {"seq": sequence})
        if answer is not None and answer.get("error", {}).get("err_code") == _NO_MESSAGE:
            operation.complete(self._now_s())
        elif self._conclude(operation, answer) and answer is not None:
            operation.body = base64.b64decode(answer["message"].get("data", "")).decode()
        return operation

    async def read_last(
        self,
        subject: str,
        level: ReadLevel,
        *,
        min_sequence: int = 0,
        is_message_get: bool = False,
        mirror: str = "",
    ) -> LastRead:
        """Get the last message of a subject, as the level asks for it: from the leader if it is
        linearizable, and else from any server that answers, for the stream or for a mirror."""
        operation = self.history.begin(
            LastRead(
                client=self.name,
                begin_s=self._now_s(),
                subject=subject,
                level=level,
                min_sequence=min_sequence,
                mirror=mirror,
            )
        )
        if is_message_get:
            await self._get_last(operation)
        else:
            await self._get_last_directly(operation)
        return operation

    async def _get_last(self, operation: LastRead) -> None:
        body = {"last_by_subj": operation.subject}
        answer = await self.call(f"STREAM.MSG.GET.{self.stream}", body)
        error = {} if answer is None else answer.get("error", {})
        if error.get("err_code") == _NO_MESSAGE:
            operation.complete(self._now_s())
        elif error:
            operation.refuse(self._now_s(), str(error["err_code"]))
        elif answer is not None:
            message = answer["message"]
            operation.sequence = message["seq"]
            operation.body = base64.b64decode(message.get("data", "")).decode()
            operation.complete(self._now_s())

    async def _get_last_directly(self, operation: LastRead) -> None:
        from nats.errors import NoRespondersError

        call = "DIRECT_LEADER" if operation.level is ReadLevel.LINEARIZABLE else "DIRECT"
        body: Document = {"last_by_subj": operation.subject}
        if operation.level is ReadLevel.SESSION:
            # A request with a mark has it in the answer.
            body["min_last_seq"] = max(operation.min_sequence, 1)
        subject = f"$JS.API.{call}.GET.{operation.mirror or self.stream}"
        try:
            reply = await self.client.request(
                subject, json.dumps(body).encode(), timeout=self._answer_s
            )
        except NoRespondersError:
            operation.refuse(self._now_s(), "no responders")
            return
        except _failures():
            return
        headers = reply.headers or {}
        status = headers.get("Status", "")
        if status not in ("", _NOT_FOUND):
            operation.refuse(self._now_s(), status)
            return
        operation.complete_to = int(headers.get("Nats-Session-Sequence", "0"))
        if not status:
            operation.sequence = int(headers["Nats-Sequence"])
            operation.body = reply.data.decode()
        operation.complete(self._now_s())

    async def create_consumer(self, name: str, **config: Any) -> bool:
        """Create a durable consumer, or see that it is there. Returns whether it was confirmed."""
        body = {
            "stream_name": self.stream,
            "config": {"durable_name": name, "name": name, "ack_policy": "explicit", **config},
        }
        answer = await self.call(f"CONSUMER.CREATE.{self.stream}.{name}", body)
        return answer is not None and "error" not in answer

    async def fetch(
        self, consumer: str, batch: int, expires_s: float
    ) -> "list[tuple[Delivery, Msg]]":
        """Pull messages until the batch is full or the request has ended."""
        found: list[tuple[Delivery, Msg]] = []
        with contextlib.suppress(*_failures()):
            inbox = self.client.new_inbox()
            arrived = await self.client.subscribe(inbox)
            begin_s = self._now_s()
            body = {"batch": batch, "expires": round(expires_s * NS_PER_S)}
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{consumer}"
            await self.client.publish(subject, json.dumps(body).encode(), reply=inbox)
            while len(found) < batch:
                message = await arrived.next_msg(timeout=expires_s + self._answer_s)
                if not message.reply:
                    # A status: the request has ended, or nobody answers it.
                    break
                found.append((self._delivered(consumer, begin_s, message), message))
            await arrived.unsubscribe()
        return found

    def _delivered(self, consumer: str, begin_s: float, message: "Msg") -> Delivery:
        known = message.metadata.sequence
        delivery = self.history.begin(
            Delivery(
                client=self.name,
                begin_s=begin_s,
                consumer=consumer,
                sequence=known.stream,
                consumer_sequence=known.consumer,
                body=message.data.decode(),
                time_ns=_time_of(message.reply),
            )
        )
        delivery.complete(self._now_s())
        return delivery

    async def ack(self, delivery: Delivery, message: "Msg", *, is_double: bool = True) -> Ack:
        """Acknowledge a message, and wait for the confirmation of a double ack."""
        operation = self.history.begin(
            Ack(
                client=self.name,
                begin_s=self._now_s(),
                consumer=delivery.consumer,
                sequence=delivery.sequence,
                is_double=is_double,
            )
        )
        with contextlib.suppress(*_failures()):
            if is_double:
                await self.client.request(message.reply, b"+ACK", timeout=self._answer_s)
                operation.complete(self._now_s())
            else:
                await self.client.publish(message.reply, b"+ACK")
        return operation

    async def scan(self, consumer: str) -> Scan:
        """Read the whole stream by a new consumer of that name, which must not exist."""
        operation = self.history.begin(
            Scan(client=self.name, begin_s=self._now_s(), consumer=consumer)
        )
        body = {
            "stream_name": self.stream,
            "config": {"name": consumer, "ack_policy": "none", "inactive_threshold": 60 * NS_PER_S},
        }
        answer = await self.call(f"CONSUMER.CREATE.{self.stream}.{consumer}", body)
        if answer is None or "error" in answer:
            return operation
        pending = answer["num_pending"]
        while pending > 0:
            found = await self.fetch(consumer, min(pending, SCAN_BATCH), self._answer_s)
            if not found:
                return operation
            for delivery, message in found:
                operation.messages[delivery.sequence] = delivery.body
                pending = message.metadata.num_pending
        operation.complete(self._now_s())
        return operation


def _time_of(reply: str) -> int:
    """The time of a message in nanoseconds, by the subject of its acknowledgement.

    The metadata of nats-py have it in microseconds.
    """
    words = reply.split(".")
    return int(words[7] if len(words) < _WORDS_WITH_DOMAIN else words[9])


def _failures() -> tuple[type[Exception], ...]:
    """The errors by which nats-py tells that a request had no answer."""
    import nats.errors

    return nats.errors.Error, OSError, TimeoutError
