"""A stored world with a stream and the client of its consumers."""

import json
from typing import Any, Final, NamedTuple

from headwater.jetstream.streams.stream import Stream
from headwater.server.configuration.options import GLOBAL_ACCOUNT, Options
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.host import StreamHost
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

API: Final = "$JS.API."
NS: Final = 1_000_000_000


class Frame(NamedTuple):
    """A message as a client gets it; `status` is the first line of its header block."""

    subject: str
    sid: str
    reply: str
    header: str
    payload: bytes

    @property
    def status(self) -> str:
        return self.header.split("\r\n", 1)[0].removeprefix("NATS/1.0").strip()


def frames_in(data: bytes) -> list[Frame]:
    """All messages in what a client has got."""
    frames = []
    place = data.find(b"MSG ")
    while place >= 0:
        begin = place - (place > 0 and data[place - 1 : place] == b"H")
        end = data.index(b"\r\n", begin)
        _, subject, sid, *rest = data[begin:end].decode().split(" ")
        sizes = 2 if data[begin : begin + 1] == b"H" else 1
        reply = rest[0] if len(rest) > sizes else ""
        header_size = int(rest[-2]) if sizes == 2 else 0
        body = data[end + 2 : end + 2 + int(rest[-1])]
        header = body[:header_size].decode(errors="replace")
        frames.append(Frame(subject, sid, reply, header, body[header_size:]))
        place = data.find(b"MSG ", end + 2 + len(body))
    return frames


class ConsumerWorld(StoredWorld):
    """A server with one stream S of `s.>`, and a client that listens at `inbox.*`."""

    def __init__(self, options: Options | None = None, disk: SimDisk | None = None) -> None:
        roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
        super().__init__(options or Options(jetstream=roomy), disk)
        self.start()
        self.caller = self.modern()
        self.caller.send(b"SUB inbox.* 9\r\n")
        self._asker = self.modern()

    def request(self, subject: str, body: object = None, peer: Peer | None = None) -> Any:
        """The reply to one call, when the disk is as sure as it must be."""
        payload = b"" if body is None else json.dumps(body).encode()
        line = f"SUB inbox 9\r\nPUB {subject} inbox {len(payload)}\r\n".encode()
        asker = peer or self._asker
        asker.take()
        asker.send(line + payload + b"\r\n")
        self.sync()
        (reply,) = frames_in(asker.take())
        return json.loads(reply.payload)

    def with_stream(self, name: str = "S", **config: Any) -> "ConsumerWorld":
        """The world, with a stream added."""
        reply = self.create(name, **{"subjects": [f"{name.lower()}.>"], **config})
        assert "error" not in reply, reply
        return self

    def consumer(self, name: str, stream: str = "S", **config: Any) -> Any:
        """Make a consumer; one without another policy is acknowledged one by one."""
        chosen = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
        chosen = {key: value for key, value in chosen.items() if value is not None}
        body = {"stream_name": stream, "config": chosen}
        reply = self.request(f"{API}CONSUMER.CREATE.{stream}.{name}", body)
        assert "error" not in reply, reply
        return reply

    def delete(self, name: str, stream: str = "S") -> Any:
        """Delete a consumer."""
        return self.request(f"{API}CONSUMER.DELETE.{stream}.{name}")

    def info(self, name: str, stream: str = "S") -> Any:
        """The information about a consumer."""
        return self.request(f"{API}CONSUMER.INFO.{stream}.{name}")

    def publish(self, count: int, subject: str = "s.a", payload: bytes = b"x") -> None:
        """Have messages stored, in a turn of their own."""
        line = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
        self._asker.send(line * count)

    def pull(
        self,
        name: str,
        reply: str = "inbox.1",
        stream: str = "S",
        peer: Peer | None = None,
        **asked: Any,
    ) -> list[Frame]:
        """Ask for messages; what the client gets in this turn."""
        return self.say(pull_line(name, reply, stream, **asked), peer)

    def say(self, data: bytes, peer: Peer | None = None) -> list[Frame]:
        """Send something, and take the messages that come in return."""
        return frames_in((peer or self.caller).ask(data))

    def taken(self, peer: Peer | None = None) -> list[Frame]:
        """The messages that came meanwhile."""
        return frames_in((peer or self.caller).take())

    def sync(self) -> None:
        """Let the disk finish what it was given, and what follows from that."""
        while self.scheduler.offloaded:
            self.finish_checks()

    @property
    def jetstream(self) -> StreamHost:
        assert self.node.jetstream is not None
        return self.node.jetstream

    def stream(self, name: str = "S", account: str = GLOBAL_ACCOUNT) -> Stream:
        """A stream from inside."""
        return self.jetstream.accounts[account].streams[name]

    def runner(self, stream: str = "S") -> ConsumerRunner:
        """The runner of the consumers of a stream."""
        found = self.jetstream.runners.find_consumers(GLOBAL_ACCOUNT, stream)
        assert found is not None
        return found

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.log_lines if "[ERR]" in line]


def pull_line(name: str, reply: str = "inbox.1", stream: str = "S", **asked: Any) -> bytes:
    """A pull as a client sends it."""
    body = json.dumps(asked).encode() if asked else b""
    head = f"PUB {API}CONSUMER.MSG.NEXT.{stream}.{name} {reply} {len(body)}\r\n"
    return head.encode() + body + b"\r\n"


def ack_line(subject: str, payload: bytes = b"+ACK", reply: str = "") -> bytes:
    """An acknowledgement as a client sends it."""
    back = f"{reply} " if reply else ""
    return f"PUB {subject} {back}{len(payload)}\r\n".encode() + payload + b"\r\n"


def numbers(frames: list[Frame]) -> list[int]:
    """The sequences in the stream of messages that came from a consumer."""
    return [int(frame.reply.split(".")[5]) for frame in frames if frame.reply]
