"""The top-level commands: their names, their options and their messages to the person.

Parsing is click's; talking to the server is `pubsub`; looks are `render`. This module joins them
and owns the exit codes.
"""

import asyncio
import functools
import io
import itertools
import os
import platform
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click

from headwater import __version__
from headwater.base.quantities import duration_text
from headwater.cli.connection.options import connection_options, target_of
from headwater.cli.connection.target import Target
from headwater.cli.messaging import pubsub
from headwater.cli.messaging import render as message_render
from headwater.cli.messaging.messages import Message, StreamTally
from headwater.cli.messaging.stream_publish import publish_to_streams
from headwater.cli.shell import render
from headwater.cli.shell.exits import CommandFailed, ExitCode, ReaderGone, without_credentials
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import (
    CONNECTION_PARAMETERS,
    Duration,
    Header,
    TeachingCommand,
    body_of,
    headers_of,
    write_options,
    write_verbatim,
)
from headwater.cli.shell.templates import expand
from headwater.cli.shell.versions import version_line
from headwater.wire.info import NATS_VERSION

DEFAULT_REQUEST_TIMEOUT_S: Final = 5.0

FIRST_SESSION: Final = """
headwater serve                        a server, here, on port 4222
headwater sub 'orders.>'               in a second terminal: listen
headwater pub orders.new 'two pizzas'  in a third: publish, and see it arrive
headwater reply time --command date    answer requests with a command's output
headwater request time                 ask
"""

EXIT_CODES: Final = """
0    done
1    the operation failed: nobody answered, a time-out, a refused permission
2    the command line was wrong
3    no connection to the server
130  stopped with Ctrl-C before the work was done (sub and reply end with 0)
141  the reader of the output went away
"""

COMPLETION: Final = """
eval "$(_HEADWATER_COMPLETE=bash_source headwater)"    in ~/.bashrc; zsh_source in ~/.zshrc
_HEADWATER_COMPLETE=fish_source headwater | source     in ~/.config/fish/config.fish
"""

TEMPLATES: Final = (
    "In SUBJECT, BODY and header values {{Count}} stands for the message's number, "
    "{{Time}} for the time of day and {{ID}} for a fresh unique id."
)


class TopLevel(click.Group):
    """The group, with a first session, shell completion and the exit codes in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "A first session", FIRST_SESSION)
        write_verbatim(formatter, "Completion in the shell", COMPLETION)
        write_verbatim(formatter, "Exit codes", EXIT_CODES)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        groups = ("stream", "consumer", "account", "cluster", "server", "store", "pipeline")
        return [*self.commands, *groups]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # Loaded only when they are called, so that the others start sooner.
        if cmd_name == "stream":
            from headwater.cli.streams.group import stream

            return stream
        if cmd_name == "consumer":
            from headwater.cli.consumers.group import consumer

            return consumer
        if cmd_name == "account":
            from headwater.cli.server.account import account

            return account
        if cmd_name == "cluster":
            from headwater.cli.cluster.group import cluster

            return cluster
        if cmd_name == "server":
            from headwater.cli.server.group import server

            return server
        if cmd_name == "store":
            from headwater.cli.store.group import store

            return store
        if cmd_name == "pipeline":
            from headwater.cli.pipeline.group import pipeline

            return pipeline
        return super().get_command(ctx, cmd_name)


@click.group(cls=TopLevel, context_settings={"help_option_names": ["-h", "--help"]})
@connection_options(with_defaults=True)
@click.version_option(__version__, message=version_line(), help="Show the version and exit.")
@click.pass_context
def headwater(ctx: click.Context, /, **before: Any) -> None:
    """A message server that NATS clients understand, and the tools to talk to it.

    `headwater COMMAND --help` explains a command and shows examples.
    """
    ctx.obj = before


Body = Callable[..., Coroutine[Any, Any, ExitCode]]


def command(name: str, examples: str) -> Callable[[Body], click.Command]:
    """Make a coroutine `(target, output, **parameters)` a connecting command called `name`."""

    def decorate(body: Body) -> click.Command:
        @functools.wraps(body)
        def call(**parameters: Any) -> ExitCode:
            before = click.get_current_context().obj
            after = {key: parameters.pop(key) for key in CONNECTION_PARAMETERS}
            try:
                return asyncio.run(body(target_of(before, after), Output(), **parameters))
            except BrokenPipeError as error:
                # click would make it exit code 1.
                raise ReaderGone from error

        decorated = connection_options(with_defaults=False)(call)
        return headwater.command(name, cls=TeachingCommand, examples=examples)(decorated)

    return decorate


@headwater.command(
    "serve",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.pass_context
def serve(ctx: click.Context) -> int:
    """Run a server; it takes nats-server's flags."""
    from headwater.cli.serve import main

    return main(ctx.args)


@command(
    "pub",
    examples="""
headwater pub orders.new 'two pizzas'
headwater pub orders.new --header 'Priority: high' 'two pizzas'
date | headwater pub clock                       the body from standard input
headwater pub orders.new 'two pizzas' --jetstream    wait until a stream has stored it
headwater pub load 'message {{Count}}' --count 1000
headwater pub tick '{{Time}}' --count 10 --sleep 500ms
headwater pub ask 'anyone?' --reply answers      replies go to the subject `answers`
""",
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--header", "-H", "headers", type=Header(), multiple=True, help="'Name: value'.")
@click.option("--reply", default="", metavar="SUBJECT", help="Where replies should go.")
@click.option("--count", type=click.IntRange(min=1), default=1, help="How many to publish.")
@click.option(
    "--sleep", "--interval", "sleep_s", type=Duration(), default=0.0, help="Pause between them."
)
@click.option("--no-templates", is_flag=True, help="Send {{...}} as it stands.")
@click.option("--jetstream", "-J", is_flag=True, help="Wait for the acks of a stream.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(),
    default=DEFAULT_REQUEST_TIMEOUT_S,
    help=f"Longest wait for an ack.  [default {DEFAULT_REQUEST_TIMEOUT_S:g}s]",
)
@click.option("--json", "as_json", is_flag=True, help="Report in JSON.")
async def pub(
    target: Target,
    output: Output,
    subject: str,
    body: str | None,
    headers: Sequence[tuple[str, str]],
    reply: str,
    count: int,
    sleep_s: float,
    no_templates: bool,
    jetstream: bool,
    timeout_s: float,
    as_json: bool,
) -> ExitCode:
    if jetstream and reply:
        raise click.UsageError("--reply and --jetstream exclude one another: the reply is the ack")
    data, typed = body_of(body)
    pattern = Message(subject, data, reply, headers_of(headers))
    is_template = not no_templates and has_placeholders(pattern, body_too=typed)
    messages = (
        filled(pattern, number, body_too=typed) if is_template else pattern
        for number in range(1, count + 1)
    )
    with output.progress("Publishing", count, hidden=as_json) as advance:
        tally = await (
            publish_to_streams(target, messages, output.remark, timeout_s, sleep_s, advance)
            if jetstream
            else pubsub.publish(target, messages, output.remark, sleep_s, advance)
        )
    if isinstance(tally, StreamTally):
        report_stored(output, tally, subject, timeout_s, as_json)
    elif as_json:
        output.result(message_render.tally_json("published", tally))
    else:
        # A stream may have refused the messages: without an ack that is not known.
        output.result(message_render.summary_text("Sent", tally))
    return ExitCode.INTERRUPTED if tally.interrupted else ExitCode.OK


pub.help = f"""Publish a message, or many.

Without BODY, or with - for it, the body is read from standard input.

The command ends well when the server has read the messages. Whether a stream has stored them is
known only with --jetstream, which waits for an ack of each; the exit code is 1 if one is missing.

{TEMPLATES} What comes from standard input is sent as it is."""


def report_stored(
    output: Output, tally: StreamTally, subject: str, timeout_s: float, as_json: bool
) -> None:
    """Report the stored messages. Raises CommandFailed if a message was not stored."""
    if as_json:
        output.result(message_render.stored_json(tally))
    elif tally.stored or tally.duplicates:
        output.result(message_render.stored_text(tally))
    sent = render.count_text(tally.messages, "message")
    if tally.refused:
        raise CommandFailed(f"{tally.refused:,} of {sent} not stored: {tally.reason}", tally.advice)
    if tally.unanswered:
        raise CommandFailed(
            f"{tally.unanswered:,} of {sent} without an ack within {duration_text(timeout_s)}",
            f"Does a stream keep {subject}? See: headwater stream ls --subject '{subject}'",
        )


def has_placeholders(pattern: Message, body_too: bool) -> bool:
    """Whether a message has placeholders; filling costs more than sending."""
    texts = (pattern.subject, *pattern.headers.values())
    return any("{{" in text for text in texts) or (body_too and b"{{" in pattern.data)


def filled(pattern: Message, number: int, body_too: bool) -> Message:
    """`pattern` with its templates filled in for message `number`."""
    values = {
        "Count": str(number),
        "Time": datetime.now().isoformat(timespec="milliseconds"),
        "ID": uuid.uuid4().hex,
    }
    return Message(
        expand(pattern.subject, values),
        expanded(pattern.data, values) if body_too else pattern.data,
        pattern.reply,
        {name: expand(value, values) for name, value in pattern.headers.items()},
    )


def expanded(data: bytes, values: Mapping[str, str]) -> bytes:
    """`expand` for bytes, which need not be UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    return expand(text, values).encode("utf-8", "surrogateescape")


@command(
    "sub",
    examples="""
headwater sub orders.new                  one subject
headwater sub 'orders.*.new'              * is one word
headwater sub 'orders.>'                  > is all that follows; > alone is everything
headwater sub jobs --queue workers        share the messages with others in the group
headwater sub orders.new --count 1 --timeout 5s --raw > order.txt
headwater sub 'orders.>' --json | jq -r .data
""",
)
@click.argument("subject")
@click.option("--queue", default="", metavar="GROUP", help="Join a queue group.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--timeout", "timeout_s", type=Duration(), help="Stop after this long without one.")
@click.option("--raw", is_flag=True, help="Bodies only, byte for byte, a line end after each.")
@click.option("--headers-only", is_flag=True, help="Subject and headers, no bodies.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
async def sub(
    target: Target,
    output: Output,
    subject: str,
    queue: str,
    count: int | None,
    timeout_s: float | None,
    raw: bool,
    headers_only: bool,
    as_json: bool,
) -> ExitCode:
    """Show the messages published to SUBJECT, until Ctrl-C.

    With --timeout the exit code is 1 if fewer than --count messages (without it: none) arrived.
    """
    if raw + headers_only + as_json > 1:
        raise click.UsageError("--raw, --headers-only and --json exclude one another")

    def show(number: int, message: Message, more: bool) -> None:
        if raw:
            output.body(message.data, more)
        elif as_json:
            output.result(message_render.message_json(number, message), more)
        else:
            output.result(
                message_render.message_text(number, message, with_body=not headers_only), more
            )

    tally = await pubsub.subscribe(
        target, subject, show, output.remark, queue, count or 0, timeout_s
    )
    output.remark(message_render.summary_text("Received", tally))
    if timeout_s is not None and not tally.interrupted and tally.messages < (count or 1):
        raise CommandFailed(
            f"No message on {subject} for {duration_text(timeout_s)}",
            "Is anything published there? Allow more time with --timeout.",
        )
    return ExitCode.OK


@command(
    "request",
    examples="""
headwater request time
headwater request greet 'Ada' --timeout 500ms
headwater request ping '' --replies 3            wait for three answers
headwater request ping '' --replies 0            all answers within the time-out
headwater request greet 'Ada' --raw              the answer alone, for scripts
""",
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--header", "-H", "headers", type=Header(), multiple=True, help="'Name: value'.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(),
    default=DEFAULT_REQUEST_TIMEOUT_S,
    help=f"Longest wait for the replies.  [default {DEFAULT_REQUEST_TIMEOUT_S:g}s]",
)
@click.option("--replies", type=click.IntRange(min=0), default=1, help="How many to wait for.")
@click.option("--raw", is_flag=True, help="Reply bodies only, byte for byte.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per reply.")
async def request(
    target: Target,
    output: Output,
    subject: str,
    body: str | None,
    headers: Sequence[tuple[str, str]],
    timeout_s: float,
    replies: int,
    raw: bool,
    as_json: bool,
) -> ExitCode:
    """Send a request and show the reply.

    Without BODY the request is empty; with - for it, the body is read from standard input. The
    exit code is 1 when nobody listens, no reply comes in time, or a reply reports an error
    (Nats-Service-Error).
    """
    if raw and as_json:
        raise click.UsageError("--raw and --json exclude one another")
    round_trips_s: list[float] = []
    errors: list[str] = []

    def show(number: int, answer: Message, elapsed_s: float) -> None:
        round_trips_s.append(elapsed_s)
        if pubsub.SERVICE_ERROR_HEADER in answer.headers:
            errors.append(answer.headers[pubsub.SERVICE_ERROR_HEADER])
        if raw:
            output.body(answer.data)
        elif as_json:
            output.result(message_render.message_json(number, answer, elapsed_s))
        else:
            output.result(message_render.message_text(number, answer, elapsed_s))

    data = b"" if body is None else body_of(body)[0]
    message = Message(subject, data, headers=headers_of(headers))
    tally = await pubsub.request(target, message, show, output.remark, timeout_s, replies)
    if len(round_trips_s) > 1 and output.is_terminal and not as_json:
        output.result(message_render.round_trips(round_trips_s))
    if errors:
        raise CommandFailed(f"The responder reports an error: {errors[0]}")
    return ExitCode.INTERRUPTED if tally.interrupted else ExitCode.OK


@command(
    "reply",
    examples="""
headwater reply greet 'Hello, {{Request}}'
headwater reply mirror --echo
headwater reply time --command date
headwater reply count.words --command 'wc -w'    the request is the command's standard input
headwater reply jobs --command ./work --queue workers
""",
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="Answer with the request's own body and headers.")
@click.option("--command", "shell", metavar="SHELL", help="Answer with a command's output.")
@click.option("--queue", default="", metavar="GROUP", help="Share the requests with a group.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many requests.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per request.")
async def reply(
    target: Target,
    output: Output,
    subject: str,
    body: str | None,
    echo: bool,
    shell: str | None,
    queue: str,
    count: int | None,
    as_json: bool,
) -> ExitCode:
    """Answer the requests sent to SUBJECT, until Ctrl-C.

    They are answered one after the other, in the order in which they arrive.

    In BODY, {{Request}} stands for the request's body, {{Count}} for its number, {{Time}} and
    {{ID}} as in pub. A command finds the body on its standard input and the subject in the
    variable NATS_REQUEST_SUBJECT; if it fails, the reply says so in the header Nats-Service-Error.
    """
    if (body is not None) + echo + (shell is not None) != 1:
        raise click.UsageError("say how to answer: BODY, --echo or --command")

    def show(number: int, received: Message, response: Message) -> None:
        form = message_render.answered_json if as_json else message_render.answered_text
        output.result(form(number, received, response))

    tally = await pubsub.reply(
        target, subject, answer_with(body, shell), show, output.remark, queue, count or 0
    )
    output.remark(message_render.summary_text("Answered", tally))
    return ExitCode.OK


def answer_with(
    body: str | None, shell: str | None
) -> Callable[[int, Message], Awaitable[Message]]:
    """The way to answer a request: by command, by template, or (neither) by echo."""

    async def answer(number: int, received: Message) -> Message:
        if shell is not None:
            return await run_command(shell, received)
        if body is None:
            return received
        pattern = Message("", body.encode("utf-8", "surrogateescape"))
        response = filled(pattern, number, body_too=True)
        text = received.data.decode("utf-8", "surrogateescape")
        return Message("", expanded(response.data, {"Request": text}))

    return answer


async def run_command(shell: str, received: Message) -> Message:
    """The output of `shell` with the request as its input.

    Nothing of the request becomes part of the command line: a client that may send requests must
    not be able to run a command of its own.
    """
    process = await asyncio.create_subprocess_shell(
        shell,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"NATS_REQUEST_SUBJECT": received.subject},
    )
    try:
        stdout, _ = await process.communicate(received.data)
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        problem = f"the command ended with {process.returncode}"
        headers = {pubsub.SERVICE_ERROR_HEADER: problem, "Nats-Service-Error-Code": "500"}
        return Message("", stdout, headers=headers)
    return Message("", stdout)


@headwater.command("version")
@click.option("--json", "as_json", is_flag=True, help="In JSON.")
def version(as_json: bool) -> ExitCode:
    """Show the versions of Headwater and of the packages it uses."""
    from importlib import metadata

    versions = {
        "headwater": __version__,
        "speaks": f"nats-server {NATS_VERSION}",
        "python": platform.python_version(),
    }
    for package in ("nats-py", "uvloop"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    output = Output()
    output.result(render.versions_json(versions) if as_json else render.versions_table(versions))
    return ExitCode.OK


def run(arguments: Sequence[str]) -> int:
    """Parse `arguments`, run the command, report whatever went wrong, return the exit code."""
    try:
        outcome = headwater.main(list(arguments), prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
        return int(outcome or ExitCode.OK)
    except click.ClickException as error:
        if asks_for_json(arguments):
            click.echo(render.failure_json(failure_of(error)), err=True)
        else:
            shown = io.StringIO()
            error.show(shown)
            click.echo(without_credentials(shown.getvalue()), err=True, nl=False)
        return error.exit_code
    except CommandFailed as failure:
        if asks_for_json(arguments):
            click.echo(render.failure_json(failure), err=True)
        else:
            Output().remark(render.failure_text(failure))
        return failure.code
    except (ReaderGone, BrokenPipeError):
        # The interpreter flushes standard output once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.READER_GONE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether --json is given. After -- there are no options."""
    return "--json" in itertools.takewhile(lambda word: word != "--", arguments)


def failure_of(error: click.ClickException) -> CommandFailed:
    """A mistake in the command line, as all failures are reported."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "headwater"
    advice = f"Try: {path} --help"
    return CommandFailed(error.format_message(), advice, ExitCode(error.exit_code))
