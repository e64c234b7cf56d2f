"""`headwater consumer next` and `sub`: a few messages of a consumer, or all as they come."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from headwater.base.quantities import duration_text
from headwater.cli.api.client import ApiTarget, AsyncApiClient
from headwater.cli.api.command import (
    CONSUMER_NAME,
    JSON_OPTION,
    STREAM_NAME,
    api_command,
    document,
    now,
)
from headwater.cli.consumers import render
from headwater.cli.consumers.delivery import (
    ACK,
    NAK,
    TERM,
    Acknowledger,
    Delivery,
    Patience,
    Pull,
    Push,
    Receiver,
    receive,
)
from headwater.cli.consumers.settings import UNACKNOWLEDGED, is_push
from headwater.cli.messaging.messages import Tally
from headwater.cli.messaging.render import summary_text
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import Duration
from headwater.cli.shell.render import count_text
from headwater.cli.shell.settings_options import DurationNs
from headwater.client.api.requests import Document

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_WAIT_S: Final = 5.0
PRIORITY_MAX: Final = 9
GROUP_FIELDS: Final = ("group", "min_pending", "min_ack_pending", "priority")


def ack_options(function: F) -> F:
    """The options that choose the acknowledgement of each message that was shown."""
    options: list[Callable[[F], F]] = [
        click.option("--ack", "answer", flag_value="ack", default="ack",
                     help="Acknowledge what was shown.  [default]"),
        click.option("--no-ack", "answer", flag_value="none",
                     help="Say nothing: they come again after the ack wait."),
        click.option("--nak", "answer", flag_value="nak", help="Ask for them again."),
        click.option("--term", "answer", flag_value="term", help="Never deliver them again."),
        click.option("--delay", "delay_ns", type=DurationNs(), metavar="DURATION",
                     help="With --nak: not before."),
        click.option("--reason", metavar="TEXT", help="With --term: why, for the advisory."),
    ]  # fmt: skip
    return decorated(function, options)


def group_options(function: F) -> F:
    """For which priority group to ask, and when."""
    options: list[Callable[[F], F]] = [
        click.option("--group", metavar="NAME",
                     help="Ask for this priority group.  [default: the first]"),
        click.option("--min-pending", type=click.IntRange(min=1), metavar="N",
                     help="Overflow: only when so many are pending."),
        click.option("--min-ack-pending", type=click.IntRange(min=1), metavar="N",
                     help="Overflow: only when so many are unacknowledged."),
        click.option("--priority", type=click.IntRange(0, PRIORITY_MAX), metavar="N",
                     help="Prioritized: 0 comes first, 9 last."),
    ]  # fmt: skip
    return decorated(function, options)


def form_options(function: F) -> F:
    """The options that choose how messages are shown."""
    options: list[Callable[[F], F]] = [
        click.option("--raw", is_flag=True,
                     help="Bodies only, byte for byte, a line end after each."),
        click.option("--no-bodies", is_flag=True, help="Subject and headers only."),
        JSON_OPTION,
    ]  # fmt: skip
    return decorated(function, options)


def decorated(function: F, options: list[Callable[[F], F]]) -> F:
    """`function` with `options`, in this order in the help."""
    for option in reversed(options):
        function = option(function)
    return function


@api_command(
    "next",
    examples="""
headwater consumer next ORDERS WORKER                      one message, acknowledged when shown
headwater consumer next ORDERS WORKER --count 10 --wait 1m
headwater consumer next ORDERS WORKER --no-ack             look without taking
headwater consumer next ORDERS WORKER --nak --delay 30s    give it back, for later
headwater consumer next ORDERS WORKER --term --reason 'not an order'
headwater consumer next ORDERS WORKER --count 100 --wait 0 --json | jq -r .data
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("consumer", type=CONSUMER_NAME)
@click.option("--count", type=click.IntRange(min=1), default=1, help="At most so many.")
@click.option("--wait", "wait_s", type=Duration(), default=DEFAULT_WAIT_S,
              help="Longest wait for all of them; 0: what is there.  "
              f"[default {DEFAULT_WAIT_S:g}s]")  # fmt: skip
@ack_options
@form_options
@group_options
def next_(
    api: ApiTarget,
    output: Output,
    stream: str,
    consumer: str,
    count: int,
    wait_s: float,
    **choices: Any,
) -> ExitCode:
    """Ask the pull consumer CONSUMER of STREAM for messages, and show them.

    Each is acknowledged when it has been shown. The exit code is 1 when no message came.
    """
    body = answer_of(choices)
    screen = screen_of(output, choices, count)

    async def work(calls: AsyncApiClient) -> tuple[Tally, Document | None]:
        info = await calls.consumer(stream, consumer)
        if is_push(info["config"]):
            raise CommandFailed(
                f"Consumer {consumer} cannot be asked: it pushes to "
                f"{info['config']['deliver_subject']}",
                f"Listen to it with: headwater consumer sub {stream} {consumer}",
            )
        warn_if_paused(output, info)
        acks = Acknowledger(calls.session)
        patience = Patience(wait_s, renews=False)
        receiver = Receiver(screen.show, no_reader, acks, checked(body, info), count, patience)
        pull = Pull(calls, info, receiver, follows=False, group=group_of(choices, info))
        tally = await receive(calls, info, receiver, pull.run)
        nothing = not (tally.messages or tally.interrupted)
        return tally, await calls.consumer(stream, consumer) if nothing else None

    with screen.shown():
        tally, idle = api.call(work)
    within = f" within {duration_text(wait_s)}" if wait_s else ""
    if idle is not None:
        raise CommandFailed(
            f"No message from consumer {consumer}{within}", render.idle_advice(idle)
        )
    if tally.messages < count:
        output.remark(f"{tally.messages:,} of {count_text(count, 'message')}{within}")
    return ExitCode.INTERRUPTED if tally.interrupted else ExitCode.OK


@api_command(
    "sub",
    examples="""
headwater consumer sub ORDERS WORKER                     until Ctrl-C
headwater consumer sub ORDERS WORKER --count 100 --raw
headwater consumer sub ORDERS WORKER --wait 10s          until nothing came for so long
headwater consumer sub ORDERS WORKER --term              empty it
headwater consumer sub ORDERS WORKER --json | jq -r .sequence
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("consumer", type=CONSUMER_NAME)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--wait", "wait_s", type=Duration(), help="Stop after this long without one.")
@ack_options
@form_options
@group_options
def sub(
    api: ApiTarget,
    output: Output,
    stream: str,
    consumer: str,
    count: int | None,
    wait_s: float | None,
    **choices: Any,
) -> ExitCode:
    """Follow the consumer CONSUMER of STREAM, pull or push, until Ctrl-C.

    Each message is acknowledged when it has been shown. With --wait the exit code is 1 if fewer
    than --count messages (without it: none) arrived.
    """
    body = answer_of(choices)
    if wait_s == 0:
        raise click.UsageError("--wait 0 waits for nothing; take what is there with: consumer next")
    screen = screen_of(output, choices, count or 0)

    async def work(calls: AsyncApiClient) -> Tally:
        info = await calls.consumer(stream, consumer)
        acks = Acknowledger(calls.session)
        patience = Patience(wait_s, renews=True)
        receiver = Receiver(screen.show, output.is_read, acks, checked(body, info), count, patience)
        source: Pull | Push
        if is_push(info["config"]):
            check_unbound(info)
            source = Push(calls, info, receiver)
        else:
            group = group_of(choices, info)
            source = Pull(calls, info, receiver, follows=True, group=group)
        output.remark(f"Following {render.named(info)} ({render.kind_text(info)})")
        warn_if_paused(output, info)
        return await receive(calls, info, receiver, source.run)

    with screen.shown():
        tally = api.call(work)
    output.remark(summary_text("Received", tally))
    if wait_s is not None and not tally.interrupted and tally.messages < (count or 1):
        raise CommandFailed(
            f"No message from consumer {consumer} for {duration_text(wait_s)}",
            f"See what it waits for with: headwater consumer info {stream} {consumer}",
        )
    return ExitCode.OK


@dataclass
class Screen:
    """Shows messages in the form that was asked for, and how far it has come where that helps."""

    output: Output
    is_raw: bool
    is_json: bool
    with_bodies: bool
    total: int

    def __post_init__(self) -> None:
        if self.is_raw + self.is_json + (not self.with_bodies) > 1:
            raise click.UsageError("--raw, --no-bodies and --json exclude one another")
        self._advance: Callable[[int], None] | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While messages come; a person who sees them needs no bar."""
        hidden = self.output.is_terminal
        with self.output.progress("Receiving", self.total, hidden) as self._advance:
            yield

    def show(self, number: int, delivery: Delivery) -> None:
        """One message, written out to the end: it is acknowledged once it has been read."""
        if self.is_raw:
            self.output.body(delivery.message.data)
        elif self.is_json:
            self.output.result(document(render.delivery_fields(number, delivery)))
        else:
            text = render.delivery_text(number, delivery, now(), self.with_bodies)
            self.output.result(text)
        if self._advance is not None:
            self._advance(number)


def no_reader() -> bool:
    """The reader's part where a flush is the end.

    `next` takes the messages it was asked for. A program that reads a pipe only after the command
    has ended gets them; waiting for such a reader would never end.
    """
    return True


def screen_of(output: Output, choices: Mapping[str, Any], total: int) -> Screen:
    """The screen for the options of a command."""
    with_bodies = not choices["no_bodies"]
    return Screen(output, choices["raw"], choices["as_json"], with_bodies, total)


def answer_of(choices: Mapping[str, Any]) -> bytes | None:
    """The acknowledgement that the options choose."""
    answer, delay_ns, reason = (choices[name] for name in ("answer", "delay_ns", "reason"))
    if delay_ns is not None and answer != "nak":
        raise click.UsageError("--delay is for --nak")
    if reason is not None and answer != "term":
        raise click.UsageError("--reason is for --term")
    match answer:
        case "nak":
            delay = "" if delay_ns is None else " " + document({"delay": delay_ns})
            return NAK + delay.encode()
        case "term":
            return TERM + (f" {reason}".encode() if reason else b"")
        case "none":
            return None
        case _:
            return ACK


def checked(body: bytes | None, info: Document) -> bytes | None:
    """The acknowledgement for this consumer; None for one with the policy none."""
    policy = info["config"]["ack_policy"]
    if policy not in UNACKNOWLEDGED:
        return body
    if body not in (None, ACK):
        raise CommandFailed(
            f"Consumer {info['name']} takes no acknowledgements: its policy is {policy}",
            "Leave out --nak and --term.",
            ExitCode.USAGE,
        )
    return None


def group_of(choices: Mapping[str, Any], info: Document) -> dict[str, Any]:
    """The part of a request that is about priority groups."""
    asked = {field: choices[field] for field in GROUP_FIELDS if choices[field] is not None}
    groups = info["config"].get("priority_groups") or []
    if asked and not groups:
        raise CommandFailed(
            f"Consumer {info['name']} has no priority groups",
            "Leave out --group, --min-pending, --min-ack-pending and --priority.",
            ExitCode.USAGE,
        )
    return {"group": groups[0], **asked} if groups else {}


def check_unbound(info: Document) -> None:
    """Raise CommandFailed if another client already receives from a push consumer."""
    if info.get("push_bound") and not info["config"].get("deliver_group"):
        raise CommandFailed(
            f"Somebody else listens to consumer {info['name']} already",
            "End that first. To share its messages, make it with --deliver-group.",
        )


def warn_if_paused(output: Output, info: Document) -> None:
    """Say so where nothing can be expected for now."""
    if info.get("paused"):
        output.remark(f"Consumer {info['name']} is paused {render.paused_text(info)}")
