"""Scenario files: what clients send to a server, and below each line what everybody reads.

    # A comment.
    server                              a new server; its configuration follows, marked by bars
    | max_payload: 100
    connect sub {"name":"x"}            CONNECT of a modern client, with these fields changed
      sub < INFO {...}                  indented: what happened, checked or rewritten
    open raw                            a connection that says nothing yet
    sub > SUB foo 1                     send a line; CRLF is added
    sub >> PI                           send bytes as they are
    sub stops reading                   ... and `sub reads`, `sub leaves`
    wait 2.5                            seconds
    checks finish                       passwords being checked elsewhere have been
    reload                              a new configuration for the same server, like `server`
    lame duck                           the server announces that it goes

Bytes are written as in Python, and `{1000*x}` is a thousand times x. Of INFO only the fields are
shown that a rule may be about. Lines that repeat are shown once, with their number.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.server.configuration.keys import load_config
from headwater.server.configuration.options import Options
from tests.kit.world import Peer, World, connect_document

_INDENT: Final = "  "
_CONFIG_MARK: Final = "| "
_SHOWN_INFO: Final = frozenset(
    {
        "acc_is_sys",
        "auth_required",
        "connect_info",
        "headers",
        "ldm",
        "max_payload",
        "remote_account",
    }
)
_REPEATED: Final = re.compile(r"\{(\d+)\*(.)\}")
_LONG_BYTES: Final = 40


@dataclass
class Step:
    """One command, its configuration if it has one, and where its outcome goes."""

    command: str
    config: list[str] = field(default_factory=list)


def parse(text: str) -> list[str | Step]:
    """The file without outcomes: steps, and the lines between them as they are."""
    parts: list[str | Step] = []
    for line in text.splitlines():
        last = parts[-1] if parts else None
        if line.startswith(_INDENT):
            continue
        if line.startswith(_CONFIG_MARK):
            assert isinstance(last, Step), f"configuration without a command: {line}"
            last.config.append(line.removeprefix(_CONFIG_MARK))
        elif not line or line.startswith("#"):
            parts.append(line)
        else:
            parts.append(Step(line))
    return parts


def run(text: str) -> str:
    """The file again, with what really happened."""
    stage = Stage()
    lines: list[str] = []
    for part in parse(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        lines.append(part.command)
        lines += [_CONFIG_MARK + line for line in part.config]
        lines += [_INDENT + line for line in stage.perform(part)]
    return "\n".join(lines) + "\n"


class Stage:
    """A server, its named clients, and what has been told of them."""

    def __init__(self) -> None:
        self._world = World()
        self._peers: dict[str, Peer] = {}
        self._told: dict[str, str] = {}

    def perform(self, step: Step) -> list[str]:
        """Do one command; return what came of it."""
        words = step.command.split(" ", 2)
        commands: dict[str, Callable[[], None]] = {
            "server": lambda: self._start(step),
            "reload": lambda: self._world.node.reload(options(step.config)),
            "open": lambda: self._join(words[1], self._world.open()),
            "connect": lambda: self._connect(words[1], words[2] if len(words) > 2 else "{}"),
            "wait": lambda: self._world.advance(float(words[1])),
            "checks": self._world.finish_checks,
            "lame": self._world.node.announce_lame_duck,
        }
        if words[0] in self._peers:
            self._client(self._peers[words[0]], words[1], words[2] if len(words) > 2 else "")
        else:
            commands[words[0]]()
        self._world.settle()
        return [*self._outcome()]

    def _start(self, step: Step) -> None:
        self._world = World(options(step.config))
        self._peers.clear()

    def _join(self, name: str, peer: Peer) -> None:
        self._peers[name] = peer
        self._told[name] = ""

    def _connect(self, name: str, changes: str) -> None:
        peer = self._world.open()
        self._join(name, peer)
        peer.send(b"CONNECT %b\r\n" % connect_document(**msgspec.json.decode(changes)))

    def _client(self, peer: Peer, verb: str, rest: str) -> None:
        actions: dict[str, Callable[[], None]] = {
            ">": lambda: peer.push(unescaped(rest) + b"\r\n"),
            ">>": lambda: peer.push(unescaped(rest)),
            "stops": peer.connection.stop_reading,
            "reads": peer.connection.start_reading,
            "leaves": peer.connection.leave,
        }
        actions[verb]()

    def _outcome(self) -> Iterator[str]:
        for name, peer in self._peers.items():
            shown = [f"{name} < {escaped(frame)}" for frame in frames(peer.take())]
            for line, repeated in itertools.groupby(shown):
                count = len(list(repeated))
                yield line if count == 1 else f"{line}   ({count} times)"
            state = f"is closed: {peer.reason}" if peer.reason else ""
            if not state and not peer.connection.reading:
                state = "is not read from"
            if state != self._told[name]:
                self._told[name] = state
                yield f"{name} {state or 'is read from again'}"


def options(config: list[str]) -> Options:
    """Options as `headwater serve -c` would make them of this configuration."""
    text = "\n".join(config).encode()
    loaded = load_config("scenario.conf", lambda path: text, {}).options
    loaded.validate()
    return loaded


def frames(data: bytes) -> Iterator[bytes]:
    """What a client read, cut into lines and messages, without the CRLF behind each."""
    while data:
        line, _, rest = data.partition(b"\r\n")
        if line.startswith((b"MSG ", b"HMSG ")):
            size = int(line.rsplit(b" ", 1)[1])
            yield line + b"\r\n" + rest[:size]
            data = rest[size + 2 :]
        else:
            yield _shortened_info(line) if line.startswith(b"INFO ") else line
            data = rest


def _shortened_info(line: bytes) -> bytes:
    said = msgspec.json.decode(line[5:])
    return b"INFO " + msgspec.json.encode({k: v for k, v in said.items() if k in _SHOWN_INFO})


def unescaped(text: str) -> bytes:
    """Bytes as they are written in a scenario."""
    full = _REPEATED.sub(lambda match: match[2] * int(match[1]), text)
    return full.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")


def escaped(data: bytes) -> str:
    """Bytes as a scenario writes them."""
    runs = [(char, len(list(run))) for char, run in itertools.groupby(_one_line(data))]
    return "".join(
        f"{{{count}*{char}}}" if count > _LONG_BYTES else char * count for char, count in runs
    )


def _one_line(data: bytes) -> str:
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")
