"""A stored world whose client asks without waiting, and numbers its requests."""

import json
import re
from typing import Any, Final

from headwater.jetstream import error_codes
from headwater.server.configuration.options import Options
from headwater.server.streams.host import StreamHost
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

AHEAD: Final = "*/ahead-*"
JOURNAL: Final = "*/%24G%2FS/journal*"
SEGMENT: Final = "*/%24G%2FS/segment*"
STORE_FAILED: Final = error_codes.STREAM_STORE_FAILED.err_code
# The calls that change the set of streams.
SET_CALLS: Final = ("STREAM.CREATE", "STREAM.DELETE")
_REPLY: Final = re.compile(rb"MSG inbox\.(\d+) 9 (\d+)\r\n")


class StreamWorld(StoredWorld):
    """A server with one client that asks without waiting, and numbers what it asks."""

    def __init__(self, options: Options | None = None, disk: SimDisk | None = None) -> None:
        super().__init__(options or Options(jetstream=streaming(sync_always=True)), disk)
        self.start()
        self.caller = self.modern()
        self.caller.send(b"SUB inbox.* 9\r\n")
        self._asked = 0

    def push(self, subject: str, body: bytes = b"", **headers: str) -> int:
        """Publish with a reply subject, in a turn that goes on; in names `_` stands for `-`."""
        return self.push_from(self.caller, subject, body, **headers)

    def push_from(self, sender: Peer, subject: str, body: bytes = b"", **headers: str) -> int:
        """Have another client publish; the answer is among all answers."""
        self._asked += 1
        lines = "".join(f"{name.replace('_', '-')}: {said}\r\n" for name, said in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if headers else b""
        sizes = f"{len(block)} {len(block + body)}" if headers else f"{len(body)}"
        verb = "HPUB" if headers else "PUB"
        line = f"{verb} {subject} inbox.{self._asked} {sizes}\r\n"
        sender.push(line.encode() + block + body + b"\r\n")
        return self._asked

    def publish(self, subject: str, body: bytes = b"x", **headers: str) -> int:
        """Publish with a reply subject, in a turn of its own."""
        number = self.push(subject, body, **headers)
        self.settle()
        return number

    def call(self, operation: str, body: object = None, sender: Peer | None = None) -> int:
        """Call the API, in a turn of its own; the set of streams has its disk at once."""
        payload = b"" if body is None else json_bytes(body)
        number = self.push_from(sender or self.caller, f"$JS.API.{operation}", payload)
        self.settle()
        if operation.startswith(SET_CALLS):
            self.sync_set()
        return number

    def sync_set(self) -> None:
        """Let the disk take what the set of streams waits for, and all that is in the same
        commit."""
        while self.host.stream_set.is_waiting and self.scheduler.offloaded:
            self.finish_checks()

    @property
    def host(self) -> StreamHost:
        assert self.node.jetstream is not None
        return self.node.jetstream

    @property
    def answers(self) -> dict[int, Any]:
        """The answers so far, by the number of their request."""
        received = bytes(self.caller.connection.received)
        return {
            int(found[1]): json.loads(received[found.end() : found.end() + int(found[2])])
            for found in _REPLY.finditer(received)
        }

    def errors(self, *numbers: int) -> list[int]:
        """The codes of the errors that were answered; 0 for none."""
        return [error_code(self.answers[number]) for number in numbers]

    def sync(self) -> None:
        """Let the disk finish what it was given, and what follows from that."""
        while self.scheduler.offloaded:
            self.finish_checks()

    def state(self, name: str = "S", **asked: object) -> Any:
        """The visible state of a stream; information never waits for the disk."""
        number = self.call(f"STREAM.INFO.{name}", asked or None)
        return self.answers[number]["state"]

    def after_power_loss(self) -> "StreamWorld":
        """Another machine with the same disk: what was not synced is gone."""
        self.disk.heal()
        self.disk.power_loss("strict")
        return StreamWorld(self.node.options, self.disk)

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.log_lines if "[ERR]" in line]


def json_bytes(document: object) -> bytes:
    return json.dumps(document).encode()


def error_code(answer: Any) -> int:
    code: int = answer.get("error", {}).get("err_code", 0)
    return code
