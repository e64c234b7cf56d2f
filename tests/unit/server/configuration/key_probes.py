"""Ways to look at a server from outside, to see whether a configuration key does anything.

A probe takes options and returns what a client, an operator or the disk would see of a server that
runs with them. Equal options always give equal answers, so that two answers differ only because of
the options. Settings as a server reports them are compared only if they are there to be reported.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from headwater.base.errors import OperatingError
from headwater.runtime.sockets.client_connection import WRITE_HIGH_BYTES
from headwater.server.configuration.flags import RunServer, parse_command_line
from headwater.server.configuration.options import Options
from headwater.server.lifecycle import Server
from headwater.server.monitoring.http import Monitor
from headwater.server.monitoring.pages.jsz import JszOptions, jsz
from headwater.server.monitoring.pages.subsz import SubszOptions, subsz
from headwater.server.monitoring.pages.varz import varz
from headwater.testing import World as SimWorld
from headwater.testing import simulated_environment
from headwater.testing.marks import SimMarks
from tests.kit.monitored_world import monitored_world
from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer, World

Probe = Callable[[Options], object]

# With this many clients, they leave faster than one each second.
LEAVING_CLIENTS: Final = 60
HEADERS: Final = b"NATS/1.0\r\nA: b\r\n\r\n"


def options_of(text: str, *flags: str) -> Options:
    """The options of a server that is started with this file, and flags."""
    command = parse_command_line(["-c", "server.conf", *flags], lambda _: text.encode(), {})
    assert isinstance(command, RunServer)
    return command.options


def publish(subject: str, size: int = 1, reply: str = "") -> bytes:
    return f"PUB {subject} {reply} {size}\r\n{'x' * size}\r\n".encode()


# --- clients ------------------------------------------------------------------------------------


def talk(*said: bytes, **connect: object) -> Probe:
    """The answers to a client that said these, and the reason why it was closed."""

    def probe(options: Options) -> object:
        peer = World(options).modern(**connect)
        return [peer.ask(each) for each in said], peer.reason

    return probe


def enters(**connect: object) -> Probe:
    """Whether a client that says so is let in."""

    def probe(options: Options) -> object:
        world = World(options)
        peer = world.open()
        reply = peer.ask(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
        world.finish_checks()
        return reply + peer.take(), peer.reason

    return probe


def told_in_info(*keys: str) -> Probe:
    """The values of these keys in the INFO that every client is sent first."""

    def probe(options: Options) -> object:
        document = json.loads(World(options).open().take().partition(b" ")[2])
        return [document.get(key) for key in keys]

    return probe


def second_connection(options: Options) -> object:
    world = World(options)
    world.modern()
    return world.open().reason


def second_connection_of_a_user(options: Options) -> object:
    world = World(options)
    world.modern(user="a", password="a")
    return world.modern(user="a", password="a").reason


def closed_ones_remembered(options: Options) -> object:
    world = World(options)
    for _ in range(2):
        world.open().connection.leave()
        world.settle()
    return len(world.node.roster.closed)


def pings_in_quarter_minute(options: Options) -> object:
    world = World(options)
    peer = world.modern()
    world.advance(15)
    return peer.take().count(b"PING"), peer.reason


def silent_before_connect(options: Options) -> object:
    world = World(options)
    peer = world.open()
    world.advance(5)
    return peer.reason


def _listener_that_does_not_read(world: World) -> Peer:
    peer = world.modern()
    peer.send(b"SUB slow 1\r\n")
    peer.connection.stop_reading()
    return peer


def much_for_a_slow_reader(options: Options) -> object:
    world = World(options)
    slow = _listener_that_does_not_read(world)
    world.modern().send(publish("slow", 900) * 3)
    return slow.reason


def a_write_that_takes_long(options: Options) -> object:
    world = World(options)
    slow = _listener_that_does_not_read(world)
    world.modern().send(publish("slow", WRITE_HIGH_BYTES + 1))
    world.advance(3)
    return slow.reason


def publisher_of_a_slow_reader(options: Options) -> object:
    world = World(options)
    _listener_that_does_not_read(world)
    publisher = world.modern()
    publisher.send(publish("slow", 900) * 2)
    publisher.push(publish("slow"))
    return publisher.connection.reading


def cached_routes(options: Options) -> object:
    world = World(options)
    peer = world.modern()
    peer.send(b"SUB a.> 1\r\n" + publish("a.b.c") + publish("a.c.d"))
    return subsz(world.node.facts, SubszOptions()).num_cache


def traced(*said: bytes, **connect: object) -> Probe:
    """The log lines of a conversation."""

    def probe(options: Options) -> object:
        world = World(options)
        peer = world.modern(**connect)
        for each in said:
            peer.send(each)
        return world.log_lines

    return probe


def reply_permission(*, replies: int = 1, after_s: float = 0.0) -> Probe:
    """The fate of replies of a user who may only respond."""

    def probe(options: Options) -> object:
        world = World(options)
        responder, asker = (world.modern(user=name, password=name) for name in "ab")
        responder.send(b"SUB service 1\r\n")
        asker.send(b"SUB inbox 1\r\n" + publish("service", reply="inbox"))
        world.advance(after_s)
        asker.take()
        for _ in range(replies):
            responder.send(publish("inbox"))
        return asker.take().count(b"MSG inbox")

    return probe


def answers_system_requests(**connect: object) -> Probe:
    """Whether a user reaches the services of the system account."""

    def probe(options: Options) -> object:
        world = monitored_world(options)
        peer = world.modern(**connect)
        peer.send(b"SUB in 1\r\n" + publish("$SYS.REQ.SERVER.PING.VARZ", 0, "in"))
        world.advance(1)
        return b'"server"' in peer.take()

    return probe


def has_system_account(options: Options) -> object:
    return World(options).node.accounts.get("$SYS") is not None


# --- monitoring ---------------------------------------------------------------------------------


def told_by_varz(*keys: str) -> Probe:
    """The values on /varz of settings that are for people to read."""

    def probe(options: Options) -> object:
        page = varz(monitored_world(options).node.facts)
        return [getattr(page, key) for key in keys]

    return probe


def told_by_jsz(*keys: str) -> Probe:
    def probe(options: Options) -> object:
        page = jsz(StoredWorld(options).start().node.facts, JszOptions(config=True))
        return [getattr(page.config, key, getattr(page.limits, key, None)) for key in keys]

    return probe


def page_at(path: str) -> Probe:
    """Whether there is a page of the monitor at a path."""

    def probe(options: Options) -> object:
        node = monitored_world(options).node
        return Monitor(node.facts, node.log).respond(path).status

    return probe


# --- streams ------------------------------------------------------------------------------------


def stored(options: Options) -> StoredWorld:
    """A server as it starts: with streams only if they are enabled."""
    world = StoredWorld(options)
    return world.start() if options.jetstream.enabled else world


def api(*calls: tuple[str, object], **connect: object) -> Probe:
    """The answers of the API, without the descriptions of streams."""

    def probe(options: Options) -> object:
        world = stored(options)
        peer = world.modern(**connect)
        replies = [world.request(f"$JS.API.{name}", body, peer) for name, body in calls]
        return [reply.get("error", "done") for reply in replies]

    return probe


def stream(name: str = "S", **config: object) -> tuple[str, object]:
    """The call that makes a stream."""
    return f"STREAM.CREATE.{name}", {"name": name, "subjects": [name], **config}


def consumer(name: str, **config: object) -> tuple[str, object]:
    """The call that makes a consumer of the stream S."""
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit"} | config}
    return f"CONSUMER.DURABLE.CREATE.S.{name}", body


def is_answered(subject: str) -> Probe:
    """Whether anybody answers on a subject."""

    def probe(options: Options) -> object:
        peer = stored(options).modern()
        return b"503" not in peer.ask(b"SUB in 1\r\n" + publish(subject, 0, "in"))

    return probe


def files_of_a_message(options: Options) -> object:
    """Everything on the disk after a stream was made and a message was stored."""
    world = stored(options)
    world.create("S")
    world.modern().send(publish("s", 9))
    world.node.close_jetstream()
    return world.disk.dump()


def folders_of_marks(options: Options) -> object:
    """The folders in which a store asks for its mark."""
    folders: list[str] = []

    def marks_in(folder: str) -> SimMarks:
        folders.append(folder)
        return SimMarks()

    StoredWorld(options, marks_in=marks_in).start()
    return folders


def reads_what_another_key_wrote(options: Options) -> object:
    """Whether a store that was written under the key `old` can be read."""
    world = stored(options_of("jetstream { store_dir: /data, max_file: 1M, key: old }"))
    world.create("S")
    world.modern().send(publish("s", 9))
    again = world.after_restart(options)
    try:
        again.start()
    except OperatingError:
        return "refused"
    return again.request("$JS.API.STREAM.INFO.S").get("state", {}).get("messages")


def left_by_a_power_loss(options: Options) -> object:
    """The number of messages that survive a power loss two seconds after they were stored."""
    world = stored(options)
    world.create("S")
    world.modern().send(publish("s", 9))
    for _ in range(4):
        world.advance(0.5)
        world.finish_checks()
    world.disk.power_loss("strict")
    again = StoredWorld(options, world.disk).start()
    return again.request("$JS.API.STREAM.INFO.S")["state"]["messages"]


def flood(count: int, size: int = 1) -> Probe:
    """The number of publishes, of many in one turn, that are stored."""

    def probe(options: Options) -> object:
        world = stored(options)
        world.create("S")
        world.modern().send(publish("s", size) * count)
        return world.request("$JS.API.STREAM.INFO.S")["state"]["messages"]

    return probe


def batches(*said: tuple[str, str, int, bool], wait_s: float = 0.0) -> Probe:
    """The answers to atomic publishes: stream, id, number and whether it commits.

    Before the last of them some time passes.
    """

    def probe(options: Options) -> object:
        world = stored(options)
        for name in ("S", "T"):
            world.create(name, allow_atomic=True)
        peer = world.modern()
        peer.send(b"SUB in 1\r\n")
        for position, (name, identity, number, commits) in enumerate(said):
            if position == len(said) - 1:
                world.advance(wait_s)
            lines = f"Nats-Batch-Id: {identity}\r\nNats-Batch-Sequence: {number}\r\n"
            lines += "Nats-Batch-Commit: 1\r\n" if commits else ""
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
            subject, size = name.lower().encode(), len(block)
            peer.send(b"HPUB %b in %d %d\r\n%b\r\n" % (subject, size, size, block))
        received = bytes(peer.connection.received)
        return received.count(b'"error"'), received.count(b'"batch"')

    return probe


# --- whole servers ------------------------------------------------------------------------------


def running(look: Callable[[SimWorld, Server, list[str]], Awaitable[object]]) -> Probe:
    """Look at a server that listens, logs and writes files, in a world with its own time."""

    def probe(options: Options) -> object:
        async def main(world: SimWorld) -> object:
            host = world.host("server")
            lines: list[str] = []
            environment = simulated_environment(world, host)
            host.files.make_dirs("/run")
            server = Server(options, environment, lambda line: lines.append(line.decode()))
            await host.run(server.start())
            return await look(world, server, lines)

        return SimWorld(seed=1).run(main)

    return probe


async def _ports(_: SimWorld, server: Server, __: list[str]) -> object:
    return server.client_port, bool(server.monitoring_port)


async def _listening_lines(_: SimWorld, __: Server, lines: list[str]) -> object:
    return [line.split("] ")[-1] for line in lines if "isten" in line or "monitor" in line]


async def _files(world: SimWorld, _: Server, __: list[str]) -> object:
    return world.host("server").files.paths()


async def _stamps(_: SimWorld, __: Server, lines: list[str]) -> object:
    return [line.split("[INF]")[0] for line in lines]


async def _levels(_: SimWorld, server: Server, lines: list[str]) -> object:
    reader, writer = await asyncio.open_connection("server", server.client_port)
    await reader.readline()
    writer.close()
    return {line.split("[")[2][:3] for line in lines if line.count("[") > 1}


async def _lame_duck_s(world: SimWorld, server: Server, __: list[str]) -> object:
    """The seconds after which the first client and the last are gone in lame duck mode."""
    clients = [
        await asyncio.open_connection("server", server.client_port) for _ in range(LEAVING_CLIENTS)
    ]
    for reader, _ in clients:
        await reader.readline()
    began_s = world.loop.time()
    leaving = world.host("server").spawn(server.lame_duck())
    gone_s = []
    for reader, _ in clients:
        await reader.read()
        gone_s.append(round(world.loop.time() - began_s))
    await leaving
    return gone_s[0], gone_s[-1]


ports: Final = running(_ports)
listening_lines: Final = running(_listening_lines)
files: Final = running(_files)
stamps: Final = running(_stamps)
levels: Final = running(_levels)
lame_duck_s: Final = running(_lame_duck_s)
