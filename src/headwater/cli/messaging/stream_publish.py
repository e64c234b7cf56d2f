"""Publishing to streams: every message asks for its stream's ack, and every ack is counted.

A plain publish is over once the server has read it; only an ack tells that a stream has stored the
message. Acks are not waited for one by one: a window of messages is on its way at a time.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from nats.aio.msg import Msg

from headwater.base.errors import PeerError
from headwater.cli.api.advice import advice_on, refusal_text
from headwater.cli.connection.session import STATUS_NO_RESPONDERS, Session
from headwater.cli.connection.target import Target
from headwater.cli.messaging.messages import Message, StreamTally
from headwater.cli.messaging.pubsub import PROGRESS_EVERY_MESSAGES, send
from headwater.client.api.answers import ApiRefusal
from headwater.client.api.requests import Document
from headwater.wire.info import decode_object

# Enough to hide the round trip, and few enough that a Ctrl-C waits for little.
OUTSTANDING_ACKS_MAX: Final = 256


class Acks:
    """The acks of one command: those that are outstanding, and a count of those that came."""

    def __init__(self, session: Session, tally: StreamTally, timeout_s: float) -> None:
        self._session = session
        self._tally = tally
        self._timeout_s = timeout_s
        self._inbox = session.client.new_inbox()
        self._outstanding: dict[str, str] = {}
        self._answered = asyncio.Event()

    async def start(self) -> None:
        """Listen for acks."""
        await self._session.client.subscribe(f"{self._inbox}.*", cb=self._count_ack)

    async def request(self, message: Message) -> None:
        """Send a message that asks for an ack. Raises TimeoutError when none comes for long."""
        await self.wait_below(OUTSTANDING_ACKS_MAX)
        reply = f"{self._inbox}.{self._tally.messages}"
        self._outstanding[reply] = message.subject
        # Counted first: a publish that Ctrl-C interrupts may have left, and its ack may come.
        self._tally.add(message.data)
        await send(self._session, Message(message.subject, message.data, reply, message.headers))

    async def wait_below(self, count: int) -> None:
        """Return once fewer than `count` acks are outstanding. Raises TimeoutError."""
        while len(self._outstanding) >= count:
            self._answered.clear()
            answered = asyncio.ensure_future(self._answered.wait())
            try:
                await self._session.until(answered, self._timeout_s)
            finally:
                answered.cancel()

    def give_up(self) -> None:
        """Count the acks that did not come."""
        self._tally.unanswered += len(self._outstanding)
        self._outstanding.clear()

    async def _count_ack(self, answer: Msg) -> None:
        subject = self._outstanding.pop(answer.subject, None)
        if subject is not None:
            count_answer(self._tally, subject, answer)
            self._answered.set()


def count_answer(tally: StreamTally, subject: str, answer: Msg) -> None:
    """Count the answer to a message on `subject`."""
    if not answer.data and (answer.headers or {}).get("Status") == STATUS_NO_RESPONDERS:
        tally.add_refused(
            f"no stream keeps {subject}",
            f"Make one with: headwater stream add NAME --subjects '{subject}'",
        )
        return
    ack = ack_in(answer.data)
    stream = str(ack.get("stream") or "")
    if (refusal := ApiRefusal.of(ack)) is not None:
        named = f"stream {stream}: " if stream else ""
        advice = advice_on(refusal.err_code, stream, "")
        if not advice and stream:
            advice = f"See its limits with: headwater stream info {stream}"
        tally.add_refused(f"{named}{refusal_text(refusal)}", advice)
    elif not stream or not isinstance(sequence := ack.get("seq"), int):
        tally.add_refused(
            f"the answer to {subject} is not a stream's ack",
            "Something else answers requests on that subject.",
        )
    elif ack.get("duplicate"):
        tally.duplicates += 1
    else:
        tally.add_stored(stream, sequence)


def ack_in(data: bytes) -> Document:
    """The document in an ack; an empty one if the answer is not JSON."""
    try:
        return decode_object(data)
    except PeerError:
        return {}


async def publish_to_streams(
    target: Target,
    messages: Iterable[Message],
    notice: Callable[[str], None],
    timeout_s: float,
    pause_s: float = 0.0,
    on_progress: Callable[[int], None] | None = None,
) -> StreamTally:
    """Send `messages`, `pause_s` apart, and return once every ack has come.

    It also ends `timeout_s` after the last ack that came, and when interrupted.
    """
    tally = StreamTally()
    async with Session(target, notice) as session:
        acks = Acks(session, tally, timeout_s)
        await acks.start()
        started = time.perf_counter()
        try:
            try:
                await _send_all(acks, tally, messages, pause_s, on_progress)
            except asyncio.CancelledError:
                tally.interrupted = True
            await acks.wait_below(1)
        except TimeoutError:
            session.check()
        acks.give_up()
        tally.seconds = time.perf_counter() - started
    return tally


async def _send_all(
    acks: Acks,
    tally: StreamTally,
    messages: Iterable[Message],
    pause_s: float,
    on_progress: Callable[[int], None] | None,
) -> None:
    for message in messages:
        if tally.messages and pause_s:
            await asyncio.sleep(pause_s)
        await acks.request(message)
        if on_progress and (pause_s or tally.messages % PROGRESS_EVERY_MESSAGES == 0):
            on_progress(tally.messages)
