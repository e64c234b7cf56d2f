"""The four messaging commands as coroutines.

Each takes values and callbacks and returns a Tally; none prints. Ctrl-C reaches a coroutine as a
cancellation: it returns what it had counted, marked `interrupted`, so that the caller can say so.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headwater.base.quantities import duration_text
from headwater.cli.connection.session import STATUS_NO_RESPONDERS, Session
from headwater.cli.connection.target import Target
from headwater.cli.messaging.messages import Message, Tally
from headwater.cli.shell.exits import CommandFailed, ExitCode

PROGRESS_EVERY_MESSAGES: Final = 1000

SERVICE_ERROR_HEADER: Final = "Nats-Service-Error"


async def publish(
    target: Target,
    messages: Iterable[Message],
    notice: Callable[[str], None],
    pause_s: float = 0.0,
    on_progress: Callable[[int], None] | None = None,
) -> Tally:
    """Send `messages`, `pause_s` apart, and return once the server has taken them all."""
    tally = Tally()
    async with Session(target, notice) as session:
        started = time.perf_counter()
        try:
            for message in messages:
                if tally.messages and pause_s:
                    await asyncio.sleep(pause_s)
                await send(session, message)
                tally.add(message.data)
                if on_progress and (pause_s or tally.messages % PROGRESS_EVERY_MESSAGES == 0):
                    on_progress(tally.messages)
                    # A run of publishes need not suspend by itself, and Ctrl-C waits for that.
                    await asyncio.sleep(0)
                session.check()
        except asyncio.CancelledError:
            tally.interrupted = True
        await session.flush()
        tally.seconds = time.perf_counter() - started
    return tally


async def subscribe(
    target: Target,
    subject: str,
    on_message: Callable[[int, Message, bool], None],
    notice: Callable[[str], None],
    queue: str = "",
    count_max: int = 0,
    idle_timeout_s: float | None = None,
) -> Tally:
    """Hand every message on `subject` to `on_message(number, message, more_waiting)`.

    Ends after `count_max` messages, after `idle_timeout_s` without one, or when interrupted.
    """

    async def show(message: Message, number: int, more: bool) -> None:
        on_message(number, message, more)

    return await _receive(target, subject, show, notice, queue, count_max, idle_timeout_s)


async def reply(
    target: Target,
    subject: str,
    answer: Callable[[int, Message], Awaitable[Message]],
    on_answered: Callable[[int, Message, Message], None],
    notice: Callable[[str], None],
    queue: str = "",
    count_max: int = 0,
) -> Tally:
    """Answer requests on `subject` with the message that `answer(number, request)` returns.

    One at a time, in order of arrival. A message that asks for no reply is shown and not answered.
    """
    sessions: list[Session] = []

    async def respond(request: Message, number: int, more: bool) -> None:
        response = await answer(number, request)
        if request.reply:
            await send(
                sessions[0],
                Message(request.reply, response.data, headers=response.headers),
            )
        on_answered(number, request, response)

    return await _receive(
        target, subject, respond, notice, queue, count_max, None, opened=sessions.append
    )


async def request(
    target: Target,
    message: Message,
    on_reply: Callable[[int, Message, float], None],
    notice: Callable[[str], None],
    timeout_s: float,
    replies_max: int = 1,
) -> Tally:
    """Send `message` and hand each answer to `on_reply(number, reply, seconds)`.

    Ends after `replies_max` answers (0: only by the clock). Raises CommandFailed when nobody
    listens, and when `timeout_s` passes before `replies_max` (or one) arrived.
    """
    tally = Tally()
    async with Session(target, notice) as session:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sent_at = 0.0

        async def count_reply(msg: Msg) -> None:
            if done.done():
                return
            seconds = time.perf_counter() - sent_at
            try:
                _check_answer(message.subject, msg)
                number = tally.add(msg.data)
                on_reply(number, _message(msg), seconds)
                if number == replies_max:
                    done.set_result(None)
            except Exception as error:
                done.set_exception(error)

        inbox = session.client.new_inbox()
        await session.client.subscribe(inbox, cb=count_reply)
        sent_at = time.perf_counter()
        await send(session, Message(message.subject, message.data, inbox, message.headers))
        try:
            await session.until(done, timeout_s)
        except TimeoutError:
            if tally.messages < max(replies_max, 1):
                raise _too_few_replies(message.subject, tally, timeout_s, replies_max) from None
        except asyncio.CancelledError:
            tally.interrupted = True
        tally.seconds = time.perf_counter() - sent_at
    return tally


def _check_answer(subject: str, msg: Msg) -> None:
    headers = msg.headers or {}
    if not msg.data and headers.get("Status") == STATUS_NO_RESPONDERS:
        raise CommandFailed(
            f"No responders: nobody is subscribed to {subject}",
            f"Start one with: headwater reply {subject} 'an answer'",
        )


def _too_few_replies(
    subject: str, tally: Tally, timeout_s: float, replies_max: int
) -> CommandFailed:
    waited = duration_text(timeout_s)
    if tally.messages:
        problem = f"{tally.messages} of {replies_max} replies on {subject} within {waited}"
    else:
        problem = f"No reply on {subject} within {waited}"
    return CommandFailed(problem, "Allow more time with --timeout, for example --timeout 10s.")


async def _receive(
    target: Target,
    subject: str,
    handle: Callable[[Message, int, bool], Awaitable[None]],
    notice: Callable[[str], None],
    queue: str,
    count_max: int,
    idle_timeout_s: float | None,
    opened: Callable[[Session], None] = lambda session: None,
) -> Tally:
    tally = Tally()
    started = last_at = time.perf_counter()

    async def consume(subscription: Subscription) -> None:
        nonlocal last_at
        async for msg in subscription.messages:
            last_at = time.perf_counter()
            number = tally.add(msg.data)
            last = number == count_max
            await handle(_message(msg), number, subscription.pending_msgs > 0 and not last)
            if last:
                return

    async with Session(target, notice) as session:
        opened(session)
        consumer = asyncio.ensure_future(consume(await _listen(session, subject, queue, count_max)))
        # To be read by scripts as much as by people: from here on nothing is missed.
        notice(f"Listening on {subject}" + (f" as part of queue group {queue}" if queue else ""))
        try:
            while not consumer.done():
                wait_s = idle_timeout_s and last_at + idle_timeout_s - time.perf_counter()
                if wait_s is not None and wait_s <= 0:
                    break
                with contextlib.suppress(TimeoutError):
                    await session.until(consumer, wait_s)
        except asyncio.CancelledError:
            tally.interrupted = True
        finally:
            consumer.cancel()
            tally.dropped = session.dropped
            tally.seconds = time.perf_counter() - started
    return tally


async def _listen(session: Session, subject: str, queue: str, count_max: int) -> Subscription:
    """Subscribe, and return once the server knows. It delivers `count_max` messages at most, so
    that those a queue group sends elsewhere are not lost here."""
    try:
        subscription = await session.client.subscribe(subject, queue)
    except nats.errors.BadSubjectError as error:
        raise _bad_subject(subject) from error
    if count_max:
        await subscription.unsubscribe(limit=count_max)
    await session.flush()
    return subscription


async def send(session: Session, message: Message) -> None:
    """Publish one message. Raises CommandFailed where the client library refuses it."""
    try:
        await session.client.publish(
            message.subject,
            message.data,
            reply=message.reply,
            headers=dict(message.headers) or None,
        )
    except nats.errors.BadSubjectError as error:
        raise _bad_subject(message.subject) from error
    except nats.errors.BadHeaderError as error:
        raise CommandFailed(
            f"{error.key!r} is not a header name",
            "Write --header 'Name: value', the name without spaces.",
            ExitCode.USAGE,
        ) from error
    except nats.errors.MaxPayloadError as error:
        raise CommandFailed(
            f"The body has {len(message.data)} bytes; "
            f"the server accepts {session.client.max_payload}",
            "Send less, or raise max_payload in the server's configuration.",
        ) from error
    except nats.errors.ConnectionClosedError:
        session.check()
        raise


def _bad_subject(subject: str) -> CommandFailed:
    return CommandFailed(
        f"{subject!r} is not a subject",
        "A subject is words joined by dots, without spaces: orders.new. "
        "When subscribing, * stands for one word and > for all that follow.",
        ExitCode.USAGE,
    )


def _message(msg: Msg) -> Message:
    return Message(msg.subject, msg.data, msg.reply, msg.headers or {})
