"""Scenario files: commands for a server and its clients, and below each command its outcome.

    # A comment.
    server                              a new server; its configuration follows, marked by bars
    | max_payload: 100
    connect sub {"name":"x"}            CONNECT of a modern client, with these fields changed
      sub < INFO {...}                  indented: the outcome, checked or rewritten
    open raw                            a connection that says nothing yet
    sub > SUB foo 1                     send a line; CRLF is added
    sub >> PI                           send bytes as they are
    sub stops reading                   ... and `sub reads`, `sub leaves`
    wait 2.5                            seconds
    checks finish                       passwords that other threads check are checked
    reload                              a new configuration for the same server, like `server`
    lame duck                           the server announces that it goes

With `jetstream` in its configuration the server has a disk, and clients can say more:

    app asks STREAM.INFO.ORDERS {}      a call of the API; `2s` in a body is in nanoseconds
      app < {"state":{"messages":3}}    the reply, as far as the file names its fields
    app publishes orders.a {"H":"v"} x  a message with a reply subject, headers and a payload
    app pulls ORDERS WORKER {"batch":2} a pull; deliveries are shown with their figures
      app < orders.a "x" (message 1, delivery 1, 0 pending)
    app acks 1                          ... and `naks`, `terminates`, `works on`; by sequence
    disk finishes                       writes and syncs off the loop have been done
    stop                                the server ends in good order; then `start`
    kill                                its process ends at once
    power loss                          its machine ends: writes that were not synced are gone
    power loss, writes kept             its machine ends, and the disk has all writes
    cut 5 bytes off segment*            the end of a file is gone, too
    start                               another process on the same disk; clients connect again

Bytes are written as in Python, and `{1000*x}` is a thousand times x. Of INFO only the fields are
shown that a rule may be about. Lines that repeat are shown once, with their number. A document is
shown whole where the file names none of its fields, and with its error if it has one.
"""

from dataclasses import dataclass, field
from typing import Final

from tests.scenarios.outcome import Shapes
from tests.scenarios.stage import Stage

_INDENT: Final = "  "
_CONFIG_MARK: Final = "| "


@dataclass
class Step:
    """One command, its configuration if it has one, and its outcome as the file has it."""

    command: str
    config: list[str] = field(default_factory=list)
    outcome: list[str] = field(default_factory=list)


def parse(text: str) -> list[str | Step]:
    """The file as steps, and the lines between them as they are."""
    parts: list[str | Step] = []
    for line in text.splitlines():
        last = parts[-1] if parts else None
        if line.startswith(_INDENT):
            assert isinstance(last, Step), f"an outcome without a command: {line}"
            last.outcome.append(line.removeprefix(_INDENT))
        elif line.startswith(_CONFIG_MARK):
            assert isinstance(last, Step), f"configuration without a command: {line}"
            last.config.append(line.removeprefix(_CONFIG_MARK))
        elif not line or line.startswith("#"):
            parts.append(line)
        else:
            parts.append(Step(line))
    return parts


def run(text: str) -> str:
    """The file again, with the outcome of this run."""
    stage = Stage()
    lines: list[str] = []
    for part in parse(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        lines.append(part.command)
        lines += [_CONFIG_MARK + line for line in part.config]
        happened = stage.perform(part.command, part.config, Shapes(part.outcome))
        lines += [_INDENT + line for line in happened]
    return "\n".join(lines) + "\n"
