"""Names of streams and consumers for a shell that completes a command line.

A person waits for the shell, and the shell for the names: a lookup that is slow or fails gives no
names and no error. The names come from a server, and the shell puts them on a command line: names
that a shell would read as more than a word are left out.
"""

import asyncio
import contextlib
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import click

from headwater.cli.api.client import AsyncApiClient
from headwater.cli.connection.options import target_of
from headwater.cli.connection.session import Session
from headwater.cli.connection.target import Target
from headwater.cli.shell.parameters import CONNECTION_PARAMETERS

# The longest wait for the connection and all answers: a person who waits longer types on.
COMPLETION_WAIT_S: Final = 1.0
# Past this the process ends: a resolver of host names cannot be interrupted otherwise.
COMPLETION_WAIT_MAX_S: Final = 2.0
PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_=+@%:,-]+")


def completed_names(
    ctx: click.Context,
    prefix: str,
    incomplete: str,
    ask: Callable[[AsyncApiClient], Awaitable[Sequence[str]]],
) -> list[str]:
    """The names that `ask` returns and that begin with `incomplete`; none after a failure."""

    async def asked() -> Sequence[str]:
        async with Session(target_in(ctx), lambda text: None) as session:
            return await ask(AsyncApiClient(session, prefix, COMPLETION_WAIT_S))

    async def bounded() -> Sequence[str]:
        return await asyncio.wait_for(asked(), COMPLETION_WAIT_S)

    try:
        with process_ends_after(COMPLETION_WAIT_MAX_S):
            names = asyncio.run(bounded())
    except Exception:
        # The command itself reports the failure; a text here would garble the command line.
        return []
    return sorted(
        name for name in names if name.startswith(incomplete) and PLAIN_WORD.fullmatch(name)
    )


@contextlib.contextmanager
def process_ends_after(seconds: float) -> Iterator[None]:
    """End the process if the block takes longer."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def target_in(ctx: click.Context) -> Target:
    """The server that the command line means so far: for a shell no command has run."""
    after = {name: ctx.params.get(name) for name in CONNECTION_PARAMETERS}
    return target_of(ctx.find_root().params, after)
