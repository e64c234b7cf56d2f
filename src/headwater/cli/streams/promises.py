"""The promises of a stream in words: what a crash may lose, which writes are acked, what reads see.

The words are those of docs/consistency.md, for the settings of the stream and the servers that keep
it. A server that does not tell its sync interval, as nats-server, is described by what holds for
every interval.

Values in, text out. Must not know: connections, and the look of a report.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.quantities import duration_text
from headwater.cli.shell.units import NANOSECONDS_PER_SECOND
from headwater.client.api.requests import Document
from headwater.go.durations import parse_duration

ALWAYS: Final = "always"


@dataclass(frozen=True)
class Promises:
    """The promises of a stream; `warning` is empty unless its servers sync differently."""

    durability: str
    writes: str
    reads: str
    warning: str

    @classmethod
    def of(cls, info: Document) -> "Promises":
        """The promises of a stream by its information."""
        config = info["config"]
        syncs = {
            str(each.get("server")): str(each.get("sync_interval") or "")
            for each in info.get("sync_intervals") or ()
        }
        return cls(
            durability=_durability(config, syncs),
            writes=_writes(config),
            reads=_reads(config, bool(syncs)),
            warning=_warning(config, syncs),
        )

    def rows(self) -> list[tuple[str, str]]:
        """Labels and texts."""
        return [("Durability", self.durability), ("Writes", self.writes), ("Reads", self.reads)]

    def document(self) -> dict[str, str]:
        """The promises for a program."""
        found = {"durability": self.durability, "writes": self.writes, "reads": self.reads}
        return found | {"warning": self.warning} if self.warning else found


def _durability(config: Mapping[str, Any], syncs: Mapping[str, str]) -> str:
    replicas = int(config.get("num_replicas") or 1)
    if replicas > 1 and config.get("write_consistency") == "eventual":
        return "the newest messages are with the leader alone, until the others have them"
    if config.get("storage") == "memory":
        kept = "a majority of its servers runs" if replicas > 1 else "its server runs"
        return f"memory: messages last as long as {kept}"
    if config.get("persist_mode") == "async":
        return (
            "async: kill -9 may lose the last messages, at most 10 ms or 1 MiB; power loss may"
            f" lose {_since(syncs)} too"
        )
    if syncs and all(each == ALWAYS for each in syncs.values()):
        if replicas == 1:
            return "always: neither kill -9 nor power loss loses what was acked"
        return "always: nothing acked is lost, also if all servers lose power at once"
    if replicas == 1:
        return f"interval: kill -9 loses nothing acked; power loss may lose {_since(syncs)}"
    return (
        "interval: kill -9 of all servers loses nothing that was acked, nor does power loss while a"
        f" majority keeps its power; else it may lose {_since(syncs)}"
    )


def _since(syncs: Mapping[str, str]) -> str:
    """The messages that no disk has yet."""
    try:
        longest_ns = max(parse_duration(each) for each in syncs.values() if each != ALWAYS)
    except ValueError:
        # No server has told its interval, or one has not.
        return "the messages since the last sync"
    return f"the messages of the last {duration_text(longest_ns / NANOSECONDS_PER_SECOND)}"


def _writes(config: Mapping[str, Any]) -> str:
    replicas = int(config.get("num_replicas") or 1)
    if replicas == 1:
        return "one server acks; no write is taken while it is down"
    quorum = replicas // 2 + 1
    if config.get("write_consistency") == "eventual":
        return "eventual: the leader acks alone; its loss may lose what others do not have yet"
    down = replicas - quorum
    return (
        f"strong: acked when {quorum} of {replicas} servers have the message; goes on with"
        f" {down} {'server' if down == 1 else 'servers'} down and loses nothing"
    )


def _reads(config: Mapping[str, Any], is_headwater: bool) -> str:
    level = config.get("read_consistency") or "default"
    if level == "strong":
        if config.get("mirror"):
            return "sequential: a prefix of the origin, never backwards"
        return "linearizable: every read sees all that was acked before it began"
    if level == "weak":
        return (
            "weak from every replica, session with min_last_seq, linearizable by"
            " DIRECT_LEADER.GET and STREAM.MSG.GET"
        )
    if not config.get("allow_direct"):
        return "leader: as the leader has it; no level beyond"
    session = ", session with min_last_seq" if is_headwater else ""
    return f"leader by STREAM.MSG.GET, weak by DIRECT.GET{session}; not linearizable"


def _warning(config: Mapping[str, Any], syncs: Mapping[str, str]) -> str:
    told = {name: each for name, each in syncs.items() if each}
    if len({*told.values()}) < 2 or config.get("storage") == "memory":
        return ""
    listed = ", ".join(f"{name} {each}" for name, each in sorted(told.items()))
    return (
        f"sync_interval differs among the servers of stream {config['name']}: {listed}. The stream"
        " has the weaker promise. To place it on servers that sync alike: headwater cluster move"
        f" {config['name']} --tag sync:always"
    )
