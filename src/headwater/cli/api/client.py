"""Requests to the JetStream API, as documents in and documents out.

Bodies are sent as they are given and answers returned as they came, so that a setting this
module has never heard of passes through. What the server refuses becomes a failure with its own
words, its error code and what to do next.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import nats.errors

from headwater.base.quantities import duration_text
from headwater.cli.api.advice import EXCEEDED_LIMITS, advice_on, limit_advice
from headwater.cli.connection.session import Session
from headwater.cli.connection.target import Target
from headwater.cli.shell.exits import CommandFailed

T = TypeVar("T")
Document = dict[str, Any]

DEFAULT_PREFIX: Final = "$JS.API"
# Asks Headwater for the limits of the server too; nats-server does not look at it.
ACCOUNT_INFO_BODY: Final = {"server_limits": True}


class ApiRefused(CommandFailed):
    """The server answered with an error."""

    def __init__(self, error: Mapping[str, Any], stream: str, consumer: str = "") -> None:
        self.err_code = int(error.get("err_code", 0))
        description = error.get("description") or f"error {error.get('code')}"
        advice = advice_on(self.err_code, stream, consumer)
        super().__init__(f"{description} (err_code {self.err_code})", advice)


class JetStreamApi:
    """The API behind one connection."""

    def __init__(self, session: Session, prefix: str, timeout_s: float) -> None:
        self.session = session
        self.timeout_s = timeout_s
        self.prefix = prefix

    async def request(self, operation: str, body: Mapping[str, Any] | None = None) -> Document:
        """The answer to one request. Raises ApiRefused, or CommandFailed without an answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        asked = asyncio.ensure_future(
            self.session.client.request(f"{self.prefix}.{operation}", payload, self.timeout_s)
        )
        try:
            # The client's own time-out comes first; the session's other failures come sooner.
            answer = await self.session.until(asked, None)
        except nats.errors.NoRespondersError as error:
            raise self._nobody_answers() from error
        except nats.errors.TimeoutError as error:
            raise self._silence(operation) from error
        finally:
            asked.cancel()
        try:
            return document_in(answer.data, *names_in(operation))
        except ApiRefused as refused:
            if refused.err_code in EXCEEDED_LIMITS:
                refused.advice = await self._limit_advice(refused.err_code) or refused.advice
            raise

    async def _limit_advice(self, err_code: int) -> str:
        try:
            return limit_advice(err_code, await self.account_info())
        except CommandFailed:
            # A user who may not ask for it is told no less than before.
            return ""

    async def account_info(self) -> Document:
        """The account's information, with the server's limits where it has none of its own."""
        return await self.request("INFO", ACCOUNT_INFO_BODY)

    async def info(self, stream: str, **wanted: Any) -> Document:
        """A stream's information; with a `subjects_filter`, all pages of its subjects."""
        info = await self.request(f"STREAM.INFO.{stream}", wanted or None)
        subjects = info["state"].get("subjects")
        while subjects and len(subjects) < info.get("total", 0):
            page = await self.request(f"STREAM.INFO.{stream}", wanted | {"offset": len(subjects)})
            more = page["state"].get("subjects")
            if not more:
                break
            subjects.update(more)
        return info

    async def streams(self, subject: str | None = None) -> list[Document]:
        """The information of all streams, or of those that keep `subject`."""
        return await joined(self._pages("STREAM.LIST", "streams", subject))

    async def names(self, subject: str | None = None) -> list[str]:
        """The names of all streams, or of those that keep `subject`."""
        return await joined(self._pages("STREAM.NAMES", "streams", subject))

    async def consumer(self, stream: str, consumer: str) -> Document:
        """A consumer's information."""
        return await self.request(f"CONSUMER.INFO.{stream}.{consumer}")

    def consumers(self, stream: str) -> AsyncIterator[list[Document]]:
        """The information of all consumers of a stream, page by page: there may be many."""
        return self._pages(f"CONSUMER.LIST.{stream}", "consumers")

    async def consumer_names(self, stream: str) -> list[str]:
        """The names of all consumers of a stream."""
        return await joined(self._pages(f"CONSUMER.NAMES.{stream}", "consumers"))

    async def _pages(
        self, operation: str, field: str, subject: str | None = None
    ) -> AsyncIterator[list[Any]]:
        filters = {"subject": subject} if subject else {}
        found = 0
        while True:
            answer = await self.request(operation, {"offset": found, **filters})
            page = answer.get(field) or []
            found += len(page)
            yield page
            if not page or found >= answer.get("total", 0):
                return

    def _nobody_answers(self) -> CommandFailed:
        if self.prefix == DEFAULT_PREFIX:
            return CommandFailed(
                "JetStream is not enabled on this server",
                "Start it with -js: headwater serve -js",
            )
        return CommandFailed(
            f"Nobody answers at {self.prefix}",
            "Is that the right --domain or --api-prefix, and is JetStream enabled there?",
        )

    def _silence(self, operation: str) -> CommandFailed:
        return CommandFailed(
            f"No answer to {self.prefix}.{operation} within {duration_text(self.timeout_s)}",
            "Is JetStream enabled, and the API's prefix right? Allow more time with --timeout.",
        )


async def joined(pages: AsyncIterator[list[T]]) -> list[T]:
    """All pages as one list."""
    return [each async for page in pages for each in page]


def names_in(operation: str) -> tuple[str, str]:
    """The stream and the consumer that an operation is about, as far as it names them."""
    words = operation.split(".")
    if words[0] == "CONSUMER":
        # What follows the consumer's name is a filter.
        stream, consumer = (*words[2:4], "", "")[:2]
        return stream, consumer
    return words[-1], ""


def document_in(data: bytes, stream: str, consumer: str = "") -> Document:
    """The document in an answer. Raises ApiRefused, which names both, where it is an error."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandFailed("The answer is not one of the JetStream API: no JSON object")
    if error := document.get("error"):
        raise ApiRefused(error, stream, consumer)
    return document


@dataclass(frozen=True)
class ApiTarget:
    """Which API to talk to, and as whom."""

    target: Target
    prefix: str
    timeout_s: float
    notice: Callable[[str], None]

    def call(self, work: Callable[[JetStreamApi], Awaitable[T]]) -> T:
        """Connect, do `work`, disconnect: nothing is held while a person is asked."""

        async def connected() -> T:
            async with Session(self.target, self.notice) as session:
                return await work(JetStreamApi(session, self.prefix, self.timeout_s))

        return asyncio.run(connected())
