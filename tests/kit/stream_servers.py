"""Servers for the tests of Spark, and what is done to them behind Spark's back.

A `Server` is a real process, Headwater or nats-server, with its own store. It keeps store and port
when it is stopped, killed or restarted, so that a query that was running finds it again. Streams
are filled and read back through the bytes of the protocol, never through the code under test.
"""

import itertools
import json
import random
import signal
import socket
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tests.kit.server_process import HEADWATER, ORACLE, Program, ServerProcess, Setup
from tests.kit.wire_client import CLOSED, WireClient

PROGRAMS: Final[Mapping[str, Program]] = {"headwater": HEADWATER, "nats-server": ORACLE}
KINDS: Final = tuple(PROGRAMS)

HOST: Final = "127.0.0.1"
STORE: Final = "store"

# Below the ports that systems give to outgoing connections, one of which could otherwise take the
# port of a server that is down for a moment.
PORTS: Final = range(20_000, 32_000)

PUBLISH_AHEAD_COUNT: Final = 5_000
"""Messages under way at once: nats-server drops publishes more than 10,000 ahead of a stream."""

READ_AHEAD_COUNT: Final = 512
"""Messages that are asked for at once when a stream is read back."""

FORGET_LOOKS_MAX: Final = 10_000
"""A stream with a short duplicate window is asked so often whether it forgot an id."""

NO_MESSAGE: Final = 10037
STORE_NOT_CREATED: Final = 10049
INBOX: Final = "_INBOX.tests"


class ApiRefusal(AssertionError):
    """The server answered an API request with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.err_code = int(error.get("err_code", 0))


@dataclass(frozen=True)
class Message:
    """A message as a publisher gives it; `header` is the whole block, or nothing."""

    subject: str
    data: bytes = b""
    header: bytes = b""

    def frame(self, reply: str = "") -> bytes:
        head, size = self.header, len(self.header) + len(self.data)
        words = f"{self.subject} {reply}".rstrip()
        if head:
            return b"HPUB %b %d %d\r\n%b%b\r\n" % (words.encode(), len(head), size, head, self.data)
        return b"PUB %b %d\r\n%b\r\n" % (words.encode(), size, self.data)


@dataclass(frozen=True)
class Stored:
    """A message as the stream has it."""

    sequence: int
    subject: str
    data: bytes
    header: bytes
    time: str


Publish: TypeAlias = Callable[[Iterable[Message | tuple[str, bytes]]], int]
"""Publishes messages of one stream; the sequence of the last one."""


def header_block(headers: Mapping[str, Sequence[str]]) -> bytes:
    """The bytes of these headers, in this order."""
    lines = [f"{name}: {value}\r\n" for name, values in headers.items() for value in values]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()


class Server:
    """One server process after another on one store and one port."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        config: str = "",
        files: Mapping[str, str] = MappingProxyType({}),
        credentials: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`credentials` are the members of CONNECT with which the tests themselves come in."""
        self.kind = kind
        self.directory = directory
        self.port = free_port()
        flags = ("-a", HOST, "-p", str(self.port), "-js", "-sd", STORE)
        self._setup = Setup(config=config, flags=flags, files=tuple(files.items()))
        self._credentials = dict(credentials)
        directory.mkdir(parents=True, exist_ok=True)
        self._process = self._launch()

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Once more, after `stop` or `kill`."""
        self._process = self._launch()

    def stop(self) -> None:
        """In an orderly way; harmless when it is not running."""
        self._process.stop()

    def kill(self) -> None:
        """As a crash does."""
        self._process.signal(signal.SIGKILL)
        self._process.wait_for_exit()
        self._process.stop()

    def has_exited(self, wait_s: float) -> bool:
        """Whether somebody else has ended it, or does so within that time."""
        return self._process.has_exited(wait_s)

    def restart(self) -> None:
        self.stop()
        self.start()

    # --- streams ---------------------------------------------------------------------------------

    def call(self, tail: str, document: object | None = None) -> dict[str, Any]:
        """One request of the JetStream API; raises `ApiRefusal`."""
        with self._connect() as client:
            return _answer(client, Message(f"$JS.API.{tail}", _encoded(document)))

    def create_stream(self, name: str, *subjects: str, **config: object) -> dict[str, Any]:
        """A stream in a file, on `<name>.>` unless subjects are named; durations in nanoseconds."""
        document = {
            "name": name,
            "subjects": subjects or [f"{name}.>"],
            "storage": "file",
            "allow_direct": True,
            **config,
        }
        try:
            return self.call(f"STREAM.CREATE.{name}", document)
        except ApiRefusal as refusal:
            if refusal.err_code != STORE_NOT_CREATED:
                raise
            # nats-server may still be removing the files of a stream of this name.
            return self.call(f"STREAM.CREATE.{name}", document)

    def create_bucket(self, name: str, history: int = 1, **config: object) -> dict[str, Any]:
        """A key-value bucket, as the clients make them."""
        return self.create_stream(
            f"KV_{name}",
            f"$KV.{name}.>",
            **{
                "max_msgs_per_subject": history,
                "discard": "new",
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                **config,
            },
        )

    def delete_stream(self, name: str) -> None:
        self.call(f"STREAM.DELETE.{name}")

    def purge(self, name: str, **request: object) -> None:
        """Everything, or what `seq`, `keep` and `filter` say."""
        self.call(f"STREAM.PURGE.{name}", request)

    def delete_message(self, name: str, sequence: int) -> None:
        self.call(f"STREAM.MSG.DELETE.{name}", {"seq": sequence, "no_erase": True})

    def state(self, name: str) -> dict[str, Any]:
        """Of a stream: messages, bytes, first_seq, last_seq, consumer_count and more."""
        state: dict[str, Any] = self.call(f"STREAM.INFO.{name}")["state"]
        return state

    def publish(self, messages: Iterable[Message | tuple[str, bytes]]) -> int:
        """Fast, with an ack now and then and for the last one, whose sequence is returned.

        All of them belong to one stream: when it has a message it has those before it.
        """
        with self.publishing() as publish:
            return publish(messages)

    @contextmanager
    def publishing(self) -> "Iterator[Publish]":
        """Publish a message over and over, on one connection."""

        def publish(messages: Iterable[Message | tuple[str, bytes]]) -> int:
            sequence = 0
            coming = iter(messages)
            while part := [*itertools.islice(coming, PUBLISH_AHEAD_COUNT)]:
                made = [each if isinstance(each, Message) else Message(*each) for each in part]
                client.send(b"".join([each.frame() for each in made[:-1]]))
                sequence = int(_answer(client, made[-1])["seq"])
            return sequence

        with self._connect() as client:
            yield publish

    def forget_ids(self, stream: str) -> None:
        """Return when a message would be stored again whose id is known when this is called.

        Leaves messages at `<stream>.probe`.
        """
        probe = Message(f"{stream}.probe", b"", header_block({"Nats-Msg-Id": ["probe"]}))
        first = self.publish([probe])
        for _ in itertools.repeat(None, FORGET_LOOKS_MAX):
            if self.publish([probe]) != first:
                return
        raise AssertionError(f"stream {stream} never forgets ids")

    def stored(self, name: str, first: int = 1, last: int | None = None) -> list[Stored]:
        """All messages of a stream, read one by one: slow, and free of any cleverness."""
        last = self.state(name)["last_seq"] if last is None else last
        subject = f"$JS.API.STREAM.MSG.GET.{name}"
        found = []
        with self._connect() as client:
            for low in range(first, last + 1, READ_AHEAD_COUNT):
                sequences = range(low, min(low + READ_AHEAD_COUNT, last + 1))
                requests = (Message(subject, _encoded({"seq": each})) for each in sequences)
                client.send(b"".join(each.frame(f"{INBOX}.x") for each in requests))
                for _ in sequences:
                    try:
                        found.append(_stored(_reply(client)["message"]))
                    except ApiRefusal as refusal:
                        if refusal.err_code != NO_MESSAGE:
                            raise
        # A server may answer requests that came together in another order.
        return sorted(found, key=lambda each: each.sequence)

    def consumers(self, name: str) -> list[str]:
        """The names of what is left on a stream."""
        names: list[str] | None = self.call(f"CONSUMER.NAMES.{name}", {})["consumers"]
        return names or []

    def _launch(self) -> ServerProcess:
        process = ServerProcess(PROGRAMS[self.kind], self._setup, self.directory)
        try:
            process.wait_until_ready()
        except BaseException:
            process.stop()
            raise
        return process

    @contextmanager
    def _connect(self) -> Iterator[WireClient]:
        client = WireClient(HOST, self.port)
        try:
            client.frame()
            options = {"verbose": False, "headers": True, "no_responders": True}
            client.send(b"CONNECT %b\r\n" % _encoded(options | self._credentials))
            client.send(f"SUB {INBOX}.* 1\r\n")
            assert client.exchange() == []
            yield client
        finally:
            client.close()


def free_port() -> int:
    """A port of the loopback address that nothing listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as attempt:
            try:
                attempt.bind((HOST, port))
            except OSError:
                continue
            return port


def _encoded(document: object | None) -> bytes:
    return b"" if document is None else json.dumps(document).encode()


def _answer(client: WireClient, message: Message) -> dict[str, Any]:
    client.send(message.frame(f"{INBOX}.x"))
    return _reply(client)


def _reply(client: WireClient) -> dict[str, Any]:
    """The next answer; what a server says unasked is answered or passed over."""
    while not isinstance(frame := client.frame(), str) or not frame.startswith(("MSG ", "HMSG ")):
        assert frame != CLOSED, "the server closed the connection"
        assert not str(frame).startswith("-ERR"), frame
        if frame == "PING\r\n":
            client.send("PONG\r\n")
    head, _, rest = frame.partition("\r\n")
    assert head.startswith("MSG "), f"no such subject or stream: {rest!r}"
    document: dict[str, Any] = json.loads(rest.encode("latin-1"))
    if "error" in document:
        raise ApiRefusal(document["error"])
    return document


def _stored(document: dict[str, Any]) -> Stored:
    return Stored(
        document["seq"],
        document["subject"],
        b64decode(document.get("data", "")),
        b64decode(document.get("hdrs", "")),
        document["time"],
    )
