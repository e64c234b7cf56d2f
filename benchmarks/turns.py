"""`python -m benchmarks.turns [NAME ...]`: the cost of one turn of the server, without sockets.

A whole node with the machine's own clock and files is driven by a list of calls instead of a loop,
and by a transport that only remembers the bytes. So the figures are the server's own time, the
calls that it makes (of Python functions and of built-in ones), and the objects it leaves for the
allocator at the peak of a turn. System calls are part of the time only where files are written.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from types import FrameType
from typing import Any, Final, TypeVar, cast

from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.runtime.clock import SystemClock
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.environment import Environment, TimerHandle
from headwater.runtime.files import SystemFiles
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.runtime.marks import SystemMarks
from headwater.runtime.open_files import OpenFiles
from headwater.runtime.process import SystemProcess
from headwater.runtime.sockets.client_connection import ClientConnection
from headwater.runtime.sockets.tls import load_context
from headwater.runtime.time_zones import find_zone
from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.log import Log
from headwater.server.node import Node
from headwater.store.log.message_log import Batch

T = TypeVar("T")

ROUNDS: Final = 120
TURNS: Final = 100
COUNTED_TURNS: Final = 20
PAYLOAD: Final = b"x" * 128
INBOX: Final = b"_INBOX.benchmark"
CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"lang":"python3","version":"2","protocol":1}\r\nPING\r\n'
)


class _Handle:
    """A planned call."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class _Scheduler:
    """Calls of the next turn; timers never fire, and work for threads is done at once."""

    __slots__ = ("soon",)

    def __init__(self) -> None:
        self.soon: deque[_Handle] = deque()

    def call_soon(self, call: Callable[[], object]) -> TimerHandle:
        handle = _Handle(call)
        self.soon.append(handle)
        return handle

    def call_later(self, delay_s: float, call: Callable[[], object]) -> TimerHandle:
        return _Handle(call)

    def offload(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        found = work()
        self.call_soon(lambda: done(found))

    def run(self) -> None:
        """Run the planned calls, and those that they plan."""
        soon = self.soon
        while soon:
            call = soon.popleft().call
            if call is not None:
                call()


class _Transport:
    """The transport of a connection: it remembers the bytes of the last write."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 4000

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class Peer:
    """The other end of one connection."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._transport = _Transport()
        self._connection = ClientConnection(server.node.connections)
        self._connection.connection_made(cast(Any, self._transport))
        self.ask(CONNECT)

    def ask(self, data: bytes) -> bytes:
        """The bytes that come back for one read of the server."""
        self._connection.data_received(data)
        self._server.scheduler.run()
        return self.received()

    def received(self) -> bytes:
        """The bytes that came since they were last asked for."""
        data = b"".join(self._transport.written)
        self._transport.written.clear()
        return data


class Server:
    """A node with files in a folder, and no sockets."""

    def __init__(self, folder: str) -> None:
        self.scheduler = _Scheduler()
        environment = Environment(
            clock=SystemClock(),
            entropy=SystemEntropy(),
            files=SystemFiles(),
            network=cast(Any, None),
            scheduler=self.scheduler,
            process=SystemProcess(),
            disk=OpenFiles(SystemFileSystem(), 1024),
            boot_id=boot_id(),
            marks_in=SystemMarks,
            find_zone=find_zone,
            load_tls=load_context,
        )
        options = Options(jetstream=JetStreamOptions(enabled=True, store_dir=folder))
        self.node = Node(options, environment, Log(lambda line: None, environment.clock, 1))
        self.node.open_jetstream()
        self.scheduler.run()

    def request(self, peer: Peer, subject: str, body: object) -> Any:
        """The answer of the API."""
        payload = json.dumps(body).encode()
        line = f"PUB $JS.API.{subject} _INBOX.benchmark.api {len(payload)}\r\n".encode()
        answer = json.loads(peer.ask(line + payload + b"\r\n").partition(b"\r\n")[2].rstrip())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def create(self, peer: Peer, name: str, subjects: Sequence[str], **config: object) -> None:
        """Create a stream."""
        self.request(peer, f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **config})


Turn = Callable[[int], object]


def turns_of(name: str) -> int:
    """The number of turns of a round: few of those with many messages."""
    return TURNS // 50 if "00" in name else TURNS


def asker(server: Server) -> Peer:
    """A client with an inbox."""
    peer = Peer(server)
    peer.ask(b"SUB %b.* 1\r\n" % INBOX)
    return peer


def ping(server: Server) -> Turn:
    """PING and PONG."""
    peer = asker(server)
    return lambda number: peer.ask(b"PING\r\n")


def core_request(server: Server) -> Turn:
    """A request to another client, and its reply: two turns."""
    peer, responder = asker(server), Peer(server)
    responder.ask(b"SUB service 1\r\n")

    def turn(number: int) -> None:
        peer.ask(b"PUB service %b.%d 16\r\n%b\r\n" % (INBOX, number, PAYLOAD[:16]))
        responder.received()
        responder.ask(b"PUB %b.%d 16\r\n%b\r\n" % (INBOX, number, PAYLOAD[:16]))
        assert peer.received()

    return turn


def publish(count: int, **config: object) -> Callable[[Server], Turn]:
    """`count` publishes with replies in one read."""

    def prepare(server: Server) -> Turn:
        peer = asker(server)
        server.create(peer, "S", ["orders.>"], **config)

        frame = b"PUB orders.new %b.%d 128\r\n%b\r\n"
        reads = [
            b"".join(frame % (INBOX, first + each, PAYLOAD) for each in range(count))
            for first in range(10)
        ]
        return lambda number: peer.ask(reads[number % 10])

    return prepare


def publish_varied(server: Server) -> Turn:
    """1,000 publishes to different subjects in one read."""
    peer = asker(server)
    server.create(peer, "S", ["orders.>"])

    frame = b"PUB orders.%d %b.%d 128\r\n%b\r\n"
    read = b"".join(frame % (each, INBOX, each, PAYLOAD) for each in range(1000))
    return lambda number: peer.ask(read)


def core(subjects: Sequence[bytes], sizes: Sequence[int]) -> Callable[[Server], Turn]:
    """500 publishes of different sizes to different subjects, for one subscriber."""

    def prepare(server: Server) -> Turn:
        peer, subscriber = Peer(server), Peer(server)
        subscriber.ask(b"SUB core.* 1\r\nSUB _INBOX.core.* 2\r\n")
        frame = b"PUB %b %d\r\n%b\r\n"
        chosen = zip(subjects, cycle(sizes), strict=False)
        frames = [frame % (subject, size, bytes(size)) for subject, size in chosen]
        reads = [b"".join(frames[first : first + 500]) for first in range(0, len(frames), 500)]

        def turn(number: int) -> None:
            peer.ask(reads[number % len(reads)])
            subscriber.received()

        return turn

    return prepare


def prepare_consumer(server: Server, peer: Peer) -> None:
    """Create a stream with enough messages, and a consumer."""
    server.create(peer, "S", ["orders.>"])
    config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1}
    body = {"stream_name": "S", "config": config}
    server.request(peer, "CONSUMER.DURABLE.CREATE.S.C", body)
    frame = b"PUB orders.new 128\r\n%b\r\n" % PAYLOAD
    for _ in range((ROUNDS + 3) * TURNS // 100):
        peer.ask(frame * 100)


def pull(server: Server) -> Turn:
    """A pull, its delivery, and the acknowledgement: two reads."""
    peer = asker(server)
    prepare_consumer(server, peer)

    def turn(number: int) -> None:
        body = b'{"batch":1,"expires":5000000000}'
        subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
        got = peer.ask(b"PUB %b %b.%d %d\r\n%b\r\n" % (subject, INBOX, number, len(body), body))
        reply = got.split(b" ", 4)[3]
        peer.ask(b"PUB %b 4\r\n+ACK\r\n" % reply)

    return turn


def ack_and_pull(server: Server) -> Turn:
    """An acknowledgement and the pull for the next message, in one read, as clients send them."""
    peer = asker(server)
    prepare_consumer(server, peer)
    body = b'{"batch":1,"expires":5000000000}'
    subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
    ask = b"PUB %b %b.%%d %d\r\n%b\r\n" % (subject, INBOX, len(body), body)
    acks = [b""]

    def turn(number: int) -> None:
        got = peer.ask(acks.pop() + ask % number)
        acks.append(b"PUB %b 4\r\n+ACK\r\n" % got.split(b" ", 4)[3])

    return turn


def publish_to_pull(server: Server) -> Turn:
    """A publish to a stream whose consumer has a waiting pull, and its delivery."""
    peer = asker(server)
    server.create(peer, "S", ["orders.>"])
    config = {"durable_name": "C", "ack_policy": "none"}
    body = {"stream_name": "S", "config": config}
    server.request(peer, "CONSUMER.DURABLE.CREATE.S.C", body)
    ask = b'{"batch":1000000}'
    subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
    peer.ask(b"PUB %b %b.pull %d\r\n%b\r\n" % (subject, INBOX, len(ask), ask))
    frame = b"PUB orders.new %b.%%d 128\r\n%b\r\n" % (INBOX, PAYLOAD)
    return lambda number: peer.ask(frame % number)


def batches(count: int, subjects: int, first: int) -> Iterator[tuple[int, Batch]]:
    """Batches of messages on so many subjects, each with its first sequence."""
    names = [b"orders.%d" % (each % subjects) for each in range(count)]
    headers, payloads = [b""] * count, [PAYLOAD] * count
    while True:
        yield first, Batch(names[:], headers[:], payloads[:], [time.time_ns()] * count)
        first += count


def encode(count: int, subjects: int = 1) -> Callable[[Server], Turn]:
    """The bytes of an entry of a replicated stream, as its leader makes them."""

    def prepare(server: Server) -> Turn:
        codec = RecordCodec(1, has_replicas=True)
        made = batches(count, subjects, 1)
        return lambda number: encode_entry(codec, [Published(*next(made))])

    return prepare


def follow(count: int, subjects: int = 1, **config: object) -> Callable[[Server], Turn]:
    """An entry of `count` messages, which a server applies that does not lead their stream."""

    def prepare(server: Server) -> Turn:
        server.create(asker(server), "S", ["orders.>"], **config)
        assert server.node.jetstream is not None
        streams = server.node.jetstream.streams
        (created,) = server.node.jetstream.stream_set.log.streams
        replica = streams.become_replica("$G", "S", created.incarnation)
        follower = replica.follower
        assert follower is not None
        codec = RecordCodec(replica.stream.log.record_seed, has_replicas=True)
        made = islice(batches(count, subjects, 1), COUNTED_TURNS + ROUNDS * turns_of(str(count)))
        entries = [encode_entry(codec, [Published(*each)]) for each in made]
        begin = replica.applied_index + 1

        def turn(number: int) -> None:
            assert follower.apply([(begin + number, entries[number])]) == begin + number

        return turn

    return prepare


def direct_get(server: Server) -> Turn:
    """A direct get of the last message of a subject."""
    peer = asker(server)
    server.create(peer, "S", ["orders.>"], allow_direct=True)
    peer.ask(b"PUB orders.new 128\r\n%b\r\n" % PAYLOAD)
    subject = b"$JS.API.DIRECT.GET.S.orders.new"
    return lambda number: peer.ask(b"PUB %b %b.%d 0\r\n\r\n" % (subject, INBOX, number))


def linearizable_get(server: Server) -> Turn:
    """A linearizable direct get, on a server that is alone and needs no lease."""
    peer = asker(server)
    server.create(peer, "S", ["orders.>"], read_consistency="weak")
    peer.ask(b"PUB orders.new 128\r\n%b\r\n" % PAYLOAD)
    subject = b"$JS.API.DIRECT_LEADER.GET.S.orders.new"
    return lambda number: peer.ask(b"PUB %b %b.%d 0\r\n\r\n" % (subject, INBOX, number))


TURNS_BY_NAME: Final[dict[str, Callable[[Server], Turn]]] = {
    "ping": ping,
    "core-request": core_request,
    "publish-1": publish(1),
    "publish-1-memory": publish(1, storage="memory"),
    "publish-1-async": publish(1, persist_mode="async"),
    "publish-100": publish(100),
    "publish-1000": publish(1000),
    "publish-1000-subjects": publish_varied,
    "core-500-subjects": core([b"core.%d" % each for each in range(1000)], (16, 128, 512)),
    "core-500-replies": core([b"_INBOX.core.%d" % each for each in range(200_000)], (16,)),
    "pull-deliver-ack": pull,
    "ack-pull-deliver": ack_and_pull,
    "publish-to-pull": publish_to_pull,
    "direct-get": direct_get,
    "linearizable-get": linearizable_get,
    "encode-1": encode(1),
    "encode-1000": encode(1000),
    "encode-1000-subjects": encode(1000, 1000),
    "follow-1": follow(1),
    "follow-100": follow(100),
    "follow-1000": follow(1000),
    "follow-1000-subjects": follow(1000, 1000),
    "follow-1000-memory": follow(1000, storage="memory"),
}


@dataclass(frozen=True)
class Cost:
    """The cost of one turn: microseconds, calls of Python functions, and calls of built-in ones."""

    us: float
    python_calls: float
    builtin_calls: float
    callees: Counter[str]


def measure(name: str, rounds: int, turns: int) -> Cost:
    """Measure one kind of turn: the quickest of all rounds, and the calls of a few turns."""
    with tempfile.TemporaryDirectory() as folder:
        turn = TURNS_BY_NAME[name](Server(folder))
        number = 0
        best_s = float("inf")
        gc.collect()
        gc.freeze()
        for _ in range(rounds):
            began_s = time.process_time()
            for _ in range(turns):
                turn(number)
                number += 1
            best_s = min(best_s, (time.process_time() - began_s) / turns)
        calls: Counter[str] = Counter()
        callees: Counter[str] = Counter()

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                code = frame.f_code
                if not code.co_filename.endswith("turns.py"):
                    callees[f"{code.co_filename.rpartition('headwater/')[2]} {code.co_name}"] += 1
                    calls[event] += 1
            elif event == "c_call" and not frame.f_code.co_filename.endswith("turns.py"):
                callees[f"  {getattr(argument, '__qualname__', argument)}"] += 1
                calls[event] += 1

        sys.setprofile(profile)
        for _ in range(COUNTED_TURNS):
            turn(number)
            number += 1
        sys.setprofile(None)
    return Cost(
        best_s * 1e6, calls["call"] / COUNTED_TURNS, calls["c_call"] / COUNTED_TURNS, callees
    )


def main() -> None:
    """Print a line for each kind of turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TURNS_BY_NAME))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--callees", action="store_true", help="list the functions by calls")
    options = parser.parse_args()
    print(f"{'turn':24}{'us':>10}{'python':>10}{'built-in':>10}")
    for name in options.names or TURNS_BY_NAME:
        cost = measure(name, min(options.rounds, ROUNDS), turns_of(name))
        print(f"{name:24}{cost.us:>10.1f}{cost.python_calls:>10.1f}{cost.builtin_calls:>10.1f}")
        if options.callees:
            for callee, count in cost.callees.most_common():
                if count * 2 >= COUNTED_TURNS:
                    print(f"    {count / COUNTED_TURNS:6.1f}  {callee}")


if __name__ == "__main__":
    main()
