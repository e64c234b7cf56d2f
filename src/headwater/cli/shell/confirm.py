"""Questions before a command deletes or overwrites data.

Without a terminal there is no one to ask: the command is refused, and names the flag that permits
it.
"""

import sys

import click

from headwater.cli.shell.exits import CommandFailed, ExitCode


def confirmed(question: str, is_forced: bool) -> bool:
    """Whether the person agrees. Raises CommandFailed without a terminal."""
    if is_forced:
        return True
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"There is no terminal to ask at: {question}",
            "Nothing was changed. Say yes beforehand with --force.",
            ExitCode.USAGE,
        )
    return click.confirm(question, default=False, err=True)
