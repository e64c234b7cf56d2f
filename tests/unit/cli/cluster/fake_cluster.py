"""A cluster that a test answers for: its streams, and how they change from look to look."""

import asyncio
import functools
import json
from collections.abc import Mapping
from typing import Any, Final

from nats.aio.msg import Msg

from tests.kit.command_line import Ended
from tests.kit.fake_api import faking

CONFIG: Final = {"name": "ORDERS", "subjects": ["orders.>"], "num_replicas": 3, "storage": "file"}
STATE: Final = {"messages": 5, "bytes": 50, "consumer_count": 0}


def group(leader: str, *followers: str, **fields: Any) -> dict[str, Any]:
    """`cluster` of an answer; a follower with ! behind its name is 4 operations behind."""
    replicas = [
        {"name": name.rstrip("!"), "current": "!" not in name, "lag": 4 * name.count("!")}
        for name in followers
    ]
    return {"name": "trio", "leader": leader, "replicas": replicas, **fields}


def error(code: int, err_code: int, description: str) -> dict[str, Any]:
    """An answer that refuses."""
    return {"error": {"code": code, "err_code": err_code, "description": description}}


NO_LEADER: Final = error(503, 10008, "JetStream system temporarily unavailable")


class FakeCluster:
    """Answers by operation: one for each request, the last for all that follow.

    It answers while a command runs, behind the server at `url`.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._answers: dict[str, list[Mapping[str, Any]]] = {}
        self.requests: list[tuple[str, Any]] = []
        """The operations of all requests that were not questions, with their bodies."""

    def answer(self, operation: str, *answers: Mapping[str, Any]) -> None:
        """Answer requests of an operation in turn."""
        self._answers[operation] = list(answers)

    def stream(self, *groups: Mapping[str, Any], **config: Any) -> None:
        """Answer for the stream ORDERS with one group after another."""
        infos = [{"config": CONFIG | config, "state": STATE, "cluster": each} for each in groups]
        self.answer("STREAM.INFO.ORDERS", *infos)

    def run(self, *arguments: str) -> Ended:
        """Run a command of `headwater cluster` to its end."""

        async def run() -> Ended:
            async with faking(self._url, "cluster") as fake:
                for operation in self._answers:
                    await fake.answer(operation, functools.partial(self._respond, operation))
                return await fake.run(*arguments)

        return asyncio.run(run())

    async def _respond(self, operation: str, message: Msg) -> None:
        if operation.split(".")[1] not in ("INFO", "LIST"):
            body = json.loads(message.data) if message.data else None
            self.requests.append((operation, body))
        left = self._answers[operation]
        await message.respond(json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode())
