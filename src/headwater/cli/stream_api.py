"""Requests to the JetStream API, as documents in and documents out.

Bodies are sent as they are given and answers returned as they came, so that a setting this
module has never heard of passes through. What the server refuses becomes a failure with its own
words, its error code and what to do next.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import nats.errors

from headwater.cli.durations import duration_text
from headwater.cli.exits import CommandFailed
from headwater.cli.model import Target
from headwater.cli.pubsub import Session

T = TypeVar("T")
Document = dict[str, Any]

DEFAULT_PREFIX: Final = "$JS.API"

LIST_STREAMS: Final = "See what there is with: headwater stream ls"
SEE_LIMITS: Final = "See what the account may use with: headwater account info"
ADVICE: Final = {
    10002: SEE_LIMITS,
    10008: "The cluster has no leader at the moment; try again.",
    10023: SEE_LIMITS,
    10025: "Is the setting spelled right, and does this server know it? "
    "--dry-run shows the configuration.",
    10027: SEE_LIMITS,
    10028: SEE_LIMITS,
    10037: "See which sequences there are with: headwater stream info {stream}",
    10039: "Enable JetStream for the account, or connect as a user of another: --user, --creds.",
    10047: SEE_LIMITS,
    10052: "Change the setting; --dry-run shows the configuration.",
    10055: "A mirror can be let go with: headwater stream edit {stream} --unset mirror",
    10058: "Change it with: headwater stream edit {stream}",
    10059: LIST_STREAMS,
    10062: "Nothing was restored. Is the backup whole, and was it made by a server of this kind?",
    10064: "Nothing was backed up; try again.",
    10065: "See which stream has them with: headwater stream ls --subject SUBJECT",
    10074: "Use --replicas 1, or a server that is part of a cluster.",
    10076: "Start the server with -js.",
    10109: "A sealed stream stays as it is; remove it with: headwater stream rm {stream}",
    10110: "The stream denies purges; remove it as a whole with: headwater stream rm {stream}",
    10113: "Give a limit with --max-bytes.",
    10122: SEE_LIMITS,
    10130: "Remove the stream first with: headwater stream rm {stream}",
    10185: "The server is too old for this.",
}


class ApiRefused(CommandFailed):
    """The server answered with an error."""

    def __init__(self, error: Mapping[str, Any], stream: str) -> None:
        self.err_code = int(error.get("err_code", 0))
        description = error.get("description") or f"error {error.get('code')}"
        advice = ADVICE.get(self.err_code, "").replace("{stream}", stream)
        super().__init__(f"{description} (err_code {self.err_code})", advice)


class JetStreamApi:
    """The API behind one connection."""

    def __init__(self, session: Session, prefix: str, timeout_s: float) -> None:
        self.session = session
        self.timeout_s = timeout_s
        self._prefix = prefix

    async def request(self, operation: str, body: Mapping[str, Any] | None = None) -> Document:
        """The answer to one request. Raises ApiRefused, or CommandFailed without an answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        asked = asyncio.ensure_future(
            self.session.client.request(f"{self._prefix}.{operation}", payload, self.timeout_s)
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
        return document_in(answer.data, operation.rpartition(".")[2])

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
        return await self._pages("STREAM.LIST", subject)

    async def names(self, subject: str | None = None) -> list[str]:
        """The names of all streams, or of those that keep `subject`."""
        return await self._pages("STREAM.NAMES", subject)

    async def _pages(self, operation: str, subject: str | None) -> list[Any]:
        found: list[Any] = []
        while True:
            filters = {"subject": subject} if subject else {}
            answer = await self.request(operation, {"offset": len(found), **filters})
            page = answer.get("streams") or []
            found += page
            if not page or len(found) >= answer.get("total", 0):
                return found

    def _nobody_answers(self) -> CommandFailed:
        if self._prefix == DEFAULT_PREFIX:
            return CommandFailed(
                "JetStream is not enabled on this server",
                "Start it with -js: headwater serve -js",
            )
        return CommandFailed(
            f"Nobody answers at {self._prefix}",
            "Is that the right --domain or --api-prefix, and is JetStream enabled there?",
        )

    def _silence(self, operation: str) -> CommandFailed:
        return CommandFailed(
            f"No answer to {self._prefix}.{operation} within {duration_text(self.timeout_s)}",
            "Is JetStream enabled, and the API's prefix right? Allow more time with --timeout.",
        )


def document_in(data: bytes, stream: str) -> Document:
    """The document in an answer about `stream`. Raises ApiRefused where it is an error."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandFailed("The answer is not one of the JetStream API: no JSON object")
    if error := document.get("error"):
        raise ApiRefused(error, stream)
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
