"""Consumers over the wire: asking a pull consumer, listening to a push consumer, acknowledging.

A message is shown first and acknowledged when its reader has taken it. When the work ends, also
by Ctrl-C or because the reader has left, everything that was delivered and not taken is given back:
the subscription ends, the server says that it has sent its last message, and a NAK goes to each of
the rest. Every acknowledgement asks the server to confirm it. The confirmations are waited for at
the end, not one by one: when `receive` returns, the server has all acknowledgements.

A consumer that is followed gives signs of life, which a request asks for and a push consumer has
by its configuration. When they fail to come, the consumer is looked for: one that is gone ends the
work, and one that is there is asked again.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headwater.base.quantities import duration_text
from headwater.cli.api.client import AsyncApiClient, CommandRefused
from headwater.cli.connection.session import STATUS_NO_RESPONDERS, Session
from headwater.cli.consumers.settings import UNACKNOWLEDGED
from headwater.cli.messaging.messages import Message, Tally
from headwater.cli.shell.exits import CommandFailed
from headwater.cli.shell.render import count_text
from headwater.cli.shell.units import NANOSECONDS_PER_SECOND
from headwater.client.api.requests import Document, message_next

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
TERM: Final = b"+TERM"

ACK_PREFIX: Final = "$JS.ACK."
# $JS.ACK, then stream, consumer, deliveries, stream sequence, consumer sequence, time, pending.
ACK_WORDS_V1: Final = 9
# At least as many tokens with a domain and an account before the stream; another may follow.
ACK_WORDS_V2_MIN: Final = 11

REQUEST_BATCH_MAX: Final = 500
# The first request is small, until the speed of the reader is known: messages that wait here are
# kept from other workers, and their ack wait runs.
REQUEST_BATCH_FIRST: Final = 16
# A request asks for about as much as its reader takes in this time.
BATCH_SHOWN_WITHIN_S: Final = 1.0
# Between two looks at a reader that has not taken a message yet.
READER_PAUSE_MIN_S: Final = 0.0001
READER_PAUSE_MAX_S: Final = 0.05
# Looks without a pause before that: most readers take a message at once.
READER_LOOKS_AT_ONCE: Final = 20
REQUEST_EXPIRES_MAX_S: Final = 30.0
HEARTBEAT_S: Final = 5.0
# Two of them may be late or lost.
HEARTBEATS_MISSED_MAX: Final = 2
# The pause before the next request after a failure that may pass.
RETRY_PAUSE_S: Final = 0.5
# The messages that wait to be shown; the limits of nats-py hold back, or count, the rest.
QUEUE_MESSAGES_MAX: Final = 1024

STATUS_SIGN_OF_LIFE: Final = "100"
STATUS_NO_MESSAGES: Final = "404"
STATUS_EXPIRED: Final = "408"
STATUS_CONFLICT: Final = "409"
STATUS_UNPINNED: Final = "423"
STALLED_HEADER: Final = "Nats-Consumer-Stalled"
PIN_HEADER: Final = "Nats-Pin-Id"
# Conflicts that a server which is still there, or another one, gets over.
PASSING_CONFLICTS: Final = ("leadership change", "server shutdown")


@dataclass(frozen=True)
class Delivery:
    """A message as a consumer delivered it."""

    message: Message
    stream: str
    consumer: str
    deliveries: int
    stream_sequence: int
    consumer_sequence: int
    stored_at_ns: int
    pending: int


def delivery_of(msg: Msg) -> Delivery:
    """A delivered message with the numbers in its reply subject. Raises CommandFailed."""
    words = msg.reply.split(".")
    fields = words[4:] if len(words) >= ACK_WORDS_V2_MIN else words[2:]
    if not msg.reply.startswith(ACK_PREFIX) or len(words) < ACK_WORDS_V1:
        raise CommandFailed(
            f"A message on {msg.subject} did not come from a consumer: its reply is {msg.reply!r}",
            "Does somebody else publish to the consumer's deliver subject?",
        )
    message = Message(msg.subject, msg.data, msg.reply, msg.headers or {})
    return Delivery(message, fields[0], fields[1], *(int(word) for word in fields[2:7]))


class ForgottenError(Exception):
    """The connection was lost and is back: requests that waited at the server are gone."""


class Incoming:
    """The messages of one subscription, in order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # None where the connection was lost.
        self._waiting: deque[Msg | None] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._is_ending = False
        self._subscription: Subscription | None = None
        session.on_reconnected = self._mark

    async def listen(self, subject: str, queue_group: str = "") -> None:
        """Subscribe to a subject, in place of the one before."""
        if self._subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        self._subscription = await self._session.client.subscribe(
            subject, queue_group, cb=self._enqueue
        )

    async def next(self, timeout_s: float | None) -> Msg:
        """The next message. Raises TimeoutError, ForgottenError, and the end of the session."""
        # Ctrl-C has to be heard in a long run of messages that are here already.
        await asyncio.sleep(0)
        while not self._waiting:
            self._arrived.clear()
            coming = asyncio.ensure_future(self._arrived.wait())
            try:
                await self._session.until(coming, timeout_s)
            finally:
                coming.cancel()
        msg = self._waiting.popleft()
        self._room.set()
        if msg is None:
            raise ForgottenError
        return msg

    async def end(self) -> list[Msg]:
        """End the subscription; the messages that were sent until then and not taken."""
        self._is_ending = True
        self._room.set()
        if self._subscription is not None and self._session.client.is_connected:
            # Unlike unsubscribing, draining waits for messages that the server has sent.
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.drain()  # type: ignore[no-untyped-call]
        rest = [msg for msg in self._waiting if msg is not None]
        self._waiting.clear()
        return rest

    async def _enqueue(self, msg: Msg) -> None:
        while len(self._waiting) >= QUEUE_MESSAGES_MAX and not self._is_ending:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(msg)
        self._arrived.set()

    def _mark(self) -> None:
        self._waiting.append(None)
        self._arrived.set()


class Acknowledger:
    """Sends acknowledgements, and knows which of them the server has confirmed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inbox = session.client.new_inbox()
        self._sent = 0
        self._open: set[str] = set()
        self._refused = 0
        self._all_answered = asyncio.Event()

    async def start(self) -> None:
        """Listen for confirmations."""
        await self._session.client.subscribe(f"{self._inbox}.*", cb=self._count_confirmation)

    async def send(self, msg: Msg, body: bytes) -> None:
        """Acknowledge a message."""
        self._sent += 1
        subject = f"{self._inbox}.{self._sent}"
        self._open.add(subject)
        self._all_answered.clear()
        await self._session.client.publish(msg.reply, body, reply=subject)

    async def finish(self, patience_s: float) -> None:
        """Return once all are confirmed. Raises CommandFailed."""
        if self._open:
            waiting = asyncio.ensure_future(self._all_answered.wait())
            try:
                await self._session.until(waiting, patience_s)
            except TimeoutError:
                raise CommandFailed(
                    f"The server did not confirm {count_text(len(self._open), 'acknowledgement')} "
                    f"within {duration_text(patience_s)}",
                    "Those messages may be delivered again. Allow more time with --timeout.",
                ) from None
            finally:
                waiting.cancel()
        if self._refused:
            raise CommandFailed(
                f"Nobody took {count_text(self._refused, 'acknowledgement')}",
                "Was the consumer removed meanwhile?",
            )

    async def _count_confirmation(self, answer: Msg) -> None:
        self._open.discard(answer.subject)
        if (answer.headers or {}).get("Status") == STATUS_NO_RESPONDERS:
            self._refused += 1
        if not self._open:
            self._all_answered.set()


@dataclass
class Patience:
    """The time to wait: in all, or for each message if every message `renews` it."""

    wait_s: float | None
    renews: bool
    _since: float = field(default_factory=time.monotonic)

    def renew(self) -> None:
        """Start the time again: a message came."""
        if self.renews:
            self._since = time.monotonic()

    def left_s(self) -> float | None:
        """The time that is left, None for no limit."""
        return None if self.wait_s is None else self._since + self.wait_s - time.monotonic()


class EndedError(Exception):
    """The command has all messages that it wants, or its time is over."""


@dataclass
class Receiver:
    """Hands messages over, acknowledges and counts them."""

    on_delivery: Callable[[int, Delivery], None]
    # Whether the reader has taken all that was handed over. Raises BrokenPipeError.
    has_taken_all: Callable[[], bool]
    acks: Acknowledger
    # The acknowledgement of each message; None acknowledges nothing.
    answer: bytes | None
    count_max: int | None
    patience: Patience
    tally: Tally = field(default_factory=Tally)
    # The message that is being shown, and whether that is done: its reader may not have it yet.
    _in_hand: Msg | None = None
    _is_shown: bool = False

    @property
    def left(self) -> int | None:
        """The number of messages still wanted, None for no limit."""
        return None if self.count_max is None else self.count_max - self.tally.messages

    async def show_message(self, msg: Msg) -> None:
        """Show a message; returns when the reader of the output has taken it."""
        delivery = delivery_of(msg)
        self.patience.renew()
        self._in_hand = msg
        self.on_delivery(self.tally.messages + 1, delivery)
        self._is_shown = True
        looks, pause_s = 0, READER_PAUSE_MIN_S
        while not self.has_taken_all():
            looks += 1
            await asyncio.sleep(pause_s if looks > READER_LOOKS_AT_ONCE else 0)
            if looks > READER_LOOKS_AT_ONCE:
                pause_s = min(pause_s * 2, READER_PAUSE_MAX_S)
        await self._acknowledge(msg)

    async def release_messages(self, rest: Sequence[Msg], *, can_give_back: bool) -> None:
        """Acknowledge the delivered messages that have been taken, and give back the rest."""
        msg, is_taken = self._in_hand, False
        if msg is not None:
            with contextlib.suppress(BrokenPipeError):
                is_taken = self._is_shown and self.has_taken_all()
            if is_taken:
                await self._acknowledge(msg)
            else:
                rest = [msg, *rest]
        for each in rest if can_give_back else ():
            if each.reply.startswith(ACK_PREFIX):
                await self.acks.send(each, NAK)

    async def _acknowledge(self, msg: Msg) -> None:
        self._in_hand, self._is_shown = None, False
        self.tally.add(msg.data)
        if self.answer is not None:
            await self.acks.send(msg, self.answer)


async def receive(
    api: AsyncApiClient,
    info: Document,
    receiver: Receiver,
    work: Callable[[Incoming], Awaitable[None]],
) -> Tally:
    """Do `work` until it has its messages, its time is over or Ctrl-C; the tally.

    At every end the consumer gets back the messages that were delivered and not taken.
    """
    incoming = Incoming(api.session)
    can_give_back = info["config"]["ack_policy"] not in UNACKNOWLEDGED
    started = time.perf_counter()

    async def finish_work() -> None:
        receiver.tally.seconds = time.perf_counter() - started
        rest = await incoming.end()
        receiver.tally.dropped = api.session.dropped
        await receiver.release_messages(rest, can_give_back=can_give_back)
        await receiver.acks.finish(api.timeout_s)

    try:
        await receiver.acks.start()
        with contextlib.suppress(EndedError):
            await work(incoming)
    except asyncio.CancelledError:
        receiver.tally.interrupted = True
    except BaseException:
        # The first failure is reported.
        with contextlib.suppress(CommandFailed, nats.errors.Error):
            await finish_work()
        raise
    await finish_work()
    return receiver.tally


# --- pull ---------------------------------------------------------------------------------------


@dataclass
class Pull:
    """Asks a pull consumer, request by request.

    `follows` asks for signs of life and lives through what passes; else one failure is the end.
    """

    api: AsyncApiClient
    info: Document
    receiver: Receiver
    follows: bool
    # The group to ask for, and how.
    group: Mapping[str, Any] = field(default_factory=dict)
    _pin: str = ""
    _batch: int = REQUEST_BATCH_FIRST

    async def run(self, incoming: Incoming) -> None:
        """Ask until there is nothing more to want."""
        client = self.api.session.client
        stream, consumer = self.info["stream_name"], self.info["name"]
        inbox = ""
        while self.receiver.left != 0:
            request = self.next_request()
            if not inbox:
                inbox = client.new_inbox()
                await incoming.listen(inbox)
            pull = message_next(stream, consumer, request)
            await client.publish(pull.subject(self.api.prefix), pull.payload, reply=inbox)
            try:
                await self._answers(incoming, request)
            except ForgottenError:
                inbox = ""
            except TimeoutError:
                # With its inbox the request ends at the server, should it be there still.
                inbox = ""
                await self._look_for_consumer(silence_s(request, self.api.timeout_s))

    def next_request(self) -> dict[str, Any]:
        """The body of the next pull. Raises EndedError when the time is over."""
        config = self.info["config"]
        left, left_s = self.receiver.left, self.receiver.patience.left_s()
        batch = min(self._batch, config.get("max_batch") or self._batch)
        if not can_return(config):
            batch = 1
        batch = batch if left is None else min(batch, left)
        request: dict[str, Any] = {"batch": batch, **self.group}
        if self._pin:
            request["id"] = self._pin
        if self.receiver.patience.wait_s == 0:
            return {**request, "no_wait": True}
        if left_s is not None and left_s <= 0:
            raise EndedError
        expires_s = REQUEST_EXPIRES_MAX_S if left_s is None else min(REQUEST_EXPIRES_MAX_S, left_s)
        expires_ns = int(expires_s * NANOSECONDS_PER_SECOND)
        expires_ns = max(1, min(expires_ns, config.get("max_expires") or expires_ns))
        request["expires"] = expires_ns
        if self.follows:
            heartbeat_ns = int(HEARTBEAT_S * NANOSECONDS_PER_SECOND)
            request["idle_heartbeat"] = min(heartbeat_ns, expires_ns // 2)
        return request

    async def _answers(self, incoming: Incoming, request: Mapping[str, Any]) -> None:
        """Show the messages of one request, to its end. Raises TimeoutError for silence."""
        quiet_s = silence_s(request, self.api.timeout_s)
        received, showing_s = 0, 0.0
        while received < request["batch"]:
            try:
                msg = await incoming.next(quiet_s)
            except TimeoutError:
                if "no_wait" in request:
                    # A consumer that may not deliver at the moment does not answer.
                    raise EndedError from None
                raise
            if is_status(msg):
                if not await self._is_open_after(msg, request):
                    return
                continue
            received += 1
            self._pin = (msg.headers or {}).get(PIN_HEADER, self._pin)
            began = time.monotonic()
            await self.receiver.show_message(msg)
            showing_s += time.monotonic() - began
        self._batch = next_batch(request["batch"], showing_s)

    async def _is_open_after(self, msg: Msg, request: Mapping[str, Any]) -> bool:
        """Whether the request goes on after a status. Raises EndedError or CommandFailed."""
        headers = msg.headers or {}
        status = headers.get("Status", "")
        description = headers.get("Description", "").partition("\n")[0].strip()
        if status == STATUS_SIGN_OF_LIFE:
            return True
        if status in (STATUS_NO_MESSAGES, STATUS_EXPIRED):
            if "no_wait" in request:
                raise EndedError
            return False
        if status == STATUS_UNPINNED:
            self._pin = ""
            return False
        passes = status == STATUS_NO_RESPONDERS or (
            status == STATUS_CONFLICT and description.lower() in PASSING_CONFLICTS
        )
        if passes:
            await self._look_for_consumer(None)
            await asyncio.sleep(RETRY_PAUSE_S)
            return False
        raise refusal(self.info, status, description)

    async def _look_for_consumer(self, quiet_s: float | None) -> None:
        await look_for_consumer(self.api, self.info, quiet_s, must_answer=not self.follows)


def can_return(config: Mapping[str, Any]) -> bool:
    """Whether a consumer delivers a message again that was given back."""
    return config["ack_policy"] not in UNACKNOWLEDGED and config.get("max_deliver") != 1


def next_batch(batch: int, showing_s: float) -> int:
    """The size of the next request, by the time that showing the last `batch` took."""
    if showing_s > BATCH_SHOWN_WITHIN_S:
        return max(1, batch // 2)
    return min(batch * 2, REQUEST_BATCH_MAX)


def silence_s(request: Mapping[str, Any], timeout_s: float) -> float:
    """The longest silence of a request, without messages or heartbeats."""
    quiet_ns = request.get("expires", 0)
    if heartbeat_ns := request.get("idle_heartbeat"):
        quiet_ns = heartbeat_ns * HEARTBEATS_MISSED_MAX
    return float(quiet_ns / NANOSECONDS_PER_SECOND) + timeout_s


def is_status(msg: Msg) -> bool:
    """Whether a message is about the delivery and not part of it.

    A stored message may have any header; only a delivery can be acknowledged.
    """
    return "Status" in (msg.headers or {}) and not msg.reply.startswith(ACK_PREFIX)


def refusal(info: Document, status: str, description: str) -> CommandFailed:
    """The failure of a command whose request was answered with a status."""
    names = f"{info['stream_name']} {info['name']}"
    text = description.lower()
    if text == "consumer deleted":
        return CommandFailed(
            f"The consumer {info['name']} was removed meanwhile",
            f"See what there is with: headwater consumer ls {info['stream_name']}",
        )
    advice = f"See its settings with: headwater consumer info {names}"
    if text == "exceeded maxwaiting":
        advice = f"Too many requests wait already: headwater consumer info {names}"
    elif "priority group" in text:
        advice = f"Name one of its groups with --group: headwater consumer info {names}"
    return CommandFailed(f"The consumer refused the request: {status} {description}", advice)


async def look_for_consumer(
    api: AsyncApiClient, info: Document, quiet_s: float | None, *, must_answer: bool
) -> None:
    """Raise CommandFailed where a consumer is gone; a server that is silent may come back."""
    try:
        await api.consumer(info["stream_name"], info["name"])
    except CommandRefused:
        raise
    except CommandFailed:
        if must_answer:
            raise
        api.session.check()
    if quiet_s is not None:
        api.session.notice(
            f"No sign of life from consumer {info['name']} for {duration_text(quiet_s)}, "
            "asking again ..."
        )


# --- push ---------------------------------------------------------------------------------------


@dataclass
class Push:
    """Listens to a push consumer."""

    api: AsyncApiClient
    info: Document
    receiver: Receiver

    async def run(self, incoming: Incoming) -> None:
        """Listen until there is nothing more to want. Raises EndedError."""
        config = self.info["config"]
        await incoming.listen(config["deliver_subject"], config.get("deliver_group", ""))
        quiet_s = silence_s(config, self.api.timeout_s) if config.get("idle_heartbeat") else None
        while self.receiver.left != 0:
            left_s = self.receiver.patience.left_s()
            waits_s = [each for each in (left_s, quiet_s) if each is not None]
            try:
                msg = await incoming.next(max(0.0, min(waits_s)) if waits_s else None)
            except ForgottenError:
                continue
            except TimeoutError:
                if left_s is not None and (quiet_s is None or left_s <= quiet_s):
                    raise EndedError from None
                await look_for_consumer(self.api, self.info, quiet_s, must_answer=False)
                continue
            if is_status(msg):
                await self._answer_status(msg)
            else:
                await self.receiver.show_message(msg)

    async def _answer_status(self, msg: Msg) -> None:
        """Say that everything before has been taken, where the consumer waits for that."""
        subject = msg.reply or (msg.headers or {}).get(STALLED_HEADER, "")
        if subject:
            await self.api.session.client.publish(subject, b"")
