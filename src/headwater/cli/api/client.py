"""Calls of the JetStream API over the session of a command.

A refusal of the server becomes a failure with the server's words, its error code and what to do
next.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import nats.errors

from headwater.base.errors import PeerError
from headwater.base.quantities import duration_text
from headwater.cli.api.advice import EXCEEDED_LIMITS, advice_on, limit_advice, refusal_text
from headwater.cli.connection.session import Session
from headwater.cli.connection.target import Target
from headwater.cli.shell.exits import CommandFailed
from headwater.client.api import pages
from headwater.client.api.answers import INVALID_JSON, ApiRefusal, StreamInfo, read_answer
from headwater.client.api.requests import (
    DEFAULT_PREFIX,
    ApiRequest,
    Document,
    account_info,
    consumer_info,
    message_get,
    stream_info,
)
from headwater.client.link.reads.levels import (
    NOT_COMPLETE,
    NOT_ENABLED,
    NOT_KNOWN,
    SESSION_MARK,
    ReadLevel,
    ReadLevelError,
    check_level,
)

T = TypeVar("T")


class CommandRefused(CommandFailed):
    """The server answered with an error."""

    def __init__(self, refusal: ApiRefusal, stream: str, consumer: str = "") -> None:
        self.err_code = refusal.err_code
        super().__init__(
            refusal_text(refusal),
            advice_on(refusal.err_code, stream, consumer, refusal.description),
        )


class NoAnswer(CommandFailed):
    """The server was silent, or nobody listens to the request."""


@dataclass(frozen=True)
class StreamList:
    """The information of streams, and the names of streams that no server told about."""

    infos: list[Document]
    missing: list[str]


class AsyncApiClient:
    """The API over one session."""

    def __init__(self, session: Session, prefix: str, timeout_s: float) -> None:
        self.session = session
        self.timeout_s = timeout_s
        self.prefix = prefix

    async def request(self, request: ApiRequest) -> Document:
        """The answer to one request. Raises CommandRefused, or NoAnswer without an answer."""
        subject = request.subject(self.prefix)
        asked = asyncio.ensure_future(
            self.session.client.request(subject, request.payload, self.timeout_s)
        )
        try:
            # The client's own time-out comes first; the session's other failures come sooner.
            answer = await self.session.until(asked, None)
        except nats.errors.NoRespondersError as error:
            raise self._nobody_answers() from error
        except nats.errors.TimeoutError as error:
            raise self._silence(subject) from error
        finally:
            asked.cancel()
        try:
            return document_in(answer.data, request.stream, request.consumer)
        except CommandRefused as refused:
            if refused.err_code in EXCEEDED_LIMITS:
                refused.advice = await self._limit_advice(refused.err_code) or refused.advice
            raise

    async def _limit_advice(self, err_code: int) -> str:
        try:
            return limit_advice(err_code, await self.account_info())
        except CommandFailed:
            # A user without the permission to ask gets the general advice.
            return ""

    async def account_info(self) -> Document:
        """The account's information, with the server's limits where it has none of its own."""
        return await self.request(account_info())

    async def info(self, stream: str, **wanted: Any) -> Document:
        """A stream's information; with a `subjects_filter`, all pages of its subjects."""
        subjects = pages.SubjectPages(stream, wanted)
        while (request := subjects.request) is not None:
            subjects.add(await self.request(request))
        return subjects.info

    async def streams(self, subject: str | None = None) -> StreamList:
        """The information of all streams, or of those that keep `subject`."""
        listed = pages.stream_list(subject)
        return StreamList(await joined(self._pages(listed)), listed.missing)

    async def names(self, subject: str | None = None) -> list[str]:
        """The names of all streams, or of those that keep `subject`."""
        return await joined(self._pages(pages.stream_names(subject)))

    async def info_with_sync_intervals(self, stream: str, **wanted: Any) -> Document:
        """`info` with the sync intervals of the stream's servers, if the server has them."""
        try:
            return await self.info(stream, **wanted, sync_intervals=True)
        except CommandRefused as refused:
            if refused.err_code != INVALID_JSON:
                raise
            return await self.info(stream, **wanted)

    async def message(
        self, stream: str, wanted: Document, level: ReadLevel, min_last_seq: int = 0
    ) -> Document:
        """One message by a read of a level. `min_last_seq` is what the session has seen."""
        if level is not ReadLevel.LEADER:
            sequence = await self._sequence_of(stream, wanted, level, min_last_seq)
            if not sequence:
                raise CommandFailed(
                    "no message found",
                    f"See which sequences there are with: headwater stream info {stream}",
                )
            # A sequence has one message for ever, so its contents need no second such read.
            wanted = {"seq": sequence}
        message: Document = (await self.request(message_get(stream, wanted)))["message"]
        return message

    async def _sequence_of(
        self, stream: str, wanted: Document, level: ReadLevel, min_last_seq: int
    ) -> int:
        """The sequence of a message by a read of a level; 0 if there is none."""
        info = StreamInfo.of(stream, await self.request(stream_info(stream)))
        try:
            check_level(info, level)
        except ReadLevelError as error:
            raise not_offered(error, stream) from error
        call = "DIRECT_LEADER" if level is ReadLevel.LINEARIZABLE else "DIRECT"
        if level is ReadLevel.SESSION:
            wanted = wanted | {"min_last_seq": min_last_seq}
        request = ApiRequest(f"{call}.GET.{stream}", wanted, stream)
        asked = asyncio.ensure_future(
            self.session.client.request(
                request.subject(self.prefix), request.payload, self.timeout_s
            )
        )
        try:
            answer = await self.session.until(asked, None)
        except nats.errors.NoRespondersError as error:
            raise NoAnswer(
                f"No server answers {level.value} reads of stream {stream} now",
                "Try again in a moment: another leader may be on its way.",
            ) from error
        except nats.errors.TimeoutError as error:
            raise self._silence(request.subject(self.prefix)) from error
        finally:
            asked.cancel()
        headers = answer.headers or {}
        if level is ReadLevel.SESSION and SESSION_MARK.decode() not in headers:
            raise not_offered(ReadLevelError(level, NOT_KNOWN), stream)
        if headers.get("Status") == str(NOT_COMPLETE):
            raise CommandFailed(
                f"The server that answered has not got sequence {min_last_seq} of stream {stream}",
                "Try again in a moment: it may be catching up.",
            )
        return int(headers.get("Nats-Sequence", "0"))

    async def consumer(self, stream: str, consumer: str) -> Document:
        """A consumer's information."""
        return await self.request(consumer_info(stream, consumer))

    def consumers(self, stream: str) -> AsyncIterator[list[Document]]:
        """The information of all consumers of a stream, page by page: there may be many."""
        return self._pages(pages.consumer_list(stream))

    async def consumer_names(self, stream: str) -> list[str]:
        """The names of all consumers of a stream."""
        return await joined(self._pages(pages.consumer_names(stream)))

    async def _pages(self, entries: pages.ListPages) -> AsyncIterator[list[Any]]:
        while (request := entries.request) is not None:
            yield entries.entries_in(await self.request(request))

    def _nobody_answers(self) -> NoAnswer:
        if self.prefix == DEFAULT_PREFIX:
            return NoAnswer(
                "JetStream is not enabled on this server",
                "Start it with -js: headwater serve -js",
            )
        return NoAnswer(
            f"Nobody answers at {self.prefix}",
            "Is that the right --domain or --api-prefix, and is JetStream enabled there?",
        )

    def _silence(self, subject: str) -> NoAnswer:
        return NoAnswer(
            f"No answer to {subject} within {duration_text(self.timeout_s)}",
            "Is JetStream enabled, and the API's prefix right? Allow more time with --timeout.",
        )


def not_offered(error: ReadLevelError, stream: str) -> CommandFailed:
    """The failure of a read whose level the stream, or its server, does not offer."""
    advice = "Servers of Headwater have such reads; nats-server has not."
    if error.reason == NOT_ENABLED:
        advice = f"Enable them with: headwater stream edit {stream} --read-consistency weak"
    return CommandFailed(str(error), advice)


async def joined(pages: AsyncIterator[list[T]]) -> list[T]:
    """All pages as one list."""
    return [each async for page in pages for each in page]


def document_in(data: bytes, stream: str, consumer: str = "") -> Document:
    """The document in an answer. Raises CommandRefused, which names both, where it is an error."""
    try:
        answer = read_answer(data)
    except PeerError as error:
        raise CommandFailed("The answer is not one of the JetStream API: no JSON object") from error
    if isinstance(answer, ApiRefusal):
        raise CommandRefused(answer, stream, consumer)
    return answer


@dataclass(frozen=True)
class ApiTarget:
    """The API that a command calls, and the login it calls it with."""

    target: Target
    prefix: str
    timeout_s: float
    notice: Callable[[str], None]

    def call(self, work: Callable[[AsyncApiClient], Awaitable[T]]) -> T:
        """Connect, do `work`, disconnect: no connection is open while a person is asked."""

        async def connected() -> T:
            async with Session(self.target, self.notice) as session:
                return await work(AsyncApiClient(session, self.prefix, self.timeout_s))

        return asyncio.run(connected())

    def request(self, request: ApiRequest) -> Document:
        """The answer to one request. Raises CommandFailed."""
        return self.call(lambda client: client.request(request))
