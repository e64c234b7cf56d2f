"""The four messaging commands as coroutines, and the connection every command uses.

With `login_client`, `connection_failures`, `jetstream_api`, `stream_transfer` and
`consumer_delivery` the only modules of the command line on nats-py.

Each takes values and callbacks and returns a Tally; none prints. Ctrl-C reaches a coroutine as a
cancellation: it returns what it had counted, marked `interrupted`, so that the caller can say so.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headwater.base.quantities import duration_text
from headwater.cli.connection.failures import not_connected, reason
from headwater.cli.connection.login_client import LoginClient, LoginRefused
from headwater.cli.connection.target import Message, Tally, Target
from headwater.cli.shell.exits import CommandFailed, ExitCode

T = TypeVar("T")

FLUSH_TIMEOUT_S: Final = 10
# For a connection that was never made: the socket is closed at once, and nothing is left to write.
ABANDON_WAIT_S: Final = 0.1
RECONNECT_WAIT_S: Final = 1
RECONNECT_ATTEMPTS_MAX: Final = 60
PROGRESS_EVERY_MESSAGES: Final = 1000

NO_RESPONDERS_STATUS: Final = "503"
SERVICE_ERROR_HEADER: Final = "Nats-Service-Error"


class Session:
    """One connection for the length of one command.

    Whatever goes wrong behind the command's back (a refused permission, a connection that ended
    for good) is kept and raised from the next `until` or `flush`.
    """

    def __init__(self, target: Target, notice: Callable[[str], None]) -> None:
        self._target = target
        self.notice = notice
        self._closing = False
        self._is_open = False
        self._cause: Exception | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.client = LoginClient(target.login)
        self.dropped = 0
        # Called when a lost connection is back. The server has subscriptions again by then, and
        # has forgotten whatever else it was asked.
        self.on_reconnected: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "Session":
        target = self._target
        try:
            # nats-py retries a first connection for minutes unless told otherwise; a person at a
            # shell wants to know now. Later losses are worth waiting for, so reconnecting is
            # allowed once there was a connection.
            await self.client.open(
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=target.connect_timeout_s,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
            )
            if not self.client.is_connected:
                # nats-py takes the end of the connection for an answer to CONNECT.
                raise ConnectionResetError
        except (OSError, nats.errors.Error) as error:
            failure = not_connected(target, self._cause or error)
            await self._close(ABANDON_WAIT_S)
            raise failure from error
        self._is_open = True
        self.client.options.update(
            allow_reconnect=True,
            max_reconnect_attempts=RECONNECT_ATTEMPTS_MAX,
            reconnect_time_wait=RECONNECT_WAIT_S,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close(FLUSH_TIMEOUT_S)
        # Read, so that a failure nobody waited for is not reported as forgotten.
        if self._failed.done() and not self._failed.cancelled():
            self._failed.exception()

    async def _close(self, wait_s: float) -> None:
        self._closing = True
        # nats-py writes what is left, and a connection that is gone need not take it. It also
        # waits for the end of a connection, which after a failed TLS handshake never comes.
        with contextlib.suppress(OSError):
            await asyncio.wait_for(self.client.close(), wait_s)

    async def until(self, done: "asyncio.Future[T]", timeout_s: float | None = None) -> T:
        """The result of `done`. Raises TimeoutError, or what ended the session meanwhile."""
        either: set[asyncio.Future[Any]] = {done, self._failed}
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return done.result()
        self.check()
        raise TimeoutError

    async def flush(self) -> None:
        """Return once the server has seen all that was sent and has not complained."""
        try:
            # nats-py writes its PING at once and what was published or subscribed just before a
            # moment later. The second PING is the one that comes after all of it.
            await self.client.flush(FLUSH_TIMEOUT_S)
            await self.client.flush(FLUSH_TIMEOUT_S)
        except nats.errors.TimeoutError as error:
            self.check()
            raise CommandFailed(
                f"The server did not confirm within {FLUSH_TIMEOUT_S}s",
                "It may be overloaded or unreachable; some messages may not have arrived.",
            ) from error
        except OSError as error:
            # A broken pipe to the server must not pass for a reader of the output who went away.
            raise CommandFailed(
                f"The connection was lost: {error.strerror or reason(error)}",
                code=ExitCode.NOT_CONNECTED,
            ) from error
        self.check()

    def check(self) -> None:
        """Raise what has ended the session, if anything has."""
        if self._failed.done():
            self._failed.result()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self.dropped += 1
            return
        # A name that is not found says less than another server's refusal.
        if self._cause is None or not isinstance(error, socket.gaierror):
            self._cause = error
        if self._is_open and isinstance(error, LoginRefused):
            self._fail(not_connected(self._target, error))
        if "permissions violation" in str(error).lower():
            self._fail(
                CommandFailed(
                    f"The server refused: {reason(error)}",
                    "Connect as a user that may do this: --user, --token or --creds.",
                )
            )

    async def _on_disconnected(self) -> None:
        if not self._closing and not self.client.is_closed:
            self.notice("Connection lost, reconnecting ...")

    async def _on_reconnected(self) -> None:
        self.notice("Connected again.")
        self.on_reconnected()

    async def _on_closed(self) -> None:
        if not self._closing:
            cause = self.client.last_error or self._cause
            self._fail(
                CommandFailed(
                    "The connection was closed by the server"
                    + (f": {reason(cause)}" if cause else ""),
                    code=ExitCode.NOT_CONNECTED,
                )
            )

    def _fail(self, failure: CommandFailed) -> None:
        if not self._failed.done():
            self._failed.set_exception(failure)


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

    async def take(message: Message, number: int, more: bool) -> None:
        on_message(number, message, more)

    return await _receive(target, subject, take, notice, queue, count_max, idle_timeout_s)


async def reply(
    target: Target,
    subject: str,
    answer: Callable[[int, Message], Awaitable[Message]],
    on_answered: Callable[[int, Message, Message], None],
    notice: Callable[[str], None],
    queue: str = "",
    count_max: int = 0,
) -> Tally:
    """Answer requests on `subject` with what `answer(number, request)` returns.

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

        async def take(msg: Msg) -> None:
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
        await session.client.subscribe(inbox, cb=take)
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
    if not msg.data and headers.get("Status") == NO_RESPONDERS_STATUS:
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
