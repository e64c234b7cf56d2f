"""A JetStream API that a test answers itself, under a prefix of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.kit.command_line import HEADWATER, NUMBERS, PATIENCE_S, Ended, Tool


class Fake:
    """A server's side of the API, as badly behaved as a test wants it."""

    def __init__(self, client: Client, url: str, group: str) -> None:
        self.client = client
        self.url = url
        self.group = group
        self.prefix = f"fake{next(NUMBERS)}"

    async def answer(self, operation: str, handle: Callable[[Msg], Awaitable[None]]) -> None:
        """Answer requests."""
        await self.client.subscribe(f"{self.prefix}.{operation}", cb=handle)

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Run a command of the group against this server."""
        await self.client.flush()
        return await asyncio.create_subprocess_exec(
            *HEADWATER, self.group, *arguments, "--api-prefix", self.prefix,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=Tool(self.url).environment,
        )  # fmt: skip

    async def run(self, *arguments: str) -> Ended:
        """Run it to its end."""
        return await ended(await self.start(*arguments))


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """The exit code and the output of a command, when it has ended."""
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def faking(url: str, group: str) -> AsyncIterator[Fake]:
    """A server of the test's own, for commands of `group`."""
    client = await nats.connect(url)
    try:
        yield Fake(client, url, group)
    finally:
        await client.close()
