"""Calls of the consumer API and of its commands that several tests make."""

import asyncio
import json
from typing import Any, Final

import nats
from nats.aio.msg import Msg

from headwater.client.api.requests import DEFAULT_PREFIX
from tests.kit.command_line import PATIENCE_S, Ended
from tests.kit.fake_api import faking

SECOND_NS: Final = 10**9

Status = tuple[str, str]


def ask(url: str, *requests: tuple[str, bytes]) -> list[Any]:
    """Send requests, one after the other; the documents they are answered with."""

    async def send() -> list[Any]:
        client = await nats.connect(url)
        answers = [await client.request(subject, body, PATIENCE_S) for subject, body in requests]
        await client.close()
        return [json.loads(answer.data) for answer in answers]

    return asyncio.run(send())


def lines_of(ended: Ended) -> list[dict[str, Any]]:
    """The documents that a command printed."""
    return [json.loads(line) for line in ended.out.splitlines()]


def sequences_of(ended: Ended) -> list[int]:
    """The sequences of the messages that a command printed with --json."""
    return [document["sequence"] for document in lines_of(ended)]


def run_with_statuses(
    url: str, stream: str, statuses: list[Status | None], *arguments: str
) -> tuple[Ended, list[dict[str, Any]]]:
    """Run a command against an API that answers its first requests with a status, or not at all.

    The others, and questions about the consumer, are passed on to the real API. Returns the
    requests too.
    """
    requests: list[dict[str, Any]] = []

    async def scenario() -> Ended:
        async with faking(url, "consumer") as fake:

            async def pass_on(request: Msg) -> None:
                subject = request.subject.replace(fake.prefix, DEFAULT_PREFIX)
                await fake.client.publish(subject, request.data, reply=request.reply)

            async def deliver(request: Msg) -> None:
                requests.append(json.loads(request.data))
                if len(requests) > len(statuses):
                    await pass_on(request)
                elif answer := statuses[len(requests) - 1]:
                    headers = {"Status": answer[0], "Description": answer[1]}
                    await fake.client.publish(request.reply, headers=headers)

            await fake.answer("CONSUMER.INFO.>", pass_on)
            await fake.answer("CONSUMER.MSG.NEXT.>", deliver)
            return await fake.run(arguments[0], stream, "C", *arguments[1:])

    return asyncio.run(scenario()), requests
