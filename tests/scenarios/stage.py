"""The server, the disk and the clients of a scenario, and the commands that act on them."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.keys import load_config
from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import STORE, StoredWorld
from tests.kit.world import Peer, World, connect_document
from tests.scenarios.outcome import (
    INBOX_SID,
    Line,
    Shapes,
    frames,
    line_of,
    parsed,
    unescaped,
)

API: Final = "$JS.API."
LEVELS: Final = re.compile(r"\[(?:WRN|ERR)\] .*")

_UNITS_NS: Final = {"ms": NS_PER_S // 1000, "s": NS_PER_S, "m": 60 * NS_PER_S}
_DURATION: Final = re.compile(r"(?<=[:\[,])(\d+)(ms|s|m)(?=[,\]}])")


@dataclass
class Actor:
    """A client by its name, where its replies arrive, and the messages it can acknowledge."""

    name: str
    peer: Peer
    # The state of its connection that the outcome told last.
    told: str = ""
    asked: int = 0
    ack_subjects: dict[int, bytes] = field(default_factory=dict)

    def ask(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish with a reply subject of its own, in a turn that goes on."""
        if not self.asked:
            self.peer.push(b"SUB _INBOX.%b.* %b\r\n" % (self.name.encode(), INBOX_SID))
        self.asked += 1
        self.publish(subject, body, f"_INBOX.{self.name}.{self.asked}", headers)

    def publish(
        self, subject: str, body: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish in a turn that goes on."""
        to = f"{subject} {reply}".rstrip()
        if not headers:
            self.peer.push(f"PUB {to} {len(body)}\r\n".encode() + body + b"\r\n")
            return
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        block = f"NATS/1.0\r\n{fields}\r\n".encode()
        line = f"HPUB {to} {len(block)} {len(block) + len(body)}\r\n"
        self.peer.push(line.encode() + block + body + b"\r\n")

    def take(self) -> Iterator[Line]:
        """The lines and messages that it has read since the last call."""
        for frame in frames(self.peer.take()):
            if self.asked and frame == b"PING":
                # A client library answers by itself.
                self.peer.send(b"PONG\r\n")
                continue
            line = line_of(frame)
            if frame.startswith((b"MSG ", b"HMSG ")) and (message := parsed(frame)).sequence:
                self.ack_subjects[message.sequence] = message.reply
            yield Line(f"{self.name} < {line.text}", line.document)


class Stage:
    """A server, its disk, and its clients by name."""

    def __init__(self) -> None:
        self._world = World()
        self._actors: dict[str, Actor] = {}
        self._lines_told = 0

    def perform(self, command: str, config: list[str], shapes: Shapes) -> list[str]:
        """Carry out one command; return its outcome."""
        words = command.split(" ", 2)
        rest = words[2] if len(words) > 2 else ""
        commands: dict[str, Callable[[], object]] = {
            "server": lambda: self._begin(options(config), SimDisk()),
            "reload": lambda: self._world.node.reload(options(config)),
            "open": lambda: self._join(words[1]),
            "connect": lambda: self._connect(words[1], rest or "{}"),
            "wait": lambda: self._world.advance(float(words[1])),
            "checks": self._world.finish_checks,
            "disk": self._finish_disk_work,
            "lame": self._world.node.announce_lame_duck,
            "stop": self._stop,
            "kill": lambda: self._disk.kill(),
            "power": lambda: self._disk.power_loss("kind" if rest.endswith("kept") else "strict"),
            "cut": lambda: self._cut(int(words[1]), command.rsplit(" ", 1)[1]),
            "start": lambda: self._begin(self._world.node.options, self._disk),
        }
        if words[0] in self._actors:
            self._act(self._actors[words[0]], words[1], rest)
        else:
            commands[words[0]]()
        if words[0] in ("stop", "kill", "power"):
            self._actors.clear()
        elif words[0] != "cut":
            self._world.settle()
        return [*self._outcome(shapes)]

    # --- the server ----------------------------------------------------------------------------

    def _begin(self, chosen: Options, disk: SimDisk) -> None:
        self._actors.clear()
        self._lines_told = 0
        if not chosen.jetstream.enabled:
            self._world = World(chosen)
            return
        passed_ns = self._world.clock.passed_ns
        world = self._world = StoredWorld(chosen, disk)
        # Time does not begin again when a process does.
        world.clock.passed_ns = passed_ns
        world.start()

    @property
    def _disk(self) -> SimDisk:
        assert isinstance(self._world, StoredWorld), "a server without streams has no disk"
        return self._world.disk

    def _stop(self) -> None:
        self._world.node.close_jetstream()
        self._disk.kill()

    def _finish_disk_work(self) -> None:
        while self._world.scheduler.offloaded:
            self._world.finish_checks()

    def _cut(self, size: int, pattern: str) -> None:
        (path,) = (
            path for path in self._disk.files() if fnmatch(PurePosixPath(path).name, pattern)
        )
        file = self._disk.open(path)
        file.truncate(file.size - size)
        file.close()

    # --- clients -------------------------------------------------------------------------------

    def _join(self, name: str) -> Peer:
        peer = self._world.open()
        self._actors[name] = Actor(name, peer)
        return peer

    def _connect(self, name: str, changes: str) -> None:
        document = connect_document(**msgspec.json.decode(changes))
        self._join(name).send(b"CONNECT %b\r\n" % document)

    def _act(self, actor: Actor, verb: str, rest: str) -> None:
        peer = actor.peer
        actions: dict[str, Callable[[], object]] = {
            ">": lambda: peer.push(unescaped(rest) + b"\r\n"),
            ">>": lambda: peer.push(unescaped(rest)),
            "stops": peer.connection.stop_reading,
            "reads": peer.connection.start_reading,
            "leaves": peer.connection.leave,
            "asks": lambda: self._ask(actor, rest),
            "publishes": lambda: self._publish(actor, rest),
            "pulls": lambda: self._pull(actor, rest),
            "acks": lambda: self._acknowledge(actor, "+ACK", rest),
            "naks": lambda: self._acknowledge(actor, "-NAK", rest),
            "terminates": lambda: self._acknowledge(actor, "+TERM", rest),
            "works": lambda: self._acknowledge(actor, "+WPI", rest.removeprefix("on ")),
        }
        actions[verb]()

    def _ask(self, actor: Actor, call: str) -> None:
        operation, _, body = call.partition(" ")
        actor.ask(API + operation, in_nanoseconds(body).encode())
        if operation.startswith(("STREAM.CREATE.", "STREAM.DELETE.")):
            # Only the syncs of messages are the business of a scenario.
            self._world.settle()
            self._finish_disk_work()

    def _publish(self, actor: Actor, message: str) -> None:
        subject, _, payload = message.partition(" ")
        headers: dict[str, str] = {}
        if payload.startswith('{"'):
            headers, end = json.JSONDecoder().raw_decode(payload)
            payload = payload[end:].removeprefix(" ")
        actor.ask(subject, unescaped(payload), headers)

    def _pull(self, actor: Actor, pull: str) -> None:
        stream, consumer, *body = pull.split(" ", 2)
        request = in_nanoseconds(body[0]) if body else ""
        actor.ask(f"{API}CONSUMER.MSG.NEXT.{stream}.{consumer}", request.encode())

    def _acknowledge(self, actor: Actor, word: str, rest: str) -> None:
        sequence, _, more = rest.partition(" ")
        body = f"{word} {in_nanoseconds(more)}".rstrip()
        actor.publish(actor.ack_subjects[int(sequence)].decode(), body.encode())

    # --- outcome -------------------------------------------------------------------------------

    def _outcome(self, shapes: Shapes) -> Iterator[str]:
        for actor in self._actors.values():
            shown = [shapes.shown(line) for line in actor.take()]
            for text, repeated in itertools.groupby(shown):
                count = len(list(repeated))
                yield text if count == 1 else f"{text}   ({count} times)"
            state = self._state_of(actor.peer)
            if state != actor.told:
                actor.told = state
                yield f"{actor.name} {state or 'is read from again'}"
        if isinstance(self._world, StoredWorld):
            yield from self._complaints()

    def _state_of(self, peer: Peer) -> str:
        if peer.reason:
            return f"is closed: {peer.reason}"
        return "" if peer.connection.reading else "is not read from"

    def _complaints(self) -> Iterator[str]:
        lines = self._world.log_lines
        for line in lines[self._lines_told :]:
            if found := LEVELS.search(line):
                yield f"server says {found.group()}"
        self._lines_told = len(lines)


def options(config: list[str]) -> Options:
    """Options as `headwater serve -c` would make them of this configuration."""
    text = "\n".join(config).encode()
    loaded = load_config("scenario.conf", lambda path: text, {}).options
    loaded.validate()
    if loaded.jetstream.enabled and not loaded.jetstream.store_dir:
        return replace(loaded, jetstream=replace(loaded.jetstream, store_dir=STORE))
    return loaded


def in_nanoseconds(body: str) -> str:
    """A body of JSON in which durations may have a unit: `"ack_wait":2s`."""
    return _DURATION.sub(lambda match: str(int(match[1]) * _UNITS_NS[match[2]]), body)
