"""A server whose streams copy each other, with a client of its API."""

from typing import Any

from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import StoredWorld, streaming

# Longer than the longest time between two requests for an origin that is there.
SETTLING_S = 5


class CopyWorld(StoredWorld):
    """A server with streams that copy each other."""

    def __init__(self, options: Options | None = None, disk: SimDisk | None = None) -> None:
        roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
        super().__init__(options or Options(jetstream=roomy), disk)
        self.start()
        self.caller = self.modern()

    def call(self, operation: str, body: object = None) -> Any:
        """The answer to a call of the API."""
        return self.request(f"$JS.API.{operation}", body)

    def make(self, name: str, **config: Any) -> None:
        """Create a stream."""
        answer = self.call(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        self.copy()

    def change(self, name: str, **config: Any) -> None:
        """Update a stream."""
        answer = self.call(f"STREAM.UPDATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        self.copy()

    def publish(self, *messages: tuple[str, bytes]) -> None:
        """Publish messages, and let them be copied."""
        for subject, body in messages:
            self.caller.send(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body))
        self.settle()

    def copy(self, seconds: float = 0.5) -> None:
        """Let time pass, in which requests are sent and answered."""
        for _ in range(max(round(seconds * 10), 1)):
            self.advance(0.1)
            self.settle()

    def contents(self, name: str) -> list[tuple[int, str, bytes]]:
        """Sequence, subject and body of every message of a stream."""
        host = self.node.jetstream
        assert host is not None
        stream = host.accounts["$G"].streams[name]
        found = [stream.message(each) for each in range(1, stream.visible_sequence + 1)]
        return [(each.sequence, each.subject.decode(), each.payload) for each in found if each]

    def mirror(self, name: str) -> Any:
        """The description of a mirror's origin."""
        return self.call(f"STREAM.INFO.{name}").get("mirror")

    def sources(self, name: str) -> Any:
        """The descriptions of the sources of a stream."""
        return self.call(f"STREAM.INFO.{name}").get("sources")

    def consumers(self, name: str) -> int:
        """The number of consumers of a stream, with those by which servers copy it."""
        host = self.node.jetstream
        assert host is not None
        return len(host.accounts["$G"].streams[name].consumers.by_name)
